"""How much of a node is asked for (behaviour/down.md A5).

The ratio is what the counted pods ask of what is left when the pods that are to be ignored have had theirs: of a GPU
node the GPU's alone, of every other node the larger one of cpu and memory. Devices of dynamic resource allocation
(ResourceSlices) are left out: nodewright does not read them, so that such a node is measured by cpu and memory.

Ignored pods may leave nothing, or less. CA divides all the same, and under ``--profile=ca`` so do we: x/0 is +inf, an
over-committed node has a negative ratio, and of 0/0, which is NaN, cpu's yields memory's ratio while memory's hides
cpu's. Otherwise a resource of which nothing is asked counts 0, and one that is asked for without any being left +inf.

Here one node is measured, pod by pod; utilization_columns.py measures many.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nodewright.clusterstate.accelerators import NO_ACCELERATORS, Accelerators
from nodewright.clusterstate.state import ClusterState
from nodewright.model.node import Node
from nodewright.model.pod import Pod
from nodewright.model.quantity import NANO, Quantity
from nodewright.model.settings import Settings
from nodewright.planner.scale_down.drain_rules import is_long_terminating
from nodewright.snapshot.pod_class import PodClass, per_class
from nodewright.snapshot.requests import exact_requests
from nodewright.snapshot.snapshot import Snapshot

Ratios = NDArray[np.float64]
CPU, MEMORY = "cpu", "memory"
# What ``device_of`` answers of a node without GPUs, and of one that is to have some and offers none.
NO_GPU, NO_DEVICE = -1, -2
PROBLEMS = ("", "it offers no cpu", "it offers no memory")


@dataclass(frozen=True, kw_only=True)
class Measure:
    """How utilization is measured; ``now`` in epoch seconds, ``as_ca`` also where CA divides by zero."""

    now: float
    accelerators: Accelerators = NO_ACCELERATORS
    ignore_mirrors: bool = False
    as_ca: bool = False

    @staticmethod
    def of(state: ClusterState, settings: Settings) -> "Measure":
        return Measure(
            now=state.now,
            accelerators=Accelerators.of(state.observation.providers.values()),
            ignore_mirrors=settings.scale_down.ignore_mirror_pods_utilization,
            as_ca=settings.is_ca,
        )


class Utilization(NamedTuple):
    """The ratio of the scarcest resource, and its name; ``problem`` says why there is none, else empty."""

    ratio: float
    resource: str
    problem: str = ""


def utilization_of(snapshot: Snapshot, row: int, measure: Measure, *, ignore_daemonsets: bool = False) -> Utilization:
    """Utilization of one node, pod by pod."""
    node = snapshot.template(row)
    device = device_of(node, measure.accelerators)
    if device == NO_DEVICE:
        return Utilization(0.0, next(iter(measure.accelerators.resources), ""))
    names = (CPU, MEMORY) if device == NO_GPU else (measure.accelerators.resources[device],)
    ratios = []
    for name in names:
        offered = node.allocatable[name].milli if name in node.allocatable else 0
        if not offered:
            return Utilization(0.0, name, PROBLEMS[1 + names.index(name)])
        asked, ignored = _sums(snapshot, row, name, measure, ignore_daemonsets=ignore_daemonsets)
        ratios.append(_ratio(asked, offered - ignored, as_ca=measure.as_ca))
    if len(ratios) == 1:
        return Utilization(ratios[0], names[0])
    return Utilization(ratios[0], CPU) if ratios[0] > ratios[1] else Utilization(ratios[1], MEMORY)


def _ratio(asked: int, room: int, *, as_ca: bool) -> float:
    """One resource's ratio of integers; numpy divides as Go does."""
    return float(ratios_of(np.array([asked], dtype=np.float64), np.array([room], dtype=np.float64), as_ca=as_ca)[0])


def ratios_of(asked: Ratios, room: Ratios, *, as_ca: bool) -> Ratios:
    """What is asked of what there is; see above for what is divided by zero."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios: Ratios = asked / room
    if as_ca:
        return ratios
    return np.where(asked <= 0, 0.0, np.where(room <= 0, np.inf, ratios))


def _sums(snapshot: Snapshot, row: int, name: str, measure: Measure, *, ignore_daemonsets: bool) -> tuple[int, int]:
    """Thousandths of a resource that counted pods and ignored pods ask.

    Pods that are known by their number alone are in the column only, so that counting starts from it.
    """
    unit = unit_of(name)
    asked, ignored = _cell(snapshot, row, name) * unit, 0
    for pod in snapshot.pods(row):
        pod_class = snapshot.class_of(pod, placed=True)
        exact, counted = exact_amounts(pod_class).get(name, 0), pod_class.placed_requests.get(name, 0) * unit
        if is_ignored(pod, daemonsets=ignore_daemonsets, mirrors=measure.ignore_mirrors):
            asked, ignored = asked - counted, ignored + exact
        elif is_long_terminating(pod, measure.now):
            asked -= counted
        else:
            asked += exact - counted
    return Quantity(asked).milli, Quantity(ignored).milli


def _cell(snapshot: Snapshot, row: int, name: str) -> int:
    place = snapshot.vocabulary.resources.get(name)
    if place is None or place >= snapshot.free.shape[1]:
        return 0
    return int(snapshot.allocatable[row, place] - snapshot.free[row, place])


def unit_of(name: str) -> int:
    """Nano-units in one of what the scheduler counts of a resource."""
    return NANO // 1000 if name == CPU else NANO


def is_ignored(pod: Pod, *, daemonsets: bool, mirrors: bool) -> bool:
    """Whether a pod is to be left out."""
    return (daemonsets and pod.is_daemonset_pod) or (mirrors and pod.is_mirror)


@per_class
def exact_amounts(pod_class: PodClass) -> dict[str, int]:
    """What a running pod asks for, in nano-units."""
    return exact_requests(pod_class.pod, placed=True)


def device_of(node: Node, accelerators: Accelerators) -> int:
    """The place of a node's GPU resource among ``accelerators.resources``."""
    kind, count = accelerators.count(node)
    if not kind:
        return NO_GPU
    offered = node.allocatable
    names = (place for place, name in enumerate(accelerators.resources) if name in offered and offered[name].value > 0)
    return next(names, NO_DEVICE) if count else NO_DEVICE
