"""The cloud under test and the methods that change it from outside. The plugin's author implements a ContractWorld."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from enum import StrEnum

from nodewright.adapters.clocks import VirtualClock
from nodewright.adapters.provider import CallRunner, CallSettings, InlineRunner, connect_provider
from nodewright.model.clock import Clock
from nodewright.testkit.client import Client


class Touch(StrEnum):
    """What a check does to the cloud. The order is from harmless to unfit for a cloud that is in use."""

    READS = "reads"
    REFUSED = "send writes that must be refused or change nothing"
    RESIZES = "ask for at most two more machines"
    OWN_CLOUD = "end machines, or change the cloud from outside"


class CannotSteer(Exception):
    """Raised if the cloud cannot be brought into the state that a check needs. The check is then skipped."""


class ContractWorld(ABC):
    """A new cloud with one provider connected to it. Every check gets its own world.

    ``group_id`` names a group with target 2, two running machines, a minimum of 0 and a maximum of at least 6. Other
    writers may change this group too. Set ``client`` and ``group_id`` in the constructor. A method that changes the
    cloud raises CannotSteer with the reason if the cloud cannot do it.
    """

    client: Client
    group_id: str

    def admit(self, touches: Touch) -> None:  # noqa: B027 - only clouds in use have a reason to refuse
        """Raise CannotSteer if a check that does this must not run here. A cloud made for the test admits all checks."""

    def close(self) -> None:  # noqa: B027 - a world in memory holds nothing
        """Release resources after a check: stop a server, or restore the size of a live group."""

    @abstractmethod
    def machines(self, group_id: str) -> frozenset[str]:
        """Return the ids of all machines that exist and are not being deleted, not read through the plugin."""

    @abstractmethod
    def set_target(self, group_id: str, target: int) -> None:
        """Resize the group from outside. Machines that this requests must not arrive before a call of ``arrive``."""

    def arrive(self, group_id: str) -> str:
        """Let one requested machine arrive now. Return its id."""
        raise CannotSteer(f"this world cannot let machines of {group_id} arrive")

    def fail_creation(self, group_id: str) -> None:
        """Let the creation of one requested machine fail now."""
        raise CannotSteer(f"this world cannot let creations in {group_id} fail")

    def set_minimum(self, group_id: str, size: int) -> None:
        """Set the group's minimum size, effective from the next refresh. May put a new provider into ``client``."""
        raise CannotSteer(f"this world cannot set the minimum of {group_id} to {size}")

    def before_write(self, happening: Callable[[], object]) -> None:
        """Call ``happening`` once, when the provider's next write of a size arrives, before the cloud handles it.

        ``happening`` may call the other methods of this world.
        """
        del happening
        raise CannotSteer("this world cannot change anything in the middle of a write")

    def interrupt(self, group_id: str) -> str:
        """Let the cloud give notice that it will take one running machine. Return the machine's id."""
        raise CannotSteer(f"this world cannot let the cloud give notice of a machine of {group_id}")

    def pass_time(self, seconds: float) -> None:
        """Let time pass, in the cloud and on the provider's clock."""
        raise CannotSteer(f"this world cannot let {seconds:g} s pass")


def connect(name: str, plugin: object, clock: Clock | None = None, settings: CallSettings | None = None) -> Client:
    """Return a client of a provider object under test. With a VirtualClock its calls run in the caller's thread.

    Raise ContractViolation if the object does not implement the contract.
    """
    clock = clock if clock is not None else VirtualClock()
    runner: CallRunner | None = InlineRunner(clock) if isinstance(clock, VirtualClock) else None
    return connect_provider(name, plugin, clock=clock, settings=settings, runner=runner)
