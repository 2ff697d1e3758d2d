"""How much of a node is asked for (behaviour/down.md A5).

The ratio is what the counted pods ask of what is left when the pods that are to be ignored have had theirs: of a GPU
node the GPU's alone, of every other node the larger one of cpu and memory. Devices of dynamic resource allocation
(ResourceSlices) are left out: nodewright does not read them, so that such a node is measured by cpu and memory.

Ignored pods may leave nothing, or less. CA divides all the same, and under ``--profile=ca`` so do we: x/0 is +inf, an
over-committed node has a negative ratio, and of 0/0, which is NaN, cpu's yields memory's ratio while memory's hides
cpu's. Otherwise a resource of which nothing is asked counts 0, and one that is asked for without any being left +inf.

Here one node is measured, pod by pod; utilization_columns.py measures many.


How much of many nodes is asked for, by the snapshot's columns; utilization.py says what is measured.

Columns are exact but where a pod terminates or asks for fractions of what the scheduler counts (CA sums before it
rounds), or where a node offers such: these few nodes are measured pod by pod.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nodewright.clusterstate.accelerators import NO_ACCELERATORS, Accelerators
from nodewright.clusterstate.state import ClusterState
from nodewright.model.node import Node
from nodewright.model.pod import Pod
from nodewright.model.quantity import NANO, Quantity
from nodewright.model.settings import Settings
from nodewright.planner.scale_down.drainability import is_long_terminating
from nodewright.snapshot.column import Ids, Mask
from nodewright.snapshot.node_table import NodeTable
from nodewright.snapshot.pod_class import PodClass, PodClasses, per_class
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
    return float(divide(np.array([asked], dtype=np.float64), np.array([room], dtype=np.float64), as_ca=as_ca)[0])


def divide(asked: Ratios, room: Ratios, *, as_ca: bool) -> Ratios:
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


# Hundreds of such amounts stay exact in int64 also when counted in thousandths.
_MAX_EXACT = 2**43


class Utilizations(NamedTuple):
    """``Utilization`` of many rows, by column; ``has_gpu`` says whose threshold is the one of GPUs.

    ``resource_ids`` are places in ``resources``, ``problem_ids`` in ``problems``, of which the first is none.
    """

    ratios: Ratios
    resource_ids: Ids
    resources: tuple[str, ...]
    problem_ids: Ids
    problems: tuple[str, ...]
    has_gpu: Mask


def utilizations(snapshot: Snapshot, rows: Ids, measure: Measure, ignore_daemonsets: Mask) -> Utilizations:
    """Utilization of many nodes at once; ``ignore_daemonsets`` is said per row."""
    devices = _devices(snapshot, measure.accelerators)[rows]
    ignored = _ignored(snapshot, rows, ignore_daemonsets, ignore_mirrors=measure.ignore_mirrors)
    cpu, without_cpu = _column_ratios(snapshot, rows, CPU, ignored, measure)
    memory, without_memory = _column_ratios(snapshot, rows, MEMORY, ignored, measure)
    is_cpu = cpu > memory
    problems = np.where(without_cpu, 1, np.where(without_memory, 2, 0))
    found = Utilizations(
        ratios=np.where(is_cpu, cpu, memory),
        resource_ids=np.where(is_cpu, 0, 1),
        resources=(CPU, MEMORY, *measure.accelerators.resources),
        problem_ids=problems,
        problems=PROBLEMS,
        has_gpu=devices != NO_GPU,
    )
    _measure_gpus(snapshot, rows, devices, ignored, measure, found)
    for index in np.flatnonzero(_rough_rows(snapshot)[rows]).tolist():
        one = utilization_of(snapshot, int(rows[index]), measure, ignore_daemonsets=bool(ignore_daemonsets[index]))
        found.ratios[index] = one.ratio
        found.resource_ids[index] = found.resources.index(one.resource) if one.resource else 0
        found.problem_ids[index] = PROBLEMS.index(one.problem)
    return found


def _column_ratios(
    snapshot: Snapshot, rows: Ids, name: str, ignored: "_Ignored", measure: Measure
) -> tuple[Ratios, Mask]:
    """Ratios of one resource, and the rows that offer none of it."""
    place = snapshot.vocabulary.resources.get(name)
    if place is None or place >= snapshot.allocatable.shape[1]:
        return np.zeros(len(rows)), np.ones(len(rows), dtype=np.bool_)
    offered, free = snapshot.allocatable[rows, place], snapshot.free[rows, place]
    excluded = ignored.amounts(name, len(rows))
    factor = unit_of(name) // (NANO // 1000)  # thousandths in one of what is counted, as CA divides those
    asked = ((offered - free - excluded) * factor).astype(np.float64)
    return divide(asked, ((offered - excluded) * factor).astype(np.float64), as_ca=measure.as_ca), offered == 0


def _measure_gpus(
    snapshot: Snapshot, rows: Ids, devices: Ids, ignored: "_Ignored", measure: Measure, found: Utilizations
) -> None:
    """Of a GPU node the GPUs alone count; one that does not offer any yet is used by nobody."""
    for device in np.unique(devices[found.has_gpu]).tolist():
        mine = devices == device
        found.problem_ids[mine] = 0
        found.ratios[mine] = 0.0
        found.resource_ids[mine] = 2 + max(device, 0)
        if device != NO_DEVICE:
            name = measure.accelerators.resources[device]
            found.ratios[mine] = _column_ratios(snapshot, rows, name, ignored, measure)[0][mine]


class _Ignored:
    """What the ignored pods of some rows ask: one mapping for every row of ``places``."""

    def __init__(self, places: Ids, requests: Sequence[dict[str, int]]) -> None:
        self._places = places
        self._requests = requests

    def amounts(self, name: str, size: int) -> Ids:
        amounts = np.zeros(size, dtype=np.int64)
        if len(self._places):
            amounts[self._places] = [request.get(name, 0) for request in self._requests]
        return amounts


def _ignored(snapshot: Snapshot, rows: Ids, daemonsets: Mask, *, ignore_mirrors: bool) -> _Ignored:
    """What is asked by pods that do not count; it is known from loop to loop where pods stay the same."""
    places: list[int] = []
    requests: list[dict[str, int]] = []
    for ignores in (False, True):
        if not (ignores or ignore_mirrors):
            continue
        mine = np.flatnonzero(daemonsets == ignores)
        compute = partial(_ignored_requests, snapshot.vocabulary.classes, daemonsets=ignores, mirrors=ignore_mirrors)
        places += mine.tolist()
        requests += snapshot.of_pods(("ignored", ignores, ignore_mirrors), rows[mine].tolist(), compute)
    return _Ignored(np.array(places, dtype=np.int64), requests)


def _ignored_requests(classes: PodClasses, pods: tuple[Pod, ...], *, daemonsets: bool, mirrors: bool) -> dict[str, int]:
    total: dict[str, int] = {}
    for pod in pods:
        if is_ignored(pod, daemonsets=daemonsets, mirrors=mirrors):
            for name, amount in classes.of(pod, placed=True).placed_requests.items():
                total[name] = total.get(name, 0) + amount
    return total


def _rough_rows(snapshot: Snapshot) -> Mask:
    """Rows of which the columns do not tell enough."""
    rough: Mask = snapshot.column("rough", _rough_nodes).copy()
    for pod_class in snapshot.placed_classes(_is_rough):
        rough[list(snapshot.rows_of(pod_class))] = True
    return rough


def _rough_nodes(table: NodeTable, window: slice) -> Mask:
    return np.array([_is_rough_node(table.template(row)) for row in range(window.start, window.stop)], dtype=np.bool_)


def _is_rough_node(node: Node) -> bool:
    return any(
        quantity.nano % unit_of(name) != 0 or quantity.value > _MAX_EXACT for name, quantity in node.allocatable.items()
    )


def _is_rough(pod_class: PodClass) -> bool:
    """Whether pods of a class may count for nothing, or for something else than the columns say."""
    if pod_class.terminating:
        return True
    counted = pod_class.placed_requests
    differs = any(nano != counted.get(name, 0) * unit_of(name) for name, nano in exact_amounts(pod_class).items())
    return differs or any(amount > _MAX_EXACT for amount in counted.values())


def _devices(snapshot: Snapshot, accelerators: Accelerators) -> Ids:
    """``device_of`` each row."""
    if not accelerators.labels:
        return np.full(len(snapshot), NO_GPU)

    def of_nodes(table: NodeTable, window: slice) -> Ids:
        return np.array(
            [device_of(table.template(row), accelerators) for row in range(window.start, window.stop)], dtype=np.int64
        )

    return snapshot.column(("device", accelerators), of_nodes)
