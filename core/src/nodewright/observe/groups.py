"""Reading one provider: every group on its own, so that one group's error degrades that group alone."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from nodewright.model.errors import ProviderError
from nodewright.model.group import GroupOptions, GroupRef, NodeGroup, NodeTemplate
from nodewright.model.node import Node
from nodewright.observe.ports import ProviderReads
from nodewright.observe.template import make_template_node
from nodewright.snapshot.observation import GroupSeen, ProviderSeen

T = TypeVar("T")

_HOUR = 3600.0


@dataclass
class _Facts:
    """What a group looked like last time, to fall back on; ``template`` keeps its node while unchanged."""

    template: NodeTemplate | None = None
    node: Node | None = None
    options: GroupOptions | None = None
    hourly_price: float | None = None


class ProviderWatch:
    """Reads one provider and remembers the slow-changing facts of its groups for when they cannot be read."""

    def __init__(self, provider: ProviderReads, defaults: GroupOptions) -> None:
        self._provider = provider
        self._defaults = defaults
        self._facts: dict[str, _Facts] = {}
        self._seen = ProviderSeen(name=provider.name)

    @property
    def name(self) -> str:
        return self._provider.name

    def read(
        self, wanted: frozenset[str], last_known: dict[GroupRef, GroupSeen], now: float
    ) -> tuple[ProviderSeen, dict[GroupRef, GroupSeen]]:
        """The provider and its groups. One that cannot be refreshed keeps the groups it last had, all Unknown."""
        try:
            self._provider.refresh(wanted)
            groups = self._provider.node_groups()
        except ProviderError as error:
            problem = _message(error)
            lost = {ref: _unknown(seen, problem) for ref, seen in last_known.items()}
            return replace(self._seen, problem=problem), lost
        self._facts = {group.id: self._facts.get(group.id) or _Facts() for group in groups}
        self._seen = self._describe()
        found = [self._group(group, now) for group in groups]
        return self._seen, {seen.ref: seen for seen in found}

    def _describe(self) -> ProviderSeen:
        """What the provider says of itself; what it fails to say stays as it was."""
        provider, held = self._provider, self._seen
        try:
            return ProviderSeen(
                name=self.name,
                ignores_id_case=provider.info.ignores_id_case,
                ignored_labels=provider.ignored_labels() or (),
                same_group_labels=provider.same_group_labels() or (),
                gpu_label=provider.gpu_label() or "",
                gpu_resources=provider.gpu_resources() or (),
            )
        except ProviderError:
            return replace(held, ignores_id_case=provider.info.ignores_id_case)

    def _group(self, group: NodeGroup, now: float) -> GroupSeen:
        ref, provider = GroupRef(self.name, group.id), self._provider
        facts = self._facts[group.id]
        problem = self._learn(ref, facts, now)
        seen = GroupSeen(
            ref=ref,
            group=group,
            capabilities=provider.capabilities(group),
            template=facts.node,
            options=facts.options or self._defaults,
            hourly_price=facts.hourly_price,
            problem=problem,
        )
        try:
            return replace(
                seen,
                target=provider.target_size(group.id),
                instances=provider.instances(group.id),
                failed=provider.failed_instances(group.id),
            )
        except ProviderError as error:
            return _unknown(seen, _message(error))

    def _learn(self, ref: GroupRef, facts: _Facts, now: float) -> str:
        """Bring the facts up to date; answers what went wrong, if anything did."""
        problems: list[str] = []

        def ask(question: Callable[[], T], held: T) -> T:
            try:
                return question()
            except ProviderError as error:
                problems.append(_message(error))
                return held

        provider, group_id = self._provider, ref.group_id
        template = ask(lambda: provider.template_node(group_id), facts.template)
        if template is not None and template != facts.template:
            facts.template, facts.node = template, make_template_node(ref, template)
        facts.options = ask(lambda: provider.group_options(group_id, self._defaults), facts.options)
        facts.hourly_price = ask(lambda: provider.node_price(group_id, now, now + _HOUR), facts.hourly_price)
        return "; ".join(problems)


def _unknown(seen: GroupSeen, problem: str) -> GroupSeen:
    return replace(seen, target=None, instances=None, failed=None, problem=problem)


def _message(error: ProviderError) -> str:
    return f"{error.code}: {error}"
