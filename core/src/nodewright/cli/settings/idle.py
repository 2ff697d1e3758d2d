"""Flags that are given and change nothing: the daemon and ``config check`` say so, since somebody asked for something."""

from collections.abc import Iterator, Mapping
from typing import Any

from nodewright.cli.settings.ca_flags import CA_FLAGS
from nodewright.cli.settings.names import KNOWN, Layer

# What matters only where something else is said, which is not so by default and may have been forgotten.
_NEEDS: Mapping[str, tuple[str, Any]] = {
    **dict.fromkeys(
        (
            "enable-provisioning-classes",
            "provisioning-request-initial-backoff-time",
            "provisioning-request-max-backoff-time",
            "provisioning-request-reservation-time",
            "check-capacity-batch-processing",
            "check-capacity-provisioning-request-max-batch-size",
            "check-capacity-processor-instance",
        ),
        ("enable-provisioning-requests", True),
    ),
    "max-autoprovisioned-node-group-count": ("node-autoprovisioning-enabled", True),
    "salvo-scale-up-budget": ("salvo-scale-up", True),
    "min-learned-provision-time": ("max-node-provision-time", "auto"),
    "max-learned-provision-time": ("max-node-provision-time", "auto"),
}
# What CA does not have, so that its profile is without it.
_NOT_OF_CA = frozenset(
    (
        "enable-provisioning-classes",
        "provisioning-request-reservation-time",
        "balance-scale-down",
        "max-pod-moves-per-hour",
        "max-deletions-per-window",
        "deletion-window",
        "max-empty-deletions-per-window",
        "empty-deletion-window",
        "batch-idle-duration",
        "batch-max-duration",
    )
)


def find_idle(given: Layer, values: Mapping[str, Any]) -> Iterator[str]:
    """One sentence for each; ``values`` are those of the flags that are ``given``. A default asks for nothing."""
    for flag, place in given.items():
        why = "" if values[flag] == KNOWN[flag].default else _why_idle(flag, values)
        if why:
            yield f"{place.origin}: {why}"


def _why_idle(flag: str, values: Mapping[str, Any]) -> str:
    """Empty: it has an effect."""
    if flag in CA_FLAGS:
        return CA_FLAGS[flag].why
    if flag in _NOT_OF_CA and values.get("profile") == "ca":
        return "has no effect under --profile=ca"
    other, wanted = _NEEDS.get(flag, (flag, values[flag]))
    if values.get(other) == wanted:
        return ""
    return f"has no effect without --{other}" if wanted is True else f"has no effect without --{other}={wanted}"
