"""A fake cloud behind serve-externalgrpc's server on loopback, and the plugin that consumes it, with TLS on both sides."""

import datetime as dt
import ipaddress
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from fake_world import FakeCloudWorld
from nodewright.spec import ProviderContext
from nodewright.testkit import FakeClock
from nodewright.testkit.contract import CannotSteer, Trouble, connect
from nodewright_externalgrpc.certificates import Files, server_credentials
from nodewright_externalgrpc.provider import ExternalGrpcProvider
from nodewright_externalgrpc.server import Servicer, make_server
from nodewright_fake import FakeProvider

_DAY = dt.timedelta(days=1)
# Seconds of real time until the plugin gives a call up. A lost answer costs a test so long; no other call takes it.
_GRPC_TIMEOUT = 2.0


class Authority:
    """Signs certificates for 127.0.0.1, and writes what it signed."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        basics = x509.BasicConstraints(ca=True, path_length=0)
        own = self._build(self._name, self._key).add_extension(basics, critical=True).sign(self._key, hashes.SHA256())
        self.cacert = self._write(f"{name}-ca.pem", own.public_bytes(serialization.Encoding.PEM))

    def issue(self, name: str) -> dict[str, str]:
        """Paths for the options ``cert``, ``key`` and ``cacert``."""
        key = ec.generate_private_key(ec.SECP256R1())
        hosts = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        leaf = self._build(subject, key).add_extension(x509.SubjectAlternativeName(hosts), critical=False)
        form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        signed = leaf.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
        return {
            "cert": self._write(f"{name}.pem", signed),
            "key": self._write(f"{name}.key", key.private_bytes(*form)),
            "cacert": self.cacert,
        }

    def _build(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        now = dt.datetime.now(dt.UTC)  # noqa: TID251 - TLS compares with this machine's clock
        made = x509.CertificateBuilder().subject_name(subject).issuer_name(self._name).public_key(key.public_key())
        return made.serial_number(x509.random_serial_number()).not_valid_before(now - _DAY).not_valid_after(now + _DAY)

    def _write(self, name: str, content: bytes) -> str:
        path = self._folder / name
        path.write_bytes(content)
        return str(path)


class ServedWorld(FakeCloudWorld):
    """Group ``a`` of a fake cloud, served by one nodewright and consumed by another."""

    def __init__(self, authority: Authority, served: dict[str, Any] | None = None, **options: Any) -> None:
        self.clock = FakeClock()
        self.group_id = "a"
        group = {"name": "a", "size": 2, "request_delay": "100h", "price_per_hour": 0.2, "delete_delay": "30s"}
        cloud = {"groups": [group, {"name": "b"}], "settles_after": 5, **(served or {})}
        provider = FakeProvider(ProviderContext(clock=self.clock, random=Random(1), options=cloud))
        self.take(provider.cloud)
        self.served = connect("fake", provider, self.clock)
        files = Files("server: ", **authority.issue("server"), insecure=False)
        self._server, port = make_server(Servicer(self.served), "127.0.0.1:0", server_credentials(files))
        self._server.start()
        own = {"address": f"127.0.0.1:{port}", "parallel_calls": 1, "grpc_timeout": _GRPC_TIMEOUT}
        whole = {**own, **authority.issue("client"), **options}
        self._context = ProviderContext(clock=self.clock, random=Random(1), options=whole)
        self.reconnect()

    def reconnect(self) -> None:
        self.client = connect("externalgrpc", ExternalGrpcProvider(self._context), self.clock)

    def fail_creation(self, group_id: str, kind: Trouble = Trouble.CAPACITY, *, leaves_machine: bool = True) -> None:
        if kind == Trouble.QUOTA:
            raise CannotSteer("the protocol has one class of error for a lack of capacity and for a quota")
        super().fail_creation(group_id, kind, leaves_machine=leaves_machine)

    def close(self) -> None:
        self._server.stop(None).wait()


MakeWorld = Callable[..., ServedWorld]


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"), "trusted")


@pytest.fixture
def stranger(tmp_path: Path) -> dict[str, str]:
    """A client whom an authority of its own vouches for."""
    return Authority(tmp_path, "strange").issue("client")


@pytest.fixture
def serve(authority: Authority) -> Iterator[MakeWorld]:
    """``serve({"switched_off": […]}, grpc_timeout=1)``: a world with these options of the cloud and of the plugin."""
    made: list[ServedWorld] = []

    def make(served: dict[str, Any] | None = None, **options: Any) -> ServedWorld:
        made.append(ServedWorld(authority, served, **options))
        return made[-1]

    yield make
    for world in made:
        world.close()
