"""For how many pods a buffer holds room (behaviour/up.md §6.1)."""

from collections.abc import Mapping

from nodewright.model.capacity_buffer import CapacityBufferSpec, Figure
from nodewright.model.printable import show
from nodewright.model.quantity import Quantity
from nodewright.planner.capacity_buffers.shape import Unresolved

# One buffer is no way to ask for a cluster of millions of pods: as many as a set of a ProvisioningRequest has at most.
_MOST_PODS = 16_384


def count_pods(spec: CapacityBufferSpec, requests: Mapping[str, int], replicas: int | None) -> int:
    """``requests`` of one pod in nano-units, ``replicas`` of what the buffer refers to; raises Unresolved.

    The larger one of a fixed number and a percentage, rounded up, as far as the limits allow; limits alone are used up.
    """
    wanted: list[int] = []
    if spec.replicas is not None:
        wanted.append(_whole("replicas", spec.replicas))
    if spec.percentage is not None:
        percentage = _whole("percentage", spec.percentage)
        if replicas is None:
            raise Unresolved(
                "spec.percentage is of the replicas of spec.scalableRef, which is not set: set spec.replicas instead"
            )
        wanted.append(-(-percentage * replicas // 100))
    if spec.limits is not None:
        most = _within(spec.limits, requests)
        wanted = [min(max(wanted, default=most), most)]
    if not wanted:
        raise Unresolved("spec has no replicas, percentage or limits: it must have one of them")
    demand_few(max(wanted))
    return max(wanted)


def demand_few(count: int) -> None:
    """Raises Unresolved for more pods than any buffer may stand for."""
    if count > _MOST_PODS:
        text = f"it would be {count} pods, and a buffer has at most {_MOST_PODS}"
        raise Unresolved(f"{text}: lower replicas, percentage or limits")


def _whole(name: str, given: Figure) -> int:
    if isinstance(given, int) and given >= 0:
        return given
    raise Unresolved(f"spec.{name} is {show(given)}: it must be a whole number, 0 or more")


def _within(limits: Mapping[str, Figure], requests: Mapping[str, int]) -> int:
    """How many pods stay within the limits."""
    amounts = {name: _amount(name, given) for name, given in limits.items()}
    counts = [amount // requests[name] for name, amount in amounts.items() if requests.get(name, 0) > 0]
    if not counts:
        named = ", ".join(sorted(amounts)) or "nothing"
        raise Unresolved(
            f"spec.limits names {named}, of which its pods request nothing: name a resource that they request"
        )
    return min(counts)


def _amount(name: str, given: Figure) -> int:
    try:
        amount = Quantity.of(given).nano
    except ValueError as error:
        raise Unresolved(f"spec.limits.{name}: {error}") from None
    if amount < 0:
        raise Unresolved(f"spec.limits.{name} is {show(given)}: it must be 0 or more")
    return amount
