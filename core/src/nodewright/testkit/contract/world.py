"""The cloud under test and the methods that change it from outside. The plugin's author implements a ContractWorld."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import ClassVar

from nodewright.adapters.clocks import VirtualClock
from nodewright.adapters.provider import CallRunner, CallSettings, InlineRunner, connect_provider
from nodewright.model.clock import Clock
from nodewright.model.group import FailureScope
from nodewright.model.node import Node
from nodewright.testkit.client import Client


class Touch(StrEnum):
    """The effect of a check on the cloud. The order is from harmless to unfit for a cloud that is in use."""

    READS = "reads"
    REFUSED = "send writes that must be refused or change nothing"
    RESIZES = "ask for at most two more machines"
    OWN_CLOUD = "end machines, or change the cloud from outside"


class CannotSteer(Exception):
    """Raised if the cloud cannot be brought into the state that a check needs. The check is then skipped."""


class CannotHappen(CannotSteer):
    """Raised if what a check is about cannot happen in this cloud. The check is skipped, and no level needs it."""


class NotDeclared(CannotSteer):
    """Raised if the provider does not declare what a check is about. The check does not apply."""


class Trouble(StrEnum):
    """The reason for which a cloud refuses a call, or fails to create a machine."""

    CAPACITY = "capacity"
    QUOTA = "quota"
    THROTTLED = "throttled"
    DENIED = "denied"
    UNAVAILABLE = "unavailable"
    CONFLICT = "conflict"
    OTHER = "other"


# The controls that a world may lack. Checks that need one are skipped without it.
CONTROLS = (
    "arrive",
    "begin",
    "fail_creation",
    "refuse",
    "refuse_later",
    "lose_answer",
    "reconnect",
    "lose",
    "stop",
    "crowd",
    "stranger",
    "sibling",
    "node_of",
    "lag",
    "slow",
    "set_limits",
    "before_write",
    "interrupt",
    "pass_time",
)
# These happen in every cloud or to every process, so a world may list them in ``lacks``, not in ``impossible``.
HAPPENS_EVERYWHERE = frozenset(
    {"arrive", "refuse", "lose_answer", "reconnect", "lose", "node_of", "slow", "set_limits", "pass_time"}
)


class ContractWorld(ABC):
    """A new cloud with one provider connected to it. Every check gets its own world.

    ``group_id`` names a group with target 2, two running machines, a minimum of 0 and a maximum of at least 6. Other
    writers may change this group too. Set ``client`` and ``group_id`` in the constructor.

    The methods below are the controls of the world: each does what a cloud, an operator or another writer can do. A world that
    lacks one leaves it out and says why (name of the control to reason): in ``lacks`` if it cannot be tested here, and
    in ``impossible`` if it cannot happen in this cloud. The checks that need it are skipped; a level does not need those of
    what is impossible. A control that cannot do what it is asked for raises CannotSteer, or CannotHappen, with the reason.
    """

    client: Client
    group_id: str
    lacks: ClassVar[Mapping[str, str]] = {}
    impossible: ClassVar[Mapping[str, str]] = {}
    # How many machines a page of the cloud's listing holds at most. A check with ``crowd`` fills three pages, and more.
    page_size: ClassVar[int] = 50
    # What the cloud says is short in ``refuse`` and ``fail_creation``. A kind that is left out: the group alone.
    scopes: ClassVar[Mapping[Trouble, FailureScope]] = {}

    def admit(self, touches: Touch) -> None:  # noqa: B027 - only clouds in use have a reason to refuse
        """Raise CannotSteer if a check with this effect must not run here. A cloud made for the test admits all checks."""

    def close(self) -> None:  # noqa: B027 - a world in memory holds nothing
        """Release resources after a check: stop a server, or restore the size of a live group."""

    @abstractmethod
    def machines(self, group_id: str) -> frozenset[str]:
        """Return the ids of all machines that exist and are not being deleted, not read through the plugin.

        A machine that is starting exists, and so does one that was stopped. A machine that is only requested does not.
        """

    @abstractmethod
    def set_target(self, group_id: str, target: int) -> None:
        """Resize the group from outside. Machines that this requests must not arrive before a call of ``arrive``."""

    def arrive(self, group_id: str) -> str:
        """Let one requested machine arrive now: it runs. Return its id."""
        raise self._lacking("arrive", group_id)

    def begin(self, group_id: str) -> str:
        """Let one requested machine begin to start now: it exists, and does not run yet. Return its id."""
        raise self._lacking("begin", group_id)

    def fail_creation(self, group_id: str, kind: Trouble = Trouble.CAPACITY, *, leaves_machine: bool = True) -> None:
        """Let the creation of one requested machine fail now: CAPACITY, QUOTA, or OTHER without a cause that is known.

        ``leaves_machine``: a broken machine stays behind. Otherwise only the cloud's report of the failure exists.
        """
        raise self._lacking("fail_creation", group_id, kind, leaves_machine)

    def refuse(
        self, group_id: str, kind: Trouble, times: int = 1, *, reads: bool = False, granted: int | None = None
    ) -> None:
        """Let the cloud refuse the provider's next writes of this group for that reason: they change nothing.

        ``reads``: the next reads of the cloud are refused instead. ``granted``: an increase is not refused altogether, but
        granted for that many machines (a cloud that creates machines one by one and has no more).
        """
        raise self._lacking("refuse", group_id, kind, times, reads, granted)

    def refuse_later(self, group_id: str, kind: Trouble, answered: int, *, reads: bool = False) -> None:
        """Let the cloud answer ``answered`` further writes of the provider for this group, and refuse the one after them.

        That one write alone is refused, and changes nothing. ``reads``: it is one of the reads of the cloud instead, each
        page by itself. A call replaces what an earlier call asked for.
        """
        raise self._lacking("refuse_later", group_id, kind, answered, reads)

    def lose_answer(self, group_id: str) -> None:
        """Let the provider's next write take effect while its answer is lost, as when a connection is reset."""
        raise self._lacking("lose_answer", group_id)

    def reconnect(self) -> None:
        """Put a new provider object on the same cloud into ``client``, as a restarted process does."""
        raise self._lacking("reconnect")

    def lose(self, machine: str) -> None:
        """Let a machine vanish, as a host that breaks or a spot machine that is taken."""
        raise self._lacking("lose", machine)

    def stop(self, machine: str) -> None:
        """Let a machine stop without being deleted, as an operator does in the cloud's console: it still exists."""
        raise self._lacking("stop", machine)

    def crowd(self, group_id: str, n: int) -> None:
        """Add ``n`` running machines to the group and its target: more than one page of the cloud's listing holds."""
        raise self._lacking("crowd", group_id, n)

    def stranger(self) -> str:
        """Make a group with a running machine that is not the provider's: other labels, or not configured. Return its id.

        Make it as similar to the provider's own as the cloud allows. ``machines`` must list its machines, too.
        """
        raise self._lacking("stranger")

    def sibling(self) -> str:
        """Make another group of the provider's own, with one running machine, as an operator adds one. Return its id.

        It is listed from the next refresh. May put a new provider into ``client``.
        """
        raise self._lacking("sibling")

    def node_of(self, machine: str) -> Node:
        """Return the Node of a running machine, as its kubelet and the cloud controller manager would write it."""
        raise self._lacking("node_of", machine)

    def lag(self, seconds: float) -> None:
        """From now on let the cloud's listings show the state of ``seconds`` ago."""
        raise self._lacking("lag", seconds)

    def slow(self, seconds: float) -> None:
        """From now on let the cloud take ``seconds`` for every answer."""
        raise self._lacking("slow", seconds)

    def set_limits(self, group_id: str, min_size: int, max_size: int) -> None:
        """Set the group's limits as the operator does with --nodes, effective from the next refresh.

        May put a new provider into ``client``.
        """
        raise self._lacking("set_limits", group_id, min_size, max_size)

    def before_write(self, happening: Callable[[], object]) -> None:
        """Call ``happening`` once, when the provider's next write of a size arrives, before the cloud handles it.

        ``happening`` may call the other methods of this world.
        """
        raise self._lacking("before_write", happening)

    def interrupt(self, group_id: str) -> str:
        """Let the cloud give notice that it will take one running machine. Return the machine's id."""
        raise self._lacking("interrupt", group_id)

    def pass_time(self, seconds: float) -> None:
        """Let time pass, in the cloud and on the provider's clock."""
        raise self._lacking("pass_time", seconds)

    def _lacking(self, control: str, *asked: object) -> CannotSteer:
        del asked
        if self.impossible.get(control) and control not in HAPPENS_EVERYWHERE:
            return CannotHappen(f"{control} cannot happen in this cloud: {self.impossible[control]}")
        why = self.lacks.get(control) or "it does not say why (lacks)"
        return CannotSteer(f"this world has no control {control}: {why}")


def undeclared_controls(world: ContractWorld) -> tuple[str, ...]:
    """Return the controls that the world neither has nor declares as missing, or wrongly declares as impossible."""
    missing = (name for name in CONTROLS if getattr(type(world), name) is getattr(ContractWorld, name))
    possible = {name: why for name, why in world.impossible.items() if name not in HAPPENS_EVERYWHERE}
    return tuple(name for name in missing if not (world.lacks.get(name) or possible.get(name)))


def connect(name: str, plugin: object, clock: Clock | None = None, settings: CallSettings | None = None) -> Client:
    """Return a client of a provider object under test. With a VirtualClock its calls run in the caller's thread.

    Raise ContractViolation if the object does not implement the contract.
    """
    clock = clock if clock is not None else VirtualClock()
    runner: CallRunner | None = InlineRunner(clock) if isinstance(clock, VirtualClock) else None
    return connect_provider(name, plugin, clock=clock, settings=settings, runner=runner)
