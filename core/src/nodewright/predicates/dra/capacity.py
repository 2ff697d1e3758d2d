"""Parts of the capacities of devices that several claims share (consumable capacity). All amounts are nano-units."""

from collections.abc import Mapping

from nodewright.model.devices import CapacityRange, CapacityRequestPolicy, DeviceCapacity
from nodewright.model.meta import Resources
from nodewright.model.quantity import NANO, Quantity

Amounts = Mapping[str, int]
_NOTHING: Amounts = {}


def consumed(requests: Resources, capacity: Mapping[str, DeviceCapacity]) -> dict[str, int]:
    """Return what a request takes of every capacity of a device."""
    return {name: _consumed(requests.get(name), held) for name, held in capacity.items()}


def fits(requests: Resources, capacity: Mapping[str, DeviceCapacity], *held: Amounts | None) -> bool:
    """Return whether a request fits in addition to the ``held`` amounts of the device's capacities."""
    if not requests.keys() <= capacity.keys():
        return False
    for name, offered in capacity.items():
        amount = _consumed(requests.get(name), offered)
        if _violates(amount, offered.request_policy):
            return False
        if amount + sum((one or _NOTHING).get(name, 0) for one in held) > offered.value.nano:
            return False
    return True


def _consumed(request: Quantity | None, capacity: DeviceCapacity) -> int:
    policy = capacity.request_policy
    if request is None:
        return (policy.default if policy is not None and policy.default is not None else capacity.value).nano
    if policy is None:
        return request.nano
    if policy.valid_range is not None and policy.valid_range.min is not None:
        return _round_up(request, policy.valid_range)
    return next((valid.nano for valid in policy.valid_values if request.nano <= valid.nano), request.nano)


def _round_up(request: Quantity, valid: CapacityRange) -> int:
    least = valid.min or Quantity(0)
    if request.nano < least.nano:
        return least.nano
    if valid.step is None or not valid.step.value:
        return request.nano
    step, start = valid.step.value, least.value
    return (start - (start - request.value) // step * step) * NANO


def _violates(amount: int, policy: CapacityRequestPolicy | None) -> bool:
    if policy is None or (policy.default is not None and policy.default.nano == amount):
        return False
    valid = policy.valid_range
    if valid is not None:
        if valid.max is not None and amount > valid.max.nano:
            return True
        start = valid.min.value if valid.min is not None else 0
        return bool(valid.step is not None and valid.step.value and (-(-amount // NANO) - start) % valid.step.value)
    return bool(policy.valid_values) and all(amount != value.nano for value in policy.valid_values)
