"""How much of a node's devices claims hold."""

from nodewright.predicates.dra.state import DeviceLedger
from nodewright.snapshot.snapshot import Snapshot


def device_utilization(snapshot: Snapshot, name: str) -> tuple[float, str] | None:
    """Return the share of a node's devices in use, and their driver, of the pool with the largest share.

    None: the node has no devices of its own. A device that is shared counts as soon as one claim has a part of it.
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
