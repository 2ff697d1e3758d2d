"""Growing groups to their minimum (CA: --enforce-node-group-min-size, behaviour/up.md §4.13)."""

from collections.abc import Mapping

from nodewright.model.action import IncreaseSize
from nodewright.model.group import GroupRef
from nodewright.model.reason import ScaleUpResult
from nodewright.planner.candidates import ScaleUpContext, skip_reason
from nodewright.planner.plan import Expansion, ScaleUpReport
from nodewright.planner.scale_up import increases


def plan_min_sizes(ground: ScaleUpContext, grown: Mapping[GroupRef, int]) -> tuple[list[IncreaseSize], ScaleUpReport]:
    """An increase for every safe group below its minimum, within the cluster's limits.

    ``grown`` are the targets of groups that grow in this loop already.
    """
    added = sum(target - (ground.state.groups[ref].seen.target or 0) for ref, target in grown.items())
    left = ground.nodes_left - added if ground.nodes_left is not None else None
    expansions: list[Expansion] = []
    skipped = {}
    for ref, group in ground.state.groups.items():
        minimum = group.seen.group.min_size
        target = grown.get(ref, group.seen.target)
        if target is None or target >= minimum:
            continue
        reason = skip_reason(ground, ref)
        if reason is not None:
            skipped[ref] = reason
            continue
        wanted = _cap(ground, minimum - target, target, left)
        allowed, _ = ground.quota.allowed(ground.templates[ref].node, wanted)
        if allowed > 0:
            ground.quota.consume(ground.templates[ref].node, allowed)
            left = None if left is None else left - allowed
            maximum = group.seen.group.max_size
            expansions.append(Expansion(group=ref, current=target, target=target + allowed, maximum=maximum))
    result = ScaleUpResult.SUCCESSFUL if expansions else ScaleUpResult.NOT_NEEDED
    return increases(expansions), ScaleUpReport(result=result, expansions=tuple(expansions), skipped=skipped)


def _cap(ground: ScaleUpContext, wanted: int, target: int, left: int | None) -> int:
    """What the most nodes of the cluster leave. CA holds that number against the group's own size."""
    if left is None:
        return wanted
    if ground.settings.is_ca:
        return min(wanted, ground.settings.limits.max_nodes_total - target)
    return min(wanted, left)
