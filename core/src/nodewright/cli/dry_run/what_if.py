"""Changes of a dump for what-if questions: more or fewer pods, fewer nodes, one more group."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from msgspec.structs import replace

from nodewright.cli.dry_run.dump_groups import GroupEntry, GroupsFile, check_entries
from nodewright.model.decode import decode_objects
from nodewright.model.errors import ConfigError
from nodewright.model.objects import ClusterObjects
from nodewright.model.pod import Pod, PodCondition, PodStatus
from nodewright.model.printable import printable, show, suggest
from nodewright.model.yaml_text import load_yaml
from nodewright.spec.options import decode_options

_MOST_REPLICAS = 20_000
_TEMPLATE_HASH = "pod-template-hash"
_UNSCHEDULABLE = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]


class Scaling(NamedTuple):
    """A workload, as NAMESPACE/NAME, and how many pods it is to have."""

    workload: str
    replicas: int


@dataclass(frozen=True, kw_only=True)
class WhatIf:
    """The flags: manifests whose pods are added, how many of each, nodes to remove, groups to add.

    ``scaling`` has no flag: only the page asks for it.
    """

    added: tuple[str, ...] = ()
    replicas: int | None = None
    removed_nodes: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    scaling: Scaling | None = None

    def __bool__(self) -> bool:
        return bool(self.added or self.removed_nodes or self.groups or self.scaling)

    def check(self) -> None:
        """Raise ConfigError for flags that cannot be used together."""
        if self.replicas is not None and not self.added:
            raise ConfigError("--replicas: needs --add")

    def change(self, objects: ClusterObjects) -> ClusterObjects:
        """Return the cluster with the added pods and without the removed nodes; raise ConfigError.

        Pods of a removed node are pending, except those of DaemonSets and static pods, which go with it.
        """
        nodes = {node.name for node in objects.nodes}
        for name in self.removed_nodes:
            if name not in nodes:
                raise ConfigError(f"--remove-node: the dump has no node {printable(name)}{suggest(name, nodes)}")
        gone = frozenset(self.removed_nodes)
        pods = [pod for pod in objects.pods if pod.host not in gone]
        pods += [_pending(pod) for pod in objects.pods if pod.host in gone and not _goes_with_node(pod)]
        for number, path in enumerate(self.added):
            pods += _read_pods(path, self.replicas, number)
        if self.scaling is not None:
            pods = _scale(pods, self.scaling)
        return replace(objects, nodes=tuple(node for node in objects.nodes if node.name not in gone), pods=tuple(pods))

    def more_groups(self, names: Sequence[str]) -> tuple[GroupEntry, ...]:
        """Return the added groups; raise ConfigError. ``names`` are those of the groups that exist."""
        found = tuple(map(_read_group, self.groups))
        for entry in found:
            check_entries((entry,), "--group")
        for number, entry in enumerate(found):
            if entry.name in names or entry.name in [other.name for other in found[:number]]:
                raise ConfigError(f"--group: there are two groups {printable(entry.name)}")
            if entry.cpu is None or entry.memory is None:
                raise ConfigError(f"--group {printable(entry.name)}: cpu and memory must describe a node")
        return found


def _scale(pods: Sequence[Pod], scaling: Scaling) -> list[Pod]:
    """Return the pods with copies of the workload's first pod, or without its last ones; pending ones go first."""
    own = sorted((pod for pod in pods if _is_of(pod, scaling.workload)), key=lambda pod: not pod.host)
    if not own:
        names = {name for pod in pods for name in _workloads_of(pod)}
        raise ConfigError(
            f"no pod here is of a workload {printable(scaling.workload)}{suggest(scaling.workload, names)}"
        )
    gone = {id(pod) for pod in own[: max(0, len(own) - scaling.replicas)]}
    kept = [pod for pod in pods if id(pod) not in gone]
    return kept + [_copy(own[-1], number) for number in range(scaling.replicas - len(own))]


def _is_of(pod: Pod, workload: str) -> bool:
    return not pod.is_terminal and workload in _workloads_of(pod)


def _workloads_of(pod: Pod) -> Iterator[str]:
    """Yield the controller of a pod, and the Deployment of a ReplicaSet, as NAMESPACE/NAME. DaemonSets are left out."""
    owner, namespace = pod.metadata.controller, pod.metadata.namespace
    if owner is None or pod.is_daemonset_pod or pod.is_mirror:
        return
    yield f"{namespace}/{owner.name}"
    ending = f"-{pod.metadata.labels.get(_TEMPLATE_HASH, '')}"
    if owner.kind == "ReplicaSet" and len(ending) > 1 and owner.name.endswith(ending):
        yield f"{namespace}/{owner.name.removesuffix(ending)}"


def _copy(pod: Pod, number: int) -> Pod:
    """Return one more pod like this one, as its controller would create it."""
    name = f"{pod.metadata.name}-what-if-{number}"
    return _pending(replace(pod, metadata=replace(pod.metadata, name=name, uid=f"what-if-{name}")))


def _goes_with_node(pod: Pod) -> bool:
    return pod.is_daemonset_pod or pod.is_mirror or pod.is_terminal


def _pending(pod: Pod) -> Pod:
    """Return the pod as its controller would create it again."""
    condition = PodCondition(type="PodScheduled", status="False", reason="Unschedulable")
    status = PodStatus(phase="Pending", conditions=(condition,))
    return replace(pod, spec=replace(pod.spec, node_name=""), status=status)


def _read_pods(path: str, replicas: int | None, number: int) -> Sequence[Pod]:
    try:
        text = Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(f"--add: {path}: {error.strerror}") from None
    pods = [pod for document in load_yaml(text, path) for pod in _pods_of(document, path, replicas, number)]
    if not pods:
        raise ConfigError(f"--add: {path}: holds no Deployment, StatefulSet, ReplicaSet, Job or Pod")
    return decode_objects(json.dumps({"kind": "List", "items": pods}).encode(), path).pods


def _pods_of(document: Any, path: str, replicas: int | None, number: int) -> Iterator[dict[str, Any]]:
    """Yield the pods that the controller would create, or copies of a Pod."""
    if not isinstance(document, Mapping):
        return
    kind = document.get("kind")
    if kind == "Pod":
        template, place, count, owner = document, "", 1, None
    elif kind in ("Deployment", "StatefulSet", "ReplicaSet", "Job"):
        spec = _mapping(document, "spec", f"--add: {path}: ")
        template, place = _mapping(spec, "template", f"--add: {path}: spec."), "spec.template."
        count = spec.get("parallelism" if kind == "Job" else "replicas", 1)
        owner = {"Deployment": "ReplicaSet"}.get(kind, kind)
    else:
        return
    count = count if replicas is None else replicas
    if not isinstance(count, int) or not 0 <= count <= _MOST_REPLICAS:
        raise ConfigError(f"--add: {path}: replicas must be from 0 to {_MOST_REPLICAS:,}")
    metadata = _mapping(document, "metadata", f"--add: {path}: ")
    name = str(metadata.get("name", "added"))
    about = dict(_mapping(template, "metadata", f"--add: {path}: {place}"))
    about["namespace"] = metadata.get("namespace", "default")
    if owner is not None:
        uid = f"what-if-{number}-{name}"
        about["ownerReferences"] = [
            {"apiVersion": "apps/v1", "kind": owner, "name": name, "uid": uid, "controller": True}
        ]
    for replica in range(count):
        own = {**about, "name": f"{name}-what-if-{number}-{replica}", "uid": f"what-if-{number}-{name}-{replica}"}
        status = {"phase": "Pending", "conditions": _UNSCHEDULABLE}
        yield {"apiVersion": "v1", "kind": "Pod", "metadata": own, "spec": template.get("spec") or {}, "status": status}


def _mapping(holder: Mapping[str, Any], key: str, where: str) -> Mapping[str, Any]:
    """Return the mapping under ``key``, empty if there is none; raise ConfigError if it is something else."""
    held = holder.get(key)
    if held is not None and not isinstance(held, Mapping):
        raise ConfigError(f"{where}{key}: must be a mapping, and is {show(held)}")
    return held or {}


def _read_group(text: str) -> GroupEntry:
    """Return the group that ``name=large,cpu=16,memory=64Gi,max_size=10,price_per_hour=0.8`` describes."""
    given: dict[str, Any] = {}
    for part in text.split(","):
        key, equals, value = (word.strip() for word in part.partition("="))
        if not equals or not key:
            raise ConfigError(f"--group {printable(text)}: is not of the form name=NAME,cpu=N,memory=N,…")
        place, _, label = key.partition(".")
        if place in ("labels", "resources"):
            if not label:
                raise ConfigError(f"--group {printable(text)}: {place} needs a name: {place}.NAME=VALUE")
            given.setdefault(place, {})[label] = value
        else:
            given[key] = _number(value) if key in ("min_size", "max_size", "price_per_hour") else value
    raw = {"groups": [{"max_size": 1000, **given}]}
    return decode_options(raw, GroupsFile, f"--group {printable(text)}").groups[0]


def _number(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
