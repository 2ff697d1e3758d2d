"""Everything that happened, on tracks along one axis of time: failures, outages, crashes, moves, removals, and a lane per node."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from nodewright.model.duration import format_duration, parse_duration
from nodewright.model.move import Move, MoveStage
from nodewright.model.removal import RemovalResult
from nodewright_simulator.charts import TimeAxis, main_groups
from nodewright_simulator.journal import What
from nodewright_simulator.lives import NodeCauses, NodeLife, list_nodes
from nodewright_simulator.page import PALETTE, text_of
from nodewright_simulator.result import OTHER_TROUBLES, SCALE_UP_FAILURES, SimulationResult
from nodewright_simulator.scenario import Scenario

_MOST_ITEMS, _MOST_TOLD, _MOST_NODES, _MOST_PODS = 400, 40, 150, 25
_NOTICE = "InterruptionNotice"
_GOOD, _BAD, _WARN, _CALM, _GREY = "#1B9E5A", "#D64541", "#E69F00", "#3B8BC9", "#8C959F"
STYLE = """
.lane { margin: 0 14px 4px 58px; } .lane .label { font-size: 12px; color: var(--quiet); overflow-wrap: anywhere; }
.lane .label b { color: var(--text); font-weight: 600; } .track { position: relative; height: 12px; background: var(--row);
  border-radius: 3px; overflow: hidden; } .track i { position: absolute; top: 0; height: 12px; min-width: 2px; border-radius: 2px; }
.track i.mark { width: 4px; margin-left: -2px; min-width: 4px; } .track i.boot { opacity: .45; }
.lanes { max-height: 640px; overflow-y: auto; } .lane details p { margin: 2px 0 4px; font-size: 12px; color: var(--quiet); }
.lane summary { cursor: pointer; font-size: 12px; color: var(--quiet); overflow-wrap: anywhere; } .lane summary b { color: var(--text); }
@media (max-width: 640px) { .lane { margin-left: 0; margin-right: 0; } }
"""


@dataclass(frozen=True, kw_only=True)
class Item:
    """A span, or with ``until`` None a mark; times in epoch seconds."""

    at: float
    until: float | None = None
    colour: str
    text: str
    kind: str = ""


def draw_timeline(result: SimulationResult, axis: TimeAxis, scenario: Scenario | None) -> str:
    """Return one track for each kind of thing that happened, with a note for each."""
    rows = {
        "Scale-ups": list(_scale_ups(result)),
        "Failed scale-ups": list(_events(result, SCALE_UP_FAILURES, _BAD)),
        "Other trouble": list(_events(result, OTHER_TROUBLES, _BAD)),
        "Faults of the clouds": list(_outages(scenario)) if scenario is not None else [],
        "Events of the scenario": list(_happenings(scenario)) if scenario is not None else [],
        "Engine not running": list(_down_times(result)),
        "Writes paused": list(_pauses(result)),
        "Notices of interruptions": list(_events(result, (_NOTICE,), _WARN)),
        "Moves": list(_moves(result, axis)),
        "Removals of nodes": list(_removals(result)),
    }
    drawn = [_track(name, items, axis, result.end) for name, items in rows.items() if items]
    return "".join(drawn) or '<p class="none">Nothing happened.</p>'


def _track(name: str, items: Sequence[Item], axis: TimeAxis, end: float) -> str:
    told = "<br>".join(f"{axis.say(item.at)} {text_of(item.text, 240)}" for item in items[:_MOST_TOLD])
    rest = f"<br>and {len(items) - _MOST_TOLD:,} more" if len(items) > _MOST_TOLD else ""
    head = f"<details><summary><b>{name}</b> {len(items):,}</summary><p>{told}{rest}</p></details>"
    return f'<div class="lane">{head}{_items(items, axis, end)}</div>'


def _items(items: Sequence[Item], axis: TimeAxis, end: float) -> str:
    found = "".join(_item(item, axis, end) for item in items[:_MOST_ITEMS])
    return f'<div class="track">{found}</div>'


def _item(item: Item, axis: TimeAxis, end: float) -> str:
    span = f' data-b="{axis.place(min(item.until, end))}"' if item.until is not None else ""
    kind = item.kind or ("" if span else "mark")
    shown = f' class="{kind}"' if kind else ""
    title = f' title="{axis.say(item.at)} {text_of(item.text, 240)}"' if item.text else ""
    return f'<i{shown} data-a="{axis.place(item.at)}"{span} style="background:{item.colour}"{title}></i>'


def _scale_ups(result: SimulationResult) -> Iterator[Item]:
    for step in result.decisions:
        if step.what == "increase":
            colour = _GOOD if step.after > step.before else _BAD
            yield Item(
                at=step.at, colour=colour, text=f"{step.group} {step.before} → {step.after}: {step.why or step.message}"
            )


def _events(result: SimulationResult, reasons: Sequence[str], colour: str) -> Iterator[Item]:
    for timed in result.events:
        if timed.event.reason in reasons:
            yield Item(at=timed.at, colour=colour, text=f"{timed.event.reason}: {timed.event.message}")


def _down_times(result: SimulationResult) -> Iterator[Item]:
    died: tuple[float, str] | None = None
    for fact in result.journal:
        if fact.what in (What.ENGINE_CRASHED, What.ENGINE_STOPPED):
            died = fact.at, "it died" if fact.what == What.ENGINE_CRASHED else "its pod was moved"
        elif fact.what == What.ENGINE_STARTED and died is not None:
            yield Item(
                at=died[0],
                until=fact.at,
                colour=_BAD,
                text=f"{died[1]}; started again after {_span(fact.at - died[0])}",
            )
            died = None
    if died is not None:
        yield Item(at=died[0], until=result.end, colour=_BAD, text=f"{died[1]}; it did not start again")


def _pauses(result: SimulationResult) -> Iterator[Item]:
    since: float | None = None
    for fact in result.journal:
        if fact.what == What.PAUSED:
            since = fact.at if since is None else since
        elif fact.what == What.RESUMED and since is not None:
            yield Item(at=since, until=fact.at, colour=_WARN, text=f"for {_span(fact.at - since)}")
            since = None
    if since is not None:
        yield Item(at=since, until=result.end, colour=_WARN, text="an operator paused all writes to clouds")


def _moves(result: SimulationResult, axis: TimeAxis) -> Iterator[Item]:
    """Yield the moves; one that is not over goes on until the end, unless its engine forgot it."""
    colours = {MoveStage.DONE: _CALM, MoveStage.ABANDONED: _BAD}
    last = {move.id for move in _last_moves(result)}
    for move, until, stages in result.moves:
        told = ", ".join(f"{stage} {axis.say(at)}" for stage, at in stages.items() if stage != MoveStage.PROPOSED)
        said = f"{move.describe()}{f'; {told}' if told else ''}{f': {move.why}' if move.why else ''}"
        ends = result.end if move.id in last and not move.stage.is_over else until
        yield Item(at=move.started, until=max(ends, move.started), colour=colours.get(move.stage, _WARN), text=said)


def _last_moves(result: SimulationResult) -> Sequence[Move]:
    plan = result.last_loop.plan if result.last_loop is not None else None
    return plan.moves if plan is not None else ()


def _removals(result: SimulationResult) -> Iterator[Item]:
    for over in result.removals:
        is_done = over.result == RemovalResult.OK
        said = f"{over.removal.node}: {over.removal.reason}, {over.result} {over.message}".strip()
        said += f"; {len(over.evicted)} pods evicted" if over.evicted else ""
        yield Item(at=over.started, until=max(over.at, over.started), colour=_CALM if is_done else _BAD, text=said)
    for held, at in result.interrupted:
        said = f"{held.removal.node}: {held.removal.reason}, interrupted"
        yield Item(at=held.started, until=at, colour=_WARN, text=said)


def _happenings(scenario: Scenario) -> Iterator[Item]:
    """Yield the events of the scenario's timeline; those with a duration are spans."""
    for change in scenario.timeline:
        given = {key: value for key, value in msgspec.to_builtins(change, enc_hook=float).items() if key != "at"}
        what = given.pop("do", "")
        lasts = given.pop("for", given.pop("down", None))
        words = ", ".join(f"{key} {value}" for key, value in given.items() if value not in (None, False, ""))
        text = f"{what.replace('_', ' ')}{f': {words}' if words else ''}{f' for {_span(lasts)}' if lasts else ''}"
        yield Item(at=change.at, until=change.at + lasts if lasts else None, colour=_WARN, text=text)


def _outages(scenario: Scenario) -> Iterator[Item]:
    """Yield the faults among the options of providers: mappings with ``start``, and perhaps ``end``, in a list."""
    for options in scenario.providers.values():
        for key, faults in options.items():
            if not isinstance(faults, list | tuple):
                continue
            for fault in faults:
                if isinstance(fault, Mapping) and "start" in fault:
                    words = ", ".join(
                        f"{name} {value}" for name, value in fault.items() if name not in ("start", "end")
                    )
                    start, end = _seconds(fault["start"], 0.0), _seconds(fault.get("end"), scenario.duration)
                    yield Item(at=start, until=end, colour=_BAD, text=f"{key.replace('_', ' ')}: {words}")


def _seconds(raw: Any, otherwise: float) -> float:
    try:
        return parse_duration(raw) if isinstance(raw, str) else float(raw)
    except (TypeError, ValueError):
        return otherwise


def _span(seconds: float) -> str:
    return format_duration(round(seconds))


def draw_lanes(result: SimulationResult, axis: TimeAxis) -> str:
    """Return a lane for each node: why it came and went, and which pods ran on it."""
    nodes = list(list_nodes(result))
    if not nodes:
        return '<p class="none">None.</p>'
    colours = {group: PALETTE[number % len(PALETTE)] for number, group in enumerate(main_groups(result.series.nodes))}
    why = NodeCauses(result)
    lanes = "".join(_lane(node, colours.get(node.group, _GREY), why, axis, result.end) for node in nodes[:_MOST_NODES])
    rest = len(nodes) - _MOST_NODES
    more = f'<p class="none">and {rest:,} nodes more</p>' if rest > 0 else ""
    return f'<div class="lanes" tabindex="0">{lanes}</div>{more}'


def _lane(node: NodeLife, colour: str, why: NodeCauses, axis: TimeAxis, end: float) -> str:
    gone = node.gone if node.gone is not None else end
    ready = min(node.ready if node.ready is not None else gone, gone)
    items = (
        [Item(at=node.added, until=ready, colour=colour, kind="boot", text="not ready")] if ready > node.added else []
    )
    items += [Item(at=ready, until=gone, colour=colour, text=f"{len(node.pods)} pods in all")] if gone > ready else []
    told = f"{text_of(node.group, 60)}; came {axis.say(node.added)}"
    told += f": {text_of(reason, 160)}" if (reason := why.of_coming(node)) else ""
    told += f"; went {axis.say(node.gone)}: {text_of(why.of_going(node), 120)}" if node.gone is not None else ""
    head = f"<b>{text_of(node.name, 60)}</b> {told}"
    track = _items(items, axis, end)
    if not node.pods:
        return f'<div class="lane"><div class="label">{head}</div>{track}</div>'
    return f'<div class="lane"><details><summary>{head}</summary><p>{_pods(node, axis)}</p></details>{track}</div>'


def _pods(node: NodeLife, axis: TimeAxis) -> str:
    shown = [
        f"{text_of(name, 80)} {axis.say(began)} to {axis.say(ended) if ended is not None else 'the end'}"
        for name, (began, ended) in list(node.pods.items())[:_MOST_PODS]
    ]
    rest = len(node.pods) - len(shown)
    return "; ".join(shown) + (f"; and {rest:,} more" if rest > 0 else "")
