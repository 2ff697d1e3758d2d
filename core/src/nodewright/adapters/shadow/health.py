"""What the other autoscaler says of groups in its status ConfigMap, beside what we would say in ours."""

from collections.abc import Mapping
from typing import Any

from nodewright.adapters.shadow.compare import PATIENCE_SECONDS, Comparison, Verdict
from nodewright.model.errors import ConfigError
from nodewright.model.yaml_text import load_yaml

_CLUSTER = "cluster"
Said = Mapping[tuple[str, str], str]


class HealthShadow:
    """Tells once of each difference that lasts: the two look at different moments."""

    def __init__(self) -> None:
        self._since: dict[tuple[str, str, str, str], float] = {}
        self._told: set[tuple[str, str, str, str]] = set()

    def compare(self, text: str | None, ours: Mapping[str, Any], now: float) -> tuple[Comparison, ...]:
        """``text`` is theirs, None if there is none; ``ours`` is the same document as we would write it."""
        said, own = read_health(text), _flatten(ours)
        differences = {(*key, said[key], own[key]) for key in said.keys() & own.keys() if said[key] != own[key]}
        self._since = {key: self._since.get(key, now) for key in differences}
        self._told &= differences
        fresh = [key for key in sorted(differences - self._told) if now - self._since[key] >= PATIENCE_SECONDS]
        self._told.update(fresh)
        return tuple(
            Comparison(at=now, what=what, subject=subject, verdict=Verdict.ONLY_THEIRS, theirs=theirs, ours=mine)
            for subject, what, theirs, mine in fresh
        )


def read_health(text: str | None) -> Said:
    """By group (or ``cluster``) and by what is said of it; nothing from a text that cannot be read."""
    if text is None:
        return {}
    try:
        documents = [found for found in load_yaml(text, "status", string_keys=True) if isinstance(found, dict)]
    except ConfigError:
        return {}
    return _flatten(documents[0]) if documents else {}


def _flatten(document: Mapping[str, Any]) -> Said:
    parts = {_CLUSTER: document.get("clusterWide")}
    groups = document.get("nodeGroups")
    for group in groups if isinstance(groups, list) else ():
        if isinstance(group, dict):
            parts[str(group.get("name"))] = group
    return {
        (subject, what): part[what]["status"]
        for subject, part in parts.items()
        for what in ("health", "scaleUp")
        if isinstance(part, dict) and isinstance(part.get(what), dict) and isinstance(part[what].get("status"), str)
    }
