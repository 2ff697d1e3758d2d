"""The state of each machine of a scale set, from its provisioning state and its power state."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from nodewright.spec import InstanceState
from nodewright_azure.errors import FAILED, is_of_creation
from nodewright_azure.options import Options
from nodewright_azure.shapes import InstanceView, Machine, Status

EXTENSION_FAILED = "VMExtensionProvisioningFailed"
_BOOTSTRAP = "vmssCSE"
_POWER = "PowerState/"
_PROVISIONING_FAILED = "provisioningstate/failed/"
_ALIVE = ("running", "starting")
_STATES = {"Creating": InstanceState.CREATING, "Deleting": InstanceState.DELETING}


class Why(msgspec.Struct, frozen=True, kw_only=True):
    """Why something could not be created, in Azure's words. ``FAILED`` is the code if Azure gives none."""

    code: str = FAILED
    message: str = ""


class Unit(msgspec.Struct, frozen=True, kw_only=True):
    """A machine and its state; None: Azure has not reported a state yet, or not why the machine failed.

    ``is_new``: its creation was seen.
    """

    machine: Machine
    state: InstanceState | None = None
    failure: Why | None = None
    is_new: bool = False

    @property
    def is_leaving(self) -> bool:
        """Whether the machine does not count towards the capacity any more."""
        return self.state is InstanceState.DELETING

    @property
    def is_settled(self) -> bool:
        """Whether the machine's state will not change by itself."""
        return self.state is InstanceState.RUNNING and self.machine.properties.provisioning_state == "Succeeded"


def read_machines(
    machines: Iterable[Machine], before: Mapping[str, Unit], options: Options, *, new_ones_are_new: bool
) -> tuple[Unit, ...]:
    """Return the machines of a set with their states.

    ``before`` are the machines as known before, by id: a machine that is being updated keeps its state. Azure reports
    ``Failed`` for any operation that failed, also long after the creation. A machine that was seen to run is no failed
    creation, independent of its power state and its extensions now. Nor is one whose creation was not seen, unless its
    code is that of a creation. ``new_ones_are_new``: a machine that is not in ``before`` was created since. A failed
    machine whose instance view could not be read has no state until it can.
    """
    return tuple(_read_unit(machine, before.get(machine.id), options, new_ones_are_new) for machine in machines)


def lacks_view(machine: Machine, before: Unit | None) -> bool:
    """Return whether the machine's instance view, which lists of single machines do not have, may show a failed creation."""
    is_bad = machine.properties.provisioning_state == "Failed" and machine.properties.instance_view is None
    return is_bad and not _has_run(before, machine)


def with_view(machine: Machine, view: InstanceView) -> Machine:
    """Return the machine with its instance view."""
    return msgspec.structs.replace(machine, properties=msgspec.structs.replace(machine.properties, instance_view=view))


def find_failure(statuses: Sequence[Status] | None) -> Why | None:
    """Return the code behind ``ProvisioningState/failed/`` and its message; None: there is none."""
    for status in statuses or ():
        code = status.code or ""
        if code.lower().startswith(_PROVISIONING_FAILED) and len(code) > len(_PROVISIONING_FAILED):
            return Why(code=code[len(_PROVISIONING_FAILED) :], message=status.message or "")
    return None


def _read_unit(machine: Machine, before: Unit | None, options: Options, new_ones_are_new: bool) -> Unit:
    said = machine.properties.provisioning_state
    if not said or said == "Updating":
        known = before or Unit(machine=machine)
        return msgspec.structs.replace(known, machine=machine)
    if said != "Deleting" and _has_run(before, machine):
        return Unit(machine=machine, state=_state(said))
    broken = _broken_extension(machine) if options.detect_extension_failures and said != "Deleting" else None
    if broken is not None:
        return Unit(machine=machine, state=InstanceState.CREATING, failure=broken)
    view = machine.properties.instance_view
    was_seen = new_ones_are_new if before is None else before.is_new or before.state is not None
    if said == "Failed" and view is None and options.watches_failures:
        return Unit(machine=machine, is_new=was_seen)
    if said == "Failed" and options.detect_failures and _power(view) not in _ALIVE:
        why = find_failure(view.statuses if view is not None else None) or Why()
        if was_seen or is_of_creation(why.code, why.message):
            return Unit(machine=machine, state=InstanceState.CREATING, failure=why)
    return Unit(machine=machine, state=_state(said))


def _has_run(before: Unit | None, machine: Machine) -> bool:
    """Return whether this machine was seen to run: then a later operation on it failed, not its creation."""
    if before is None or before.state is not InstanceState.RUNNING:
        return False
    return before.machine.properties.vm_id == machine.properties.vm_id


def _state(said: str | None) -> InstanceState | None:
    return _STATES.get(said, InstanceState.RUNNING) if said else None


def _power(view: InstanceView | None) -> str:
    """Return the first power state."""
    codes = (status.code or "" for status in (view.statuses if view is not None else None) or ())
    return next((code.removeprefix(_POWER) for code in codes if code.startswith(_POWER)), "unknown")


def _broken_extension(machine: Machine) -> Why | None:
    """Return the failure of the extension that turns the machine into a node; None: it has not failed."""
    view = machine.properties.instance_view
    for extension in (view.extensions or ()) if view is not None else ():
        for status in extension.statuses or ():
            if extension.name == _BOOTSTRAP and status.level == "Error":
                return Why(code=EXTENSION_FAILED, message=status.message or "")
    return None
