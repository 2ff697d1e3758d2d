"""Growing groups to their minimum (CA: --enforce-node-group-min-size, behaviour/up.md §4.13)."""

from collections.abc import Collection

from nodewright.model.action import IncreaseSize
from nodewright.model.group import GroupRef
from nodewright.model.reason import ScaleUpResult
from nodewright.planner.candidates import Ground, skip_reason
from nodewright.planner.plan import Expansion, ScaleUpReport
from nodewright.planner.scale_up import increases


def plan_min_sizes(ground: Ground, taken: Collection[GroupRef]) -> tuple[list[IncreaseSize], ScaleUpReport]:
    """An increase for every safe group below its minimum, within the cluster's limits.

    Groups in ``taken`` grow in this loop already and are looked at again in the next.
    """
    left = ground.nodes_left
    expansions: list[Expansion] = []
    skipped = {}
    for ref, group in ground.state.groups.items():
        target, minimum = group.seen.target, group.seen.group.min_size
        if target is None or target >= minimum or ref in taken:
            continue
        reason = skip_reason(ground, ref)
        if reason is not None:
            skipped[ref] = reason
            continue
        wanted = minimum - target if left is None else min(minimum - target, left)
        allowed, _ = ground.quota.allowed(ground.templates[ref].node, wanted)
        if allowed > 0:
            ground.quota.consume(ground.templates[ref].node, allowed)
            left = None if left is None else left - allowed
            maximum = group.seen.group.max_size
            expansions.append(Expansion(group=ref, current=target, target=target + allowed, maximum=maximum))
    result = ScaleUpResult.SUCCESSFUL if expansions else ScaleUpResult.NOT_NEEDED
    return increases(expansions), ScaleUpReport(result=result, expansions=tuple(expansions), skipped=skipped)
