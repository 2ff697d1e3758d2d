"""Read one provider. If the reads of one group fail, only the sizes of this group are unknown."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from nodewright.model.capability import Capability
from nodewright.model.errors import ProviderError
from nodewright.model.group import (
    GroupOptions,
    GroupRef,
    NodeGroup,
    NodeTemplate,
    Price,
    make_template_node,
)
from nodewright.model.node import Node
from nodewright.observe.ports import ProviderReads
from nodewright.snapshot.observation import GroupSeen, ProviderSeen

T = TypeVar("T")

# Seconds for which a group that its provider no longer lists is kept: one list may omit it by mistake.
KEPT_SECONDS = 300.0
NOT_LISTED = "its provider does not list it any more"

# Seconds for which templates, options and prices are cached. They seldom change, and are three of a group's six reads.
FACTS_SECONDS = 300.0


@dataclass
class _Facts:
    """The properties of a group that seldom change; ``node`` is built from ``template``.

    ``read_again_at`` is in epoch seconds. ``seen`` is the last ``GroupSeen`` that was built from these facts.
    """

    group: NodeGroup
    ref: GroupRef
    capabilities: frozenset[Capability]
    template: NodeTemplate | None = None
    node: Node | None = None
    options: GroupOptions | None = None
    price: Price | None = None
    read_again_at: float = -math.inf
    seen: GroupSeen | None = None

    def described(self, defaults: GroupOptions) -> GroupSeen:
        """Return the group without its sizes."""
        return GroupSeen(
            ref=self.ref,
            group=self.group,
            capabilities=self.capabilities,
            template=self.node,
            options=self.options or defaults,
            listed_price=self.price,
        )


class ProviderWatch:
    """Reads one provider, and caches the properties that seldom change.

    A group that the provider no longer lists counts as unreadable for ``kept_seconds``, then as deleted.
    """

    def __init__(self, provider: ProviderReads, defaults: GroupOptions, kept_seconds: float) -> None:
        self._provider = provider
        self._defaults = defaults
        self._kept_seconds = kept_seconds
        self._missing_since: dict[GroupRef, float] = {}
        self._facts: dict[str, _Facts] = {}
        self._seen = ProviderSeen(name=provider.name)
        self.name = provider.name

    def use(self, defaults: GroupOptions) -> None:
        """Use other defaults: every group's options are read again."""
        self._defaults = defaults
        for facts in self._facts.values():
            facts.read_again_at, facts.seen = -math.inf, None

    def read(
        self, wanted: frozenset[str], last_known: dict[GroupRef, GroupSeen], now: float
    ) -> tuple[ProviderSeen, dict[GroupRef, GroupSeen]]:
        """Return the provider and its groups. If it cannot be refreshed, return its last known groups without sizes.

        ``wanted`` are ids of groups that must be read from the cloud, not from a cache.
        """
        try:
            self._provider.refresh(wanted)
            groups = self._provider.node_groups()
        except ProviderError as error:
            problem = _message(error)
            lost = {ref: _unknown(seen, problem) for ref, seen in last_known.items()}
            return replace(self._seen, problem=problem), lost
        self._facts = {group.id: self._facts_of(group) for group in groups}
        self._seen = self._describe()
        found = {seen.ref: seen for seen in (self._group(group, now) for group in groups)}
        named = self._provider.names_of({ref.group_id for ref, seen in found.items() if seen.is_known})
        self._seen = replace(self._seen, named=named)
        return self._seen, found | self._missing(last_known, found, now)

    def _missing(
        self, last_known: dict[GroupRef, GroupSeen], found: dict[GroupRef, GroupSeen], now: float
    ) -> dict[GroupRef, GroupSeen]:
        """Return the groups that were listed recently and are not now, so that the memory of them is kept for a while."""
        since = self._missing_since
        self._missing_since = {ref: since.get(ref, now) for ref in last_known if ref not in found}
        kept = (ref for ref, at in self._missing_since.items() if now < at + self._kept_seconds)
        return {ref: _unknown(last_known[ref], NOT_LISTED) for ref in kept}

    def _facts_of(self, group: NodeGroup) -> _Facts:
        """Return the facts of the group. If the listed group has changed, all facts are read again."""
        held = self._facts.get(group.id)
        if held is None:
            return _Facts(group, GroupRef(self.name, group.id), self._provider.capabilities(group))
        if held.group != group:
            held.group, held.read_again_at, held.seen = group, -math.inf, None
            held.capabilities = self._provider.capabilities(group)
        return held

    def _describe(self) -> ProviderSeen:
        """Return the provider's description of itself; after an error, the last one."""
        provider, held = self._provider, self._seen
        try:
            notices, problem = provider.interruptions() or (), ""
        except ProviderError as error:
            notices, problem = held.interruptions, _message(error)
        try:
            return ProviderSeen(
                name=self.name,
                ignores_id_case=provider.info.ignores_id_case,
                ignored_labels=provider.ignored_labels() or (),
                same_group_labels=provider.same_group_labels() or (),
                gpu_label=provider.gpu_label() or "",
                gpu_types=provider.gpu_types() or (),
                gpu_resources=provider.gpu_resources() or (),
                provisioning_classes=tuple(served.name for served in provider.provisioning_classes() or ()),
                machine_types=provider.machine_types() or (),
                capabilities=provider.info.capabilities,
                interruptions=notices,
                notice_problem=problem,
            )
        except ProviderError:
            return replace(held, ignores_id_case=provider.info.ignores_id_case)

    def _group(self, group: NodeGroup, now: float) -> GroupSeen:
        provider, facts = self._provider, self._facts[group.id]
        problem = self._refresh_facts(group, facts, now) if facts.read_again_at <= now else ""
        try:
            target = provider.target_size(group.id)
            instances = provider.instances(group.id)
            failed = provider.failed_instances(group.id)
        except ProviderError as error:
            return _unknown(facts.described(self._defaults), _message(error))
        last = facts.seen
        if (
            last is not None
            and not problem
            and (target, instances, failed) == (last.target, last.instances, last.failed)
        ):
            return last  # nothing changed: callers cache by the identity of this value
        seen = replace(
            facts.described(self._defaults), target=target, instances=instances, failed=failed, problem=problem
        )
        facts.seen = None if problem else seen
        return seen

    def _refresh_facts(self, group: NodeGroup, facts: _Facts, now: float) -> str:
        """Read the facts of the group; return the errors as one text, empty if there were none."""
        problems: list[str] = []

        def read_or_keep(read: Callable[[], T], held: T) -> T:
            try:
                return read()
            except ProviderError as error:
                problems.append(_message(error))
                return held

        provider, group_id = self._provider, group.id
        before = (facts.template, facts.options, facts.price)
        template = read_or_keep(lambda: provider.template_node(group_id), facts.template)
        if template is not None and template != facts.template:
            facts.template, facts.node = template, make_template_node(facts.ref, template)
        facts.options = read_or_keep(lambda: provider.group_options(group_id, self._defaults), facts.options)
        facts.price = read_or_keep(lambda: provider.node_price(group_id), facts.price)
        facts.read_again_at = now if problems else now + FACTS_SECONDS
        if before != (facts.template, facts.options, facts.price):
            facts.seen = None
        return "; ".join(problems)


def _unknown(seen: GroupSeen, problem: str) -> GroupSeen:
    return replace(seen, target=None, instances=None, failed=None, problem=problem)


def _message(error: ProviderError) -> str:
    return f"{error.code}: {error}"
