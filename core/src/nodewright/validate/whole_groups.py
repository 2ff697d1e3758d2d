"""May a node group be made, or deleted? Told from what was observed alone."""

from collections.abc import Iterator, Mapping

from msgspec.structs import replace as changed

from nodewright.model.action import CreateNodeGroup, DeleteNodeGroup
from nodewright.model.group import GroupRef, MachineType, NodeGroup
from nodewright.model.settings import Settings
from nodewright.model.template_node import make_template_node
from nodewright.snapshot.observation import GroupSeen, Observation

Groups = Mapping[GroupRef, GroupSeen]


def broken_by_creation(seen: Observation, groups: Groups, action: CreateNodeGroup, settings: Settings) -> Iterator[str]:
    """``groups`` are those observed and those made before it."""
    spec, limits = action.spec, settings.autoprovisioning
    if not limits.node_autoprovisioning_enabled:
        yield "--node-autoprovisioning-enabled is off"
    if action.group in groups:
        yield "the group exists already"
    if spec.group_id != action.group.group_id:
        yield f"it would be made as {spec.group_id}"
    if (
        sum(bool(group.group.autoprovisioned) for group in groups.values())
        >= limits.max_autoprovisioned_node_group_count
    ):
        yield f"more than --max-autoprovisioned-node-group-count={limits.max_autoprovisioned_node_group_count}"
    kind = _machine_type(seen, action)
    if kind is None:
        yield f"the provider makes no groups of {spec.machine_type}"
    elif any(kind.template.labels.get(key, value) != value for key, value in spec.labels.items()):
        yield "its labels contradict those of its machine type"


def broken_by_group_deletion(group: GroupSeen, action: DeleteNodeGroup, target: int) -> Iterator[str]:
    """``target`` is the group's after the actions before this one."""
    if not group.group.autoprovisioned:
        yield "somebody else made the group"
    if target or group.target or group.instances or group.failed or action.expected_target:
        yield "the group is not empty"


def as_made(seen: Observation, action: CreateNodeGroup) -> GroupSeen:
    """The group as it is once it is made."""
    spec, kind = action.spec, _machine_type(seen, action)
    assert kind is not None
    labels, taints = {**kind.template.labels, **spec.labels}, (*kind.template.taints, *spec.taints)
    template = changed(kind.template, labels=labels, taints=taints)
    return GroupSeen(
        ref=action.group,
        group=NodeGroup(id=spec.group_id, min_size=0, max_size=spec.max_size, autoprovisioned=spec.machine_type),
        target=0,
        instances=(),
        template=make_template_node(action.group, template),
    )


def _machine_type(seen: Observation, action: CreateNodeGroup) -> MachineType | None:
    provider = seen.providers.get(action.group.provider)
    kinds = provider.machine_types if provider is not None else ()
    return next((kind for kind in kinds if kind.name == action.spec.machine_type), None)
