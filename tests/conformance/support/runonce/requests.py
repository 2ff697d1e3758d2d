"""The requests of a world in the words of a case's expectation (kind ``provreq``)."""

from collections import Counter
from typing import Any

from runonce.record import Record
from runonce.world import World


def make_requests(world: World) -> Record:
    """Read right after the loop function returned."""
    found = {_name(manifest): _conditions(manifest) for manifest in world.of_kind("ProvisioningRequest")}
    counts = Counter(
        f"{one['type']}={one['status']}/{one.get('reason', '')}" for held in found.values() for one in held
    )
    return {
        "requestCount": len(found),
        "conditionCounts": dict(counts),
        "conditions": {
            name: {one["type"]: {"status": one["status"], "reason": one.get("reason", "")} for one in held}
            for name, held in found.items()
        },
        "conditionDetails": {name: {one["type"]: _detail(one) for one in held} for name, held in found.items()},
    }


def _detail(condition: dict[str, Any]) -> dict[str, Any]:
    return {key: condition.get(key, "") for key in ("message", "lastTransitionTime")}


def _conditions(manifest: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = manifest.get("status", {}).get("conditions") or []
    return found


def _name(manifest: dict[str, Any]) -> str:
    return f"{manifest['metadata']['namespace']}/{manifest['metadata']['name']}"
