"""The cloud under test, and the hands that steer it from outside: what a plugin's author supplies."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from enum import StrEnum

from nodewright.adapters.provider import CallRunner, CallSettings, InlineRunner, connect_provider
from nodewright.adapters.virtual_clock import VirtualClock
from nodewright.model.clock import Clock
from nodewright.testkit.client import Client


class Touch(StrEnum):
    """What a check does to the cloud, from harmless to unfit for a cloud that somebody needs."""

    READS = "reads"
    REFUSED = "send writes that must be refused or change nothing"
    RESIZES = "ask for at most two more machines"
    OWN_CLOUD = "end machines, or steer the cloud from outside"


class CannotSteer(Exception):
    """This cloud cannot be brought into the situation that a check needs; the check is reported as skipped."""


class ContractWorld(ABC):
    """One fresh cloud with one provider connected to it. Every check gets a world of its own.

    ``group_id`` names a group with target 2, two running machines, a minimum of 0 and a maximum of at least
    6, of which the provider under test is not the only user. Set ``client`` and ``group_id`` in the constructor. A hand
    that the cloud does not have raises CannotSteer with the reason.
    """

    client: Client
    group_id: str

    def admit(self, touches: Touch) -> None:  # noqa: B027 - only clouds that somebody needs have a reason to refuse
        """Raises CannotSteer if a check that does so must not run here; a cloud of the test's own admits all."""

    def close(self) -> None:  # noqa: B027 - a world in memory holds nothing
        """The check is over: give back what the world holds, a server or the size that a live group had."""

    @abstractmethod
    def machines(self, group_id: str) -> frozenset[str]:
        """Ids of all machines that exist and are not being deleted, read past the plugin."""

    @abstractmethod
    def set_target(self, group_id: str, target: int) -> None:
        """Somebody else resizes the group. Machines asked for this way must not arrive before ``arrive``."""

    def arrive(self, group_id: str) -> str:
        """One machine that was asked for arrives now; answers its id."""
        raise CannotSteer(f"machines of {group_id} cannot be made to arrive on their own")

    def fail_creation(self, group_id: str) -> None:
        """The creation of one machine that was asked for fails now."""
        raise CannotSteer(f"creations in {group_id} cannot be made to fail")

    def set_minimum(self, group_id: str, size: int) -> None:
        """From the next refresh on this is the group's minimum size. May put a new provider into ``client``."""
        raise CannotSteer(f"the minimum of {group_id} cannot be made {size}")

    def before_write(self, happening: Callable[[], object]) -> None:
        """``happening`` takes place once, when the provider's next write of a size has arrived at the cloud and the
        cloud has not looked at it yet; it may call the other hands.
        """
        del happening
        raise CannotSteer("nothing can be made to happen in the middle of a write")

    def pass_time(self, seconds: float) -> None:
        """Let time go by, in the cloud and on the provider's clock."""
        raise CannotSteer(f"{seconds:g} s cannot be made to pass")


def connect(name: str, plugin: object, clock: Clock | None = None, settings: CallSettings | None = None) -> Client:
    """A client of a provider object under test, whose calls run in place; raises ContractViolation."""
    clock = clock if clock is not None else VirtualClock()
    runner: CallRunner | None = InlineRunner(clock) if isinstance(clock, VirtualClock) else None
    return connect_provider(name, plugin, clock=clock, settings=settings, runner=runner)
