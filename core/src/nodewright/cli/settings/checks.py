"""Find settings that contradict each other (ConfigError) or have no effect (a note in the log and ``config check``)."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from nodewright.cli.settings.known_flags import CA_FLAGS, KNOWN, SETTINGS, Layer
from nodewright.model.address import is_loopback, parse_address
from nodewright.model.duration import format_duration
from nodewright.model.errors import ConfigError
from nodewright.model.interruption import parse_signals
from nodewright.model.policy import HEDGING, PROBE_AFTER_BACKOFF, PolicyInputs, make_policy, most_switches, overrules
from nodewright.model.printable import printable
from nodewright.model.settings import ServingSettings, Settings

_LEAST_CACHE_AGE = 120.0

# The API server's rules for names. It refuses names that are too long itself.
_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?")
_NAMES = {
    "namespace": (_LABEL, "name of a namespace"),
    "leader-elect-resource-namespace": (_LABEL, "name of a namespace"),
    "leader-elect-resource-name": (_SUBDOMAIN, "name of a Lease"),
    "status-config-map-name": (_SUBDOMAIN, "name of a ConfigMap"),
    "disruption-config-map-name": (_SUBDOMAIN, "name of a ConfigMap"),
    "user-agent": (re.compile(r"[!-~]([ -~]*[!-~])?"), "name for a client: it takes printable ASCII"),
}


def check_together(given: Layer, values: Mapping[str, Any]) -> None:
    """Check settings that depend on each other. ``values`` are those of the flags that are ``given``."""
    _check_ca_flags(given, values)
    _check_names(given, values)
    _check_schedulers(given, values)
    _check_bounds(given, values)
    _check_rules(given, values)
    _check_graces(given, values)
    _check_signals(given, values)


def _check_ca_flags(given: Layer, values: Mapping[str, Any]) -> None:
    for name, value in values.items():
        flag = CA_FLAGS.get(name)
        if flag is not None and flag.refuses and value != flag.default:
            raise ConfigError(f"{given[name].origin}: {flag.why}")


def _check_names(given: Layer, values: Mapping[str, Any]) -> None:
    """Check the names that become part of paths and headers of requests."""
    for name, (pattern, what) in _NAMES.items():
        value = values.get(name)
        if value is not None and value != SETTINGS[name].default and not pattern.fullmatch(value):
            raise ConfigError(f"{given[name].origin}: '{printable(value)}' is not a {what}")


def _check_schedulers(given: Layer, values: Mapping[str, Any]) -> None:
    """Check that bypassed schedulers are allowed ones: their pods are acted on (CA's start-up check)."""
    allowed = values.get("allowed-scheduler-names", ())
    outside = [name for name in values.get("bypassed-scheduler-names", ()) if allowed and name not in allowed]
    if outside:
        origin = given["bypassed-scheduler-names"].origin
        raise ConfigError(f"{origin}: {printable(outside[0])} is not among allowed-scheduler-names")


_BOUNDS = {
    "a learned provision time": ("min-learned-provision-time", "max-learned-provision-time"),
    "a backoff": ("initial-node-group-backoff-duration", "max-node-group-backoff-duration"),
}


def _check_bounds(given: Layer, values: Mapping[str, Any]) -> None:
    """Check settings that bound each other."""
    for what, names in _BOUNDS.items():
        least, most = (_value(name, values) for name in names)
        if least > most:
            origin = next(given[name].origin for name in names if name in given)
            bounds = f"at least {format_duration(least)} and at most {format_duration(most)}"
            raise ConfigError(f"{origin}: {what} cannot be {bounds}")


def _check_rules(given: Layer, values: Mapping[str, Any]) -> None:
    """Refuse a setting that the profile or the size correction switches off."""
    profile, rule = _value("profile", values), _value("size-correction", values)
    policy = make_policy(PolicyInputs(profile, rule, frozenset((PROBE_AFTER_BACKOFF, HEDGING))))
    is_overruled = overrules(profile, rule)
    if is_overruled and "size-correction" in given:
        raise ConfigError(
            f"{given['size-correction'].origin}: {given['profile'].origin} decides by the rule {policy.rule}"
        )
    cause = "profile" if is_overruled else "size-correction"
    if values.get("probe-after-backoff") and not policy.probes_after_backoff:
        raise ConfigError(f"{given['probe-after-backoff'].origin}: no group is probed under {given[cause].origin}")
    if values.get("hedging") == "on" and not policy.hedges:
        raise ConfigError(f"{given['hedging'].origin}: no machine is bought twice under {given[cause].origin}")


def _value(name: str, values: Mapping[str, Any]) -> Any:
    return values.get(name, SETTINGS[name].default)


def _check_graces(given: Layer, values: Mapping[str, Any]) -> None:
    """Refuse two flags that both say how long evicted pods may take to end (CA's start-up check)."""
    if values.get("drain-priority-config") and "max-graceful-termination-sec" in given:
        origin, other = given["drain-priority-config"].origin, given["max-graceful-termination-sec"].origin
        raise ConfigError(f"{origin}: cannot be given together with {other}, which says the same for all pods")


def _check_signals(given: Layer, values: Mapping[str, Any]) -> None:
    try:
        parse_signals(values.get("interruption-signal", ()))
    except ConfigError as error:
        raise ConfigError(f"{given['interruption-signal'].origin}: {error}") from error


def check_daemon(settings: Settings) -> None:
    """Check the demands that only the daemon has of its settings."""
    _check_lease(settings)
    if settings.serving.address:
        parse_address("--address", settings.serving.address)
    _check_debug_address(settings.serving.debug_address)
    _check_secure_address(settings.serving)
    _check_cache_age(settings.cluster.max_cache_age)


def _check_cache_age(seconds: float) -> None:
    """Refuse an age below the minute or so in which the API server reports on a kind that does not change."""
    if seconds < _LEAST_CACHE_AGE:
        least, given = format_duration(_LEAST_CACHE_AGE), format_duration(seconds)
        raise ConfigError(
            f"--max-cache-age: {given} is less than the API server's usual time between messages about a kind: give at least {least}"
        )


def _check_debug_address(address: str) -> None:
    """Refuse a debug address that other machines can reach: its pages show pods and nodes."""
    flag = "--debug-address"
    if address and not is_loopback(parse_address(flag, address)[0]):
        raise ConfigError(
            f"{flag}: {address} can be reached from other machines, and shows pods to anyone: only a loopback "
            "address such as 127.0.0.1:8086 is taken; --secure-address serves the same with TLS to users with a token"
        )


def _check_secure_address(serving: ServingSettings) -> None:
    """Refuse to serve pages beyond this machine without a certificate, and a certificate that is not served."""
    files = {"--tls-cert-file": serving.tls_cert_file, "--tls-private-key-file": serving.tls_private_key_file}
    missing = [flag for flag, path in files.items() if not path]
    if not serving.secure_address:
        if len(missing) < len(files):
            raise ConfigError(
                f"{next(flag for flag in files if flag not in missing)}: is given without --secure-address"
            )
        return
    parse_address("--secure-address", serving.secure_address)
    if missing:
        raise ConfigError(
            f"--secure-address: {serving.secure_address} needs a certificate: give {' and '.join(missing)}"
        )


def _check_lease(settings: Settings) -> None:
    """Raise ConfigError for durations with which the lease could not be kept."""
    leader = settings.leader
    if not leader.leader_elect:
        return
    lease, renew, retry = (
        leader.leader_elect_lease_duration,
        leader.leader_elect_renew_deadline,
        leader.leader_elect_retry_period,
    )
    if not lease > renew > 1.2 * retry > 0:
        raise ConfigError(
            "--leader-elect-lease-duration must be longer than --leader-elect-renew-deadline, and that longer than "
            "1.2 times --leader-elect-retry-period"
        )


# Settings that have an effect only with another setting, which is off by default and may have been forgotten.
NEEDS: Mapping[str, tuple[str, Any]] = {
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
# Flags of features that CA lacks, each with its switch in Policy: the profile ca switches it off.
NOT_OF_CA: Mapping[str, str] = {
    "enable-provisioning-classes": "serves_provisioning_classes",
    "provisioning-request-reservation-time": "holds_reservations_longer",
    "balance-scale-down": "balances_removals",
    "max-pod-moves-per-hour": "balances_removals",
    "max-deletions-per-window": "has_deletion_budget",
    "deletion-window": "has_deletion_budget",
    "max-empty-deletions-per-window": "has_deletion_budget",
    "empty-deletion-window": "has_deletion_budget",
    "batch-idle-duration": "gathers_pods_before_loop",
    "batch-max-duration": "gathers_pods_before_loop",
    "hedging-delay": "hedges",
    "max-hedged-nodes": "hedges",
    "max-unhealthy-duration": "resumes_while_unhealthy",
}


def find_idle(given: Layer, values: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence for each given flag that has no effect, except default values. ``values`` are those of the flags."""
    for flag, place in given.items():
        why = "" if values[flag] == KNOWN[flag].default else _why_idle(flag, values)
        if why:
            yield f"{place.origin}: {why}"


def _why_idle(flag: str, values: Mapping[str, Any]) -> str:
    """Return why the flag has no effect; empty if it has one."""
    if flag in CA_FLAGS:
        return CA_FLAGS[flag].why
    profile = _value("profile", values)
    if flag in NOT_OF_CA and not getattr(most_switches(profile), NOT_OF_CA[flag]):
        return f"has no effect under --profile={profile}"
    other, wanted = NEEDS.get(flag, (flag, values[flag]))
    if values.get(other) == wanted:
        return ""
    return f"has no effect without --{other}" if wanted is True else f"has no effect without --{other}={wanted}"
