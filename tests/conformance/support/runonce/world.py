"""Objects, node groups and machines of one case, as manifests and plain values."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from nodewright.model.errors import ProviderError

Manifest = dict[str, Any]
SCHEME = "fake:///"


class Refused(ProviderError):
    """The cloud says no; nothing has changed."""

    code = "cloudProviderError"


@dataclass
class Machine:
    """An instance of the cloud; ``registers_at`` and ``ready_at`` in epoch seconds, None: never."""

    id: str
    state: str = "running"
    error: Mapping[str, Any] | None = None
    registers_at: float | None = None
    ready_at: float | None = None


@dataclass
class Group:
    """A node group; ``made`` counts the machines that it was ever asked for."""

    id: str
    min_size: int
    max_size: int
    target: int
    template: Manifest | None
    options: Mapping[str, Any]
    provisioning: Mapping[str, Any]
    machines: dict[str, Machine] = field(default_factory=dict)
    made: int = 0


class World:
    """What is there now. Calls of the cloud are in ``cloud.py``, events of a case in ``events.py``.

    ``refused_writes`` says which status writes of requests fail: ``reject`` all, ``rejectApply``, ``rejectUpdate``.
    """

    def __init__(self, given: Mapping[str, Any]) -> None:
        self.keeps_deleted_nodes = bool(given.get("keepDeletedNodes"))
        self.refused_writes = ""
        self.objects: dict[tuple[str, str, str], Manifest] = {}
        self.groups = {described["id"]: _make_group(described) for described in given["nodeGroups"]}
        for manifest in given["objects"]:
            self.apply(manifest)

    def apply(self, manifest: Manifest) -> None:
        """Create or replace an object. A node of a group implies a running machine."""
        self.objects[_key(manifest)] = manifest
        if manifest["kind"] == "Node":
            machine_id = manifest.get("spec", {}).get("providerID", "")
            group = self.groups.get(group_of(machine_id))
            if group is not None:
                group.machines.setdefault(machine_id, Machine(machine_id))

    def remove(self, kind: str, namespace: str, name: str) -> None:
        self.objects.pop((kind, namespace, name), None)

    def find(self, kind: str, namespace: str, name: str) -> Manifest | None:
        return self.objects.get((kind, namespace, name))

    def of_kind(self, kind: str) -> list[Manifest]:
        return [manifest for (found, _, _), manifest in self.objects.items() if found == kind]

    def nodes_of_machine(self, machine_id: str) -> list[Manifest]:
        return [node for node in self.of_kind("Node") if node.get("spec", {}).get("providerID") == machine_id]

    def come_due(self, now: float) -> None:
        """Nodes register, and turn ready, at their exact times."""
        for group in self.groups.values():
            for machine in group.machines.values():
                self._register(group, machine, now)

    def remove_machine(self, group: Group, machine_id: str) -> None:
        """A machine goes, and its node and pods with it unless nodes outlive their machines."""
        del group.machines[machine_id]
        if self.keeps_deleted_nodes:
            return
        for node in self.nodes_of_machine(machine_id):
            name = node["metadata"]["name"]
            self.remove("Node", "", name)
            for pod in self._pods_on(name):
                self.remove(*_key(pod))

    def _pods_on(self, node: str) -> Iterator[Manifest]:
        return (pod for pod in self.of_kind("Pod") if pod.get("spec", {}).get("nodeName") == node)

    def _register(self, group: Group, machine: Machine, now: float) -> None:
        if machine.registers_at is not None and machine.registers_at <= now and group.template is not None:
            self.apply(_make_node(group.template, machine, machine.registers_at))
            machine.registers_at = None
        if machine.registers_at is None and machine.ready_at is not None and machine.ready_at <= now:
            for node in self.nodes_of_machine(machine.id):
                set_ready(node, "True", machine.ready_at)
            machine.ready_at = None


def group_of(machine_id: str) -> str:
    """The group that a machine's id names; empty for a machine of no group."""
    return machine_id.removeprefix(SCHEME).partition("/")[0] if machine_id.startswith(SCHEME) else ""


def short_name(machine_id: str) -> str:
    return machine_id.rpartition("/")[2]


def write_time(at: float) -> str:
    return datetime.fromtimestamp(at, tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def read_time(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def set_ready(node: Manifest, status: str, at: float) -> None:
    """The node's Ready condition changed at a moment."""
    conditions = node.setdefault("status", {}).setdefault("conditions", [])
    conditions[:] = [condition for condition in conditions if condition["type"] != "Ready"]
    conditions.append({"type": "Ready", "status": status, "lastTransitionTime": write_time(at)})


def _make_group(described: Mapping[str, Any]) -> Group:
    group = Group(
        id=described["id"],
        min_size=described["minSize"],
        max_size=described["maxSize"],
        target=described["targetSize"],
        template=(described.get("template") or {}).get("node"),
        options=described.get("options", {}),
        provisioning=described.get("provisioning") or {},
    )
    for instance in described.get("instances", ()):
        group.machines[instance["id"]] = Machine(instance["id"], instance["state"], instance.get("error"))
    return group


def _make_node(template: Manifest, machine: Machine, at: float) -> Manifest:
    name = short_name(machine.id)
    metadata = template.get("metadata", {})
    labels = {**(metadata.get("labels") or {}), "kubernetes.io/hostname": name}
    node = {
        **template,
        "kind": "Node",
        "metadata": {**metadata, "name": name, "labels": labels, "creationTimestamp": write_time(at)},
        "spec": {**template.get("spec", {}), "providerID": machine.id},
        "status": {**template.get("status", {}), "conditions": list(template.get("status", {}).get("conditions", ()))},
    }
    set_ready(node, "False", at)
    return node


def _key(manifest: Manifest) -> tuple[str, str, str]:
    metadata = manifest["metadata"]
    return manifest["kind"], metadata.get("namespace", ""), metadata["name"]
