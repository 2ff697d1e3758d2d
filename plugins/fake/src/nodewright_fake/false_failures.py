"""Wrong reports: the fake cloud reports running machines as failed creations."""

from collections.abc import Sequence
from dataclasses import replace

from nodewright.spec import Capability, FailedInstance, InstanceState
from nodewright_fake.machines import GroupView
from nodewright_fake.options import FalseFailure
from nodewright_fake.supply import meets


class FalseFailures:
    """The rules in force; their seconds count from ``built`` (epoch)."""

    def __init__(self, rules: Sequence[FalseFailure], built: float) -> None:
        self._rules = tuple(rules)
        self._built = built

    def next_change(self, now: float) -> float:
        """Return when a report next begins or ends (epoch seconds; inf: never)."""
        return min((self._built + _next_turn(rule, now - self._built) for rule in self._rules), default=float("inf"))

    def apply(self, view: GroupView, now: float) -> GroupView:
        """Return the group as the cloud reports it. A group that reports no failures is returned unchanged."""
        if Capability.FAST_FAILURE_DETECTION in view.group.switched_off:
            return view
        for rule in self._rules:
            age = now - self._built
            if meets(rule, view.config) and rule.start <= age < rule.end and not _turn(rule, age) % 2:
                view = _report(view, rule, age)
        return view


def _report(view: GroupView, rule: FalseFailure, age: float) -> GroupView:
    running = [one.id for one in view.instances if one.state == InstanceState.RUNNING][: rule.machines]
    failures = tuple(
        FailedInstance(
            failure_id=f"status-{rule.start:g}-{_turn(rule, age)}-{instance_id}",
            instance_id=instance_id,
            error_class=rule.error_class,
            scope=rule.scope,
            code=rule.code,
            message="the machine runs, and its last operation failed",
        )
        for instance_id in running
    )
    listed = tuple(one for one in view.instances if rule.also_listed or one.id not in running)
    return replace(view, instances=listed, failures=(*view.failures, *failures))


def _turn(rule: FalseFailure, age: float) -> int:
    """Return how often the report has appeared or disappeared since it began."""
    return 0 if rule.flaps_every is None else int((age - rule.start) // (rule.flaps_every / 2))


def _next_turn(rule: FalseFailure, age: float) -> float:
    """Return the age in seconds at which the report next appears or disappears (inf: never)."""
    if age < rule.start:
        return rule.start
    if age >= rule.end:
        return float("inf")
    if rule.flaps_every is None:
        return rule.end
    return min(rule.end, rule.start + (_turn(rule, age) + 1) * rule.flaps_every / 2)
