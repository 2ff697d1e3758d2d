"""Room that is held for requests until their pods run (behaviour/up.md §5.5)."""

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial

from nodewright.model.pod import Pod
from nodewright.model.provisioning_request import BOOKING_EXPIRED, CONSUMED, FAILED, PROVISIONED, ProvisioningRequest
from nodewright.planner.provisioning_requests.docket import ProvisioningRequestState
from nodewright.planner.provisioning_requests.housekeeping import is_over
from nodewright.planner.provisioning_requests.pods import MissingTemplates, consumed_request, is_stand_in, make_pods
from nodewright.planner.scale_up.pending_pods import take_fitting
from nodewright.snapshot.pod_class import ask_once
from nodewright.snapshot.snapshot import Snapshot

_CONSUMERS = "pods that consume requests"


def running_consumers(snapshot: Snapshot) -> dict[str, list[Pod]]:
    """The pods on nodes that consume a request, by its key."""
    found: dict[str, list[Pod]] = {}
    rows = (row for row, _ in snapshot.nodes())
    for pods in snapshot.of_pods(_CONSUMERS, rows, _consumers_among):
        for pod in pods:
            found.setdefault(f"{pod.metadata.namespace}/{consumed_request(pod)}", []).append(pod)
    return found


def book_as_ca(snapshot: Snapshot, docket: ProvisioningRequestState) -> None:
    """Hold room for all pods of every provisioned request, also while some of them run; what does not fit is not held."""
    booked = [request for request in docket if is_booked(request, docket)]
    consumers = running_consumers(snapshot) if booked else {}
    wanted: list[Pod] = []
    for request in booked:
        if len(consumers.get(request.key, ())) >= request.pod_count:
            end_as_consumed(request, docket)
            continue
        pods = pods_to_book(request, docket)
        docket.booked[request.key] = len(pods)
        wanted += pods
    take_fitting(snapshot, wanted)


def is_booked(request: ProvisioningRequest, docket: ProvisioningRequestState) -> bool:
    return docket.mode(request) is not None and request.has(PROVISIONED) and not is_over(request, docket)


def end_as_consumed(request: ProvisioningRequest, docket: ProvisioningRequestState) -> None:
    text = "Capacity booking consumed: all pods scheduled"
    docket.mark(request, docket.condition(request, (BOOKING_EXPIRED, "True"), CONSUMED, text))


def pods_to_book(request: ProvisioningRequest, docket: ProvisioningRequestState) -> Sequence[Pod]:
    """All pods of a request; without its templates it fails."""
    try:
        return make_pods(request, docket.templates)
    except MissingTemplates as error:
        text = f"Couldn't create pods, err: {error}"
        docket.mark(request, docket.condition(request, (FAILED, "True"), "FailedToBookCapacity", text))
        return ()


def left_to_come(pods: Sequence[Pod], running: Iterable[Pod], snapshot: Snapshot) -> list[Pod]:
    """Those of a request's pods in whose place none runs yet: a running pod stands for one that asks for as much."""
    came = Counter(_size(snapshot, pod, placed=True) for pod in running)
    if not came:
        return list(pods)
    left = []
    for pod, size in ask_once(pods, partial(_size, snapshot)):
        if came[size] > 0:
            came[size] -= 1
        else:
            left.append(pod)
    others = sum(came.values())  # of no size that was asked for: still, each of them is one that came
    return left[: max(0, len(left) - others)]


def _size(snapshot: Snapshot, pod: Pod, *, placed: bool = False) -> frozenset[tuple[str, int]]:
    held = snapshot.class_of(pod, placed=placed)
    known: frozenset[tuple[str, int]] | None = held.compiled.get("size")
    if known is None:
        known = held.compiled["size"] = frozenset(held.requests.items())
    return known


def _consumers_among(pods: tuple[Pod, ...]) -> tuple[Pod, ...]:
    return tuple(pod for pod in pods if consumed_request(pod) is not None and not is_stand_in(pod))
