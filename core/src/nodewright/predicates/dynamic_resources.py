"""DynamicResources: the node has the devices that the pod's claims request, or can use those allocated to them."""

import numpy as np

from nodewright.predicates.dra.allocator import Refusal
from nodewright.predicates.dra.state import DeviceLedger, demand_of
from nodewright.predicates.predicate import Predicate, Texts, whole
from nodewright.snapshot.claim_log import DeviceFits
from nodewright.snapshot.column import Mask
from nodewright.snapshot.pod_class import PodClass
from nodewright.snapshot.snapshot import Snapshot


def _concerns(pod: PodClass) -> bool:
    return pod.wants_devices


def _refuse_pod(snapshot: Snapshot, pod: PodClass) -> Texts | None:
    refusal = demand_of(pod, snapshot.context).refusal if pod.wants_devices else None
    return (refusal.text,) if refusal is not None else None


def _mask(snapshot: Snapshot, pod: PodClass, window: slice) -> Mask | None:
    if not pod.wants_devices:
        return None
    devices, known = DeviceLedger.of(snapshot), _known(snapshot, pod)
    for row in (np.flatnonzero(known[window] < 0) + window.start).tolist():
        known[row] = not isinstance(devices.find(snapshot, pod, row), Refusal)
    found: Mask = known[window] > 0
    return found


def _known(snapshot: Snapshot, pod: PodClass) -> "np.ndarray[tuple[int], np.dtype[np.int8]]":
    """Return for each row 1 (fits), 0 (does not fit), or -1 (must be searched again)."""
    context, log, size = snapshot.context, snapshot.claim_log, len(snapshot)
    fits = snapshot.device_fits.get(pod)
    if fits is not None and fits.context is context and fits.log is not log:
        fresh = log.since(fits.log) if log is not None else None
        if fresh is None or not DeviceLedger.of(snapshot).are_local([entry.pod_class for entry in fresh]):
            fits = None
        else:
            fits.rows[[entry.row for entry in fresh if entry.row < len(fits.rows)]] = -1
            fits.log = log
    if fits is None or fits.context is not context:
        fits = snapshot.device_fits[pod] = DeviceFits(context, log, np.full(size, -1, dtype=np.int8))
    if len(fits.rows) < size:
        fits.rows = np.concatenate([fits.rows, np.full(size - len(fits.rows), -1, dtype=np.int8)])
    return fits.rows


def _explain(snapshot: Snapshot, pod: PodClass, row: int) -> Texts | None:
    if not pod.wants_devices:
        return None
    found = DeviceLedger.of(snapshot).find(snapshot, pod, row)
    return (found.text,) if isinstance(found, Refusal) else None


PREDICATE = Predicate(
    name="DynamicResources", reads=whole, mask=_mask, explain=_explain, refuse_pod=_refuse_pod, concerns=_concerns
)
