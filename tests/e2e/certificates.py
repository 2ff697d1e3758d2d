"""An authority whose certificates the control plane takes for users."""

import datetime as dt
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_HOUR = dt.timedelta(hours=1)


class ClientAuthority:
    """``bundle`` is what the API server trusts."""

    def __init__(self, folder: Path) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("clients")
        basics = x509.BasicConstraints(ca=True, path_length=0)
        root = self._build(self._name, self._key, _HOUR * 24).add_extension(basics, critical=True)
        self.bundle = folder / "clients.crt"
        self.bundle.write_bytes(root.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))

    def issue(self, user: str, path: Path, lasts: dt.timedelta = _HOUR) -> None:
        """Certificate and key in one file."""
        key = ec.generate_private_key(ec.SECP256R1())
        usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])
        self._write(self._build(_name(user), key, lasts).add_extension(usage, critical=False), key, path)

    def issue_server(self, path: Path) -> None:
        """Certificate and key of a server on loopback, in one file."""
        key = ec.generate_private_key(ec.SECP256R1())
        usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
        names = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
        leaf = self._build(_name("server"), key, _HOUR).add_extension(usage, critical=False)
        self._write(leaf.add_extension(names, critical=False), key, path)

    def _write(self, leaf: x509.CertificateBuilder, key: ec.EllipticCurvePrivateKey, path: Path) -> None:
        form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        signed = leaf.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
        path.write_bytes(signed + key.private_bytes(*form))

    def _build(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, lasts: dt.timedelta
    ) -> x509.CertificateBuilder:
        now = dt.datetime.now(dt.UTC)  # noqa: TID251 - TLS compares with this machine's clock
        made = x509.CertificateBuilder().subject_name(subject).issuer_name(self._name).public_key(key.public_key())
        made = made.serial_number(x509.random_serial_number())
        return made.not_valid_before(now - _HOUR).not_valid_after(now + lasts)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])
