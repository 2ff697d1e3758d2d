"""Find the machines that clouds are about to take: notices of providers, and taints and conditions of nodes."""

from collections.abc import Iterable, Iterator, Mapping

from msgspec.structs import replace

from nodewright.clusterstate.membership import Membership, names_of
from nodewright.clusterstate.memory import HeldNotice, Notices
from nodewright.model.group import FailureScope, GroupRef
from nodewright.model.interruption import InterruptionKind, NodeSignal, parse_signals
from nodewright.model.node import Node
from nodewright.model.policy import Policy
from nodewright.model.settings import InterruptionSettings
from nodewright.snapshot.observation import Observation

# The most certain kind is first: of several notices about a machine the most certain one counts.
_KINDS = (
    InterruptionKind.RECLAIM,
    InterruptionKind.MAINTENANCE,
    InterruptionKind.UNHEALTHY,
    InterruptionKind.REBALANCE,
)


def find_notices(
    held: Notices, seen: Observation, members: Membership, settings: InterruptionSettings, policy: Policy
) -> Notices:
    """Return one notice for each machine of a group about which a cloud or a node gives notice.

    A repeated notice keeps the time of the first one and its earliest deadline. Notices of a provider that cannot be read
    are kept.
    """
    if not (settings.interruption_handling and policy.replaces_interrupted_nodes):
        return {}
    found: dict[tuple[GroupRef, str], HeldNotice] = {}
    for ref, notice in (*_told(seen, members), *_signalled(seen, members, settings), *_kept(held, seen, members)):
        key = (ref, notice.instance_id)
        found[key] = _merged(found[key], notice) if key in found else notice
    since = {(ref, one.instance_id): one for ref, ones in held.items() for one in ones}
    fresh: dict[GroupRef, tuple[HeldNotice, ...]] = {}
    for (ref, instance_id), notice in found.items():
        before = since.get((ref, instance_id))
        fresh[ref] = (*fresh.get(ref, ()), _again(before, notice) if before is not None else notice)
    return fresh


def interrupted_nodes(
    notices: Notices, members: Membership, settings: InterruptionSettings
) -> Mapping[str, HeldNotice]:
    """Return the notice of each node that is to be replaced, by name, except nodes whose machine is being deleted."""
    found: dict[str, HeldNotice] = {}
    for ref, ones in notices.items():
        by_id = {one.instance_id: one for one in ones if _counts(one, settings)}
        for node in members.nodes.get(ref, ()) if by_id else ():
            notice = next((by_id[name] for name in names_of(node) if name in by_id), None)
            if notice is not None and members.going.isdisjoint(names_of(node)) and not members.shares_machine(node):
                found[node.name] = notice
    return found


def _counts(notice: HeldNotice, settings: InterruptionSettings) -> bool:
    return notice.kind != InterruptionKind.REBALANCE or settings.replace_on_rebalance


def _told(seen: Observation, members: Membership) -> Iterator[tuple[GroupRef, HeldNotice]]:
    for provider in seen.providers.values():
        for notice in provider.interruptions:
            known_as = notice.instance_id.lower() if provider.ignores_id_case else notice.instance_id
            ref = members.group_of_id.get(known_as)
            if ref is not None and ref.provider == provider.name:
                yield (
                    ref,
                    HeldNotice(
                        instance_id=known_as,
                        id=notice.id,
                        kind=notice.kind,
                        since=seen.now,
                        deadline=notice.deadline,
                        scope=notice.scope,
                    ),
                )


def _signalled(
    seen: Observation, members: Membership, settings: InterruptionSettings
) -> Iterator[tuple[GroupRef, HeldNotice]]:
    texts = settings.interruption_signal
    for ref, name, node, signal in members.keep("interruption signals", texts, lambda: _find_signals(members, texts)):
        reclaims = signal.kind in (InterruptionKind.RECLAIM, InterruptionKind.REBALANCE)
        notice = HeldNotice(
            instance_id=name,
            id=f"{signal.source} {signal.key} of {node}",
            kind=signal.kind,
            since=seen.now,
            deadline=seen.now + signal.seconds if signal.seconds is not None else None,
            scope=FailureScope.GROUP if reclaims else None,
        )
        yield ref, notice


def _find_signals(members: Membership, texts: tuple[str, ...]) -> list[tuple[GroupRef, str, str, NodeSignal]]:
    signals = parse_signals(texts)
    keys = {signal.key for signal in signals}
    return [
        (ref, known_as, node.name, signal)
        for ref, nodes in members.nodes.items()
        for node in nodes
        if _may_signal(node, keys)
        for signal in signals
        if signal.is_on(node)
        and (known_as := next((name for name in names_of(node) if name in members.group_of_id), None)) is not None
    ]


def _may_signal(node: Node, keys: set[str]) -> bool:
    """Return whether the node has a taint or a condition with one of these keys; few nodes have one."""
    return any(taint.key in keys for taint in node.spec.taints) or any(
        held.type in keys for held in node.status.conditions
    )


def _kept(held: Notices, seen: Observation, members: Membership) -> Iterator[tuple[GroupRef, HeldNotice]]:
    """Yield the notices of machines that are still there, of providers that could not be read."""
    for ref, ones in held.items():
        provider = seen.providers.get(ref.provider)
        if provider is None or provider.problem:
            yield from ((ref, one) for one in ones if one.instance_id in members.group_of_id)


def _merged(one: HeldNotice, other: HeldNotice) -> HeldNotice:
    """Return the more certain of two notices about one machine, with the earlier deadline."""
    first = min((one, other), key=lambda notice: _KINDS.index(notice.kind))
    return replace(first, deadline=_earliest((one.deadline, other.deadline)), scope=one.scope or other.scope)


def _again(before: HeldNotice, notice: HeldNotice) -> HeldNotice:
    """Return the earlier notice with its present content; its deadline does not become later."""
    return replace(notice, since=before.since, deadline=_earliest((before.deadline, notice.deadline)))


def _earliest(moments: Iterable[float | None]) -> float | None:
    return min((at for at in moments if at is not None), default=None)
