"""Node groups made on demand (docs/autoprovisioning.md).

Groups that a provider could make are offered to scale-up as empty groups that may grow. A chosen one is created before
its first increase, and deleted once it has been empty for long enough.
"""

import hashlib
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random

from msgspec.structs import replace as changed

from nodewright.clusterstate.backoff import is_active
from nodewright.clusterstate.memory import Backoff
from nodewright.clusterstate.observed_groups import any_new_group
from nodewright.clusterstate.state import ClusterState, GroupState
from nodewright.model.action import CreateNodeGroup, DeleteNodeGroup, IncreaseSize
from nodewright.model.duration import format_duration
from nodewright.model.group import (
    ErrorClass,
    GroupOptions,
    GroupRef,
    MachineType,
    NewNodeGroup,
    NodeGroup,
    make_template_node,
)
from nodewright.model.meta import Requirement
from nodewright.model.node import Taint
from nodewright.model.plan import PlannedAction
from nodewright.model.pod import NodeSelectorTerm, PodSpec, Toleration
from nodewright.model.quantity import ZERO
from nodewright.model.settings import default_options
from nodewright.planner.context import PlanningContext
from nodewright.planner.scale_up.templates import make_templates
from nodewright.snapshot.observation import GroupSeen, ProviderSeen

# Maximum size of the groups that are made, as in CA.
MAX_SIZE = 1000
# The most different requirements that one loop examines. If there are more, it examines a random sample, so that each of
# them has its turn.
_MOST_REQUIREMENTS = 20
_LONGEST_NAME = 40
_NO_MACHINES = (ErrorClass.OUT_OF_RESOURCES, ErrorClass.QUOTA)
# Only the first terms of a node affinity are tried; a pod needs any one of them.
_MOST_TERMS = 4
# Domains of labels that kubelets, clouds and Kubernetes set: no group is made with such labels.
_RESERVED = ("kubernetes.io", "k8s.io")
_REPELLING = ("NoSchedule", "NoExecute")


@dataclass(frozen=True)
class GroupRequirements:
    """The demands of pods on a group besides room.

    ``labels``: labels that they select. ``taints``: taints that they tolerate and that keep other pods off. ``has_device``:
    they request an accelerator.
    """

    labels: tuple[tuple[str, str], ...] = ()
    taints: tuple[Taint, ...] = ()
    has_device: bool = False


def offer_groups(context: PlanningContext, specs: Iterable[PodSpec], random: Random) -> PlanningContext:
    """Return the context with every group that providers could make for such pods, if autoprovisioning is on."""
    makers = _makers(context)
    if not makers:
        return context
    wanted = find_requirements(specs, context.accelerators.resources)
    if len(wanted) > _MOST_REQUIREMENTS:
        wanted = random.sample(wanted, _MOST_REQUIREMENTS)
    found = {
        ref: (spec, kind)
        for provider in makers
        for kind in provider.machine_types
        for spec in _specs(kind, wanted, context.accelerators.resources)
        if (ref := GroupRef(provider.name, spec.group_id)) not in context.state.groups
    }
    if not found:
        return context
    capabilities = {provider.name: provider.capabilities for provider in makers}
    options = default_options(context.settings)
    states = {
        ref: GroupState(
            seen=replace(_as_seen(ref, spec, kind, options), capabilities=capabilities[ref.provider]),
            backoff=_backoff(ref, kind, context.state),
            deferral=context.state.memory.deferrals.get(ref),
        )
        for ref, (spec, kind) in found.items()
    }
    return _with_groups(context, states, {ref: spec for ref, (spec, _) in found.items()})


def _makers(context: PlanningContext) -> list[ProviderSeen]:
    """Return the providers that can make groups now."""
    if not context.settings.autoprovisioning.node_autoprovisioning_enabled:
        return []
    providers = context.state.observation.providers.values()
    return [provider for provider in providers if provider.machine_types and not provider.problem]


def _specs(kind: MachineType, wanted: Iterable[GroupRequirements], devices: Iterable[str]) -> Iterator[NewNodeGroup]:
    """Yield a group of the machine type for each of the requirements that such a group can meet."""
    has_device = any(name in kind.template.allocatable and kind.template.allocatable[name].value for name in devices)
    for one in wanted:
        labels = {key: value for key, value in one.labels if key not in kind.template.labels}
        taints = tuple(taint for taint in one.taints if taint not in kind.template.taints)
        if one.has_device == has_device and (kind.takes_labels or not (labels or taints)):
            yield NewNodeGroup(
                group_id=_name(kind, labels, taints),
                machine_type=kind.name,
                max_size=MAX_SIZE,
                labels=labels,
                taints=taints,
            )


def _name(kind: MachineType, *details: object) -> str:
    """Return the group's id: a hash of its properties, so that it is the same in each loop and after a restart."""
    said = re.sub(r"[^a-z0-9]+", "-", kind.name.lower())[:_LONGEST_NAME].strip("-")
    digest = hashlib.sha256(repr((kind.name, details)).encode()).hexdigest()
    return f"{kind.id_prefix}{said}-{digest[:8]}"


def _as_seen(ref: GroupRef, spec: NewNodeGroup, kind: MachineType, options: GroupOptions) -> GroupSeen:
    """Return the group as a provider would list it once it exists."""
    template = kind.template
    labels, taints = {**template.labels, **spec.labels}, (*template.taints, *spec.taints)
    return GroupSeen(
        ref=ref,
        group=NodeGroup(id=ref.group_id, min_size=0, max_size=spec.max_size, autoprovisioned=spec.machine_type),
        target=0,
        instances=(),
        template=make_template_node(ref, changed(template, labels=labels, taints=taints)),
        options=options,
        price=kind.price,
    )


def _backoff(ref: GroupRef, kind: MachineType, state: ClusterState) -> Backoff | None:
    """Return the backoff of a group that does not exist yet; None: there is none.

    It is active if this group failed before, if the provider can make no group at all, or if the provider has no machines
    for an existing group of the same machine type.
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
    context: PlanningContext, states: dict[GroupRef, GroupState], specs: dict[GroupRef, NewNodeGroup]
) -> PlanningContext:
    state, seen = context.state, context.state.observation
    templates = make_templates(replace(state, groups=states), context.settings.templates)
    listed = {**seen.groups, **{ref: group.seen for ref, group in states.items()}}
    offered = replace(state, groups={**state.groups, **states}, observation=replace(seen, groups=listed))
    return replace(context, state=offered, templates={**context.templates, **templates}, new_groups=specs)


def find_requirements(specs: Iterable[PodSpec], devices: Collection[str]) -> list[GroupRequirements]:
    """Return the different requirements of these pods; ``devices`` are the resources that are accelerators."""
    different = {id(spec): spec for spec in specs}.values()
    return list(dict.fromkeys(one for spec in different for one in _requirements(spec, devices)))


def _requirements(spec: PodSpec, devices: Collection[str]) -> Iterator[GroupRequirements]:
    """Yield the requirements of each term of the pod's node affinity, any one of which is enough."""
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    required = affinity.required if affinity is not None else None
    terms = required.node_selector_terms[:_MOST_TERMS] if required is not None else (NodeSelectorTerm(),)
    has_device = _requests_any(spec, devices)
    for term in terms:
        chosen = dict(_choice(wanted) for wanted in term.match_expressions if wanted.operator == "In" and wanted.values)
        labels = {key: value for key, value in {**chosen, **(spec.node_selector or {})}.items() if _may_be_given(key)}
        taints = tuple(taint for toleration in spec.tolerations for taint in _guards(toleration, labels))
        yield GroupRequirements(tuple(sorted(labels.items())), tuple(dict.fromkeys(taints)), has_device)


def _choice(wanted: Requirement) -> tuple[str, str]:
    """Return a label that satisfies an ``In`` expression: its key and its first value."""
    return wanted.key, wanted.values[0]


def _may_be_given(key: str) -> bool:
    """Return whether a group may be made with this label: its domain is not a reserved one."""
    domain = key.partition("/")[0] if "/" in key else ""
    return not any(domain == reserved or domain.endswith(f".{reserved}") for reserved in _RESERVED)


def _guards(toleration: Toleration, labels: dict[str, str]) -> Iterator[Taint]:
    """Yield the taint that reserves a group for these pods, if they tolerate a key and value that they also select."""
    if toleration.operator in ("", "Equal") and labels.get(toleration.key) == toleration.value:
        effect = toleration.effect or "NoSchedule"
        if effect in _REPELLING:
            yield Taint(key=toleration.key, value=toleration.value, effect=effect)


def _requests_any(spec: PodSpec, devices: Collection[str]) -> bool:
    containers = (*spec.containers, *spec.init_containers)
    return any(
        name in devices and amount > ZERO
        for container in containers
        for amounts in (container.resources.requests, container.resources.limits)
        for name, amount in amounts.items()
    )


def with_creations(actions: Sequence[PlannedAction], context: PlanningContext) -> Iterator[PlannedAction]:
    """Yield the actions, with a CreateNodeGroup before the first increase of each group that does not exist."""
    made: set[GroupRef] = set()
    for action in actions:
        spec = context.new_groups.get(action.group)
        if spec is not None and action.group not in made and isinstance(action, IncreaseSize):
            made.add(action.group)
            yield CreateNodeGroup(group=action.group, spec=spec, reason=_reason(spec))
        yield action


def delete_empty_groups(context: PlanningContext, busy: Collection[GroupRef]) -> list[DeleteNodeGroup]:
    """Return deletions of groups that were made on demand and have been empty for as long as a node must be unneeded.

    Groups in ``busy`` are written to in this loop already and stay.
    """
    settings, state = context.settings, context.state
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


def _reason(spec: NewNodeGroup) -> str:
    """Describe a new group, as in ``machine type big; labels team=a; taints team=a:NoSchedule``."""
    said = [f"machine type {spec.machine_type}"]
    said += (
        [f"labels {', '.join(f'{key}={value}' for key, value in sorted(spec.labels.items()))}"] if spec.labels else []
    )
    taints = ", ".join(f"{taint.key}={taint.value}:{taint.effect}" for taint in spec.taints)
    return "; ".join([*said, f"taints {taints}"] if taints else said)
