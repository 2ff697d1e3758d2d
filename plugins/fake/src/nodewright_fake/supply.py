"""What the cloud can deliver: stock, quota, and the failures that its options configure."""

from collections.abc import Iterable
from random import Random
from typing import TypeVar

import msgspec

from nodewright.spec import ErrorClass, FailureScope, Quantity
from nodewright_fake.delays import Delay, fixed
from nodewright_fake.options import DeadBoot, Failure, GroupConfig, Quota, SlowBoot, SmallMachine, StockOut, Window

W = TypeVar("W", bound=Window)


class Shortage(msgspec.Struct, frozen=True, kw_only=True):
    """Why a machine cannot be created."""

    error_class: ErrorClass
    scope: FailureScope
    code: str
    message: str
    delay: Delay
    bucket: str = ""


BROKEN = Shortage(
    error_class=ErrorClass.OTHER,
    scope=FailureScope.GROUP,
    code="CREATION_FAILED",
    message="the machine could not be created",
    delay=fixed(0),
)

# The quota is account-wide: the scope is the same for refused calls and for failed creations.
OVER_QUOTA = Shortage(
    error_class=ErrorClass.QUOTA,
    scope=FailureScope.ACCOUNT,
    code="QUOTA_EXCEEDED",
    message="the account's quota is used up",
    delay=fixed(0),
)


class Supply:
    """Decides for each creation whether it succeeds. Seconds count from ``built`` (epoch)."""

    def __init__(self, random: Random, built: float, quota: Quota) -> None:
        self.quota = quota
        self.stock_outs: list[StockOut] = []
        self.failures: list[Failure] = []
        self.dead_boots: list[DeadBoot] = []
        self.slow_boots: list[SlowBoot] = []
        self.small_machines: list[SmallMachine] = []
        self._random = random
        self._built = built
        self._taken: dict[int, int] = {}

    def shortage(self, config: GroupConfig, now: float, used: Iterable[GroupConfig]) -> Shortage | None:
        """Return why the next machine of the group cannot be created; None: it can.

        ``used`` are the groups of the machines that use quota. Failures with a share are drawn at random.
        """
        if self.over_quota([*used, config]):
            return self.quota_shortage
        return self._stocked_out(config, now) or self._failing(config, now)

    @property
    def quota_shortage(self) -> Shortage:
        """Return the shortage of a machine beyond the quota."""
        bucket = self.quota.bucket
        return msgspec.structs.replace(OVER_QUOTA, scope=FailureScope.GROUP, bucket=bucket) if bucket else OVER_QUOTA

    def boots_dead(self, config: GroupConfig, now: float) -> bool:
        """Return whether a machine of the group that starts now never becomes a node; may draw at random."""
        return bool(self._in_force(self.dead_boots, config, now)) or self._random.random() < config.never_registers

    def slowness(self, config: GroupConfig, now: float) -> tuple[float, float]:
        """Return by how many seconds a machine of the group that starts now registers late, and becomes ready late."""
        slow = self._in_force(self.slow_boots, config, now)
        registers = max((rule.registers.draw(self._random) for rule in slow), default=0.0)
        return registers, max((rule.ready.draw(self._random) for rule in slow), default=0.0)

    def offers(self, config: GroupConfig, now: float) -> dict[str, Quantity]:
        """Return the resources of a machine of the group that starts now, where they differ from the template."""
        rules = self._in_force(self.small_machines, config, now)
        return {name: Quantity.of(amount) for rule in rules for name, amount in rule.offers.items()}

    def over_quota(self, machines: Iterable[GroupConfig]) -> bool:
        """Return whether these machines together exceed the account's quota."""
        bucket = self.quota.bucket
        wanted = [config for config in machines if not bucket or bucket in config.buckets]
        if self.quota.machines is not None and len(wanted) > self.quota.machines:
            return True
        if self.quota.cpus is None:
            return False
        return sum(Quantity.of(config.cpu).milli for config in wanted) > self.quota.cpus * 1000

    def take_stock(self, config: GroupConfig, now: float) -> None:
        """Count one created machine against the stock-outs that concern its group."""
        for rule in self._in_force(self.stock_outs, config, now):
            self._taken[id(rule)] = self._taken.get(id(rule), 0) + 1

    def in_stock(self, config: GroupConfig, now: float) -> int | None:
        """Return how many machines of the group can still be created; None: any number."""
        left = [rule.remaining - self._taken.get(id(rule), 0) for rule in self._in_force(self.stock_outs, config, now)]
        return max(0, min(left)) if left else None

    def stock_scope(self, config: GroupConfig, now: float) -> FailureScope:
        """Return the scope of the stock-out that leaves the group the fewest machines."""
        rules = self._in_force(self.stock_outs, config, now)
        return _scope(min(rules, key=lambda rule: rule.remaining - self._taken.get(id(rule), 0)))

    def _stocked_out(self, config: GroupConfig, now: float) -> Shortage | None:
        for rule in self._in_force(self.stock_outs, config, now):
            if self._taken.get(id(rule), 0) >= rule.remaining:
                return Shortage(
                    error_class=ErrorClass.OUT_OF_RESOURCES,
                    scope=_scope(rule),
                    code=rule.code,
                    message=rule.message or f"no machines for {config.name} in stock",
                    delay=fixed(0),
                )
        return None

    def _failing(self, config: GroupConfig, now: float) -> Shortage | None:
        for rule in self._in_force(self.failures, config, now):
            spent = rule.count is not None and self._taken.get(id(rule), 0) >= rule.count
            if not spent and self._random.random() < rule.share:
                self._taken[id(rule)] = self._taken.get(id(rule), 0) + 1
                return Shortage(
                    error_class=rule.error_class,
                    scope=rule.scope,
                    code=rule.code,
                    message=rule.message or f"creation in {config.name} failed",
                    delay=rule.delay,
                )
        return None

    def _in_force(self, rules: list[W], config: GroupConfig, now: float) -> list[W]:
        age = now - self._built
        return [rule for rule in rules if rule.start <= age < rule.end and meets(rule, config)]


def meets(rule: Window, config: GroupConfig) -> bool:
    """Return whether the rule concerns the group."""
    named = ((rule.zone, config.zone), (rule.instance_type, config.instance_type), (rule.group, config.name))
    return all(pattern in ("*", value) for pattern, value in named)


def _scope(rule: StockOut) -> FailureScope:
    """Return the narrowest scope that the stock-out names."""
    if rule.group != "*":
        return FailureScope.GROUP
    if rule.instance_type != "*":
        return FailureScope.INSTANCE_TYPE
    return FailureScope.ZONE
