"""What is asked of clouds about whole groups: make those that are to grow, delete those that stayed empty."""

from collections.abc import Collection, Iterator, Sequence

from nodewright.model.action import CreateNodeGroup, DeleteNodeGroup, IncreaseSize
from nodewright.model.duration import format_duration
from nodewright.model.group import GroupRef, GroupSpec
from nodewright.planner.plan import PlannedAction
from nodewright.planner.scale_up.context import ScaleUpContext


def with_creations(actions: Sequence[PlannedAction], ground: ScaleUpContext) -> Iterator[PlannedAction]:
    """The actions, with the creation of each group that does not exist before its first increase."""
    made: set[GroupRef] = set()
    for action in actions:
        spec = ground.new_groups.get(action.group)
        if spec is not None and action.group not in made and isinstance(action, IncreaseSize):
            made.add(action.group)
            yield CreateNodeGroup(group=action.group, spec=spec, reason=_reason(spec))
        yield action


def delete_empty_groups(ground: ScaleUpContext, busy: Collection[GroupRef]) -> list[DeleteNodeGroup]:
    """Groups that were made for pods and have been empty for as long as a node must be unneeded; not ``busy`` ones."""
    settings, state = ground.settings, ground.state
    if not (settings.autoprovisioning.node_autoprovisioning_enabled and settings.scale_down.scale_down_enabled):
        return []
    found = []
    for ref, since in state.memory.empty_since.items():
        if ref in busy or ref not in state.groups:
            continue
        patience = state.groups[ref].seen.options.scale_down_unneeded_seconds
        if since + patience < state.now:
            reason = f"empty for {format_duration(round(state.now - since))}"
            found.append(DeleteNodeGroup(group=ref, reason=reason))
    return found


def _reason(spec: GroupSpec) -> str:
    """``machine type big; labels team=a; taints team=a:NoSchedule``."""
    said = [f"machine type {spec.machine_type}"]
    said += (
        [f"labels {', '.join(f'{key}={value}' for key, value in sorted(spec.labels.items()))}"] if spec.labels else []
    )
    taints = ", ".join(f"{taint.key}={taint.value}:{taint.effect}" for taint in spec.taints)
    return "; ".join([*said, f"taints {taints}"] if taints else said)
