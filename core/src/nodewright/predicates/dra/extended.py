"""Extended resources that a DeviceClass serves: the claim that kube-scheduler makes for a pod on one node."""

from collections.abc import Iterator, Mapping, Sequence

from nodewright.model.devices import ClaimRequest, DeviceClaim, DeviceClass, DeviceRequest
from nodewright.model.pod import Container, PodSpec


def claim_for(spec: PodSpec, served: Mapping[str, DeviceClass]) -> DeviceClaim:
    """Return the claim for the resources that a node serves by devices, by resource name.

    Init containers that end before others start use the devices of these, and share the rest among themselves.
    """
    containers = (*spec.init_containers, *spec.containers)
    is_short = [
        index < len(spec.init_containers) and container.restart_policy != "Always"
        for index, container in enumerate(containers)
    ]
    requests = [
        request
        for resource in sorted(served)
        for request in _requests(containers, is_short, resource, served[resource].name)
    ]
    return DeviceClaim(requests=tuple(sorted(requests, key=lambda request: request.name)))


def _requests(
    containers: Sequence[Container], is_short: Sequence[bool], resource: str, class_name: str
) -> Iterator[ClaimRequest]:
    held = [0 if short else _amount(container, resource) for container, short in zip(containers, is_short, strict=True)]
    most: tuple[int, int] | None = None
    for index, container in enumerate(containers):
        rest = _amount(container, resource) - sum(held[index:]) if is_short[index] else 0
        if rest > 0 and (most is None or rest > most[1]):
            most = (index, rest)
    for index, count in ([most] if most else []) + [(index, count) for index, count in enumerate(held) if count]:
        place = sorted(containers[index].resources.requests).index(resource)
        exactly = DeviceRequest(device_class_name=class_name, count=count)
        yield ClaimRequest(name=f"container-{index}-request-{place}", exactly=exactly)


def _amount(container: Container, resource: str) -> int:
    amount = container.resources.requests.get(resource)
    return amount.value if amount is not None else 0
