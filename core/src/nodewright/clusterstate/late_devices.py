"""Nodes on which a driver of dynamic resource allocation has not published all devices yet."""

from collections.abc import Iterable, Mapping, Sequence

from nodewright.model.devices import ResourceSlice
from nodewright.model.group import GroupRef
from nodewright.model.node import Node
from nodewright.snapshot.context import Context
from nodewright.snapshot.observation import GroupSeen


def find_late_nodes(
    nodes: Mapping[GroupRef, Iterable[Node]],
    groups: Mapping[GroupRef, GroupSeen],
    samples: Mapping[GroupRef, str],
    context: Context,
) -> frozenset[str]:
    """Return the nodes that lack complete pools of a driver which the group's template, or its sample node (``samples``: by name), has."""
    templates = {ref: group.template for ref, group in groups.items() if group.template is not None}
    promised = {ref: _drivers(node.device_slices) for ref, node in templates.items() if node.device_slices}
    if not context.resource_slices and not promised:
        return frozenset()
    late = set[str]()
    for ref, held in nodes.items():
        drivers = promised.get(ref, frozenset())
        if ref in samples:
            drivers |= _drivers(context.slices_on(samples[ref]))
        if drivers:
            late.update(node.name for node in held if not drivers <= _complete_drivers(context.slices_on(node.name)))
    return frozenset(late)


def _drivers(slices: Iterable[ResourceSlice]) -> frozenset[str]:
    return frozenset(one.spec.driver for one in slices)


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
    return _drivers(slices) - torn
