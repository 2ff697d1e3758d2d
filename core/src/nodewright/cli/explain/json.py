"""The documents of ``explain --output json``; docs/commands.md describes their keys, which only ever grow."""

from typing import Any

import msgspec

from nodewright.cli.buffer_view import buffer_json
from nodewright.cli.explain.answers import (
    Answer,
    BufferExplanation,
    GroupExplanation,
    PodExplanation,
    RequestExplanation,
)
from nodewright.cli.request_view import request_json
from nodewright.model.timestamps import format_moment
from nodewright.planner.explain import GroupFacts, NodeExplanation, PodAfterDrain

SCHEMA = 1


def as_json(found: Answer) -> dict[str, Any]:
    """One document, whatever was asked."""
    head = {"schema": SCHEMA, "now": format_moment(found.now)}
    if isinstance(found, NodeExplanation):
        return head | _node(found)
    if isinstance(found, RequestExplanation):
        return (
            head | request_json(found.facts) | {"told": [{"to": name, "message": said} for name, said in found.notes]}
        )
    if isinstance(found, BufferExplanation):
        return head | buffer_json(found.facts) | {"conditions": dict(found.notes)}
    return head | (_pod(found) if isinstance(found, PodExplanation) else _group(found))


def _node(found: NodeExplanation) -> dict[str, Any]:
    timers = msgspec.structs.asdict(found.timers)
    removal = found.removal
    return {
        "node": found.node,
        "fate": found.fate.value,
        "ready": found.is_ready,
        "reason": _plain(found.reason),
        "note": found.note or None,
        "removal": removal and {"reason": removal.reason.value, "pods": list(removal.pods)},
        "stage": found.stage and found.stage.value,
        "group": found.group and _facts(found.group),
        "utilization": _plain(found.usage),
        **{name: _moment(at) for name, at in timers.items()},
        "setback": found.setback or None,
        "disputed": found.disputed or None,
        "pods": [_outlook(pod) for pod in found.pods],
    }


def _pod(found: PodExplanation) -> dict[str, Any]:
    return {
        "pod": found.pod,
        "fate": found.fate,
        "reason": found.reason or None,
        "node": found.node or None,
        "groups": [{"group": ref, "message": why} for ref, why in found.groups],
        "refusals": _plain(found.refusals),
        "if_node_goes": found.outlook and _outlook(found.outlook),
        "node_fate": found.of_node and found.of_node.fate.value,
        "node_reason": found.of_node and _plain(found.of_node.reason),
    }


def _group(found: GroupExplanation) -> dict[str, Any]:
    return {
        **_facts(found.facts),
        "upcoming": found.upcoming,
        "growth": found.growth,
        "problem": found.problem or None,
        "backoff_until": _moment(found.backoff_until),
        "deferred_until": _moment(found.deferred_until),
        "nodes": _plain(found.nodes),
    }


def _outlook(pod: PodAfterDrain) -> dict[str, Any]:
    held: dict[str, Any] = _plain(pod)
    return held | {key: held[key] or None for key in ("rule", "message", "place")}


def _facts(facts: GroupFacts) -> dict[str, Any]:
    return {
        "group": str(facts.ref),
        "min": facts.min_size,
        "max": facts.max_size,
        "target": facts.target,
        "ready": facts.ready,
        "zero_or_max": facts.whole,
    }


def _moment(at: float | None) -> str | None:
    return format_moment(at) if at is not None else None


def _plain(value: object) -> Any:
    """Structs as mappings."""
    return msgspec.to_builtins(value)
