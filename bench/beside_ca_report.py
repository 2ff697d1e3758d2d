"""From what bench/beside_ca.py measured to its table, and to the promises that it shows broken."""

import json
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, NamedTuple, TypedDict

# In the order of the columns, with their headings.
SYSTEMS = {"ca": "CA", "nodewright": "nodewright", "nodewright-ca": "`--profile=ca`"}

Figures = dict[str, Any]


class Measured(TypedDict):
    """One scenario with one system. ``figures`` has the key ``error`` alone where the scenario failed."""

    scenario: str
    system: str
    run: int
    load: list[float]
    figures: Figures


class Row(NamedTuple):
    """One row of the table: what ``show`` makes of the figures of ``scenario``."""

    scenario: str
    heading: str
    show: Callable[[Figures], str]


def _figure(key: str, places: int = 1) -> Callable[[Figures], str]:
    return lambda figures: _number(figures[key], places)


def _number(value: float | None, places: int) -> str:
    return "never" if value is None else f"{value:.{places}f}"


def _restart(figures: Figures) -> str:
    return f"{figures['asked']} ({figures['asked_at_kill']} at the kill)"


ROWS = (
    Row("burst", "300 pods: last resize asked, s", _figure("last_request")),
    Row("burst", "kube-scheduler has tried the last pod, s", _figure("last_pod")),
    Row("burst", "last resize before a machine was ready, after that, s", _figure("decided_after_last_pod")),
    Row("burst", "all run, s", _figure("all_run")),
    Row("burst", "nodes", _figure("nodes", 0)),
    Row("burst", "nodes asked for before one was ready", _figure("decided_nodes", 0)),
    Row("planned", "the same where all 300 pods waited before the start", _figure("decided_nodes", 0)),
    Row("burst", "$/h", _figure("dollars_per_hour", 2)),
    Row("burst", "writes to the cloud", _figure("writes", 0)),
    Row("burst", "writes for one group before a machine was ready, at most", _figure("decided_writes_of_one_group", 0)),
    Row("burst", "requests to the API server within 90 s", _figure("api_requests", 0)),
    Row("burst", "pods gone: last deletion, s", _figure("last_deletion")),
    Row("burst", "nodes left after 240 s", _figure("nodes_left", 0)),
    Row("failure", "failure reported → next group, s", _figure("next_group", 2)),
    Row("silence", "nothing reported, limit 60 s → next group, s", _figure("next_group")),
    Row("restart", "kill -9 in a scale-up of 50: asked for in the end", _restart),
    Row("term", "SIGTERM of the leader → the other asks, s", _figure("other_asks")),
    Row("crash", "kill -9 of the leader → the other asks, s", _figure("other_asks")),
    Row("handover", "SIGTERM of the other system, which leads → this one leads, s", _figure("other_leads")),
    Row("handover", "it asks, s", _figure("other_asks")),
    Row("handover-crash", "kill -9 of the other system, which leads → this one leads, s", _figure("other_leads")),
    Row("handover-crash", "it asks, s", _figure("other_asks")),
    Row("burst", "RSS afterwards, MiB", _figure("resident_mib", 0)),
    Row("trickle", "5 pods/s for 2 min: writes in the busiest minute", _figure("writes_in_a_minute", 0)),
    Row("trickle", "last resize after the last pod, s", _figure("last_request_after_last_pod")),
    Row("trickle", "nodes", _figure("nodes", 0)),
    Row("waves", "Jobs in 4 waves: writes to the cloud", _figure("writes", 0)),
    Row("waves", "writes for one wave, at most", _figure("writes_of_one_wave", 0)),
    Row("waves", "last resize after the last pod of a wave, at most, s", _figure("last_request_after_last_pod")),
    Row("waves", "nodes", _figure("nodes", 0)),
    Row("groups", "400 pods for ten groups: writes to the cloud", _figure("writes", 0)),
    Row("groups", "writes for one group, at most", _figure("writes_of_one_group", 0)),
    Row("groups", "last resize after the last pod, s", _figure("last_request_after_last_pod")),
    Row("groups", "all run, s", _figure("all_run")),
    Row("groups", "nodes", _figure("nodes", 0)),
)


def write_table(measured: Sequence[Measured]) -> str:
    """Return the table as markdown: a column for each system; the figures of several runs are separated by commas."""
    systems = [name for name in SYSTEMS if any(one["system"] == name for one in measured)]
    lines = ["| | " + " | ".join(SYSTEMS[name] for name in systems) + " |", "|---|" + "--:|" * len(systems)]
    for row in ROWS:
        if any(one["scenario"] == row.scenario for one in measured):
            cells = [", ".join(_shown(row, _of(measured, row.scenario, name))) for name in systems]
            lines.append(f"| {row.heading} | " + " | ".join(cells) + " |")
    loads = [[load for one in measured if one["system"] == name for load in one["load"]] for name in systems]
    told = [f"{statistics.median(all_of):.1f} ({min(all_of):.1f} to {max(all_of):.1f})" for all_of in loads]
    lines.append("| load average beside it: median (least to most) | " + " | ".join(told) + " |")
    return "\n".join(lines)


def _of(measured: Sequence[Measured], scenario: str, system: str) -> list[Figures]:
    return [one["figures"] for one in measured if one["scenario"] == scenario and one["system"] == system]


def _shown(row: Row, all_figures: Sequence[Figures]) -> list[str]:
    return ["failed" if "error" in figures else row.show(figures) for figures in all_figures]


class Promise(NamedTuple):
    """``figure`` is at most ``most``, of nodewright alone or of ``--profile=ca`` too."""

    scenario: str
    figure: str
    most: float
    in_both: bool = False


# Batches of pending pods are no part of --profile=ca, which waits for its scan as cluster-autoscaler does.
PROMISES = (
    Promise("burst", "decided_writes_of_one_group", 2),
    Promise("burst", "decided_after_last_pod", 3.0),
    Promise("burst", "nodes_left", 0, in_both=True),
    Promise("failure", "next_group", 1.0, in_both=True),
    Promise("restart", "asked", 50, in_both=True),
    Promise("crash", "other_asks", 25.0, in_both=True),
    Promise("handover", "other_asks", 25.0),
    Promise("handover-crash", "other_asks", 25.0),
    Promise("trickle", "writes_in_a_minute", 15),
    Promise("waves", "writes_of_one_wave", 2),
    Promise("waves", "last_request_after_last_pod", 3.0),
    Promise("groups", "writes_of_one_group", 2),
    Promise("groups", "last_request_after_last_pod", 3.0),
)


def broken_promises(measured: Sequence[Measured]) -> Iterator[str]:
    """Yield a sentence for each promise about nodewright that a figure breaks; a scenario that failed breaks none."""
    for one in measured:
        figures, is_default = one["figures"], one["system"] == "nodewright"
        if one["system"] == "ca" or "error" in figures:
            continue
        for promise in PROMISES:
            if promise.scenario == one["scenario"] and (promise.in_both or is_default):
                value = figures[promise.figure]
                if value is None or value > promise.most:
                    where = f"{one['system']}, {promise.scenario}, run {one['run']}"
                    yield f"{where}: {promise.figure} is {value}, not at most {promise.most:g}"
    yield from _more_than_one_decision(measured)
    yield from _more_requests_than_ca(measured)


def _more_than_one_decision(measured: Sequence[Measured]) -> Iterator[str]:
    """Yield runs of the burst that bought more nodes than one decision over all its pods."""
    planned = _values(measured, "planned", "nodewright", "decided_nodes")
    for nodes in _values(measured, "burst", "nodewright", "decided_nodes"):
        if planned and nodes > max(planned):
            yield f"nodewright, burst: {nodes:g} nodes, where one decision buys {max(planned):g}"


def _more_requests_than_ca(measured: Sequence[Measured]) -> Iterator[str]:
    theirs = _values(measured, "burst", "ca", "api_requests")
    for system in ("nodewright", "nodewright-ca"):
        ours = _values(measured, "burst", system, "api_requests")
        if ours and theirs and statistics.median(ours) >= statistics.median(theirs):
            least = f"{statistics.median(theirs):g}"
            yield f"{system}, burst: {statistics.median(ours):g} requests to the API server, not fewer than CA's {least}"


def _values(measured: Sequence[Measured], scenario: str, system: str, key: str) -> list[float]:
    return [figures[key] for figures in _of(measured, scenario, system) if "error" not in figures]


def count_requests(audit: Iterable[str], user: str, begin: float, end: float) -> Counter[str]:
    """Return how often ``user`` asked the API server for what, from ``begin`` to ``end`` (seconds since 1970).

    ``audit`` are the lines of its audit log. A watch has two, for its begin and its end, and counts once.
    """
    seen: set[str] = set()
    found: Counter[str] = Counter()
    for line in audit:
        entry = json.loads(line)
        came = datetime.fromisoformat(entry["requestReceivedTimestamp"]).timestamp()
        if entry["user"]["username"] != user or not begin <= came <= end or entry["auditID"] in seen:
            continue
        seen.add(entry["auditID"])
        about = entry.get("objectRef", {})
        found[f"{entry['verb']} {about.get('resource', entry['requestURI'])}"] += 1
    return found


def busiest_minute(times: Sequence[float]) -> int:
    """Return the most of ``times`` (ascending, in seconds) within any 60 s."""
    return max((sum(first <= time < first + 60.0 for time in times) for first in times), default=0)
