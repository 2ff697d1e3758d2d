"""The TLS context of a server whose certificate and key are files that may be replaced while it runs."""

import ssl
from collections.abc import Callable
from pathlib import Path

from nodewright.model.errors import ConfigError

_CERTIFICATE_FLAG, _KEY_FLAG = "--tls-cert-file", "--tls-private-key-file"
_RETRY_SECONDS = 1.0


class CertificateFiles:
    """A certificate with its chain, and its private key, as PEM files.

    The files are looked at with each handshake, so that a renewed certificate needs no restart. While they cannot be used,
    the last usable pair is served, and files that stay as they are are tried again once a second; ``see`` is told the
    problem, and an empty text when it is over. ``now`` returns seconds of a steady clock.
    """

    def __init__(self, certificate: str, key: str, see: Callable[[str], None], now: Callable[[], float]) -> None:
        self._certificate, self._key = Path(certificate), Path(key)
        self._see, self._now = see, now
        # The states of the files that are served and of those that were tried last.
        self._loaded: object = None
        self._tried: object = None
        self._retry_at = 0.0
        self._current = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)

    def context(self) -> ssl.SSLContext:
        """Return the context for a listening socket. Raise ConfigError if the files cannot be used."""
        self._loaded = self._tried = self._stat()
        self._current = self._load()
        return self._current

    def _load(self) -> ssl.SSLContext:
        for flag, path in ((_CERTIFICATE_FLAG, self._certificate), (_KEY_FLAG, self._key)):
            try:
                path.read_bytes()
            except OSError as error:
                raise ConfigError(f"{flag}: {path}: {error.strerror}") from None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        try:
            # Without a function for it, OpenSSL would ask the terminal for the password of an encrypted key.
            context.load_cert_chain(self._certificate, self._key, password=lambda: b"")
        except (ssl.SSLError, OSError, ValueError) as error:
            said = getattr(error, "reason", None) or error
            raise ConfigError(
                f"{_CERTIFICATE_FLAG}: {self._certificate} and the key {self._key} cannot be used: {said}"
            ) from None
        context.sni_callback = self._choose
        return context

    def _choose(self, handshake: ssl.SSLSocket | ssl.SSLObject, _name: str | None, _old: ssl.SSLContext) -> None:
        """Give a handshake the context of the present files. OpenSSL calls this also for clients that send no name."""
        state = self._stat()
        if state == self._loaded:
            if state != self._tried:
                self._tried = state
                self._see("")
        elif state != self._tried or self._now() >= self._retry_at:
            self._tried, self._retry_at = state, self._now() + _RETRY_SECONDS
            try:
                self._current = self._load()
            except ConfigError as error:
                self._see(str(error))
            else:
                self._loaded = state
                self._see("")
        handshake.context = self._current

    def _stat(self) -> object:
        """Return what changes when the files are replaced; a mounted Secret is replaced through a link."""
        found: list[tuple[int, ...]] = []
        for path in (self._certificate, self._key):
            try:
                held = path.stat()
            except OSError as error:
                found.append((error.errno or 0,))
            else:
                found.append((held.st_ino, held.st_size, held.st_mtime_ns, held.st_ctime_ns))
        return found
