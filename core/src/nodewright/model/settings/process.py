"""Settings of the process: the cluster, the lease, the HTTP pages, the clouds. No decision depends on them."""

from typing import Annotated, Any, Literal

from nodewright.model.settings_base import Count, Duration, Help, Section

# cluster-autoscaler logs each loop from this verbosity on.
_DEBUG_FROM = 4


class ClusterSettings(Section, frozen=True, kw_only=True):
    """The API server, and the objects that nodewright keeps there."""

    kubeconfig: Annotated[
        str,
        Help(
            "A kubeconfig file that says how to reach the API server. Empty: the cluster around this pod, by its service account; else "
            "kubectl's own choice (KUBECONFIG, ~/.kube/config)."
        ),
    ] = ""
    kubernetes: Annotated[
        str, Help("The address of the API server, instead of the one that the kubeconfig file names.")
    ] = ""
    namespace: Annotated[
        str,
        Help("Where nodewright keeps its ConfigMaps, and its lease unless --leader-elect-resource-namespace is given."),
    ] = "kube-system"
    write_status_configmap: Annotated[
        bool, Help("Write what is under way into a ConfigMap after each loop; nodewright status reads it.")
    ] = True
    status_config_map_name: Annotated[str, Help("The name of the status ConfigMap, in --namespace.")] = (
        "cluster-autoscaler-status"
    )
    disruption_config_map_name: Annotated[
        str,
        Help(
            "The name of a ConfigMap in --namespace whose key disruption.yaml holds the text of a file of --disruption-config. Its budgets "
            "and schedules apply in addition to those of that file. A change takes effect in the next loop. If there is no such "
            "ConfigMap, the log warns, and no budget of it holds. While it has no valid text and had none before, no node is removed. Empty: none "
            "is read (docs/disruption.md).",
            ca="",
        ),
    ] = ""
    max_cache_age: Annotated[
        Duration,
        Help(
            "No decision is made while what is known of the cluster is older than this. At least 2m.",
            raised="Loops go on for longer without news from the API server, on older data.",
            ca="",
        ),
    ] = 180.0
    user_agent: Annotated[
        str,
        Help(
            "The name of this client in the API server's logs. cluster-autoscaler's own default is cluster-autoscaler; another "
            "name distinguishes the two."
        ),
    ] = "nodewright"
    record_duplicated_events: Annotated[
        bool, Help("Write an event each time it happens. If false, the same event is written once in five minutes.")
    ] = False
    node_object_cleanup_delay: Annotated[
        Duration,
        Help(
            "Delete the Node object of a removed machine if the cloud's own controller has not done so after this time. "
            "0: never.",
            raised="The cloud's controller has more time; dead nodes are listed for longer.",
            ca="",
        ),
    ] = 120.0


class LeaderSettings(Section, frozen=True, kw_only=True):
    """One leader among several processes. nodewright and cluster-autoscaler exclude each other by the same lease.

    A call to a cloud may outlast the lease. It is saved before it is made, and the next leader leaves those groups alone
    until the call is over (docs/adr/0025-a-short-lease.md). The lease is released at an orderly end.
    """

    leader_elect: Annotated[
        bool,
        Help(
            "Write only while this process holds the lease. If false, run one process only, and no cluster-autoscaler."
        ),
    ] = True
    leader_elect_resource_name: Annotated[
        str, Help("The name of the lease. Keep it so that a cluster-autoscaler is excluded, too.")
    ] = "cluster-autoscaler"
    leader_elect_resource_namespace: Annotated[
        str, Help("The namespace of the lease. Empty: the one of --namespace.")
    ] = ""
    leader_elect_lease_duration: Annotated[
        Duration,
        Help(
            "A lease that was not renewed for this long may be taken over. It must be longer than --leader-elect-renew-deadline.",
            raised="A crashed leader is replaced later; a slow API server makes the leader lose the lease less often.",
        ),
    ] = 15.0
    leader_elect_renew_deadline: Annotated[
        Duration,
        Help(
            "A leader that could not renew the lease for this long ends. It must be longer than "
            "1.2 times --leader-elect-retry-period.",
            raised="A slow API server makes the leader lose the lease less often.",
        ),
    ] = 10.0
    leader_elect_retry_period: Annotated[
        Duration,
        Help(
            "Time between two attempts to take or renew the lease.",
            raised="Fewer calls to the API server; fewer attempts before the lease is lost.",
        ),
    ] = 2.0


class ServingSettings(Section, frozen=True, kw_only=True):
    """Settings of the pages that the daemon serves by HTTP, and of its health check."""

    address: Annotated[
        str,
        Help(
            "Where metrics and the health check are served, as host:port. Empty: :8085 inside a pod, as in "
            "cluster-autoscaler, and 127.0.0.1:8085 elsewhere."
        ),
    ] = ""
    debug_address: Annotated[
        str,
        Help(
            "Where the page for people and those for explain, status and debugging are served, as host:port. They show pods and nodes without "
            "authentication, so that only a loopback address is taken. Empty: nowhere.",
            ca="",
        ),
    ] = "127.0.0.1:8086"
    secure_address: Annotated[
        str,
        Help(
            "Where the pages of `--debug-address`, metrics and the health check are also served with TLS, as host:port. A request "
            "needs a token that the API server accepts (TokenReview), of a user that may read its path (SubjectAccessReview); the health check "
            "needs none. Empty: nowhere.",
            ca="",
        ),
    ] = ""
    tls_cert_file: Annotated[
        str,
        Help(
            "The certificate of `--secure-address`, with its chain, as PEM. A file that is replaced is read again.",
            ca="",
        ),
    ] = ""
    tls_private_key_file: Annotated[
        str,
        Help("The private key of `--tls-cert-file`, as PEM, without a password.", ca=""),
    ] = ""
    max_inactivity: Annotated[
        Duration,
        Help(
            "The health check fails if no loop has ended for this long.",
            raised="A process that hangs is restarted later.",
        ),
    ] = 600.0
    max_failing_time: Annotated[
        Duration,
        Help(
            "The health check fails if no loop has succeeded for this long.",
            raised="A process whose loops fail is restarted later.",
        ),
    ] = 900.0
    max_startup_time: Annotated[
        Duration,
        Help(
            "The health check fails if no loop has succeeded this long after the first began. It is never shorter than the two above.",
            raised="A slow start is given more time.",
        ),
    ] = 1200.0
    emit_per_nodegroup_metrics: Annotated[
        bool,
        Help(
            "Add cluster-autoscaler's metrics for each node group. They are many in a cluster with many groups: only the "
            "first --max-groups-in-metrics groups have them."
        ),
    ] = False
    max_groups_in_metrics: Annotated[
        Count,
        Help(
            "How many node groups have series of their own in the metrics, the first by name. The others are added up as the group `others`.",
            raised="Prometheus stores more series in a cluster with many groups.",
            unit="node groups",
            ca="",
        ),
    ] = 500


class LoggingSettings(Section, frozen=True, kw_only=True):
    """Settings of the daemon's log on stderr."""

    v: Annotated[
        int,
        Help(
            "How much is logged, as cluster-autoscaler counts it. From 4 on it is the same as --log-level=debug.",
            raised="From 4 on, each loop is logged, also one that does nothing.",
            unit="level",
        ),
    ] = 0
    log_level: Annotated[
        Literal["", "debug", "info", "warning", "error"],
        Help("The least level of lines that are logged. Empty: info, or debug from --v=4 on.", ca=""),
    ] = ""
    logging_format: Annotated[
        Literal["auto", "text", "json"],
        Help(
            "The form of the log: text for people, or one JSON object a line. auto: text on a terminal, JSON elsewhere.",
            ca="",
        ),
    ] = "auto"

    @property
    def level(self) -> str:
        """Return the least level of lines that are logged."""
        return self.log_level or ("debug" if self.v >= _DEBUG_FROM else "info")


class ProviderSettings(Section, frozen=True, kw_only=True):
    """One provider (cloud): its own options, and its node groups."""

    options: Annotated[
        dict[str, Any], Help("Options of the provider's plugin, as its own documentation lists them.", ca="")
    ] = {}
    nodes: Annotated[
        tuple[str, ...],
        Help(
            "A node group as min:max:name. Repeat it for several groups. The start fails for a name that the provider does not"
            " list and of which no state is saved; a group that disappears later is only reported, as is any in a dry run or shadow."
        ),
    ] = ()
    node_group_auto_discovery: Annotated[
        tuple[str, ...],
        Help("Which node groups the provider finds by itself, in the provider's own form. Repeat it for several."),
    ] = ()
    call_timeout: Annotated[
        Duration,
        Help(
            "A call to the provider that takes longer is given up; its effect is then read from the next listing.",
            raised="Slow clouds are waited for; a loop that hangs takes longer.",
            ca="",
        ),
    ] = 60.0
