"""Nodes that were to go and were given back: why, and when that is tried again (issue 5)."""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from nodewright.clusterstate.state import Setback
from nodewright.model.removal import RemovalEnded, RemovalResult
from nodewright.model.settings import Settings
from nodewright.snapshot.observation import Observation

# The longest pause between two attempts, and for how long a setback is remembered after the pause, in seconds.
_LONGEST_PAUSE = 7200.0
_FORGET = 10800.0
# Whatever a cloud or the API server writes, so much of it is kept.
_MOST_TEXT = 300
# Failures that the next attempt may well end in again. Of other ends (a pause, new pods) the world has to change.
_COUNTED = (RemovalResult.FAILED_TO_EVICT, RemovalResult.FAILED_TO_DELETE)


def setbacks_after(
    held: Mapping[str, Setback], ended: Sequence[RemovalEnded], seen: Observation, settings: Settings
) -> Mapping[str, Setback]:
    """What is remembered of nodes by name, after removals that are over.

    Until the next attempt the pause is as long as the node had to be unneeded for, at least as long as an unremovable
    one is not looked at, and twice as long after each further failure. CA pauses for nobody.
    """
    if not held and not ended:
        return held
    found = dict(held)
    for end in ended:
        name = end.removal.node
        if end.result == RemovalResult.OK:
            found.pop(name, None)
        else:
            found[name] = _after(found.get(name), end, _patience(end, seen, settings))
    there = {node.metadata.name for node in seen.snapshot.live_nodes()}
    return {name: back for name, back in found.items() if name in there and back.until + _FORGET > seen.now}


def no_later(held: Setback, now: float) -> Setback:
    """As it would be if it had not been later than now."""
    late = max(0.0, held.at - now)
    return replace(held, at=held.at - late, until=held.until - late) if late else held


def _patience(end: RemovalEnded, seen: Observation, settings: Settings) -> float:
    """The first pause, in seconds."""
    group = seen.groups.get(end.removal.group)
    if settings.is_ca or group is None:
        return 0.0
    return max(group.options.scale_down_unneeded_seconds, settings.scale_down.unremovable_node_recheck_timeout)


def _after(held: Setback | None, end: RemovalEnded, patience: float) -> Setback:
    times, message = (held.times if held is not None else 0), f"{end.result}: {end.message}"[:_MOST_TEXT]
    if end.result not in _COUNTED:
        return Setback(times=times, at=end.at, until=held.until if held is not None else end.at, message=message)
    pause = min(_LONGEST_PAUSE, patience * 2.0 ** min(times, 30))
    return Setback(times=times + 1, at=end.at, until=end.at + pause, message=message)
