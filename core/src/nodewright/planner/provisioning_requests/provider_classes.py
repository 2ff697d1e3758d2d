"""Requests of classes that providers serve themselves, and of classes that no provider serves."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby

from nodewright.model.plan import PendingEvent, ProviderCall
from nodewright.model.pod import Pod
from nodewright.model.provisioning_request import FAILED, PROVISIONED
from nodewright.model.quantity import Quantity
from nodewright.planner.provisioning_requests.arbitration import Examination, in_turn
from nodewright.planner.provisioning_requests.classes import Mode, is_core_class
from nodewright.planner.provisioning_requests.state import ProvisioningRequestState, RequestChanges
from nodewright.snapshot.observation import ProviderSeen
from nodewright.snapshot.requests import exact_requests

# Each is a call to a cloud, one after the other.
_MOST_CALLS = 20
# Seconds from a request's creation after which another controller that serves its class has written a condition.
_SILENCE_SECONDS = 60.0


def plan_provider_calls(requests: ProvisioningRequestState) -> RequestChanges:
    """Accept each due request, and call its provider; the provider's result is written in this loop."""
    step = Examination(requests)
    taken, next_change = in_turn(requests, Mode.PROVIDER, _MOST_CALLS)
    step.add(RequestChanges(next_change=next_change))
    for request in taken:
        pods = step.pods_of(request)
        if not pods:
            continue
        accepted, retry = requests.accepted(request), requests.next_retry(request.id)
        fresh = requests.with_conditions(request, accepted)
        waiting = requests.condition(fresh, (PROVISIONED, "False"), "", "")
        failed = requests.condition(fresh, (FAILED, "True"), "", "")
        call = ProviderCall(
            request=fresh,
            provider=requests.provider_of(request),
            request_class=requests.classes.class_of(request),
            resources=_total(pods),
            met=requests.condition(fresh, (PROVISIONED, "True"), "", ""),
            unmet=failed if requests.fails_at_once(request) else waiting,
            waiting=waiting,
        )
        due = requests.next_change_at(retry.at + retry.wait)
        step.add(requests.write(request, accepted, is_acceptance=True))
        step.add(RequestChanges(calls=(call,), call_retries={request.id: retry}, examined=True, next_change=due))
        step.reserve(request, 0)
    return step.changes


def report_unserved(requests: ProvisioningRequestState, providers: Mapping[str, ProviderSeen]) -> RequestChanges:
    """Emit an event for each request on which no controller has written a condition: its class name may be wrong."""
    if any(provider.problem for provider in providers.values()):
        return RequestChanges()  # a provider that cannot be reached may serve the class
    known = sorted({name for provider in providers.values() for name in provider.provisioning_classes})
    events: list[PendingEvent] = []
    later: list[float] = []
    for request in requests:
        name = requests.classes.class_of(request).class_name
        if is_core_class(name) or requests.provider_of(request) or request.status.conditions:
            continue
        due = request.created + _SILENCE_SECONDS
        if requests.now < due:
            later.append(due)
            continue
        text = f"neither nodewright nor its providers serve class {name}, and no other controller has set a condition"
        text += f"; providers serve {', '.join(known)}" if known else ""
        events.append(
            PendingEvent(request=request.key, reason="ProvisioningClassNotServed", message=text, is_warning=True)
        )
    return RequestChanges(events=tuple(events), next_change=requests.next_change_at(*later))


def _total(pods: Sequence[Pod]) -> Mapping[str, Quantity]:
    """Return what all pods request together; those of one set share their spec, and are counted once."""
    nano: Counter[str] = Counter()
    for _, alike in groupby(pods, key=lambda pod: id(pod.spec)):
        held = list(alike)
        for name, amount in exact_requests(held[0], placed=False).items():
            nano[name] += amount * len(held)
    return {name: Quantity(amount) for name, amount in nano.items()}
