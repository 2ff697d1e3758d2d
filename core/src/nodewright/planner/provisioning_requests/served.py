"""Requests of classes that providers serve themselves, and those of classes that nobody serves."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby

from nodewright.clusterstate.state import ClusterState
from nodewright.model.pod import Pod
from nodewright.model.provisioning_request import FAILED, PROVISIONED
from nodewright.model.quantity import Quantity
from nodewright.planner.provisioning_requests.classes import Mode, is_of_the_core
from nodewright.planner.provisioning_requests.docket import PendingEvent, ProviderCall, ProvisioningRequestState
from nodewright.planner.provisioning_requests.fair import in_turn, pods_of
from nodewright.planner.provisioning_requests.shared import accepted, gives_up, next_retry
from nodewright.snapshot.requests import exact_requests

# Each is a call to a cloud, one after the other.
_MOST_QUESTIONS = 20
# Whoever else may serve a class has said something by then, in seconds from the request's creation.
_SILENCE_SECONDS = 60.0


def ask_providers(docket: ProvisioningRequestState) -> None:
    """Every request that is due is accepted, and its provider asked; the answer is written in this loop."""
    for request in in_turn(docket, Mode.PROVIDER, _MOST_QUESTIONS):
        pods = pods_of(request, docket)
        if not pods:
            continue
        docket.examined = True
        opened = docket.mark(request, accepted(request, docket), opens=True)
        waiting = docket.condition(opened, (PROVISIONED, "False"), "", "")
        docket.questions.append(
            ProviderCall(
                request=opened,
                provider=docket.server_of(request),
                terms=docket.terms(request),
                resources=_total(pods),
                met=docket.condition(opened, (PROVISIONED, "True"), "", ""),
                unmet=docket.condition(opened, (FAILED, "True"), "", "") if gives_up(request, docket) else waiting,
                waiting=waiting,
                retry=next_retry(request, docket),
            )
        )
        docket.classes.hold(request, 0)


def tell_unserved(state: ClusterState, docket: ProvisioningRequestState) -> None:
    """A request about whose class nobody has said anything is told so: its name may be wrong."""
    providers = state.observation.providers.values()
    if any(provider.problem for provider in providers):
        return  # it may be that one's class
    for request in docket:
        name = docket.terms(request).class_name
        if is_of_the_core(name) or docket.server_of(request) or request.status.conditions:
            continue
        told_at = request.created + _SILENCE_SECONDS
        if docket.now < told_at:
            docket.wake(told_at)
            continue
        known = sorted({kind for provider in providers for kind in provider.provisioning_classes})
        text = f"neither nodewright nor its providers serve class {name}, and nobody else has said anything"
        text += f"; providers serve {', '.join(known)}" if known else ""
        note = PendingEvent(request=request.key, reason="ProvisioningClassNotServed", message=text, is_warning=True)
        docket.notes.append(note)


def _total(pods: Sequence[Pod]) -> Mapping[str, Quantity]:
    """What all pods ask for; those of one set share their spec, and are counted once."""
    nano: Counter[str] = Counter()
    for _, alike in groupby(pods, key=lambda pod: id(pod.spec)):
        held = list(alike)
        for name, amount in exact_requests(held[0], placed=False).items():
            nano[name] += amount * len(held)
    return {name: Quantity(amount) for name, amount in nano.items()}
