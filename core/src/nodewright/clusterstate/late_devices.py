"""Find nodes whose drivers are ready (DRA), or not yet: one has not published all devices, or is not installed (CSI)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from nodewright.clusterstate.accelerators import Accelerators, serves_accelerators
from nodewright.clusterstate.memory import LearnedTemplate
from nodewright.model.devices import ResourceSlice, ResourceSliceSpec
from nodewright.model.group import GroupRef
from nodewright.model.node import Node
from nodewright.snapshot.context import Context
from nodewright.snapshot.observation import GroupSeen


def find_late_nodes(
    nodes: Mapping[GroupRef, Iterable[Node]],
    groups: Mapping[GroupRef, GroupSeen],
    samples: Mapping[GroupRef, str],
    learned: Mapping[GroupRef, LearnedTemplate],
    context: Context,
    young_since: float,
) -> frozenset[str]:
    """Return the nodes that lack a driver of their group's sample node, or whose pools of such a driver are incomplete.

    ``samples`` are the names of sample nodes. Device drivers in the group's template count too. On nodes that registered
    after ``young_since`` (epoch seconds) two more kinds count: drivers that the group's last real nodes had (``learned``),
    which may have been uninstalled since; and CSI drivers whose CSIDriver keeps pods off nodes without them, which may be
    missing for a moment on running nodes while they are updated.
    """
    lacking = _without_csi_drivers(nodes, samples, context)
    young = frozenset(node.name for node in lacking if node.created > young_since)
    return _without_devices(nodes, groups, samples, learned, context, young_since) | young


def find_published_nodes(nodes: Iterable[Node], accelerators: Accelerators, context: Context) -> frozenset[str]:
    """Return the nodes whose label names accelerators and on which a driver has published all of them as ResourceSlices."""
    if not (accelerators.labels and context.resource_slices):
        return frozenset()
    return frozenset(
        node.name
        for node in nodes
        if accelerators.count(node)[0]
        and any(map(serves_accelerators, _complete_drivers(context.slices_on(node.name))))
    )


def _without_csi_drivers(
    nodes: Mapping[GroupRef, Iterable[Node]], samples: Mapping[GroupRef, str], context: Context
) -> Iterator[Node]:
    """Yield the nodes without a CSI driver that their sample has and that pods with its volumes need to be scheduled."""
    needed = {name for name, told in context.csi_drivers.items() if told.spec.prevent_pod_scheduling_if_missing}
    for ref, name in samples.items() if needed else ():
        drivers = _csi_drivers(context, name) & needed
        if drivers:
            yield from (node for node in nodes.get(ref, ()) if not drivers <= _csi_drivers(context, node.name))


def _csi_drivers(context: Context, node: str) -> set[str]:
    found = context.csi_nodes.get(node)
    return {driver.name for driver in found.spec.drivers} if found is not None else set()


def _without_devices(
    nodes: Mapping[GroupRef, Iterable[Node]],
    groups: Mapping[GroupRef, GroupSeen],
    samples: Mapping[GroupRef, str],
    learned: Mapping[GroupRef, LearnedTemplate],
    context: Context,
    young_since: float,
) -> frozenset[str]:
    templates = {ref: group.template for ref, group in groups.items() if group.template is not None}
    promised = {ref: _drivers(one.spec for one in node.device_slices) for ref, node in templates.items()}
    promised = {ref: drivers for ref, drivers in promised.items() if drivers}
    of_young = {ref: _drivers(known.slices) for ref, known in learned.items() if known.slices}
    if not (context.resource_slices or promised or of_young):
        return frozenset()
    late = set[str]()
    for ref, held in nodes.items():
        drivers = promised.get(ref, frozenset())
        if ref in samples:
            drivers |= _drivers(one.spec for one in context.slices_on(samples[ref]))
        more = drivers | of_young.get(ref, frozenset())
        for node in held if more else ():
            wanted = more if node.created > young_since else drivers
            if not wanted <= _complete_drivers(context.slices_on(node.name)):
                late.add(node.name)
    return frozenset(late)


def _drivers(specs: Iterable[ResourceSliceSpec]) -> frozenset[str]:
    return frozenset(one.driver for one in specs)


def _complete_drivers(slices: Sequence[ResourceSlice]) -> frozenset[str]:
    """Return the drivers all of whose pools in these slices are complete in their newest generation."""
    newest = dict[tuple[str, str], int]()
    for one in slices:
        pool = (one.spec.driver, one.spec.pool.name)
        newest[pool] = max(newest.get(pool, 0), one.spec.pool.generation)
    torn = set[str]()
    for pool, generation in newest.items():
        of_pool = [one for one in slices if (one.spec.driver, one.spec.pool.name) == pool]
        found = [one for one in of_pool if one.spec.pool.generation == generation]
        if len(found) != found[0].spec.pool.resource_slice_count:
            torn.add(pool[0])
    return _drivers(one.spec for one in slices) - torn
