"""The fake cloud: groups, machines and what happens to them over time. It does not know the plugin's hooks."""

from collections.abc import Callable, Sequence
from random import Random

from msgspec import structs

from nodewright.spec import (
    Capability,
    Clock,
    Interruption,
    NewNodeGroup,
    NodeGroupNotFound,
    NodeStart,
    OutOfCapacity,
    ProviderError,
    QuotaExceeded,
    TargetChanged,
)
from nodewright_fake.false_failures import FalseFailures
from nodewright_fake.faults import Faults
from nodewright_fake.lifecycle import Lifecycle
from nodewright_fake.machines import Group, GroupView, Machine, Phase, view_of
from nodewright_fake.notices import Notices
from nodewright_fake.old_reads import OldReads
from nodewright_fake.options import CloudOptions, Event, GroupConfig, Interrupt, Quota, StockOut, TaintConfig
from nodewright_fake.others import Others
from nodewright_fake.supply import BROKEN, Shortage, Supply


class FakeCloud:
    """The state of a cloud in memory, shared by the provider, a simulation and the test that controls it.

    Time comes from ``clock``. Each read and each write first carries out the events that are due by now. The same
    options, seed and calls give the same cloud.
    """

    def __init__(self, options: CloudOptions, clock: Clock, random: Random) -> None:
        self.options = options
        self.faults = Faults(clock, options.faults)
        self.supply = Supply(random, clock.now(), options.quota)
        self.supply.stock_outs.extend(options.stock_outs)
        self.supply.failures.extend(options.failures)
        self.supply.dead_boots.extend(options.dead_boots)
        self.supply.slow_boots.extend(options.slow_boots)
        self.supply.small_machines.extend(options.small_machines)
        self.old_reads = OldReads(options.old_reads, clock.now())
        self._clock = clock
        self._built = clock.now()
        tells = Capability.FAST_FAILURE_DETECTION not in options.switched_off
        self._false_failures = FalseFailures(options.false_failures if tells else (), self._built)
        self._others = Others(self, options.interference, options.interlopers, self._built)
        self._notices = Notices()
        self._orders: dict[str, list[Machine]] = {}
        self._before_write: list[Callable[[], object]] = []
        self._running_of: list[GroupView] = []
        self._running: tuple[NodeStart, ...] = ()
        self._life = Lifecycle(options, self.supply, clock, random)
        self._groups = self._life.groups
        for config in options.groups:
            self.add_group(config)

    # Reads

    def group_names(self) -> tuple[str, ...]:
        """Return the names of the listed groups."""
        self._catch_up()
        return tuple(name for name, group in self._groups.items() if group.is_listed)

    def has_group(self, group_id: str) -> bool:
        """Return whether the group exists, listed or not."""
        return group_id in self._groups

    def view(self, group_id: str) -> GroupView:
        """Return the group as the cloud reports it now; raise NodeGroupNotFound if it is not listed."""
        self._catch_up()
        return self._false_failures.apply(view_of(self._listed(group_id)), self._clock.now())

    def group(self, group_id: str) -> Group:
        """Return the group, listed or not; raise NodeGroupNotFound if it does not exist."""
        try:
            return self._groups[group_id]
        except KeyError:
            raise NodeGroupNotFound(f"the fake cloud has no group {group_id}", group_id=group_id) from None

    def living(self, group_id: str) -> frozenset[str]:
        """Return the ids of the machines that exist and are not being deleted: no accident may delete one of them."""
        self._life.catch_up()
        return frozenset(machine.id for machine in self.group(group_id).machines.values() if machine.lives)

    def running_machines(self) -> tuple[NodeStart, ...]:
        """Return all machines that run now: the same object until a machine starts or stops to run."""
        self._catch_up()
        views = [view_of(group) for group in self._groups.values()]
        if len(views) != len(self._running_of) or any(a is not b for a, b in zip(views, self._running_of, strict=True)):
            self._running_of = views
            self._running = tuple(start for view in views for start in view.running)
        return self._running

    def next_change(self) -> float:
        """Return when the next event happens (epoch seconds; inf: never)."""
        self._catch_up()
        by_others = self._others.next_due()
        by_itself = min(self._life.next_due(), self._notices.next_due())
        return min(by_itself, by_others, self._false_failures.next_change(self._clock.now()))

    def interruptions(self) -> tuple[Interruption, ...]:
        """Return the notices about machines that exist."""
        self._catch_up()
        machines = (machine for group in self._groups.values() for machine in group.machines.values())
        return self._notices.about(frozenset(machine.id for machine in machines if machine.is_listed))

    def notices_given(self) -> int:
        """Return how many notices were delivered so far."""
        self._catch_up()
        return self._notices.given

    def coming_interference(self) -> tuple[Event, ...]:
        """Return the events of the option ``interference`` that have not happened yet."""
        self._catch_up()
        return self._others.coming()

    # Writes of the provider

    def increase(self, group_id: str, expected_target: int, target: int, *, atomic: bool = False) -> int:
        """Request machines and return how many.

        Raise TargetChanged if the target is not ``expected_target``, QuotaExceeded or OutOfCapacity if the cloud
        refuses.
        """
        group = self._expect(group_id, expected_target)
        if target > group.config.max_size:
            raise ProviderError(f"{target} is above the maximum of {group_id}", group_id=group_id, code="aboveMaximum")
        wanted = target - group.target
        self._demand_room(group, wanted, atomic=atomic)
        self._life.request(group, wanted)
        self._others.write_between(group_id, "after", self._clock.now())
        return wanted

    def decrease(self, group_id: str, expected_target: int, target: int) -> int:
        """Withdraw requested machines that do not exist yet, the youngest first; return how many."""
        group = self._expect(group_id, expected_target)
        empty = [*group.in_phase(Phase.FAILED), *group.in_phase(Phase.REQUESTED)]
        withdrawn = empty[::-1][: max(0, expected_target - target)]
        for machine in withdrawn:
            self._life.forget(machine)
        group.set_target(group.target - len(withdrawn))
        self._others.write_between(group_id, "after", self._clock.now())
        return len(withdrawn)

    def delete(
        self, group_id: str, instance_ids: Sequence[str], expected_target: int, *, force: bool = False
    ) -> tuple[str, ...]:
        """Delete these machines or failures and lower the target by as many; return the accepted ids."""
        group = self._expect(group_id, expected_target)
        found = {instance_id: group.named(instance_id) for instance_id in instance_ids}
        victims = {machine.id: machine for machines in found.values() for machine in machines}
        living = sum(machine.lives for machine in victims.values())
        if living and not force and group.target - len(victims) < group.config.min_size:
            raise ProviderError(f"{group_id} would go below its minimum", group_id=group_id, code="belowMinimum")
        for machine in victims.values():
            self._life.delete(machine, at_once=force)
        group.set_target(group.target - len(victims))
        self._others.write_between(group_id, "after", self._clock.now())
        return tuple(instance_id for instance_id, machines in found.items() if machines)

    def add_group(self, config: GroupConfig, *, autoprovisioned: str = "") -> Group:
        """Add a group whose first ``size`` machines run already.

        ``autoprovisioned`` is the machine type from which the group was created on demand; "": it was not.
        """
        self._life.catch_up()
        if config.name in self._groups:
            raise ProviderError(f"the fake cloud has a group {config.name} already", code="groupExists")
        switched_off = dict(config.switched_off)
        group = Group(config=config, autoprovisioned=autoprovisioned, switched_off=switched_off)
        self._groups[config.name] = group
        group.set_target(config.size)
        for _ in range(config.size):
            self._life.run_now(group.add_machine(), settled=True)
        return group

    def remove_group(self, group_id: str) -> None:
        """Remove the group with all its machines."""
        self._life.catch_up()
        for machine in list(self.group(group_id).machines.values()):
            self._life.forget(machine)
        del self._groups[group_id]

    def provide_group(self, wanted: NewNodeGroup) -> Group:
        """Return the group that ``wanted`` describes; create it unless it exists.

        Raise ProviderError if the machine type does not exist, or if another group has the id.
        """
        made = self._groups.get(wanted.group_id)
        if made is not None and made.autoprovisioned == wanted.machine_type:
            return made
        kind = next((kind for kind in self.options.machine_types if kind.name == wanted.machine_type), None)
        if kind is None:
            raise ProviderError(f"the fake cloud has no machine type {wanted.machine_type}", code="noMachineType")
        taints = tuple(TaintConfig(key=taint.key, value=taint.value, effect=taint.effect) for taint in wanted.taints)
        config = GroupConfig(
            **{
                **structs.asdict(kind),
                "name": wanted.group_id,
                "instance_type": wanted.machine_type,
                "labels": {**kind.labels, **wanted.labels},
                "taints": (*kind.taints, *taints),
                "max_size": wanted.max_size,
            }
        )
        return self.add_group(config, autoprovisioned=wanted.machine_type)

    def remove_empty_group(self, group_id: str) -> bool:
        """Remove a group that was created on demand if it has no machines; return whether it was removed."""
        self._life.catch_up()
        group = self.group(group_id)
        if not group.autoprovisioned or group.target or group.machines:
            return False
        self.remove_group(group_id)
        return True

    def serve(self, order: str, group_id: str, machines: int) -> int:
        """Provide machines of the group for the named order; return how many of them run.

        Machines that the order lost are requested again. Raise ProviderError if the group's maximum is too low for
        them.
        """
        self._catch_up()
        group = self.group(group_id)
        held = [machine for machine in self._orders.get(order, ()) if machine.id in group.machines]
        held = [machine for machine in held if machine.phase not in (Phase.FAILED, Phase.DELETING)]
        missing = machines - len(held)
        if group.target + missing > group.config.max_size:
            raise ProviderError(
                f"{group_id} has no room for {missing} machines", group_id=group_id, code="aboveMaximum"
            )
        known = set(group.machines)
        self._life.request(group, missing)
        self._orders[order] = [*held, *(machine for name, machine in group.machines.items() if name not in known)]
        return sum(machine.phase == Phase.RUNNING for machine in self._orders[order])

    # What other writers and the cloud itself do, for tests and simulations

    def set_target(self, group_id: str, target: int) -> None:
        """Resize the group as another writer does.

        Lowering the target first withdraws machines that do not exist yet, then deletes running ones.
        """
        self._life.catch_up()
        group = self.group(group_id)
        if target > group.target:
            self._life.request(group, target - group.target)
            return
        order = (Phase.FAILED, Phase.REQUESTED, Phase.CREATING, Phase.RUNNING)
        doomed = [machine for phase in order for machine in reversed(group.in_phase(phase))]
        for machine in doomed[: group.target - target]:
            self._life.delete(machine, at_once=True)
        group.set_target(target)

    def arrive_now(self, group_id: str) -> str:
        """Let one requested machine run now and return its id; raise LookupError if none is requested."""
        self._life.catch_up()
        waiting = self.group(group_id).in_phase(Phase.CREATING, Phase.REQUESTED)
        if not waiting:
            raise LookupError(f"no machine of {group_id} is on its way")
        self._life.run_now(waiting[0])
        return waiting[0].id

    def begin_now(self, group_id: str) -> str:
        """Let the creation of one requested machine hang, and return the machine's id; raise LookupError if none is requested."""
        self._life.catch_up()
        waiting = self.group(group_id).in_phase(Phase.REQUESTED)
        if not waiting:
            raise LookupError(f"no machine of {group_id} is requested")
        self._life.begin_now(waiting[0])
        return waiting[0].id

    def fail_now(self, group_id: str, shortage: Shortage = BROKEN, *, placeholder: bool | None = None) -> str:
        """Fail the creation of one requested machine now and return its id; raise LookupError if none is requested.

        ``placeholder``: the failure names no machine (None: as the option ``placeholder_failures`` says).
        """
        self._life.catch_up()
        waiting = self.group(group_id).in_phase(Phase.REQUESTED, Phase.CREATING)
        if not waiting:
            raise LookupError(f"no machine of {group_id} is on its way")
        self._life.fail_now(waiting[0], shortage, placeholder=placeholder)
        return waiting[0].id

    def before_write(self, happening: Callable[[], object]) -> None:
        """Call ``happening`` when the next write has arrived, before the cloud checks it."""
        self._before_write.append(happening)

    def lose(self, instance_id: str) -> None:
        """Let a machine disappear, as a reclaimed spot machine does; the group requests another one."""
        self._life.catch_up()
        for group in self._groups.values():
            if instance_id in group.machines:
                self._life.forget(group.machines[instance_id])
                group.set_target(group.target - 1)
                self._life.request(group, 1)
                return
        raise LookupError(f"no machine {instance_id}")

    def stop(self, instance_id: str) -> None:
        """Stop a running machine without deleting it: it still exists, and its kubelet is silent."""
        for group in self._groups.values():
            if instance_id in group.machines:
                group.machines[instance_id].start = None
                group.seen = None
                return
        raise LookupError(f"no machine {instance_id}")

    def take_back(self, group_id: str, machines: int) -> None:
        """Let this many running machines disappear, the oldest first; the group requests others."""
        for machine in self.group(group_id).in_phase(Phase.RUNNING)[:machines]:
            self.lose(machine.id)

    def interrupt(self, rule: Interrupt) -> tuple[str, ...]:
        """Give notice of running machines, as the rule says; return their ids."""
        running = self.group(rule.group).in_phase(Phase.RUNNING)
        machines = [machine.id for machine in running if machine.id not in self._notices.taken_at][: rule.machines]
        self._notices.add(rule, machines, self._clock.now())
        return tuple(machines)

    def take_away(self, group_id: str, machines: int) -> None:
        """Delete this many running machines as another writer does, the oldest first; the target falls with them."""
        group = self.group(group_id)
        for machine in group.in_phase(Phase.RUNNING)[:machines]:
            self._life.delete(machine, at_once=True)
            group.set_target(group.target - 1)

    def switch_off(self, group_id: str, capability: Capability, reason: str) -> None:
        """Switch the capability off for this group."""
        group = self.group(group_id)
        group.switched_off[capability] = reason
        group.seen = None

    def stock_out(self, rule: StockOut) -> StockOut:
        """Put a stock-out in force from now on and return it; pass it to ``restock`` to end it."""
        self._life.catch_up()
        self.supply.stock_outs.append(rule)
        return rule

    def restock(self, rule: StockOut | None = None) -> None:
        """End this stock-out; None: end all of them."""
        self._life.catch_up()
        rules = self.supply.stock_outs
        self.supply.stock_outs = [] if rule is None else [other for other in rules if other is not rule]

    def set_quota(self, quota: Quota) -> None:
        """Change the account's quota."""
        self._life.catch_up()
        self.supply.quota = quota

    def _catch_up(self) -> None:
        """Carry out what is due by now: events of machines, then those of other writers."""
        self._life.catch_up()
        self._others.catch_up(self._clock.now())
        for instance_id in self._notices.pop_due(self._clock.now()):
            self._take(instance_id)

    def _take(self, instance_id: str) -> None:
        """Take a machine whose time is up; one that is being deleted only ends sooner."""
        for group in self._groups.values():
            machine = group.machines.get(instance_id)
            if machine is not None and machine.phase == Phase.DELETING:
                self._life.forget(machine)
            elif machine is not None:
                self.lose(instance_id)

    def _listed(self, group_id: str) -> Group:
        group = self.group(group_id)
        if not group.is_listed:
            raise NodeGroupNotFound(f"the fake cloud lists no group {group_id}", group_id=group_id)
        return group

    def _expect(self, group_id: str, expected_target: int) -> Group:
        happenings, self._before_write = self._before_write, []
        for happening in happenings:
            happening()
        self._catch_up()
        self._others.write_between(group_id, "before", self._clock.now())
        group = self._listed(group_id)
        if group.target != expected_target:
            raise TargetChanged(actual=group.target, group_id=group_id)
        return group

    def _demand_room(self, group: Group, machines: int, *, atomic: bool) -> None:
        """Raise QuotaExceeded or OutOfCapacity if the cloud refuses the call; an atomic request is checked for both."""
        quota = self.supply.quota
        wanted = [group.config] * machines
        if quota.enforced == "call" or atomic:
            asked = (other.config for other in self._groups.values() for _ in range(other.target))
            if self.supply.over_quota([*asked, *wanted]):
                short = self.supply.quota_shortage
                raise QuotaExceeded(short.message, scope=short.scope, bucket=short.bucket, group_id=group.name)
        left = self.supply.in_stock(group.config, self._clock.now()) if atomic else None
        if left is not None and left < machines:
            scope = self.supply.stock_scope(group.config, self._clock.now())
            raise OutOfCapacity(f"{left} machines of {machines} are in stock", scope=scope, group_id=group.name)
