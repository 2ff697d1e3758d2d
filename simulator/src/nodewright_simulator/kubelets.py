"""Machines become nodes: the simulated kubelets, and what takes nodes away again."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Protocol

from msgspec.structs import replace

from nodewright.clusterstate.readiness import is_startup_taint
from nodewright.model.group import GroupRef
from nodewright.model.node import HOSTNAME_LABEL, Node, NodeCondition, NodeSpec, NodeStatus
from nodewright.model.settings import TemplateSettings
from nodewright.spec.simulation import NodeStart
from nodewright_simulator.agenda import Agenda
from nodewright_simulator.cluster import SimulatedCluster
from nodewright_simulator.controllers import start_daemons
from nodewright_simulator.journal import Journal, What
from nodewright_simulator.node_faults import NOT_READY, renamed_copy


class MachineSource(Protocol):
    """The hooks of a cloud in memory that tell the simulated cluster which machines run at this moment."""

    @property
    def name(self) -> str: ...
    def running_machines(self) -> Sequence[NodeStart]: ...
    def next_change(self) -> float: ...


class Kubelets:
    """Follows the machines of all clouds: registers their nodes, makes them ready, removes them."""

    def __init__(
        self,
        cluster: SimulatedCluster,
        agenda: Agenda,
        journal: Journal,
        sources: Sequence[MachineSource],
        templates: TemplateSettings,
    ) -> None:
        self.startup_taint_seconds = 0.0
        self._cluster = cluster
        self._agenda = agenda
        self._journal = journal
        self._sources = sources
        self._settings = templates
        self._templates: Mapping[GroupRef, Node] = {}
        self._machines: dict[GroupRef, dict[str, NodeStart]] = {}
        self._nodes: dict[str, str] = {}
        self._waiting: list[tuple[GroupRef, NodeStart]] = []

    def next_change(self) -> float:
        """Return when a cloud changes next by itself; infinity if none will."""
        return min((source.next_change() for source in self._sources), default=float("inf"))

    def machine_counts(self) -> dict[GroupRef, int]:
        """Return how many machines of each group run."""
        return {ref: len(machines) for ref, machines in self._machines.items()}

    def set_templates(self, templates: Mapping[GroupRef, Node], at: float) -> None:
        """Set what nodes of each group look like, and register the machines that waited for a template."""
        self._templates = {**self._templates, **templates}
        waiting, self._waiting = self._waiting, []
        for ref, start in waiting:
            self._register_at(at, ref, start)

    def sync(self, at: float) -> bool:
        """Bring the cluster up to date with the clouds as of ``at``; return whether a machine came or went."""
        changed = False
        for source in self._sources:
            running: dict[GroupRef, dict[str, NodeStart]] = {}
            for start in source.running_machines():
                running.setdefault(GroupRef(source.name, start.group_id), {})[start.instance_id] = start
            known = {ref for ref in self._machines if ref.provider == source.name}
            for ref in sorted(known | running.keys()):
                changed |= self._sync_group(ref, running.get(ref, {}), at)
        return changed

    def register_again(self, nodes: Sequence[Node], at: float, *, renamed: bool = False) -> None:
        """Restart the kubelets of deleted Node objects whose machines still run."""
        for node in nodes:
            machine = node.spec.provider_id
            name = f"{node.name}-renamed" if renamed else node.name
            if machine in self._nodes and self._cluster.live.find_row(self._nodes[machine]) is None:
                self._nodes[machine] = name
                self._cluster.add_node(renamed_copy(node, name, at), at)
                start_daemons(self._cluster, name, at)

    def _sync_group(self, ref: GroupRef, running: dict[str, NodeStart], at: float) -> bool:
        held = self._machines.get(ref, {})
        if held.keys() == running.keys():
            return False
        self._machines[ref] = running
        gone = dict.fromkeys(instance_id for instance_id in held if instance_id not in running)
        for instance_id in gone:
            self._journal.note(at, What.MACHINE_GONE, instance_id, str(ref))
        # A machine has two objects where a person doubled its node, and a node may have lost its providerID.
        names = {self._nodes.pop(instance_id, "") for instance_id in gone}
        nodes = [node for _, node in self._cluster.live.nodes()] if gone else []
        objects = [node for node in nodes if node.spec.provider_id in gone or node.name in names]
        for node in objects:
            self._cluster.remove_node(node.name, at)
        for instance_id, start in running.items():
            if instance_id not in held:
                self._journal.note(at, What.MACHINE_STARTED, instance_id, str(ref))
                if start.register_after_seconds is not None:
                    # Never in the past: the cloud may have moved on during a slow call.
                    due = max(at, start.running_since + start.register_after_seconds)
                    self._register_at(due, ref, start)
        return True

    def _register_at(self, due: float, ref: GroupRef, start: NodeStart) -> None:
        self._agenda.at(due, lambda at: self._register(ref, start, at))

    def _register(self, ref: GroupRef, start: NodeStart, at: float) -> None:
        if start.instance_id not in self._machines.get(ref, {}):
            return
        if ref not in self._templates:
            self._waiting.append((ref, start))
            return
        node = self._make_node(self._templates[ref], start, at)
        self._nodes[start.instance_id] = node.name
        self._cluster.add_node(node, at, str(ref))
        start_daemons(self._cluster, node.name, at)
        self._agenda.at(at + start.ready_after_seconds, lambda moment: self._make_ready(start, moment))

    def _make_node(self, template: Node, start: NodeStart, at: float) -> Node:
        labels = {**template.metadata.labels, HOSTNAME_LABEL: start.node_name}
        created = datetime.fromtimestamp(at, tz=UTC)
        meta = replace(
            template.metadata, name=start.node_name, uid=start.node_name, labels=labels, creation_timestamp=created
        )
        return Node(
            metadata=meta,
            spec=NodeSpec(provider_id=start.instance_id, taints=(*template.spec.taints, NOT_READY)),
            status=_status(_offering(template, start), ready=False, since=created),
        )

    def _is_node(self, start: NodeStart) -> bool:
        """Return whether its Node object exists: an operator may have deleted it."""
        name = self._nodes.get(start.instance_id)
        return name is not None and self._cluster.live.find_row(name) is not None

    def _as_it_is(self, start: NodeStart) -> Node:
        """Return the node as it is now: the engine or an operator may have written to it since it registered."""
        live = self._cluster.live
        return live.node(live.row(self._nodes[start.instance_id]))

    def _make_ready(self, start: NodeStart, at: float) -> None:
        if not self._is_node(start):
            return
        node = self._as_it_is(start)
        taints = tuple(taint for taint in node.spec.taints if taint.key != NOT_READY.key)
        status = _status(node, ready=True, since=datetime.fromtimestamp(at, tz=UTC))
        ready = replace(node, spec=replace(node.spec, taints=taints), status=status)
        self._cluster.change_node(ready)
        self._journal.note(at, What.NODE_READY, node.name)
        start_daemons(self._cluster, node.name, at)
        if any(is_startup_taint(taint.key, self._settings) for taint in taints):
            due = at + self.startup_taint_seconds
            self._agenda.at(due, lambda moment: self._clear_startup_taints(start, moment))

    def _clear_startup_taints(self, start: NodeStart, at: float) -> None:
        if self._is_node(start):
            node = self._as_it_is(start)
            taints = tuple(taint for taint in node.spec.taints if not is_startup_taint(taint.key, self._settings))
            self._cluster.change_node(replace(node, spec=replace(node.spec, taints=taints)))
            start_daemons(self._cluster, node.name, at)


def _offering(template: Node, start: NodeStart) -> Node:
    """Return the template with the amounts that the machine really offers."""
    if not start.offers:
        return template
    capacity, allocatable = {**template.status.capacity, **start.offers}, {**template.allocatable, **start.offers}
    return replace(template, status=replace(template.status, capacity=capacity, allocatable=allocatable))


def _status(template: Node, *, ready: bool, since: datetime) -> NodeStatus:
    condition = NodeCondition(type="Ready", status="True" if ready else "False", last_transition_time=since)
    return NodeStatus(
        capacity=template.status.capacity, allocatable=template.status.allocatable, conditions=(condition,)
    )
