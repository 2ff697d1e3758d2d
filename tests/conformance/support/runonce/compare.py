"""Compares the loops of a case with those observed (kinds ``runonce``, ``quota`` and ``provreq``)."""

from collections.abc import Mapping, Sequence
from typing import Any

from runonce.drive import drive

_CALLS = ("increaseCalls", "decreaseCalls", "deleteCalls")
_CORE = ("time", "error", "scaleUp", "scaleDown", *_CALLS, "targetSizes", "clusterHealthy", "evicted")
# One that is absent on either side is not asserted, nor is the scale-down of a group.
_GROWTH = ("minSizeScaleUp", "podsTriggered", "podsAwaiting", "podsRemain", "whyNot", "groups")
_REMOVAL = ("unneeded", "unremovable", "deletionCandidateTaint", "toBeDeletedTaint")
_DETAILS = (*_GROWTH, *_REMOVAL)


def check(case: Mapping[str, Any], core: Sequence[str] = (), details: Sequence[str] = ()) -> list[str]:
    """What differs from the loops observed, loop by loop; a kind may assert more than all kinds do."""
    found, expected = drive(case["input"]), case["expected"]["loops"]
    differences = []
    for number, (got, wanted) in enumerate(zip(found, expected, strict=True)):
        differences += [f"loop {number}: {text}" for text in _compare(got, _normal(wanted), core, details)]
    return differences


def _compare(
    got: Mapping[str, Any], wanted: Mapping[str, Any], core: Sequence[str], details: Sequence[str]
) -> list[str]:
    asserted = [*_CORE, *core, *(key for key in (*_DETAILS, *details) if key in wanted and key in got)]
    return [f"{key}: {got.get(key)}, observed {wanted.get(key)}" for key in asserted if got.get(key) != wanted.get(key)]


def _normal(record: Mapping[str, Any]) -> dict[str, Any]:
    """The calls of different groups come in any order, those of one group in theirs."""
    normal = {**record, **{key: sorted(record[key], key=lambda call: str(call["group"])) for key in _CALLS}}
    if "groups" in record:
        described = record["groups"].items()
        normal["groups"] = {group: {k: v for k, v in of.items() if k != "scaleDown"} for group, of in described}
    return normal
