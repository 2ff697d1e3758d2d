"""A certificate authority for one test run, and a certificate for this machine."""

import ipaddress
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

HOST = "localhost"
_FROM = datetime(2020, 1, 1, tzinfo=UTC)
_DAYS = timedelta(days=365 * 30)


class Authority:
    """``bundle`` is what clients trust; ``server`` is how our servers identify themselves."""

    def __init__(self, folder: Path) -> None:
        key, self._key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "nodewright test authority")])
        root = _builder(self._name, self._name, self._key.public_key())
        root = root.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        root = root.add_extension(_usage(signs_certificates=True), critical=True)
        self.bundle = folder / "authority.pem"
        self.bundle.write_bytes(root.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
        leaf = self._leaf(key.public_key()).sign(self._key, hashes.SHA256())
        chain, private = folder / "server.pem", folder / "server.key"
        chain.write_bytes(leaf.public_bytes(serialization.Encoding.PEM))
        private.write_bytes(_as_pem(key))
        self.server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.server.load_cert_chain(chain, private)
        self.principal = folder / "principal.pem"
        self.principal.write_bytes(_make_principal())

    def _leaf(self, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, HOST)])
        names = x509.SubjectAlternativeName([x509.DNSName(HOST), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
        builder = _builder(subject, self._name, key).add_extension(names, critical=False)
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        return builder.add_extension(issuer, critical=False).add_extension(_usage(), critical=True)


def _make_principal() -> bytes:
    """Key and certificate of a service principal, which must be RSA."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "principal")])
    whole = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    whole = whole.serial_number(x509.random_serial_number()).not_valid_before(_FROM).not_valid_after(_FROM + _DAYS)
    signed = whole.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    return _as_pem(key) + signed


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key)
    builder = builder.serial_number(x509.random_serial_number())
    builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    return builder.not_valid_before(_FROM).not_valid_after(_FROM + _DAYS)


def _usage(*, signs_certificates: bool = False) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _as_pem(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
