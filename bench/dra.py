"""Times device allocation: ``dra.py``. Prints one row for each bar of docs/dra.md; exit code 1: a bar is broken."""

import sys
import time
from collections.abc import Callable

import numpy as np

from nodewright.model.decode import convert_object
from nodewright.model.devices import (
    CelSelector,
    ClaimRequest,
    Device,
    DeviceAttribute,
    DeviceClaim,
    DeviceClass,
    DeviceClassSpec,
    DeviceConstraint,
    DeviceRequest,
    DeviceSelector,
    ResourceClaimSpec,
    ResourceClaimTemplate,
    ResourceClaimTemplateSpec,
    ResourcePool,
    ResourceSlice,
    ResourceSliceSpec,
)
from nodewright.model.meta import ObjectMeta
from nodewright.model.node import Node
from nodewright.model.objects import ClusterObjects
from nodewright.model.pod import Pod
from nodewright.predicates import explain, feasible
from nodewright.snapshot.context import Context
from nodewright.snapshot.snapshot import Snapshot

DRIVER = "gpu.example.com"
_IS_A100 = f'device.attributes["{DRIVER}"].model == "a100"'


def main() -> int:
    rows = [
        ("1,000 nodes x 8 devices x 8,000 claims", 2.0, _large_cluster),
        ("kubernetes#131730, equal devices", 0.05, lambda: _worst_case(are_equal=True)),
        ("kubernetes#131730, distinct devices", 0.05, lambda: _worst_case(are_equal=False)),
    ]
    is_good = True
    for name, bar, run in rows:
        seconds, outcome = min((_timed(run) for _ in range(3)), key=lambda timed: timed[0])
        is_good = is_good and seconds < bar
        print(f"{name:42} {seconds * 1000:8.1f} ms  (bar {bar * 1000:.0f} ms)  {outcome}")
    return 0 if is_good else 1


def _timed(prepare: Callable[[], Callable[[], str]]) -> tuple[float, str]:
    run = prepare()
    start = time.process_time()
    outcome = run()
    return time.process_time() - start, outcome


def _large_cluster() -> Callable[[], str]:
    """Place pods with one claim each, one after the other, until all devices are taken."""
    nodes, pods = 1000, 8000
    snapshot = _snapshot([_devices(f"n{index}", 8) for index in range(nodes)], _claim(1))
    snapshot.add_nodes([_node(f"n{index}") for index in range(nodes)])
    asking = _asking()

    def run() -> str:
        pod_class, placed = snapshot.class_of(asking), 0
        for _ in range(pods):
            rows = np.flatnonzero(feasible(snapshot, pod_class))
            if not len(rows):
                break
            snapshot.place(pod_class, int(rows[0]))
            placed += 1
        rest = int(feasible(snapshot, pod_class).sum())
        return f"{placed} placed, {rest} nodes with room left"

    return run


def _worst_case(*, are_equal: bool) -> Callable[[], str]:
    """Ask for devices of which the last does not exist: a plain search would try all orders of the others."""
    devices = _devices("n0", 16, are_equal=are_equal)
    constraints = () if are_equal else (DeviceConstraint(distinct_attribute=f"{DRIVER}/uuid"),)
    snapshot = _snapshot([devices], _claim(*[1] * 12, impossible=True, constraints=constraints))
    snapshot.add_nodes([_node("n0")])

    def run() -> str:
        return str(explain(snapshot, snapshot.class_of(_asking()), 0))

    return run


def _snapshot(slices: list[ResourceSlice], claim: DeviceClaim) -> Snapshot:
    selector = DeviceSelector(cel=CelSelector(expression=f'device.driver == "{DRIVER}"'))
    template = ResourceClaimTemplateSpec(spec=ResourceClaimSpec(devices=claim))
    return Snapshot(
        Context.of(
            ClusterObjects(
                resource_slices=tuple(slices),
                device_classes=(
                    DeviceClass(metadata=ObjectMeta(name="gpu"), spec=DeviceClassSpec(selectors=(selector,))),
                ),
                resource_claim_templates=(
                    ResourceClaimTemplate(metadata=ObjectMeta(name="t", namespace="default"), spec=template),
                ),
            )
        )
    )


def _devices(node: str, count: int, *, are_equal: bool = False) -> ResourceSlice:
    devices = tuple(
        Device(
            name=f"gpu-{index}",
            attributes={
                "model": DeviceAttribute(string="a100"),
                "uuid": DeviceAttribute(string="same" if are_equal else f"{node}-{index}"),
            },
        )
        for index in range(count)
    )
    spec = ResourceSliceSpec(
        driver=DRIVER, node_name=node, devices=devices, pool=ResourcePool(name=node, resource_slice_count=1)
    )
    return ResourceSlice(metadata=ObjectMeta(name=node), spec=spec)


def _claim(*counts: int, impossible: bool = False, constraints: tuple[DeviceConstraint, ...] = ()) -> DeviceClaim:
    selectors = (DeviceSelector(cel=CelSelector(expression=_IS_A100)),)
    requests = [
        ClaimRequest(name=f"r{index}", exactly=DeviceRequest(device_class_name="gpu", count=count, selectors=selectors))
        for index, count in enumerate(counts)
    ]
    if impossible:
        none = (DeviceSelector(cel=CelSelector(expression=_IS_A100.replace("a100", "h100"))),)
        requests.append(ClaimRequest(name="last", exactly=DeviceRequest(device_class_name="gpu", selectors=none)))
    return DeviceClaim(requests=tuple(requests), constraints=constraints)


def _asking() -> Pod:
    claims = [{"name": "x", "resourceClaimTemplateName": "t"}]
    return convert_object(
        Pod, {"metadata": {"name": "p", "namespace": "default"}, "spec": {"resourceClaims": claims, "containers": []}}
    )


def _node(name: str) -> Node:
    return convert_object(
        Node, {"metadata": {"name": name}, "status": {"allocatable": {"cpu": "64", "memory": "512Gi", "pods": "110"}}}
    )


if __name__ == "__main__":
    sys.exit(main())
