"""The zone of a group's next machine, where the cloud spreads machines over zones by itself."""

from collections.abc import Mapping

# Seconds for which a zone is taken for the next one.
_TURN_SECONDS = 60.0


def zone_in_turn(machines: Mapping[str, int], now: float) -> str:
    """Return the zone whose turn it is at ``now`` (epoch seconds); "": there is none. ``machines``: how many each zone has.

    Clouds add machines to the zones with the fewest. Each other turn is that of such a zone, the others are shared by the
    rest, so that pods which need a certain zone are helped some time.
    """
    fewest = [zone for zone, count in machines.items() if count == min(machines.values())]
    rest = [zone for zone in machines if zone not in fewest]
    turn = int(now // _TURN_SECONDS)
    if not rest:
        return fewest[turn % len(fewest)] if fewest else ""
    zones = rest if turn % 2 else fewest
    return zones[turn // 2 % len(zones)]
