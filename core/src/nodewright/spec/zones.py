"""The zone of a group's next machine, where the cloud spreads machines over zones by itself."""

from collections.abc import Mapping

# Seconds for which one zone counts as that of the next machine.
_TURN_SECONDS = 60.0


def zone_in_turn(machines: Mapping[str, int], now: float) -> str:
    """Return the zone to plan with at ``now`` (epoch seconds); empty without zones. ``machines``: their number by zone.

    Clouds add machines to the zones with the fewest. So every second turn goes to one of these zones. The other turns go to
    the remaining zones, so that pods which need such a zone are helped in time.
    """
    fewest = [zone for zone, count in machines.items() if count == min(machines.values())]
    rest = [zone for zone in machines if zone not in fewest]
    turn = int(now // _TURN_SECONDS)
    if not rest:
        return fewest[turn % len(fewest)] if fewest else ""
    zones = rest if turn % 2 else fewest
    return zones[turn // 2 % len(zones)]
