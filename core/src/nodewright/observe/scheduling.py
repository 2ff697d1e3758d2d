"""Apply the operator's schedules to the groups of each loop: sizes and options that differ while a window is open."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

import msgspec

from nodewright.clusterstate.memory import ArrivalHistory
from nodewright.clusterstate.provision_times import usual_time
from nodewright.model.disruption import DisruptionConfig, Schedule, next_edge, next_opening, opening
from nodewright.model.duration import parse_duration
from nodewright.model.group import GroupOptions, GroupRef, NodeGroup
from nodewright.snapshot.observation import GroupSeen

# What a schedule sets, by the name of its field in the file.
_Changes = Mapping[str, float | bool]


class Scheduling:
    """Applies schedules. A group of which nothing changed stays the same object, because callers cache by it."""

    def __init__(self) -> None:
        self._held: dict[GroupRef, tuple[GroupSeen, _Changes, GroupSeen]] = {}

    def apply(
        self,
        groups: Mapping[GroupRef, GroupSeen],
        config: DisruptionConfig,
        arrivals: Mapping[GroupRef, ArrivalHistory],
        now: float,
    ) -> tuple[dict[GroupRef, GroupSeen], float]:
        """Return the groups as schedules have them at ``now``, and when a schedule or a budget begins or ends next."""
        windows = (*(budget.when for budget in config.disruption), *(schedule.when for schedule in config.schedules))
        edge = next_edge(windows, now)
        found: dict[GroupRef, GroupSeen] = {}
        held: dict[GroupRef, tuple[GroupSeen, _Changes, GroupSeen]] = {}
        for ref, seen in groups.items():
            changes, sooner = _find_changes(seen, config.schedules, arrivals, now)
            edge = min(edge, sooner)
            if not changes and seen.stated is None:
                found[ref] = seen
                continue
            before = self._held.get(ref)
            is_same = before is not None and before[0] is seen and before[1] == changes
            found[ref] = before[2] if before is not None and is_same else _with_changes(seen, changes)
            held[ref] = (seen, changes, found[ref])
        self._held = held
        return found, edge


def _find_changes(
    seen: GroupSeen, schedules: Iterable[Schedule], arrivals: Mapping[GroupRef, ArrivalHistory], now: float
) -> tuple[_Changes, float]:
    """Return what schedules set for a group, and when a minimum is raised ahead of its window (epoch seconds; inf: never)."""
    changes: dict[str, float | bool] = {}
    edge = float("inf")
    labels = seen.template.metadata.labels if seen.template is not None else {}
    for schedule in schedules:
        if not schedule.match.covers(seen.ref, labels):
            continue
        given = schedule.set.given()
        if opening(schedule.when, now).is_open:
            changes |= given
        lead = _lead(schedule, seen, arrivals)
        if lead and "min" in given:
            ahead = next_opening(schedule.when, now) - lead
            if ahead > now:
                edge = min(edge, ahead)
            else:
                changes["min"] = max(given["min"], changes.get("min", 0))
    return changes, edge


def _lead(schedule: Schedule, seen: GroupSeen, arrivals: Mapping[GroupRef, ArrivalHistory]) -> float:
    """Return how long before the window the minimum is raised, in seconds."""
    if schedule.lead != "auto":
        return parse_duration(schedule.lead) if schedule.lead else 0.0
    own = usual_time([arrivals[seen.ref]]) if seen.ref in arrivals else None
    return own or usual_time(arrivals.values()) or seen.options.max_node_provision_seconds


def _with_changes(seen: GroupSeen, changes: _Changes) -> GroupSeen:
    """Return the group with these changes of what its provider stated; the maximum is at most the provider's."""
    group, options = seen.stated or (seen.group, seen.options)
    if not changes:
        return replace(seen, group=group, options=options, stated=None, is_min_scheduled=False, consolidates=True)
    most = min(group.max_size, int(changes.get("max", group.max_size)))
    least = min(most, int(changes.get("min", group.min_size)))
    others = {name: value for name, value in changes.items() if name not in ("min", "max", "consolidation")}
    return replace(
        seen,
        group=_sized(group, least, most),
        options=_with_options(options, others),
        stated=(group, options),
        is_min_scheduled="min" in changes,
        consolidates=bool(changes.get("consolidation", True)),
    )


def _sized(group: NodeGroup, least: int, most: int) -> NodeGroup:
    return msgspec.structs.replace(group, min_size=least, max_size=most)


def _with_options(options: GroupOptions, changes: _Changes) -> GroupOptions:
    return msgspec.structs.replace(options, **changes)
