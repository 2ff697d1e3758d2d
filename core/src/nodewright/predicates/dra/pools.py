"""Pools of devices that a node can use (as in k8s.io/dynamic-resource-allocation/structured)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from nodewright.model.devices import Device, DeviceTaintRule, ResourceSlice
from nodewright.model.node import Node
from nodewright.model.pod import NodeSelector
from nodewright.predicates.node_selector import matches_node

DeviceId = tuple[str, str, str]
"""Driver, pool and device."""
PoolId = tuple[str, str]


@dataclass(frozen=True, eq=False)
class Candidate:
    """A device of a pool. ``reaches``: the node of the search may use it (``perDeviceNodeSelection``)."""

    id: DeviceId
    device: Device
    pool: "Pool"
    reaches: bool
    is_local: bool
    node_selector: NodeSelector | None


@dataclass(eq=False)
class Pool:
    """One pool as a node sees it. An incomplete or invalid pool offers nothing.

    ``others`` are devices of the pool that the node does not reach; they use counters too.
    """

    id: PoolId
    is_incomplete: bool = False
    is_invalid: bool = False
    candidates: tuple[Candidate, ...] = ()
    others: tuple[tuple[DeviceId, Device], ...] = ()
    counters: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    @property
    def is_usable(self) -> bool:
        return not self.is_incomplete and not self.is_invalid


@dataclass(frozen=True, eq=False)
class NodePools:
    """All pools that a node reaches, in the order in which they are searched."""

    pools: tuple[Pool, ...]
    candidates: tuple[Candidate, ...]


class SliceIndex:
    """All slices of a cluster, with the taints of DeviceTaintRules, by node and by pool."""

    def __init__(self, slices: Iterable[ResourceSlice], rules: Iterable[DeviceTaintRule] = ()) -> None:
        self._of_node: dict[str, list[ResourceSlice]] = {}
        self._of_pool: dict[PoolId, list[ResourceSlice]] = {}
        self.shared: list[ResourceSlice] = []
        rules = tuple(rules)
        for one in slices:
            tainted = _with_rules(one, rules) if rules else one
            spec = tainted.spec
            self._of_pool.setdefault((spec.driver, spec.pool.name), []).append(tainted)
            if spec.node_name and not spec.shared_counters:
                self._of_node.setdefault(spec.node_name, []).append(tainted)
            else:
                self.shared.append(tainted)
        # A slice of shared counters usually names one node. If a shared slice names none, pools may span nodes.
        self.crosses_nodes = any(not one.spec.node_name for one in self.shared)
        self._shared_of: dict[str, list[ResourceSlice]] = {}
        for one in self.shared:
            self._shared_of.setdefault(one.spec.node_name if not self.crosses_nodes else "", []).append(one)

    def of_node(self, name: str) -> list[ResourceSlice]:
        """Return the slices of devices on a node."""
        return self._of_node.get(name, [])

    def gather(self, node: Node) -> NodePools:
        """Return the pools that a node can use: its own (``device_slices``) and the cluster's."""
        own = node.device_slices or self.of_node(node.name)
        shared = self.shared if self.crosses_nodes else self._shared_of.get(node.name, [])
        found: dict[PoolId, list[ResourceSlice]] = {}
        for one in (*own, *shared):
            if _is_relevant(one, node):
                _add_slice(found, one)
        pools = [pool for id_, slices in found.items() if (pool := self._build(id_, slices, node)) is not None]
        pools.sort(key=lambda pool: (_binds(pool), pool.id))
        usable = (pool.candidates for pool in pools if pool.is_usable)
        return NodePools(tuple(pools), tuple(one for candidates in usable for one in candidates))

    def _build(self, id_: PoolId, slices: list[ResourceSlice], node: Node) -> Pool | None:
        """Return a pool; None if its slices are obsolete: a newer generation has none for this node."""
        wanted = slices[0].spec.pool
        rest: list[ResourceSlice] = []
        if len(slices) != wanted.resource_slice_count:
            known = self._of_pool.get(id_, slices)  # a simulated node's pools are its own
            if any(one.spec.pool.generation > wanted.generation for one in known):
                return None
            same = [one for one in known if one.spec.pool.generation == wanted.generation]
            if len(same) != wanted.resource_slice_count:
                return Pool(id_, is_incomplete=True)
            seen = {one.name for one in slices}
            rest = [one for one in same if one.name not in seen]
        slices = sorted(slices, key=lambda one: one.name)
        return _build_pool(id_, slices, rest, node)


def _with_rules(one: ResourceSlice, rules: Sequence[DeviceTaintRule]) -> ResourceSlice:
    """Return the slice with the taints that the rules add."""
    devices = tuple(_tainted(one, device, rules) for device in one.spec.devices)
    if devices == one.spec.devices:
        return one
    return msgspec.structs.replace(one, spec=msgspec.structs.replace(one.spec, devices=devices))


def _tainted(one: ResourceSlice, device: Device, rules: Sequence[DeviceTaintRule]) -> Device:
    added = []
    for rule in rules:
        wanted = rule.spec.device_selector
        if (
            wanted is not None
            and wanted.driver in ("", one.spec.driver)
            and wanted.pool in ("", one.spec.pool.name)
            and wanted.device in ("", device.name)
        ):
            added.append(rule.spec.taint)
    return msgspec.structs.replace(device, taints=(*device.taints, *added)) if added else device


def _is_relevant(one: ResourceSlice, node: Node) -> bool:
    spec = one.spec
    if spec.shared_counters:
        return True
    if spec.node_name or spec.all_nodes or spec.node_selector is not None:
        return _reaches(node, spec.node_name, spec.node_selector, all_nodes=spec.all_nodes)
    if spec.per_device_node_selection:
        return any(_device_reaches(node, device) for device in spec.devices)
    return False


def _reaches(node: Node, name: str, selector: NodeSelector | None, *, all_nodes: bool) -> bool:
    if name:
        return node.name == name or bool(node.device_slices)
    if all_nodes:
        return True
    return selector is not None and matches_node(selector, node.metadata.labels, node.name)


def _device_reaches(node: Node, device: Device) -> bool:
    return _reaches(node, device.node_name, device.node_selector, all_nodes=device.all_nodes)


def _add_slice(found: dict[PoolId, list[ResourceSlice]], one: ResourceSlice) -> None:
    """Add a slice to its pool; a newer generation replaces older slices."""
    slices = found.setdefault((one.spec.driver, one.spec.pool.name), [])
    held = slices[0].spec.pool.generation if slices else one.spec.pool.generation
    if one.spec.pool.generation > held:
        slices.clear()
    if one.spec.pool.generation >= held:
        slices.append(one)


def _build_pool(id_: PoolId, slices: list[ResourceSlice], rest: list[ResourceSlice], node: Node) -> Pool:
    names = [device.name for one in slices if not one.spec.shared_counters for device in one.spec.devices]
    sets = [counters for one in slices for counters in one.spec.shared_counters]
    counters = {one.name: {name: c.value.nano for name, c in one.counters.items()} for one in sets}
    is_valid = (
        len(names) == len(set(names))
        and len(sets) == len(counters)
        and all(_counts(device, counters) for one in (*slices, *rest) for device in one.spec.devices)
    )
    if not is_valid:
        return Pool(id_, is_invalid=True)
    others = tuple(((*id_, device.name), device) for one in rest for device in one.spec.devices)
    pool = Pool(id_, others=others, counters=counters)
    pool.candidates = tuple(_candidates(pool, slices, node))
    return pool


def _candidates(pool: Pool, slices: list[ResourceSlice], node: Node) -> Iterator[Candidate]:
    for one in slices:
        spec = one.spec
        for device in spec.devices:
            if spec.per_device_node_selection:
                reaches, name, selector = _device_reaches(node, device), device.node_name, device.node_selector
            else:
                reaches, name, selector = True, spec.node_name, spec.node_selector
            is_local = bool(name) or device.binds_to_node
            yield Candidate((*pool.id, device.name), device, pool, reaches, is_local, selector)


def _counts(device: Device, counters: Mapping[str, Mapping[str, int]]) -> bool:
    """Return whether all counters that a device uses exist."""
    return all(
        use.counter_set in counters and use.counters.keys() <= counters[use.counter_set].keys()
        for use in device.consumes_counters
    )


def _binds(pool: Pool) -> bool:
    return any(candidate.device.binding_conditions for candidate in pool.candidates)
