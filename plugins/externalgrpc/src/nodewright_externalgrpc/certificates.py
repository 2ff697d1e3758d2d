"""Certificates of either side. Plaintext is for those who ask for it in so many words."""

from pathlib import Path
from typing import Any, NamedTuple

import grpc

from nodewright.spec import ConfigError


class Files(NamedTuple):
    """Paths of PEM files; ``prefix`` stands before their names in complaints, and no secret is ever part of one."""

    prefix: str
    cert: str
    key: str
    cacert: str
    insecure: bool


def client_credentials(files: Files) -> Any:
    """For a channel; None is plaintext. Raises ConfigError."""
    pem = _read(files)
    return grpc.ssl_channel_credentials(pem["cacert"], pem["key"], pem["cert"]) if pem else None


def server_credentials(files: Files) -> Any:
    """For a port that only clients with a certificate of ``cacert`` may use; None is plaintext. Raises ConfigError."""
    pem = _read(files)
    pairs = ((pem["key"], pem["cert"]),) if pem else ()
    return grpc.ssl_server_credentials(pairs, pem["cacert"], require_client_auth=True) if pem else None


def _read(files: Files) -> dict[str, bytes]:
    given = {name: getattr(files, name) for name in ("cert", "key", "cacert")}
    if files.insecure:
        if named := [name for name, path in given.items() if path]:
            raise ConfigError(f"{files.prefix}insecure: has no place next to {', '.join(named)}")
        return {}
    if missing := [name for name, path in given.items() if not path]:
        raise ConfigError(
            f"{files.prefix}{missing[0]}: needed for TLS on both sides; plaintext must be asked for: insecure"
        )
    return {name: _pem(f"{files.prefix}{name}", path) for name, path in given.items()}


def _pem(where: str, path: str) -> bytes:
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(f"{where}: {path}: {error.strerror}") from None
    if b"-----BEGIN " not in content:
        raise ConfigError(f"{where}: {path}: is no PEM file")
    return content
