"""Reads that are stale, or alternate between stale and fresh, like reads of a replica that lags behind."""

from collections.abc import Sequence
from dataclasses import replace

from nodewright_fake.machines import GroupView
from nodewright_fake.options import OldRead
from nodewright_fake.supply import meets


class OldReads:
    """The rules in force. Their seconds count from ``built`` (epoch). Without rules no history is kept."""

    def __init__(self, rules: Sequence[OldRead], built: float) -> None:
        self._rules = tuple(rules)
        self._built = built
        # For each group its views, and since when each held (epoch seconds), the oldest first.
        self._history: dict[str, list[tuple[float, GroupView]]] = {}

    def add(self, rule: OldRead, views: Sequence[GroupView], now: float) -> None:
        """Put a rule in force; ``views`` are the groups as they are now."""
        self._rules = (*self._rules, rule)
        for view in views:
            self.note(view, now)

    def next_change(self, now: float) -> float:
        """Return when reads next become stale or fresh (epoch seconds; inf: never)."""
        return min((self._built + _next_turn(rule, now - self._built) for rule in self._rules), default=float("inf"))

    def note(self, view: GroupView, now: float) -> Sequence[tuple[float, GroupView]]:
        """Record the group as it is at ``now``; return its history."""
        history = self._history.setdefault(view.group.id, [])
        if not history or history[-1][1] is not view:
            history.append((now, view))
        return history

    def apply(self, view: GroupView, now: float) -> GroupView:
        """Return the group as a read shows it at ``now``."""
        if not self._rules:
            return view
        history = self.note(view, now)
        for rule in self._rules:
            age = now - self._built
            if meets(rule, view.config) and rule.start <= age < rule.end and _turn(rule, age) % 2:
                view = _mixed(view, _as_of(history, now - rule.lag), rule.of)
        return view


def _as_of(history: Sequence[tuple[float, GroupView]], at: float) -> GroupView:
    return next((view for since, view in reversed(history) if since <= at), history[0][1])


def _mixed(view: GroupView, old: GroupView, of: str) -> GroupView:
    if of == "size":
        return replace(view, target=old.target)
    if of == "instances":
        return replace(view, instances=old.instances, failures=old.failures)
    return replace(view, target=old.target, instances=old.instances, failures=old.failures)


def _turn(rule: OldRead, age: float) -> int:
    """Return how often the reads have become stale or fresh since the rule began: an odd number while they are stale."""
    return 1 + int((age - rule.start) // rule.flaps_every)


def _next_turn(rule: OldRead, age: float) -> float:
    if age < rule.start:
        return rule.start
    if age >= rule.end:
        return float("inf")
    return min(rule.end, rule.start + _turn(rule, age) * rule.flaps_every)
