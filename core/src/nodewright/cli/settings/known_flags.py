"""Every flag and key that is known: the settings, the short form of one provider, and cluster-autoscaler's other flags.

CA_FLAGS lists the last, each with the reason why it has no effect or is not supported. A flag with ``refuses`` accepts only
CA's default, because nodewright could not do what another value asks for. A flag without accepts any value of its type, and
has no effect; the daemon and ``config check`` say so if it is given.
"""

from collections.abc import Callable
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from msgspec import Meta

from nodewright.cli.settings.values import Setting, list_settings
from nodewright.model.settings import ProviderSettings, Settings
from nodewright.model.settings_base import Count, Duration, Help, Ratio, Section

PREFIX = "NODEWRIGHT_"
CONFIG_VARIABLE = "NODEWRIGHT_CONFIG"

_AtLeastOne = Annotated[int, Meta(ge=1)]
_NOT_THERE = "is not there yet: "


class CaFlag(NamedTuple):
    """A flag with CA's type and default. ``why`` completes the message ``--flag: …``."""

    flag: str
    type: Any
    default: Any
    why: str
    refuses: bool = True

    @property
    def setting(self) -> Setting:
        return Setting("", self.flag.replace("-", "_"), self.flag, self.type, self.default, Help(self.why))


def _idle(flag: str, kind: Any, default: Any, why: str) -> CaFlag:
    return CaFlag(flag, kind, default, f"has no effect: {why}", refuses=False)


def _option(flag: str, kind: Any, default: Any) -> CaFlag:
    """Describe a flag of cluster-autoscaler that belongs to one vendor."""
    return CaFlag(flag, kind, default, "belongs to one provider: its options stand under providers: in --config")


def _part(flag: str, kind: Any, default: Any, feature: str) -> CaFlag:
    """Describe a flag of cluster-autoscaler that only matters with a feature that nodewright lacks."""
    return _idle(flag, kind, default, f"it tunes --{feature}, which is not there yet")


_FEATURES = (
    _idle(
        "capacity-buffer-pod-dry-run-enabled",
        bool,
        True,
        "a dry run needs the right to create pods everywhere; the pods of buffers are completed here",
    ),
    CaFlag("enable-proactive-scaleup", bool, False, _NOT_THERE + "only pods that exist are planned for"),
    _part("pod-injection-limit", Count, 5000, "enable-proactive-scaleup"),
    _idle("async-node-groups", bool, False, "a node group is made within the loop, by one call that has a time limit"),
    CaFlag("grpc-expander-url", str, "", "there is no grpc expander; --expander lists those that are there"),
    CaFlag("grpc-expander-cert", str, "", "there is no grpc expander; --expander lists those that are there"),
    CaFlag(
        "scheduler-config-file", str, "", "pods are placed as by the default profile of kube-scheduler, and no other"
    ),
    CaFlag("estimator", Literal["binpacking"], "binpacking", "there is one estimator, binpacking"),
    CaFlag(
        "enable-dynamic-resource-allocation",
        bool,
        True,
        "cannot be switched off, as in cluster-autoscaler; clusters without device claims are not affected",
    ),
    CaFlag(
        "dynamic-node-delete-delay-after-taint-enabled",
        bool,
        False,
        _NOT_THERE + "give --node-delete-delay-after-taint the time that your API server needs",
    ),
    CaFlag(
        "enable-graceful-degradation",
        bool,
        False,
        "no pod is left out of a loop for lack of time: a backlog costs as many steps as it has kinds of pods",
    ),
    _part("pending-pods-batching-timeout", Duration, 240.0, "enable-graceful-degradation"),
)

_VENDORS = (
    CaFlag("cloud-config", str, "", "a provider's options stand under providers: in --config"),
    CaFlag("cluster-name", str, "", "a provider that needs the cluster's name has an option for it"),
    _option("regional", bool, False),
    _option("aws-use-static-instance-list", bool, False),
    _option("bulk-mig-instances-listing-enabled", bool, False),
    _option("clusterapi-cloud-config-authoritative", bool, False),
    _option("gce-concurrent-refreshes", _AtLeastOne, 1),
    _option("gce-mig-instances-min-refresh-wait-time", Duration, 5.0),
)

_SERVER_LIMITS = "nodewright watches instead of polling, and the API server's priority and fairness limits the rest"
_SPEED = "nodes and pods are evaluated together, in arrays"
_UNREAD = "cluster-autoscaler reads it nowhere"
_TUNING = (
    _idle("predicate-parallelism", _AtLeastOne, 4, _SPEED),
    _idle("cluster-snapshot-parallelism", Count, 16, _SPEED),
    _idle("enable-inter-pod-affinity-hostname-fast-path", bool, False, _SPEED),
    _idle("scale-down-candidates-pool-min-count", Count, 50, _UNREAD),
    _idle("scale-down-candidates-pool-ratio", Ratio, 0.1, _UNREAD),
    _idle("scale-down-non-empty-candidates-count", Count, 30, _UNREAD),
    _idle(
        "kube-api-content-type",
        str,
        "application/vnd.kubernetes.protobuf",
        "nodewright exchanges JSON with the API server",
    ),
    _idle("kube-client-qps", float, 5.0, _SERVER_LIMITS),
    _idle("kube-client-burst", Count, 10, _SERVER_LIMITS),
    _idle("check-capacity-provisioning-request-batch-timebox", Duration, 10.0, "planning has no time limit"),
    _idle("provisioning-request-max-backoff-cache-size", Count, 1000, "every waiting request is remembered"),
    _idle("node-info-cache-expire-time", Duration, 315_360_000.0, "templates are made again in every loop"),
    _idle("enable-csi-node-aware-scheduling", bool, False, "CSINode objects always limit volumes"),
    _idle(
        "scaleup-simulation-for-skipped-node-groups-enabled",
        bool,
        False,
        "every reason against a group is in nodewright explain",
    ),
    _idle("debugging-snapshot-enabled", bool, False, "/snapshotz is always served, but only on --debug-address"),
    _idle("profiling", bool, False, "there is no pprof; py-spy looks into a Python process from outside"),
    _idle("max-node-skip-eval-time-tracker-enabled", bool, False, "every node is looked at in every loop"),
    _idle("node-removal-latency-tracking-enabled", bool, False, "the metric is always served"),
)

_LOG = "the log goes to stderr; --v and --log-level set its level, --logging-format its format"
_LOGGING = (
    _idle("vmodule", str, "", _LOG),
    _idle("scheduler-verbosity", int, 0, _LOG),
    _idle("add-dir-header", bool, False, _LOG),
    _idle("alsologtostderr", bool, False, _LOG),
    _idle("log-backtrace-at", str, "", _LOG),
    _idle("log-dir", str, "", _LOG),
    _idle("log-file", str, "", _LOG),
    _idle("log-file-max-size", Count, 1800, _LOG),
    _idle("log-flush-frequency", Duration, 5.0, _LOG),
    _idle("log-json-info-buffer-size", str, "0", _LOG),
    _idle("log-json-split-stream", bool, False, _LOG),
    _idle("log-text-info-buffer-size", str, "0", _LOG),
    _idle("log-text-split-stream", bool, False, _LOG),
    _idle("logtostderr", bool, True, _LOG),
    _idle("one-output", bool, False, _LOG),
    _idle("skip-headers", bool, False, _LOG),
    _idle("skip-log-headers", bool, False, _LOG),
    _idle("stderrthreshold", str, "2", _LOG),
)
_OTHERS = (
    CaFlag("leader-elect-resource-lock", Literal["leases"], "leases", "the lock is a lease"),
    CaFlag("feature-gates", str, "", "there are no feature gates"),
)

CA_FLAGS = {flag.flag: flag for flag in (*_FEATURES, *_VENDORS, *_TUNING, *_LOGGING, *_OTHERS)}


class Given(NamedTuple):
    """A value as it was written, and where: ``--expander`` or ``config.yaml: expander``."""

    origin: str
    value: Any
    read: Callable[[Any, Setting], Any]


Layer = dict[str, Given]

SECTIONS: dict[str, msgspec.structs.FieldInfo] = {
    field.encode_name: field
    for field in msgspec.structs.fields(Settings)
    if isinstance(field.type, type) and issubclass(field.type, Section)
}
SETTINGS = {setting.flag: setting for field in SECTIONS.values() for setting in list_settings(field.name, field.type)}
PROVIDER_FIELDS = {setting.flag: setting for setting in list_settings("providers", ProviderSettings)}
SHORT_FORM = {
    "cloud-provider": Setting(
        "providers",
        "cloud_provider",
        "cloud-provider",
        str,
        "",
        Help(
            "The provider (cloud) of --nodes and --node-group-auto-discovery. It is the short form of one entry of providers."
        ),
    ),
    "nodes": PROVIDER_FIELDS["nodes"],
    "node-group-auto-discovery": PROVIDER_FIELDS["node-group-auto-discovery"],
}
KNOWN = SETTINGS | SHORT_FORM | {name: flag.setting for name, flag in CA_FLAGS.items()}
