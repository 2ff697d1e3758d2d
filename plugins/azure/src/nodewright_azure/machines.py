"""What each machine of a scale set is doing, from what Azure says of its provisioning and its power."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from nodewright.spec import InstanceState
from nodewright_azure.errors import FAILED
from nodewright_azure.options import Options
from nodewright_azure.shapes import Machine, Status

EXTENSION_FAILED = "VMExtensionProvisioningFailed"
_BOOTSTRAP = "vmssCSE"
_POWER = "PowerState/"
_PROVISIONING_FAILED = "provisioningstate/failed/"
_ALIVE = ("running", "starting")
_STATES = {"Creating": InstanceState.CREATING, "Deleting": InstanceState.DELETING}


class Why(msgspec.Struct, frozen=True, kw_only=True):
    """Why something could not be created, in Azure's words; ``FAILED`` is the code where it has none."""

    code: str = FAILED
    message: str = ""


class Unit(msgspec.Struct, frozen=True, kw_only=True):
    """A machine and what it is doing; ``state`` is None while Azure has not said it yet."""

    machine: Machine
    state: InstanceState | None = None
    failure: Why | None = None

    @property
    def is_leaving(self) -> bool:
        """It no longer counts towards the capacity."""
        return self.state is InstanceState.DELETING

    @property
    def is_settled(self) -> bool:
        """It will stay as it is by itself."""
        return self.state is InstanceState.RUNNING and self.machine.properties.provisioning_state == "Succeeded"


def judge_uniform(machines: Iterable[Machine], before: Mapping[str, Unit], options: Options) -> tuple[Unit, ...]:
    """``before`` is what was known by id: a machine that is being updated is what it was.

    Azure says ``Failed`` of any operation that failed, also long after the creation. A machine that was seen to run is no
    failed creation, whatever its power and its extensions say by then.
    """
    return tuple(_judge(machine, before.get(machine.id), options) for machine in machines)


def judge_loose(machines: Iterable[Machine]) -> tuple[Unit, ...]:
    """Nothing is known of their power, so that none of them is said to have failed."""
    return tuple(Unit(machine=machine, state=_state(machine.properties.provisioning_state)) for machine in machines)


def find_failure(statuses: Sequence[Status] | None) -> Why | None:
    """The code behind ``ProvisioningState/failed/``, if one is told."""
    for status in statuses or ():
        code = status.code or ""
        if code.lower().startswith(_PROVISIONING_FAILED) and len(code) > len(_PROVISIONING_FAILED):
            return Why(code=code[len(_PROVISIONING_FAILED) :], message=status.message or "")
    return None


def _judge(machine: Machine, before: Unit | None, options: Options) -> Unit:
    said = machine.properties.provisioning_state
    if not said or said == "Updating":
        known = before or Unit(machine=machine)
        return msgspec.structs.replace(known, machine=machine)
    if said != "Deleting" and _has_run(before, machine):
        return Unit(machine=machine, state=_state(said))
    broken = _broken_extension(machine) if options.detect_extension_failures and said != "Deleting" else None
    if broken is not None:
        return Unit(machine=machine, state=InstanceState.CREATING, failure=broken)
    if said == "Failed" and options.detect_failures and _power(machine) not in _ALIVE:
        view = machine.properties.instance_view
        why = find_failure(view.statuses if view is not None else None) or Why()
        return Unit(machine=machine, state=InstanceState.CREATING, failure=why)
    return Unit(machine=machine, state=_state(said))


def _has_run(before: Unit | None, machine: Machine) -> bool:
    """Return whether this very machine was seen to run: then a later operation on it failed, and not its creation."""
    if before is None or before.state is not InstanceState.RUNNING:
        return False
    return before.machine.properties.vm_id == machine.properties.vm_id


def _state(said: str | None) -> InstanceState | None:
    return _STATES.get(said, InstanceState.RUNNING) if said else None


def _power(machine: Machine) -> str:
    """What the first power state says; a machine without a view is taken to run, as in CA."""
    view = machine.properties.instance_view
    if view is None:
        return "running"
    codes = (status.code or "" for status in view.statuses or ())
    return next((code.removeprefix(_POWER) for code in codes if code.startswith(_POWER)), "unknown")


def _broken_extension(machine: Machine) -> Why | None:
    """The extension that makes a node of a machine failed: it never will be one."""
    view = machine.properties.instance_view
    for extension in (view.extensions or ()) if view is not None else ():
        for status in extension.statuses or ():
            if extension.name == _BOOTSTRAP and status.level == "Error":
                return Why(code=EXTENSION_FAILED, message=status.message or "")
    return None
