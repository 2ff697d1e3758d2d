"""The storage of memory between runs: the saved document, and the file that holds it."""

from nodewright.adapters.store.codec import decode_memory, encode_memory
from nodewright.adapters.store.file_store import AuditFile, FileStore

__all__ = ["AuditFile", "FileStore", "decode_memory", "encode_memory"]
