"""How machines are created, fail and are deleted as time passes."""

from collections.abc import Iterator
from random import Random

from msgspec.structs import replace

from nodewright.spec import Capability, Clock, FailedInstance, NodeStart
from nodewright_fake.machines import Group, Machine, Phase
from nodewright_fake.options import CloudOptions, GroupConfig
from nodewright_fake.supply import Shortage, Supply
from nodewright_fake.timeline import Timeline

NEVER = float("inf")


class Lifecycle:
    """Moves machines from phase to phase. ``catch_up`` carries out due events; the other methods act now."""

    def __init__(self, options: CloudOptions, supply: Supply, clock: Clock, random: Random) -> None:
        self.groups: dict[str, Group] = {}
        self._options = options
        self._supply = supply
        self._clock = clock
        self._random = random
        self._timeline = Timeline()

    def catch_up(self) -> None:
        """Carry out all events that are due by now, in order, each at its own time."""
        while (event := self._timeline.pop(self._clock.now())) is not None:
            due, machine = event
            self._happen(machine, due)

    def next_due(self) -> float:
        """Return the time of the next event (epoch seconds; inf: none)."""
        return self._timeline.next_due()

    def taken(self) -> Iterator[GroupConfig]:
        """Yield the group options of each machine that uses quota."""
        for group in self.groups.values():
            for machine in group.machines.values():
                if machine.is_listed:
                    yield group.config

    def request(self, group: Group, machines: int) -> None:
        """Raise the target by ``machines``; they are created after the delays of the group."""
        now = self._clock.now()
        for _ in range(machines):
            machine = group.add_machine()
            self._timeline.set(machine, now + group.config.request_delay.draw(self._random))
        group.set_target(group.target + machines)
        self.catch_up()

    def run_now(self, machine: Machine, *, settled: bool = False) -> None:
        """Let the machine run now. A ``settled`` machine has been a ready node for long."""
        self._run(machine, self._clock.now())
        if settled and machine.start is not None:
            machine.start = replace(machine.start, register_after_seconds=0.0, ready_after_seconds=0.0)
            self.groups[machine.group].seen = None

    def begin_now(self, machine: Machine) -> None:
        """Let the machine be created now; it does not run until it is told to."""
        self._enter(machine, Phase.CREATING)
        self._timeline.set(machine, NEVER)

    def fail_now(self, machine: Machine, shortage: Shortage, *, placeholder: bool | None = None) -> None:
        """Fail the creation of the machine now."""
        self._fail(machine, shortage, self._clock.now(), placeholder=placeholder)

    def delete(self, machine: Machine, *, at_once: bool) -> None:
        """Start a deletion, or finish it if ``at_once``. The caller lowers the target."""
        group = self.groups[machine.group]
        delay = 0.0 if at_once or not machine.is_listed else group.config.delete_delay.draw(self._random)
        if delay == 0:
            self.forget(machine)
            return
        self._enter(machine, Phase.DELETING)
        self._timeline.set(machine, self._clock.now() + delay)

    def forget(self, machine: Machine) -> None:
        """Remove the machine from its group."""
        self._timeline.set(machine, NEVER)
        group = self.groups[machine.group]
        group.machines.pop(machine.id, None)
        group.seen = None

    def _enter(self, machine: Machine, phase: Phase) -> None:
        machine.phase = phase
        self.groups[machine.group].seen = None

    def _happen(self, machine: Machine, now: float) -> None:
        if machine.phase == Phase.CREATING:
            self._run(machine, now)
        elif machine.phase == Phase.DELETING:
            self.forget(machine)
        elif machine.doom is not None:
            self._fail(machine, machine.doom, now)
        else:
            self._create(machine, now)

    def _create(self, machine: Machine, now: float) -> None:
        config = self.groups[machine.group].config
        shortage = self._supply.shortage(config, now, self.taken())
        if shortage is not None:
            machine.doom = shortage
            self._timeline.set(machine, now + shortage.delay.draw(self._random))
            return
        self._supply.take_stock(config, now)
        self._enter(machine, Phase.CREATING)
        self._timeline.set(machine, now + config.provision_delay.draw(self._random))

    def _fail(self, machine: Machine, shortage: Shortage, now: float, *, placeholder: bool | None = None) -> None:
        """Let a creation fail.

        With fast failure detection the failure is reported. Without, nothing is reported and the cloud tries again
        later.
        """
        machine.doom = None
        if not self._tells_failures(self.groups[machine.group]):
            self._enter(machine, Phase.REQUESTED)
            self._timeline.set(machine, now + max(1.0, self._options.retry_delay.draw(self._random)))
            return
        machine.failure = self._failure(machine, shortage, now, placeholder)
        self._enter(machine, Phase.FAILED)
        self._timeline.set(machine, NEVER)

    def _failure(self, machine: Machine, shortage: Shortage, now: float, placeholder: bool | None) -> FailedInstance:
        placeholder = self._options.placeholder_failures if placeholder is None else placeholder
        return FailedInstance(
            failure_id=f"{machine.group}@{now:g}-{shortage.code}" if placeholder else f"failure-{machine.name}",
            instance_id=None if placeholder else machine.id,
            error_class=shortage.error_class,
            scope=shortage.scope,
            bucket=shortage.bucket,
            code=shortage.code,
            message=shortage.message,
        )

    def _tells_failures(self, group: Group) -> bool:
        capability = Capability.FAST_FAILURE_DETECTION
        return capability not in self._options.switched_off and capability not in group.switched_off

    def _run(self, machine: Machine, now: float) -> None:
        config = self.groups[machine.group].config
        slower, unready = self._supply.slowness(config, now)
        register: float | None = config.register_delay.draw(self._random) + slower
        late = config.registers_late
        if register is not None and late is not None and self._random.random() < late.share:
            register += late.by.draw(self._random)
        if self._supply.boots_dead(config, now):
            register = None
        machine.doom = None
        machine.start = NodeStart(
            instance_id=machine.id,
            group_id=machine.group,
            node_name=machine.name,
            running_since=now,
            register_after_seconds=register,
            ready_after_seconds=config.ready_delay.draw(self._random) + unready,
            offers=self._supply.offers(config, now),
        )
        self._enter(machine, Phase.RUNNING)
        self._timeline.set(machine, NEVER)
