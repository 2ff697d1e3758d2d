"""Learned templates: how real nodes differ from their provider's template (docs/adr/0035-learned-templates.md).

The file is long because what is learned, compared and forgotten is the same set of facts.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from hashlib import sha256
from itertools import islice, takewhile
from typing import NamedTuple

from msgspec.structs import replace

from nodewright.clusterstate.membership import Membership
from nodewright.clusterstate.memory import (
    Correction,
    LearnedTemplate,
    Memory,
    Purchases,
    ShownNode,
    TemplateEvidence,
    YoungNode,
)
from nodewright.clusterstate.node_samples import STABLE_SECONDS, STANDARD_RESOURCES, is_passing, is_stable, is_usable
from nodewright.clusterstate.readiness import is_reported_ready, ready_since
from nodewright.model.devices import ResourcePool, ResourceSliceSpec
from nodewright.model.duration import format_duration
from nodewright.model.group import DEPRECATED_LABELS, PLACE_PREFIXES, GroupRef
from nodewright.model.meta import Resources
from nodewright.model.node import HOSTNAME_LABEL, CsiNodeDriver, Node, Taint
from nodewright.model.pod import Pod
from nodewright.model.policy import Policy
from nodewright.model.quantity import Quantity
from nodewright.model.settings import TemplateSettings
from nodewright.snapshot.observation import GroupSeen, Observation
from nodewright.snapshot.requests import exact_requests

# How many of a group's last nodes count, including those that are gone.
KEPT_NODES = 3
# A difference of an amount below this share is not reported.
TOLD_SHARE = 0.02
# Taints of the node readiness controller describe the state of one node.
READINESS_PREFIX = "readiness.k8s.io/"
HOUR, DAY = 3600.0, 24 * 3600.0
# Seconds after which, if no real node has been seen, the provider's template is used without corrections again.
KEPT_SECONDS = 7 * DAY
# How long a node must be ready before a missing device counts, and how long that is remembered without a real node.
_LACK_SECONDS, _LACK_KEPT_SECONDS = 600.0, DAY
# The longest time for which devices are awaited, and the factor by which they may be later than ever before.
_LONGEST_SETTLING, _MARGIN = 900.0, 1.5
# Seconds for which results from settled nodes are reused: the devices and static pods of a node seldom change.
_HELD_SECONDS = 600.0
# Times are rounded down to multiples of this, so that not every loop has something new to save.
_COARSE_SECONDS = 6 * HOUR
# Bounds of what is saved for one group: labels that its template does not name, and devices.
_MOST_LABELS, _MOST_DEVICES = 32, 16
# The annotation of a DaemonSet with the version of its template, and the label of a pod with the version it was made from.
_TEMPLATE_VERSION, _POD_VERSION = "deprecated.daemonset.template.generation", "pod-template-generation"
_LABEL, _TAINT, _DEVICES = "label ", "taint ", "devices of "


class WrongPart(NamedTuple):
    """A part of a template that is wrong: its subject, such as ``memory`` or ``label disk``, and the two values."""

    subject: str
    said: str
    found: str

    def __str__(self) -> str:
        return f"{self.subject}: the provider says {self.said}, real nodes have {self.found}"


class Learned(NamedTuple):
    templates: Mapping[GroupRef, LearnedTemplate]
    young_nodes: Mapping[str, YoungNode]
    evidence: Mapping[GroupRef, TemplateEvidence]


def learn_templates(
    memory: Memory,
    members: Membership,
    groups: Mapping[GroupRef, GroupSeen],
    seen: Observation,
    settings: TemplateSettings,
    policy: Policy,
) -> Learned:
    """Return what is known of the groups' real nodes now; nothing under profile "ca"."""
    templates, young = dict[GroupRef, LearnedTemplate](), dict[str, YoungNode]()
    evidence = dict[GroupRef, TemplateEvidence]()
    for ref, group in groups.items() if policy.learns_templates else ():
        held = memory.learned.get(ref)
        if group.template is None:
            if held is not None:
                templates[ref] = held
            continue
        nodes = members.keep((learn_templates, ref), None, partial(_newest_first, members.nodes.get(ref, ())))
        known = memory.template_evidence.get(ref)
        if held is not None and known is not None and _still_holds(known, group.template, nodes, seen.now):
            templates[ref], evidence[ref] = held, known
            continue
        held = _of_template(held, ref, group.template, members, memory, seen.now)
        last: list[Node] = []
        if nodes:
            held = _with_young(held, nodes, memory, seen, settings, young)
            current = takewhile(partial(_is_current, held), nodes)
            usable = (node for node in current if is_usable(node, members.accelerators, settings))
            last += islice(usable, KEPT_NODES)
            if last:
                held = _with_amounts(held, last, group.template, seen.now)
                settled = [node for node in last if is_stable(node, seen.now, settling_seconds(held))]
                held = _with_marks(held, settled, group.template, seen, settings, young)
        templates[ref] = _told(_without_old(held, seen.now))
        if last == nodes[:KEPT_NODES] and _are_old(last, held, seen.now):
            evidence[ref] = TemplateEvidence(group.template, tuple(last), seen.now + _HELD_SECONDS)
    return Learned(templates, young, evidence)


def _are_old(nodes: Sequence[Node], held: LearnedTemplate, now: float) -> bool:
    """Return whether these nodes (newest first) are so old that time alone reveals nothing new about them."""
    if not nodes or nodes[0].created + HOUR >= now:
        return False
    return all(is_stable(node, now, max(_LACK_SECONDS, settling_seconds(held))) for node in nodes)


def _still_holds(known: TemplateEvidence, template: Node, nodes: Sequence[Node], now: float) -> bool:
    """Return whether the template and the last nodes are the same as a short time ago."""
    if not known.again_at - _HELD_SECONDS <= now < known.again_at or len(known.nodes) != min(len(nodes), KEPT_NODES):
        return False
    is_same = all(was is node for was, node in zip(known.nodes, nodes, strict=False))
    return is_same and (known.template is template or known.template == template)


def end_pauses(
    purchases: Purchases, before: Mapping[GroupRef, LearnedTemplate], now: Mapping[GroupRef, LearnedTemplate]
) -> Purchases:
    """Return the purchases without the pauses of groups whose provider's template changed: it may be right now."""
    fresh = {ref for ref in purchases if ref in now and ref in before and _print(before[ref]) != _print(now[ref])}
    if not fresh:
        return purchases
    return {
        ref: {kind: replace(one, until=0.0) for kind, one in kinds.items()} if ref in fresh else kinds
        for ref, kinds in purchases.items()
    }


def find_news(
    before: Mapping[GroupRef, LearnedTemplate], now: Mapping[GroupRef, LearnedTemplate]
) -> dict[GroupRef, tuple[str, ...]]:
    """Return the differences, in words, that are found for the first time."""
    found = dict[GroupRef, tuple[str, ...]]()
    for ref, held in now.items():
        known = before[ref].told if ref in before and _print(before[ref]) == _print(held) else ()
        fresh = set(held.told).difference(known)
        if fresh:
            found[ref] = tuple(str(one) for one in find_differences(held) if one.subject in fresh)
    return found


def settling_seconds(held: LearnedTemplate | None) -> float:
    """Return for how many seconds a node must have been ready before all its devices are expected to show."""
    late = held.device_seconds * _MARGIN if held is not None else 0.0
    return max(STABLE_SECONDS, min(late, _LONGEST_SETTLING))


def is_startup_of(held: LearnedTemplate | None, taint: Taint) -> bool:
    """Return whether new nodes of a group lose such a taint, or it describes the readiness of one node."""
    return held is not None and (taint.key.startswith(READINESS_PREFIX) or taint.key in held.startup_taints)


def with_least(node: Node, held: LearnedTemplate) -> Node:
    """Return a real node with the least amounts of the last real nodes."""
    least = dict(node.allocatable)
    for shown in held.nodes:
        for name, amount in shown.amounts.items():
            if name in STANDARD_RESOURCES and name in least and amount.found is not None:
                least[name] = min(least[name], Quantity.of(amount.found))
    return node if least == node.allocatable else replace(node, status=replace(node.status, allocatable=least))


def corrected(template: Node, held: LearnedTemplate) -> Node:
    """Return a provider's template as the last real nodes show it."""
    allocatable, capacity = dict(template.allocatable), dict(template.status.capacity)
    for name, amount in _least(held).items():
        if amount.found is None:
            allocatable.pop(name, None)
        else:
            allocatable[name] = Quantity.of(amount.found)
            capacity[name] = max(capacity.get(name, allocatable[name]), allocatable[name])
    labels, taints = dict(template.metadata.labels), list(template.spec.taints)
    for subject, correction in held.corrections.items():
        if subject.startswith(_LABEL):
            labels.pop(subject.removeprefix(_LABEL), None)
            if correction.found is not None:
                labels[subject.removeprefix(_LABEL)] = correction.found
        elif subject.startswith(_TAINT):
            key, _, effect = subject.removeprefix(_TAINT).rpartition(":")
            taints = [taint for taint in taints if (taint.key, taint.effect) != (key, effect)]
            if correction.found is not None:
                taints.append(Taint(key=key, effect=effect, value=correction.found))
    return replace(
        template,
        metadata=replace(template.metadata, labels=labels),
        spec=replace(template.spec, taints=tuple(taints)),
        status=replace(template.status, allocatable=allocatable, capacity=capacity),
    )


def find_differences(held: LearnedTemplate) -> Iterator[WrongPart]:
    """Yield the wrong parts of the provider's template. Amounts count from a difference of 2 % on.

    A part that only real nodes have does not count: a template need not name everything.
    """
    for name, amount in sorted(_least(held).items()):
        if amount.said is None:
            continue
        if amount.found is None:
            yield WrongPart(name, _readable(name, amount.said), "none")
            continue
        said, found = Quantity.of(amount.said).nano, Quantity.of(amount.found).nano
        if said and abs(found - said) / said >= TOLD_SHARE:
            share = f"({(found - said) / said:+.0%})"
            yield WrongPart(name, _readable(name, amount.said), f"{_readable(name, amount.found)} {share}")
    for subject, correction in sorted(held.corrections.items()):
        if correction.said is not None or subject.startswith(_TAINT):
            yield WrongPart(subject, _shown(correction.said), _shown(correction.found))


def describe(held: LearnedTemplate) -> Iterator[str]:
    """Yield a line for each difference, and for each other property that real nodes showed."""
    yield from map(str, find_differences(held))
    if held.startup_taints:
        yield f"new nodes lose these taints soon after they are ready: {', '.join(held.startup_taints)}"
    if held.device_seconds:
        yield f"devices came up to {format_duration(round(held.device_seconds))} after a node was ready"
    if held.static_pods:
        yield f"static pods request {_list_amounts(held.static_pods)}"
    if held.daemon_extra:
        yield f"DaemonSet pods request {_list_amounts(held.daemon_extra)} more than their DaemonSets say"


def _list_amounts(amounts: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {_readable(name, amount)}" for name, amount in amounts.items())


def _readable(name: str, amount: str) -> str:
    """Return an amount of bytes in GiB, others as they are."""
    if name not in ("memory", "ephemeral-storage"):
        return amount
    return f"{Quantity.of(amount).value / 2**30:.2f}".rstrip("0").rstrip(".") + "Gi"


def _shown(value: str | None) -> str:
    return "none" if value is None else value or '""'


def _told(held: LearnedTemplate) -> LearnedTemplate:
    """Return the template with all reported subjects. They are not reported again while the template stays the same."""
    subjects = tuple(sorted({*held.told, *(one.subject for one in find_differences(held))}))
    return held if subjects == held.told else replace(held, told=subjects)


def _of_template(
    held: LearnedTemplate | None, ref: GroupRef, template: Node, members: Membership, memory: Memory, now: float
) -> LearnedTemplate:
    """Return what is still valid for this template of the provider: less or nothing after a change."""
    machine, marks = members.keep((_of_template, ref), (template,), lambda: (_machine(template), _marks(template)))
    if held is None:
        return LearnedTemplate(machine=machine, marks=marks)
    if (held.machine, held.marks) == (machine, marks):
        return held
    # Machines under way were asked for with the former template.
    since = max((now, *(request.deadline for request in memory.requests.get(ref, ()))))
    said = dict(_subjects(template, DEPRECATED_LABELS))
    kept = {subject: one for subject, one in held.corrections.items() if one.said == said.get(subject)}
    if held.machine != machine:
        kept = {subject: one for subject, one in kept.items() if not subject.startswith(_DEVICES)}
        return LearnedTemplate(
            machine=machine,
            marks=marks,
            since=since,
            shown_at=held.shown_at,
            corrections=kept,
            startup_taints=held.startup_taints,
        )
    return replace(held, marks=marks, since=since, corrections=kept, told=())


def _print(held: LearnedTemplate) -> tuple[str, str]:
    return held.machine, held.marks


def _machine(template: Node) -> str:
    """Return a hash of a template's amounts and devices that is stable over restarts."""
    offered = [sorted((name, amount.nano) for name, amount in one.items()) for one in _amounts_of(template)]
    slices = [(one.spec.driver, one.spec.devices, one.spec.shared_counters) for one in template.device_slices]
    return _hash((offered, slices))


def _amounts_of(template: Node) -> tuple[Resources, Resources]:
    return template.status.capacity, template.status.allocatable


def _marks(template: Node) -> str:
    return _hash(sorted(_subjects(template, frozenset())))


def _hash(value: object) -> str:
    return sha256(repr(value).encode()).hexdigest()[:12]


def _subjects(template: Node, without: frozenset[str]) -> Iterator[tuple[str, str]]:
    """Yield labels, taints and numbers of devices by subject, as ``corrections`` names them."""
    for key, value in template.metadata.labels.items():
        if key != HOSTNAME_LABEL and key not in without:
            yield f"{_LABEL}{key}", value
    for taint in template.spec.taints:
        yield f"{_TAINT}{taint.key}:{taint.effect}", taint.value
    for driver, count in _count_devices(one.spec for one in template.device_slices).items():
        yield f"{_DEVICES}{driver}", str(count)


def _count_devices(slices: Iterable[ResourceSliceSpec]) -> Counter[str]:
    found = Counter[str]()
    for one in slices:
        found[one.driver] += len(one.devices)
    return found


def _newest_first(nodes: Iterable[Node]) -> Sequence[Node]:
    return sorted(nodes, key=lambda node: node.created, reverse=True)


def _is_current(held: LearnedTemplate, node: Node) -> bool:
    """Return whether a node was made from the current template."""
    return node.created >= held.since or not held.since


def _with_young(
    held: LearnedTemplate,
    nodes: Iterable[Node],
    memory: Memory,
    seen: Observation,
    settings: TemplateSettings,
    young: dict[str, YoungNode],
) -> LearnedTemplate:
    """Note the taints and devices of new nodes in ``young``; return how late devices come, and which taints pass."""
    latest, startup = held.device_seconds, set(held.startup_taints)
    for node in nodes:
        if node.created + HOUR < seen.now:
            break
        before = memory.young_nodes.get(node.name)
        devices = frozenset(_devices_on(node, seen))
        taints = {f"{taint.key}:{taint.effect}" for taint in node.spec.taints if not is_passing(taint, settings)}
        is_up, since = is_reported_ready(node), ready_since(node)
        is_new = since + _LONGEST_SETTLING >= seen.now
        if before is not None and is_up and devices - before.devices and memory.looked_at >= since:
            latest = max(latest, float(round(seen.now - since)))
        if is_up and is_stable(node, seen.now):
            first = before.taints if before is not None else frozenset[str]()
            startup |= {taint.rpartition(":")[0] for taint in first - taints if is_new}
            startup -= {taint.rpartition(":")[0] for taint in first & taints if is_new}
            taints = set(first)
        elif before is not None:
            taints |= before.taints
        young[node.name] = YoungNode(frozenset(taints), devices)
    return replace(held, device_seconds=latest, startup_taints=tuple(sorted(startup)))


def _devices_on(node: Node, seen: Observation) -> Iterator[str]:
    """Yield the special resources that a node offers, and the drivers of its devices."""
    yield from (name for name, amount in node.allocatable.items() if _is_device(name) and amount.nano > 0)
    yield from (one.spec.driver for one in seen.snapshot.context.slices_on(node.name))


def _is_device(name: str) -> bool:
    return name not in STANDARD_RESOURCES and not name.startswith(("hugepages-", "attachable-volumes-"))


def _with_amounts(held: LearnedTemplate, nodes: Sequence[Node], template: Node, now: float) -> LearnedTemplate:
    """Return what is known after these nodes (newest first) showed their amounts."""
    names = {node.name for node in nodes}
    settling = settling_seconds(held)
    shown = [ShownNode(node.name, node.created, _amounts(node, template, now, settling)) for node in nodes]
    shown += [one for one in held.nodes if one.name not in names]
    shown.sort(key=lambda one: one.created, reverse=True)
    return replace(held, nodes=tuple(shown[:KEPT_NODES]), shown_at=now // _COARSE_SECONDS * _COARSE_SECONDS)


def _with_marks(
    held: LearnedTemplate,
    nodes: Sequence[Node],
    template: Node,
    seen: Observation,
    settings: TemplateSettings,
    young: Mapping[str, YoungNode],
) -> LearnedTemplate:
    """Return what is known after these settled nodes (newest first) showed labels, taints, devices and drivers."""
    newest = next(iter(nodes), None)
    if newest is None or any(one.created > newest.created for one in held.nodes if one.name == held.marks_of):
        return held  # a newer node that is gone has shown these
    context = seen.snapshot.context
    specs = [one.spec for one in context.slices_on(newest.name)]
    csi = context.csi_nodes.get(newest.name)
    corrections = dict(_marks_of(newest, nodes, template, held, settings, young))
    corrections |= _devices_of(specs, template, seen.now - ready_since(newest))
    return replace(
        held,
        marks_of=newest.name,
        corrections=dict(sorted(corrections.items())),
        slices=_plain(specs) if any(subject.startswith(_DEVICES) for subject in corrections) else (),
        csi_drivers=_drivers(csi.spec.drivers) if csi is not None else (),
        static_pods=_static_pods(newest, seen),
        daemon_extra=_daemon_extra(newest, seen),
    )


def _amounts(node: Node, template: Node, now: float, settling: float) -> dict[str, Correction]:
    """Return the amounts that differ: the usual ones at once, devices of a settled node, and their lack still later."""
    has, says = node.allocatable, template.allocatable
    found = dict[str, Correction]()
    for name in sorted({*has, *says}):
        mine, its = has.get(name), says.get(name)
        if mine == its or name.startswith(("hugepages-", "attachable-volumes-")):
            continue
        if _is_device(name) and not is_stable(node, now, settling):
            continue
        lacks = _is_device(name) and its is not None and its.nano > 0 and (mine is None or mine.nano == 0)
        if lacks and not is_stable(node, now, _LACK_SECONDS):
            continue
        given = None if mine is None or lacks else str(mine)
        if given is not None or lacks:
            found[name] = Correction(str(its) if its is not None else None, given)
    return found


def _marks_of(
    node: Node,
    alike: Sequence[Node],
    template: Node,
    held: LearnedTemplate,
    settings: TemplateSettings,
    young: Mapping[str, YoungNode],
) -> Iterator[tuple[str, Correction]]:
    """Yield the labels and taints of a node that differ from the template."""
    has, says = node.metadata.labels, template.metadata.labels
    for key in says:
        is_own = key == HOSTNAME_LABEL or key in DEPRECATED_LABELS or key.startswith(PLACE_PREFIXES)
        if not is_own and has.get(key) != says[key]:
            yield f"{_LABEL}{key}", Correction(says[key], has.get(key))
    added = [key for key in sorted(has) if key not in says and _is_common(key, has[key], alike)]
    # Pods and volumes ask for a node's place more often than for one of its many features: places come first.
    for key in sorted(added, key=lambda key: not key.startswith(PLACE_PREFIXES))[:_MOST_LABELS]:
        yield f"{_LABEL}{key}", Correction(None, has[key])
    told = _lasting(template.spec.taints, held, settings)
    real = _lasting(node.spec.taints, held, settings)
    first = young[node.name].taints if node.name in young else frozenset[str]()
    for subject in sorted({*told, *real}):
        if told.get(subject) == real.get(subject):
            continue
        # A user may have tainted this node alone: a taint counts only if the node came with it.
        if subject in told or subject.removeprefix(_TAINT) in first or subject in held.corrections:
            yield subject, Correction(told.get(subject), real.get(subject))


def _is_common(key: str, value: str, alike: Iterable[Node]) -> bool:
    """Return whether a label's value is that of all these nodes, and not derived from one's name."""
    if key == HOSTNAME_LABEL or key in DEPRECATED_LABELS:
        return False
    return all(node.metadata.labels.get(key) == value and node.name not in value for node in alike)


def _lasting(taints: Iterable[Taint], held: LearnedTemplate, settings: TemplateSettings) -> dict[str, str]:
    lasting = (taint for taint in taints if not (is_passing(taint, settings) or is_startup_of(held, taint)))
    return {f"{_TAINT}{taint.key}:{taint.effect}": taint.value for taint in lasting}


def _devices_of(specs: Iterable[ResourceSliceSpec], template: Node, ready: float) -> dict[str, Correction]:
    real, told = _count_devices(specs), _count_devices(one.spec for one in template.device_slices)
    return {
        f"{_DEVICES}{driver}": Correction(
            str(told[driver]) if driver in told else None, str(real[driver]) if driver in real else None
        )
        for driver in sorted({*real, *told})
        if real[driver] != told[driver] and (driver in real or ready > _LACK_SECONDS)
    }


def _plain(specs: Sequence[ResourceSliceSpec]) -> tuple[ResourceSliceSpec, ...]:
    """Return slices without the names of their node and pools; none if there are too many devices to be saved."""
    if sum(len(one.devices) for one in specs) > _MOST_DEVICES:
        return ()
    pools = {name: str(number) for number, name in enumerate(dict.fromkeys(one.pool.name for one in specs))}
    return tuple(replace(one, node_name="", pool=ResourcePool(name=pools[one.pool.name])) for one in specs)


def _drivers(drivers: Iterable[CsiNodeDriver]) -> tuple[CsiNodeDriver, ...]:
    return tuple(sorted(drivers, key=lambda driver: driver.name))


def _static_pods(node: Node, seen: Observation) -> dict[str, str]:
    """Return the requests of all static pods of a node together."""
    total = Counter[str]()
    for pod in seen.snapshot.pods(seen.snapshot.row(node.name)):
        if pod.is_mirror:
            total.update(exact_requests(pod, placed=True))
    return {name: str(Quantity(nano)) for name, nano in sorted(total.items()) if nano}


def _daemon_extra(node: Node, seen: Observation) -> dict[str, str]:
    """Return what the DaemonSet pods of a node request together beyond the templates of their DaemonSets.

    The difference comes from an admission webhook that adds a container, or from an owner that is not a DaemonSet of
    Kubernetes. Pods that a rolling update has yet to replace do not count.
    """
    known = {(one.metadata.namespace, one.metadata.name): one for one in seen.daemon_sets}
    total = Counter[str]()
    for pod in seen.snapshot.pods(seen.snapshot.row(node.name)):
        if pod.is_mirror or not pod.is_daemonset_pod or pod.metadata.deletion_timestamp is not None:
            continue
        owner, said = pod.metadata.controller, dict[str, int]()
        daemon_set = known.get((pod.metadata.namespace, owner.name)) if owner is not None else None
        if daemon_set is not None:
            version = daemon_set.metadata.annotations.get(_TEMPLATE_VERSION)
            if pod.metadata.labels.get(_POD_VERSION, version) != version:
                continue
            said = exact_requests(Pod(spec=daemon_set.spec.template.spec), placed=False)
        for name, nano in exact_requests(pod, placed=True).items():
            total[name] += max(0, nano - said.get(name, 0))
    return {name: str(Quantity(nano)) for name, nano in sorted(total.items()) if nano}


def _least(held: LearnedTemplate) -> dict[str, Correction]:
    """Return the least amount of the last nodes for each resource that differs."""
    found = dict[str, Correction]()
    for name in sorted({name for one in held.nodes for name in one.amounts}):
        shown = [one.amounts[name] for one in held.nodes if name in one.amounts]
        said = shown[0].said
        # A node without the resource among its differences has what the template says.
        values = [one.found for one in shown] + [said] * (len(held.nodes) - len(shown))
        if shown[0].found is None:
            found[name] = Correction(said, None)
            continue
        given = [Quantity.of(value) for value in values if value is not None]
        least = str(min(given))
        if least != said:
            found[name] = Correction(said, least)
    return found


def _without_old(held: LearnedTemplate, now: float) -> LearnedTemplate:
    """Return the template without what no real node has shown for a long time."""
    if not held.shown_at:
        return held
    if now > held.shown_at + _COARSE_SECONDS + KEPT_SECONDS:
        return LearnedTemplate(machine=held.machine, marks=held.marks, since=held.since)
    if now <= held.shown_at + _COARSE_SECONDS + _LACK_KEPT_SECONDS:
        return held
    nodes = tuple(
        one._replace(amounts={name: amount for name, amount in one.amounts.items() if amount.found is not None})
        for one in held.nodes
    )
    return held if nodes == held.nodes else replace(held, nodes=nodes)
