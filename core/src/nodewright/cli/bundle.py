"""A support bundle: an archive (tar.gz) of what a daemon knows, without secrets, that ``plan`` and ``explain`` read back."""

import gzip
import io
import sys
import tarfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from importlib import metadata
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from nodewright.cli.dry_run.dump_groups import GroupEntry, TaintEntry, check_entries
from nodewright.clusterstate.state import GroupState
from nodewright.model.errors import ConfigError
from nodewright.model.meta import Object
from nodewright.model.node import HOSTNAME_LABEL, Node
from nodewright.model.objects import KINDS
from nodewright.model.printable import printable
from nodewright.model.quantity import Quantity
from nodewright.model.settings import Settings

SCHEMA = 1
MAGIC = b"\x1f\x8b"
CLUSTER, GROUPS, SETTINGS, ABOUT = "cluster.json", "groups.json", "settings.json", "about.json"
# The label that names the group of a node in the bundle.
_GROUP_LABEL = "bundle.nodewright/group"
# kubectl's annotation with the whole manifest, which includes the values of environment variables.
_ANNOTATION_OF_KUBECTL = "kubectl.kubernetes.io/last-applied-configuration"
# The most bytes that are read from an unpacked bundle: a small archive may unpack to a huge one.
_MOST_BYTES = 4 * 2**30
_READ = (CLUSTER, GROUPS, SETTINGS, ABOUT)
# A bundle is of a time before the year 10000 (epoch seconds).
_LAST_MOMENT = 253_402_300_799.0
_BLOCK = 512


class Bundle(NamedTuple):
    """The part of a bundle that plans are made from; ``at`` is the time of the loop (epoch seconds)."""

    cluster: bytes
    groups: tuple[GroupEntry, ...]
    settings: Settings
    at: float


def pack(files: Mapping[str, Iterable[bytes]], at: float) -> bytes:
    """Return an archive with these files, each in parts and as of ``at`` (epoch seconds). No file is held as a whole.

    A tar header has the size of its file and comes before it. So each content is compressed first, and the header is put in
    front of it.
    """
    archive = io.BytesIO()
    for name, parts in files.items():
        content = io.BytesIO()
        with gzip.GzipFile(fileobj=content, mode="wb", compresslevel=6, mtime=at) as packed:
            size = sum(packed.write(part) for part in parts)
            packed.write(bytes(-size % _BLOCK))
        told = tarfile.TarInfo(f"nodewright-bundle/{name}")
        told.size, told.mtime, told.mode = size, int(at), 0o600
        archive.write(gzip.compress(told.tobuf(), mtime=at) + content.getvalue())
    archive.write(gzip.compress(bytes(2 * _BLOCK), mtime=at))
    return archive.getvalue()


def write_cluster(objects: Mapping[str, Iterable[Object]], group_of_node: Mapping[str, object]) -> Iterator[bytes]:
    """Yield a dump of the cluster, as kubectl writes one, object by object. ``objects`` are those of each kind, by its name.

    It has only the fields that nodewright reads: neither variables of containers nor secrets are among them. Nodes have a
    label that names their group.
    """
    yield b'{"kind": "List", "apiVersion": "v1", "items": ['
    between = b"\n"
    for kind in KINDS.values():
        version = f"{kind.api_group}/{kind.version}" if kind.api_group else kind.version
        for held in objects.get(kind.name, ()):
            if isinstance(held, Node):
                held = with_group(held, group_of_node)  # noqa: PLW2901 - with its group
            document: dict[str, Any] = _stripped(msgspec.to_builtins(held, enc_hook=_text))
            document = {"kind": kind.kind or kind.name, "apiVersion": version, **document}
            yield between + msgspec.json.format(msgspec.json.encode(document), indent=0)
            between = b",\n"
    yield b"\n]}\n"


def with_group(node: Node, group_of_node: Mapping[str, object]) -> Node:
    """Return the node with a label that names its group, if it has one."""
    if node.name not in group_of_node:
        return node
    labels = {**node.metadata.labels, _GROUP_LABEL: str(group_of_node[node.name])}
    return replace(node, metadata=replace(node.metadata, labels=labels))


def describe_groups(groups: Iterable[GroupState]) -> tuple[GroupEntry, ...]:
    """Describe the node groups by their next node and the label of their nodes; groups without a template are left out."""
    return tuple(_describe(group) for group in groups if group.seen.template is not None)


def write_groups(groups: Iterable[GroupState]) -> bytes:
    """Return the node groups as ``describe_groups`` describes them."""
    return _write({"groups": msgspec.to_builtins(describe_groups(groups))})


def write_about(at: float, loop: str, why_not: str) -> bytes:
    """Return which versions made the bundle, and when. ``why_not``: why it has no cluster; empty: it has one."""
    versions = {
        distribution.name: distribution.version
        for distribution in metadata.distributions()
        if distribution.name.startswith("nodewright")
    }
    python = ".".join(map(str, sys.version_info[:3]))
    return _write(
        {"schema": SCHEMA, "versions": versions, "python": python, "at": at, "loop": loop, "without_cluster": why_not}
    )


class _Bounded:
    """A file whose content is refused beyond ``most`` bytes."""

    def __init__(self, packed: gzip.GzipFile, most: int, name: str) -> None:
        self._packed = packed
        self._left = most
        self._name = name

    def read(self, size: int) -> bytes:
        content = self._packed.read(size)
        self._left -= len(content)
        if self._left < 0:
            raise ConfigError(f"{self._name}: is too large when it is unpacked")
        return content


def read_bundle(source: bytes, name: str, most: int = _MOST_BYTES) -> Bundle:
    """Read a bundle of at most ``most`` bytes when unpacked; raise ConfigError that names the file."""
    bounded: Any = _Bounded(gzip.GzipFile(fileobj=io.BytesIO(source)), most, name)
    found: dict[str, bytes] = {}
    try:
        with tarfile.open(fileobj=bounded, mode="r|") as packed:
            for told in packed:
                short = told.name.rpartition("/")[2]
                held = packed.extractfile(told) if told.isreg() and short in _READ else None
                if held is not None:
                    found[short] = held.read()
    except (tarfile.TarError, zlib.error, OSError, EOFError, ValueError) as error:
        raise _unreadable(name, error) from None
    if ABOUT not in found:
        raise ConfigError(f"{name}: is not a bundle of nodewright: it has no {ABOUT}")
    by = ""
    try:
        about = msgspec.json.decode(found[ABOUT], type=dict[str, Any])
        by = _name_version(about)
        if about.get("schema") != SCHEMA:
            raise ConfigError(
                f"{name}: {ABOUT}: schema {printable(str(about.get('schema')))} is not {SCHEMA}, which is read here{by}"
            )
        if about.get("without_cluster") or CLUSTER not in found:
            why = printable(str(about.get("without_cluster") or "the file is missing"))
            raise ConfigError(f"{name}: holds no cluster: {why}")
        at = float(about["at"])
        if not 0 <= at <= _LAST_MOMENT:
            raise ConfigError(f"{name}: {ABOUT}: at {printable(str(about['at']))} is not a time")
        groups = msgspec.json.decode(found[GROUPS], type=dict[str, tuple[GroupEntry, ...]])["groups"]
        settings = msgspec.json.decode(found[SETTINGS], type=Settings)
    except KeyError as error:
        raise ConfigError(f"{name}: cannot be read as a bundle of nodewright: {error} is missing{by}") from None
    except (msgspec.MsgspecError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise _unreadable(name, error, by) from None
    check_entries(groups, f"{name}: {GROUPS}")
    return Bundle(found[CLUSTER], groups, replace(settings, providers={}), at)


def _unreadable(name: str, error: Exception, by: str = "") -> ConfigError:
    return ConfigError(f"{name}: cannot be read as a bundle of nodewright: {printable(str(error))}{by}")


def _name_version(about: Mapping[str, Any]) -> str:
    """Return which version made the bundle, if it differs from this one; otherwise an empty text."""
    versions = about.get("versions")
    made = versions.get("nodewright") if isinstance(versions, dict) else None
    own = metadata.version("nodewright")
    return f" (made by nodewright {printable(str(made))}; this is {own})" if made and made != own else ""


def _describe(group: GroupState) -> GroupEntry:
    seen = group.seen
    template = seen.template or Node()
    offered = {resource: str(amount) for resource, amount in template.allocatable.items()}
    return GroupEntry(
        name=str(seen.ref),
        nodes={_GROUP_LABEL: str(seen.ref)},
        min_size=seen.group.min_size,
        max_size=max(seen.group.max_size, seen.group.min_size),
        cpu=offered.pop("cpu", None),
        memory=offered.pop("memory", None),
        pods=offered.pop("pods", 110),
        resources=dict(offered),
        labels={key: value for key, value in template.metadata.labels.items() if key != HOSTNAME_LABEL},
        taints=tuple(TaintEntry(key=one.key, value=one.value, effect=one.effect) for one in template.spec.taints),
        price_per_hour=seen.hourly_price,
    )


def _stripped(value: Any) -> Any:
    """Return the value without nulls, and without the manifests in kubectl's annotations (also in pod templates)."""
    if isinstance(value, dict):
        return {
            key: _stripped(held) for key, held in value.items() if held is not None and key != _ANNOTATION_OF_KUBECTL
        }
    return [_stripped(held) for held in value] if isinstance(value, list) else value


def _write(document: object) -> bytes:
    return msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n"


def _text(value: object) -> str:
    if isinstance(value, Quantity):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no place in a bundle")
