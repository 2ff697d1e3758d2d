"""The utilization of nodes: requested by allocatable.

The ratio is the requests of the counted pods over what remains after the ignored pods: for a GPU node of the GPUs alone, for
every other node the larger ratio of cpu and memory. A node with devices of dynamic resource allocation (ResourceSlices) is
measured like a GPU node, by the device pool of which claims hold the largest share, whichever pods these claims belong to.

Ignored pods may leave nothing, or less than nothing. CA divides nevertheless, and so does ``--profile=ca``: x/0 is +inf, an
over-committed node has a negative ratio. If cpu is 0/0 (NaN), the result is memory's ratio; if memory is NaN, the result is
NaN. Otherwise a resource that no pod requests has the ratio 0, and a requested resource of which nothing remains has +inf.

``utilizations`` measures many nodes by the columns of the snapshot. Columns are exact unless a pod terminates, or a
pod or node has fractions of what the scheduler counts (CA adds up before it rounds). ``utilization_of`` measures
these few nodes pod by pod.
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
from nodewright.model.policy import Policy
from nodewright.model.quantity import NANO, Quantity
from nodewright.model.settings import ScaleDownSettings
from nodewright.planner.scale_down.drainability import is_long_terminating
from nodewright.predicates.dra.state import DeviceLedger
from nodewright.snapshot.column import Ids, Mask
from nodewright.snapshot.node_table import NodeTable
from nodewright.snapshot.pod_class import PodClass, PodClasses, per_class
from nodewright.snapshot.requests import exact_requests
from nodewright.snapshot.snapshot import Snapshot

Ratios = NDArray[np.float64]
CPU, MEMORY = "cpu", "memory"
# ``device_of`` returns these for a node without GPUs, and for a GPU node that offers none yet.
NO_GPU, NO_DEVICE = -1, -2
PROBLEMS = ("", "it offers no cpu", "it offers no memory")


@dataclass(frozen=True, kw_only=True)
class Measure:
    """The rules for measuring utilization; ``now`` in epoch seconds. ``divides_by_zero``: divide by zero as CA does."""

    now: float
    accelerators: Accelerators = NO_ACCELERATORS
    ignore_mirrors: bool = False
    divides_by_zero: bool = False

    @staticmethod
    def of(state: ClusterState, settings: ScaleDownSettings, policy: Policy) -> "Measure":
        """Return how to measure under these settings."""
        return Measure(
            now=state.now,
            accelerators=Accelerators.of(state.observation.providers.values()),
            ignore_mirrors=settings.ignore_mirror_pods_utilization,
            divides_by_zero=not policy.defines_division_by_zero,
        )


class Utilization(NamedTuple):
    """The ratio and the name of the scarcest resource; ``problem`` says why there is no ratio, else empty."""

    ratio: float
    resource: str
    problem: str = ""


def utilization_of(snapshot: Snapshot, row: int, measure: Measure, *, ignore_daemonsets: bool = False) -> Utilization:
    """Measure one node, pod by pod."""
    shared = device_utilization(snapshot, snapshot.name(row)) if snapshot.context.resource_slices else None
    if shared is not None:
        return Utilization(*shared)
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
        ratios.append(_ratio(asked, offered - ignored, divides_by_zero=measure.divides_by_zero))
    if len(ratios) == 1:
        return Utilization(ratios[0], names[0])
    return Utilization(ratios[0], CPU) if ratios[0] > ratios[1] else Utilization(ratios[1], MEMORY)


def _ratio(asked: int, room: int, *, divides_by_zero: bool) -> float:
    """Return the ratio of one resource; numpy divides as Go does."""
    return float(
        divide(
            np.array([asked], dtype=np.float64), np.array([room], dtype=np.float64), divides_by_zero=divides_by_zero
        )[0]
    )


def divide(asked: Ratios, room: Ratios, *, divides_by_zero: bool) -> Ratios:
    """Return requested by available; the module's docstring says what a division by zero gives."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios: Ratios = asked / room
    if divides_by_zero:
        return ratios
    return np.where(asked <= 0, 0.0, np.where(room <= 0, np.inf, ratios))


def _sums(snapshot: Snapshot, row: int, name: str, measure: Measure, *, ignore_daemonsets: bool) -> tuple[int, int]:
    """Return the thousandths of a resource that counted pods and ignored pods request.

    Some pods are only counted in the column and not listed, so that counting starts from the column.
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
    """Return the nano-units in one unit of what the scheduler counts of a resource."""
    return NANO // 1000 if name == CPU else NANO


def is_ignored(pod: Pod, *, daemonsets: bool, mirrors: bool) -> bool:
    """Return whether the pod does not count."""
    return (daemonsets and pod.is_daemonset_pod) or (mirrors and pod.is_mirror)


@per_class
def exact_amounts(pod_class: PodClass) -> dict[str, int]:
    """Return what a running pod requests, in nano-units."""
    return exact_requests(pod_class.pod, placed=True)


def device_of(node: Node, accelerators: Accelerators) -> int:
    """Return the index of a node's GPU resource in ``accelerators.resources``, or NO_GPU or NO_DEVICE."""
    kind, count = accelerators.count(node)
    if not kind:
        return NO_GPU
    offered = node.allocatable
    names = (place for place, name in enumerate(accelerators.resources) if name in offered and offered[name].value > 0)
    return next(names, NO_DEVICE) if count else NO_DEVICE


# Sums of hundreds of such amounts fit into int64 also in thousandths.
_MAX_EXACT = 2**43


class Utilizations(NamedTuple):
    """``Utilization`` of many rows, by column; ``has_gpu``: the threshold for GPUs applies.

    ``resource_ids`` are indexes into ``resources``, ``problem_ids`` into ``problems``, whose first entry means none.
    """

    ratios: Ratios
    resource_ids: Ids
    resources: tuple[str, ...]
    problem_ids: Ids
    problems: tuple[str, ...]
    has_gpu: Mask


def utilizations(snapshot: Snapshot, rows: Ids, measure: Measure, ignore_daemonsets: Mask) -> Utilizations:
    """Measure many nodes at once; ``ignore_daemonsets`` has a value for each row."""
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
    return _with_devices(snapshot, rows, found) if snapshot.context.resource_slices else found


def _with_devices(snapshot: Snapshot, rows: Ids, found: Utilizations) -> Utilizations:
    """Return the utilizations with nodes that have devices measured by these."""
    resources = list(found.resources)
    for index, row in enumerate(rows.tolist()):
        shared = device_utilization(snapshot, snapshot.name(row))
        if shared is not None:
            ratio, driver = shared
            if driver not in resources:
                resources.append(driver)
            found.ratios[index], found.resource_ids[index] = ratio, resources.index(driver)
            found.problem_ids[index], found.has_gpu[index] = 0, True
    return found._replace(resources=tuple(resources))


def _column_ratios(
    snapshot: Snapshot, rows: Ids, name: str, ignored: "_Ignored", measure: Measure
) -> tuple[Ratios, Mask]:
    """Return the ratios of one resource, and the rows whose node offers none of it."""
    place = snapshot.vocabulary.resources.get(name)
    if place is None or place >= snapshot.allocatable.shape[1]:
        return np.zeros(len(rows)), np.ones(len(rows), dtype=np.bool_)
    offered, free = snapshot.allocatable[rows, place], snapshot.free[rows, place]
    excluded = ignored.amounts(name, len(rows))
    factor = unit_of(name) // (NANO // 1000)  # thousandths in one of what is counted, as CA divides those
    asked = ((offered - free - excluded) * factor).astype(np.float64)
    return divide(
        asked, ((offered - excluded) * factor).astype(np.float64), divides_by_zero=measure.divides_by_zero
    ), offered == 0


def _measure_gpus(
    snapshot: Snapshot, rows: Ids, devices: Ids, ignored: "_Ignored", measure: Measure, found: Utilizations
) -> None:
    """Measure GPU nodes by their GPUs alone; a GPU node that offers none yet has the ratio 0."""
    for device in np.unique(devices[found.has_gpu]).tolist():
        mine = devices == device
        found.problem_ids[mine] = 0
        found.ratios[mine] = 0.0
        found.resource_ids[mine] = 2 + max(device, 0)
        if device != NO_DEVICE:
            name = measure.accelerators.resources[device]
            found.ratios[mine] = _column_ratios(snapshot, rows, name, ignored, measure)[0][mine]


class _Ignored:
    """The requests of the ignored pods of some rows: ``requests[i]`` belongs to row index ``places[i]``."""

    def __init__(self, places: Ids, requests: Sequence[dict[str, int]]) -> None:
        self._places = places
        self._requests = requests

    def amounts(self, name: str, size: int) -> Ids:
        amounts = np.zeros(size, dtype=np.int64)
        if len(self._places):
            amounts[self._places] = [request.get(name, 0) for request in self._requests]
        return amounts


def _ignored(snapshot: Snapshot, rows: Ids, daemonsets: Mask, *, ignore_mirrors: bool) -> _Ignored:
    """Return what ignored pods request; kept from loop to loop for nodes whose pods stay the same."""
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
    """Return the rows for which columns are not exact."""
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
    """Return whether pods of a class may count differently than the columns say."""
    if pod_class.terminating:
        return True
    counted = pod_class.placed_requests
    differs = any(nano != counted.get(name, 0) * unit_of(name) for name, nano in exact_amounts(pod_class).items())
    return differs or any(amount > _MAX_EXACT for amount in counted.values())


def _devices(snapshot: Snapshot, accelerators: Accelerators) -> Ids:
    """Return ``device_of`` for each row."""
    if not accelerators.labels:
        return np.full(len(snapshot), NO_GPU)

    def of_nodes(table: NodeTable, window: slice) -> Ids:
        return np.array(
            [device_of(table.template(row), accelerators) for row in range(window.start, window.stop)], dtype=np.int64
        )

    return snapshot.column(("device", accelerators), of_nodes)


def device_utilization(snapshot: Snapshot, name: str) -> tuple[float, str] | None:
    """Return the largest share of a device pool of the node that is in use, and the driver of that pool.

    None: the node has no devices of its own. A shared device counts as soon as one claim holds a part of it.
    """
    slices = snapshot.context.slices_on(name)
    if not any(one.spec.devices for one in slices):
        return None
    in_use = DeviceLedger.of(snapshot).in_use()
    held = in_use.devices | in_use.shares.keys()
    newest = {(one.spec.driver, one.spec.pool.name): 0 for one in slices}
    for one in slices:
        pool = (one.spec.driver, one.spec.pool.name)
        newest[pool] = max(newest[pool], one.spec.pool.generation)
    found = dict[tuple[str, str], list[bool]]()
    for one in slices:
        pool = (one.spec.driver, one.spec.pool.name)
        if one.spec.pool.generation == newest[pool]:
            found.setdefault(pool, []).extend((*pool, device.name) in held for device in one.spec.devices)
    return max((sum(used) / len(used), driver) for (driver, _), used in found.items() if used)
