"""TLS certificates of client and server. Plaintext is used only if the option ``insecure`` is set."""

from pathlib import Path
from typing import Any, NamedTuple

import grpc

from nodewright.spec import ConfigError


class Files(NamedTuple):
    """Paths of PEM files. Error messages name an option with ``prefix`` before it; they never contain file contents."""

    prefix: str
    cert: str
    key: str
    cacert: str
    insecure: bool


def client_credentials(files: Files) -> Any:
    """Return the credentials of a channel (None: plaintext); raise ConfigError if a file is missing or not PEM."""
    pem = _read(files)
    return grpc.ssl_channel_credentials(pem["cacert"], pem["key"], pem["cert"]) if pem else None


def server_credentials(files: Files) -> Any:
    """Return the credentials of a port (None: plaintext); raise ConfigError if a file is missing or not PEM.

    Only clients with a certificate that ``cacert`` signed can connect.
    """
    pem = _read(files)
    pairs = ((pem["key"], pem["cert"]),) if pem else ()
    return grpc.ssl_server_credentials(pairs, pem["cacert"], require_client_auth=True) if pem else None


def _read(files: Files) -> dict[str, bytes]:
    given = {name: getattr(files, name) for name in ("cert", "key", "cacert")}
    if files.insecure:
        if named := [name for name, path in given.items() if path]:
            raise ConfigError(f"{files.prefix}insecure: cannot be combined with {', '.join(named)}")
        return {}
    if missing := [name for name, path in given.items() if not path]:
        raise ConfigError(f"{files.prefix}{missing[0]}: needed for TLS; set insecure to use plaintext instead")
    return {name: _pem(f"{files.prefix}{name}", path) for name, path in given.items()}


def _pem(where: str, path: str) -> bytes:
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(f"{where}: {path}: {error.strerror}") from None
    if b"-----BEGIN " not in content:
        raise ConfigError(f"{where}: {path}: is not a PEM file")
    return content
