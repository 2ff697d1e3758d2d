"""Drift: nodes that differ from new nodes of their group.

A provider may report what a machine was made from. Of labels and taints only those count that changed in the group's template
while nodewright watched it: of others it is not known whether a node ever had what the template says. A change that does not
show on nodes created after it does not count either: otherwise nodes would be replaced again and again.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from msgspec.structs import replace

from nodewright.clusterstate.memory import TemplateHistory
from nodewright.clusterstate.readiness import STATUS_PREFIX, is_startup_taint
from nodewright.clusterstate.state import ClusterState, GroupState
from nodewright.model.group import DEPRECATED_LABELS, PLACE_PREFIXES, GroupRef
from nodewright.model.node import HOSTNAME_LABEL, Node, Taint
from nodewright.model.settings import RenewalSettings, TemplateSettings
from nodewright.snapshot.observation import GroupSeen, Observation

_MADE_FROM = "what it was made from"
# Prefixes of taints that describe the state of a node.
_STATES = ("node.kubernetes.io/", "node.cloudprovider.", STATUS_PREFIX)


class Drift(NamedTuple):
    """A node that differs from new nodes: since when (epoch seconds), and in what."""

    node: Node
    since: float
    why: str


def note_templates(
    held: Mapping[GroupRef, TemplateHistory], seen: Observation, renewal: RenewalSettings, settings: TemplateSettings
) -> Mapping[GroupRef, TemplateHistory]:
    """Return the traits of new nodes of each group, and when each trait last changed."""
    if not renewal.replace_drifted_nodes:
        return {}
    found = dict[GroupRef, TemplateHistory]()
    for ref, group in seen.groups.items():
        before = held.get(ref)
        is_told = group.is_known and (group.template is not None or before is None)
        if is_told:
            has_template = group.template is not None
            found[ref] = _noted(before, dict(_traits_of_group(group, settings)), seen.now, has_template=has_template)
        elif before is not None:
            found[ref] = before
    return found


def find_drift(state: ClusterState, settings: TemplateSettings) -> Iterator[Drift]:
    """Yield the nodes that differ from new nodes of their group."""
    nodes = dict[GroupRef, list[Node]]()
    for node in state.observation.snapshot.live_nodes() if state.memory.templates else ():
        ref = state.group_of_node.get(node.name)
        if ref is not None and ref in state.memory.templates and node.metadata.creation_timestamp is not None:
            nodes.setdefault(ref, []).append(node)
    for ref, own in nodes.items():
        group = state.groups.get(ref)
        if group is not None and state.observation.groups[ref].is_known:
            yield from _drift_of_group(group, state.memory.templates[ref], own, settings)


def _drift_of_group(
    group: GroupState, history: TemplateHistory, nodes: Iterable[Node], settings: TemplateSettings
) -> Iterator[Drift]:
    made = {one.id.lower(): one.made_from for one in group.seen.instances or ()}
    # A machine that was requested before the change may still come within these seconds.
    grace = group.seen.options.max_node_provision_seconds
    differing, doubtful = list[tuple[Node, list[str]]](), set[str]()
    for node in nodes:
        has = dict(_traits(node.metadata.labels, node.spec.taints, settings))
        has[_MADE_FROM] = made.get(node.spec.provider_id.lower(), "")
        found = [
            trait for trait in history.changed if _differs(has.get(trait, ""), history.traits.get(trait, ""), trait)
        ]
        differing.append((node, found))
        doubtful.update(trait for trait in found if node.created > history.changed[trait] + grace)
    for node, found in differing:
        traits = [trait for trait in found if trait not in doubtful]
        if traits:
            since = min(history.changed[trait] for trait in traits)
            yield Drift(node, since, f"new nodes of its group differ in {', '.join(traits)}")


def _differs(has: str, wanted: str, trait: str) -> bool:
    return has != wanted and (trait != _MADE_FROM or bool(has and wanted))


def _noted(held: TemplateHistory | None, traits: dict[str, str], now: float, *, has_template: bool) -> TemplateHistory:
    if held is None:
        changed = {_MADE_FROM: now} if _MADE_FROM in traits else {}
        return TemplateHistory(traits=traits, changed=changed, has_template=has_template)
    if has_template and not held.has_template:  # reading a template for the first time is not a change
        first = {trait: value for trait, value in traits.items() if trait != _MADE_FROM}
        held = replace(held, traits={**held.traits, **first}, has_template=True)
    if held.traits == traits:
        return held
    fresh = [trait for trait in {**held.traits, **traits} if held.traits.get(trait) != traits.get(trait)]
    return replace(held, traits=traits, changed={**held.changed, **dict.fromkeys(sorted(fresh), now)})


def _traits_of_group(group: GroupSeen, settings: TemplateSettings) -> Iterator[tuple[str, str]]:
    if group.group.made_from:
        yield _MADE_FROM, group.group.made_from
    if group.template is not None:
        yield from _traits(group.template.metadata.labels, group.template.spec.taints, settings)


def _traits(
    labels: Mapping[str, str], taints: Iterable[Taint], settings: TemplateSettings
) -> Iterator[tuple[str, str]]:
    for key, value in labels.items():
        if key != HOSTNAME_LABEL and key not in DEPRECATED_LABELS and not key.startswith(PLACE_PREFIXES):
            yield f"label {key}", value
    for taint in taints:
        is_status = taint.key in settings.status_taint or taint.key.startswith(_STATES)
        if not is_status and not is_startup_taint(taint.key, settings):
            yield f"taint {taint.key}:{taint.effect}", taint.value or "(no value)"
