"""Groups that could be made: they are weighed beside those that exist, as empty groups that may grow."""

import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from random import Random

from msgspec.structs import replace as changed

from nodewright.clusterstate.backoff import is_active
from nodewright.clusterstate.memory import Backoff
from nodewright.clusterstate.new_groups import any_new_group
from nodewright.clusterstate.state import ClusterState, GroupState
from nodewright.model.group import ErrorClass, GroupRef, GroupSpec, MachineType, NodeGroup
from nodewright.model.pod import PodSpec
from nodewright.model.settings import Settings, default_options
from nodewright.model.template_node import make_template_node
from nodewright.planner.autoprovisioning.wants import Want, find_wants
from nodewright.planner.scale_up.context import ScaleUpContext
from nodewright.planner.scale_up.templates import make_templates
from nodewright.snapshot.observation import GroupSeen, ProviderSeen

# The largest group that is made, as in CA.
MAX_SIZE = 1000
# So many kinds of wants are looked at in a loop; where there are more, chance chooses, so that none is passed over for ever.
_MOST_WANTS = 20
_LONGEST_NAME = 40
_NO_MACHINES = (ErrorClass.OUT_OF_RESOURCES, ErrorClass.QUOTA)


def offer_groups(ground: ScaleUpContext, specs: Iterable[PodSpec], random: Random) -> ScaleUpContext:
    """The ground with every group that providers could make for such pods, if that is switched on."""
    makers = _makers(ground)
    if not makers:
        return ground
    wants = find_wants(specs, ground.accelerators.resources)
    if len(wants) > _MOST_WANTS:
        wants = random.sample(wants, _MOST_WANTS)
    found = {
        ref: (spec, kind)
        for provider in makers
        for kind in provider.machine_types
        for spec in _specs(kind, wants, ground.accelerators.resources)
        if (ref := GroupRef(provider.name, spec.group_id)) not in ground.state.groups
    }
    if not found:
        return ground
    capabilities = {provider.name: provider.capabilities for provider in makers}
    states = {
        ref: GroupState(
            seen=replace(_as_seen(ref, spec, kind, ground.settings), capabilities=capabilities[ref.provider]),
            backoff=_backoff(ref, kind, ground.state),
            deferral=ground.state.memory.deferrals.get(ref),
        )
        for ref, (spec, kind) in found.items()
    }
    return _with_groups(ground, states, {ref: spec for ref, (spec, _) in found.items()})


def _makers(ground: ScaleUpContext) -> list[ProviderSeen]:
    """The providers that make groups now."""
    if not ground.settings.autoprovisioning.node_autoprovisioning_enabled:
        return []
    providers = ground.state.observation.providers.values()
    return [provider for provider in providers if provider.machine_types and not provider.problem]


def _specs(kind: MachineType, wants: Iterable[Want], devices: Iterable[str]) -> Iterator[GroupSpec]:
    """A group of the machine type for each want that such a group can meet."""
    has_device = any(name in kind.template.allocatable and kind.template.allocatable[name].value for name in devices)
    for want in wants:
        labels = {key: value for key, value in want.labels if key not in kind.template.labels}
        taints = tuple(taint for taint in want.taints if taint not in kind.template.taints)
        if want.has_device == has_device and (kind.takes_labels or not (labels or taints)):
            yield GroupSpec(
                group_id=_name(kind, labels, taints),
                machine_type=kind.name,
                max_size=MAX_SIZE,
                labels=labels,
                taints=taints,
            )


def _name(kind: MachineType, *details: object) -> str:
    """The same for the same group, in every loop and after a restart, and another for any other."""
    said = re.sub(r"[^a-z0-9]+", "-", kind.name.lower())[:_LONGEST_NAME].strip("-")
    digest = hashlib.sha256(repr((kind.name, details)).encode()).hexdigest()
    return f"{kind.id_prefix}{said}-{digest[:8]}"


def _as_seen(ref: GroupRef, spec: GroupSpec, kind: MachineType, settings: Settings) -> GroupSeen:
    """The group as it would be listed."""
    template = kind.template
    labels, taints = {**template.labels, **spec.labels}, (*template.taints, *spec.taints)
    return GroupSeen(
        ref=ref,
        group=NodeGroup(id=ref.group_id, min_size=0, max_size=spec.max_size, autoprovisioned=spec.machine_type),
        target=0,
        instances=(),
        template=make_template_node(ref, changed(template, labels=labels, taints=taints)),
        options=default_options(settings),
        hourly_price=kind.hourly_price,
    )


def _backoff(ref: GroupRef, kind: MachineType, state: ClusterState) -> Backoff | None:
    """What speaks against making it: that it failed before, that nothing can be made, or that a group of the machine type
    that was made gets no machines.
    """
    held = state.memory.backoffs
    kin = (
        group.backoff
        for other, group in state.groups.items()
        if other.provider == ref.provider and group.seen.group.autoprovisioned == kind.name
    )
    out_of_stock = (backoff for backoff in kin if backoff is not None and backoff.error_class in _NO_MACHINES)
    reasons = (held.get(ref), held.get(any_new_group(ref.provider)), *out_of_stock)
    return next((backoff for backoff in reasons if is_active(backoff, state.now)), held.get(ref))


def _with_groups(
    ground: ScaleUpContext, states: dict[GroupRef, GroupState], specs: dict[GroupRef, GroupSpec]
) -> ScaleUpContext:
    state, seen = ground.state, ground.state.observation
    templates = make_templates(replace(state, groups=states), ground.settings.templates)
    listed = {**seen.groups, **{ref: group.seen for ref, group in states.items()}}
    offered = replace(state, groups={**state.groups, **states}, observation=replace(seen, groups=listed))
    return replace(ground, state=offered, templates={**ground.templates, **templates}, new_groups=specs)
