"""The status ConfigMap: written when its content has changed, and at least every minute as a sign of life."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import yaml

from nodewright.adapters.kube.api import ApiError
from nodewright.adapters.kube.config_maps import ConfigMaps, StoredMap
from nodewright.clusterstate.readiness import describe_unhealthy
from nodewright.clusterstate.state import ClusterState, GroupState, Readiness
from nodewright.engine.status import GroupStatus, make_status
from nodewright.model.duration import format_moment
from nodewright.model.plan import Plan
from nodewright.planner.make_plan import NO_READY_NODES

_LONGEST_MESSAGE = 500
_CUT = "<truncated>"
_PROBED = "lastProbeTime"
_CHANGED = "lastTransitionTime"


@dataclass
class Transitions:
    """The time at which each status last changed, in epoch seconds."""

    _since: dict[tuple[str, ...], tuple[str, float]] = field(default_factory=dict)

    def since(self, place: tuple[str, ...], status: str, now: float) -> float:
        known = self._since.get(place)
        if known is None or known[0] != status:
            self._since[place] = known = (status, now)
        return known[1]


def starting_document() -> dict[str, Any]:
    return {"autoscalerStatus": "Initializing"}


def make_document(state: ClusterState, plan: Plan, transitions: Transitions) -> dict[str, Any]:
    """Return the document without ``time``."""
    if plan.halted == NO_READY_NODES:
        return {**starting_document(), "message": plan.halted}
    now = state.now
    candidates = _candidates(state, plan)
    groups = [state.groups[ref] for ref in sorted(state.groups)]
    total_candidates = sum(candidates.values())
    total = _sum(group.readiness for group in groups)
    growing = any(group.upcoming or group.requests for group in groups)
    known = {held.ref: held for held in make_status(state.memory, now).groups}

    def part(place: tuple[str, ...], status: str, **more: Any) -> dict[str, Any]:
        since = transitions.since(place, status, now)
        return {"status": status, **more, _PROBED: format_moment(now), _CHANGED: format_moment(since)}

    return {
        "autoscalerStatus": "Running",
        "clusterWide": {
            "health": part(
                ("health",), _health(state.healthy), nodeCounts=_node_counts(total), **_why_unhealthy(state)
            ),
            "scaleUp": part(("up",), "InProgress" if growing else "NoActivity"),
            "scaleDown": part(("down",), _down(total_candidates), **_more(total_candidates)),
        },
        "nodeGroups": [
            _group_part(group, candidates.get(str(group.ref), 0), known.get(group.ref), part) for group in groups
        ],
    }


def without_times(document: Any) -> Any:
    """Return the document without its times: only other changes are worth a write."""
    if isinstance(document, dict):
        return {key: without_times(value) for key, value in document.items() if key not in ("time", _PROBED)}
    if isinstance(document, list):
        return [without_times(value) for value in document]
    return document


def _group_part(group: GroupState, candidates: int, held: GroupStatus | None, part: Any) -> dict[str, Any]:
    name, seen = str(group.ref), group.seen
    status, more = _scale_up(group, is_backed_off=held is not None and held.backoff is not None)
    return {
        "name": seen.group.id,
        "health": part(
            (name, "health"),
            _health(group.healthy),
            nodeCounts=_node_counts(group.readiness),
            cloudProviderTarget=seen.target if seen.target is not None else 0,
            minSize=seen.group.min_size,
            maxSize=seen.group.max_size,
        ),
        "scaleUp": part((name, "up"), status, backoffInfo=more, **_failures(held)),
        "scaleDown": part((name, "down"), _down(candidates), **_more(candidates)),
    }


def _failures(held: GroupStatus | None) -> dict[str, Any]:
    """Return how failures of a group are detected, and when the next machine that it waits for is given up."""
    if held is None or held.detection is None:
        return {}
    found = held.detection
    told: dict[str, Any] = {"fast": found.fast, "timeoutSeconds": found.timeout, "learned": found.learned}
    ends = [request.deadline for request in held.requests] + ([held.next_late] if held.next_late is not None else [])
    more = {"givenUpAt": format_moment(min(ends))} if ends else {}
    return {"failureDetection": told | ({"whyNotFast": found.why_not} if found.why_not else {}), **more}


def _scale_up(group: GroupState, *, is_backed_off: bool) -> tuple[str, dict[str, str]]:
    """Return the status of scale-up. As in CA, growth under way goes before reasons that keep the group from growing."""
    if group.requests or group.upcoming:
        return "InProgress", {}
    if not group.healthy:
        return "Unhealthy", {}
    if group.backoff is not None and is_backed_off:
        return "Backoff", {"errorCode": group.backoff.code, "errorMessage": _shortened(group.backoff.message)}
    return "NoActivity", {}


def _down(candidates: int) -> str:
    return "CandidatesPresent" if candidates else "NoCandidates"


def _more(candidates: int) -> dict[str, int]:
    return {"candidates": candidates} if candidates else {}


def _candidates(state: ClusterState, plan: Plan) -> Mapping[str, int]:
    """Count the unneeded nodes of each group."""
    counts: dict[str, int] = {}
    for node in plan.scale_down.unneeded:
        ref = str(state.group_of_node.get(node, ""))
        counts[ref] = counts.get(ref, 0) + 1
    return counts


def _why_unhealthy(state: ClusterState) -> dict[str, str]:
    unhealthy = state.memory.unhealthy
    return {} if unhealthy is None else {"message": describe_unhealthy(unhealthy, state.now)}


def _health(healthy: bool) -> str:
    return "Healthy" if healthy else "Unhealthy"


def _sum(parts: Iterable[Readiness]) -> Readiness:
    found = list(parts)
    return Readiness(
        ready=tuple(name for one in found for name in one.ready),
        unready=tuple(name for one in found for name in one.unready),
        leaving=tuple(name for one in found for name in one.leaving),
        not_started=tuple(name for one in found for name in one.not_started),
        suspended=tuple(name for one in found for name in one.suspended),
        deleted=tuple(name for one in found for name in one.deleted),
        unregistered=tuple(name for one in found for name in one.unregistered),
        long_unregistered=tuple(name for one in found for name in one.long_unregistered),
    )


def _node_counts(readiness: Readiness) -> dict[str, Any]:
    registered: dict[str, Any] = {
        "total": readiness.registered + len(readiness.deleted),
        "ready": len(readiness.ready),
        "notStarted": len(readiness.not_started),
        "suspended": len(readiness.suspended),
        "unready": {"total": len(readiness.unready) + len(readiness.leaving), "resourceUnready": 0},
    }
    if readiness.deleted:
        registered["beingDeleted"] = len(readiness.deleted)
    return {
        "registered": registered,
        "longUnregistered": len(readiness.long_unregistered),
        "unregistered": len(readiness.unregistered),
    }


def _shortened(message: str) -> str:
    if len(message) <= _LONGEST_MESSAGE:
        return message
    return message[: _LONGEST_MESSAGE - len(_CUT)] + _CUT


UPDATED_ANNOTATION = "cluster-autoscaler.kubernetes.io/last-updated"
_KEY = "status"
_ANEW_SECONDS = 60.0
# libyaml's dumper, if it is installed: it writes 500 groups (0.4 MB) in 0.3 s; the pure Python one takes over 1 s.
_DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class StatusMap:
    """One ConfigMap, for one writer. A failed write does not fail the loop; the next loop tries again."""

    def __init__(self, maps: ConfigMaps, name: str) -> None:
        self.problem = ""
        self.writes = 0
        self._maps = maps
        self._name = name
        self._held: StoredMap | None = None
        self._transitions = Transitions()
        self._shown: Any = None
        self._shown_at = -math.inf

    @property
    def uid(self) -> str:
        """Return the uid of the ConfigMap, for events about it; empty until it was written."""
        return self._held.uid if self._held is not None else ""

    def start(self, now: float) -> None:
        self._show(starting_document(), now)

    def update(self, state: ClusterState, plan: Plan) -> None:
        self._show(make_document(state, plan, self._transitions), state.now)

    def remove(self) -> None:
        """Delete the ConfigMap. Called when the process ends normally."""
        try:
            self._maps.delete(self._name)
        except ApiError as error:
            self.problem = str(error)

    def _show(self, document: dict[str, Any], now: float) -> None:
        news = without_times(document)
        if news == self._shown and now - self._shown_at < _ANEW_SECONDS:
            return
        at = datetime.fromtimestamp(now, tz=UTC).strftime("%Y-%m-%d %H:%M:%S.%f +0000 UTC")
        text = yaml.dump({**document, "time": at}, Dumper=_DUMPER, sort_keys=True)
        try:
            self._write(text, at)
        except ApiError as error:
            self.problem, self._held = str(error), None
            return
        self.problem, self._shown, self._shown_at = "", news, now
        self.writes += 1

    def _write(self, text: str, at: str) -> None:
        held = self._held or self._maps.read(self._name) or StoredMap()
        annotations = {**held.annotations, UPDATED_ANNOTATION: at}
        written = StoredMap(data={_KEY: text}, labels=held.labels, annotations=annotations, version=held.version)
        self._held = self._maps.write(self._name, written)
