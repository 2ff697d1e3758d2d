"""A support bundle: an archive (tar.gz) of what a daemon knows, without secrets, that ``plan`` and ``explain`` read back."""

import io
import sys
import tarfile
from collections.abc import Callable, Iterable, Mapping
from importlib import metadata
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from nodewright.cli.dry_run.dump_groups import GroupEntry, TaintEntry
from nodewright.clusterstate.state import ClusterState, GroupState
from nodewright.model.errors import ConfigError
from nodewright.model.meta import Object
from nodewright.model.node import HOSTNAME_LABEL, Node
from nodewright.model.objects import KINDS
from nodewright.model.quantity import Quantity
from nodewright.model.settings import Settings

SCHEMA = 1
MAGIC = b"\x1f\x8b"
CLUSTER, GROUPS, SETTINGS, ABOUT = "cluster.json", "groups.json", "settings.json", "about.json"
# The label by which nodes of the bundle are known as those of a group.
_GROUP_LABEL = "bundle.nodewright/group"
# What kubectl writes there is the whole manifest, with the values of variables.
_ANNOTATION_OF_KUBECTL = "kubectl.kubernetes.io/last-applied-configuration"
# The largest file that is read from a bundle, in bytes: an archive may pretend to be small.
_MOST_BYTES = 4 * 2**30


class Bundle(NamedTuple):
    """The part of a bundle that plans are made from: a dump of the cluster, node groups, settings, and the time of the loop (epoch seconds)."""

    cluster: bytes
    groups: tuple[GroupEntry, ...]
    settings: Settings
    at: float


def pack(files: Mapping[str, bytes], at: float) -> bytes:
    """Return an archive with these files, each as of ``at`` (epoch seconds)."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz") as packed:
        for name, content in files.items():
            told = tarfile.TarInfo(f"nodewright-bundle/{name}")
            told.size, told.mtime, told.mode = len(content), int(at), 0o600
            packed.addfile(told, io.BytesIO(content))
    return archive.getvalue()


def write_cluster(state: ClusterState, read: Callable[[str], Iterable[Object]]) -> bytes:
    """Return a dump of the cluster, as kubectl writes one. ``read`` returns the objects of a kind.

    It has only the fields that nodewright reads: neither variables of containers nor secrets are among them. Nodes have a
    label that names their group.
    """
    items: list[dict[str, Any]] = []
    for kind in KINDS.values():
        version = f"{kind.api_group}/{kind.version}" if kind.api_group else kind.version
        for held in read(kind.name):
            meta = held.metadata
            notes = {key: text for key, text in meta.annotations.items() if key != _ANNOTATION_OF_KUBECTL}
            labels = meta.labels
            if isinstance(held, Node) and held.name in state.group_of_node:
                labels = {**labels, _GROUP_LABEL: str(state.group_of_node[held.name])}
            held = replace(held, metadata=replace(meta, annotations=notes, labels=labels))  # noqa: PLW2901 - without them
            document: dict[str, Any] = _without_nulls(msgspec.to_builtins(held, enc_hook=_text))
            items.append({"kind": kind.kind or kind.name, "apiVersion": version, **document})
    return _write({"kind": "List", "apiVersion": "v1", "items": items})


def write_groups(state: ClusterState) -> bytes:
    """Return the node groups, each with a description of its next node; those that nothing describes are left out."""
    described = [_describe(group) for group in state.groups.values() if group.seen.template is not None]
    return _write({"groups": msgspec.to_builtins(described)})


def write_about(at: float, loop: str, why_not: str) -> bytes:
    """Return who made the bundle, and when. ``why_not``: why there is no cluster in it; empty: there is."""
    versions = {
        distribution.name: distribution.version
        for distribution in metadata.distributions()
        if distribution.name.startswith("nodewright")
    }
    python = ".".join(map(str, sys.version_info[:3]))
    return _write(
        {"schema": SCHEMA, "versions": versions, "python": python, "at": at, "loop": loop, "without_cluster": why_not}
    )


def read_bundle(source: bytes, name: str) -> Bundle:
    """Read a bundle; raise ConfigError that names the file."""
    try:
        with tarfile.open(fileobj=io.BytesIO(source), mode="r:gz") as packed:
            found = {told.name.rpartition("/")[2]: _extract(packed, told, name) for told in packed if told.isfile()}
    except (tarfile.TarError, OSError, EOFError) as error:
        raise ConfigError(f"{name}: cannot be read as a bundle of nodewright: {error}") from None
    if ABOUT not in found:
        raise ConfigError(f"{name}: is no bundle of nodewright: it has no {ABOUT}")
    try:
        about = msgspec.json.decode(found[ABOUT], type=dict[str, Any])
        if about.get("without_cluster") or CLUSTER not in found:
            raise ConfigError(f"{name}: holds no cluster: {about.get('without_cluster') or 'the file is missing'}")
        groups = msgspec.json.decode(found[GROUPS], type=dict[str, tuple[GroupEntry, ...]])["groups"]
        settings = msgspec.json.decode(found[SETTINGS], type=Settings)
        at = float(about["at"])
    except (msgspec.MsgspecError, KeyError, TypeError, ValueError) as error:
        raise ConfigError(f"{name}: cannot be read as a bundle of nodewright: {error}") from None
    return Bundle(found[CLUSTER], groups, msgspec.structs.replace(settings, providers={}), at)


def _extract(packed: tarfile.TarFile, told: tarfile.TarInfo, name: str) -> bytes:
    if told.size > _MOST_BYTES:
        raise ConfigError(f"{name}: {told.name} is too large")
    held = packed.extractfile(told)
    return held.read() if held is not None else b""


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


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(held) for key, held in value.items() if held is not None}
    return [_without_nulls(held) for held in value] if isinstance(value, list) else value


def _write(document: object) -> bytes:
    return msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n"


def _text(value: object) -> str:
    if isinstance(value, Quantity):
        return str(value)
    raise TypeError(f"{type(value).__name__} is no part of a bundle")
