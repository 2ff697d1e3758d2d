"""Settings of the process that runs: the cluster, the lease, the pages and the clouds with which it has to do.

What is decided does not depend on them. How they are named: settings.py, which holds the tree.
"""

from typing import Any

from nodewright.model.settings_base import Duration, Section


class ClusterSettings(Section, frozen=True, kw_only=True):
    """The API server, and what is kept there. ``kubernetes`` is its address, where kubeconfig does not say it.

    Without ``kubeconfig``: the cluster around the pod, else kubectl's own choice. What is known of the cluster and
    older than ``max_cache_age`` is not acted upon. ``user_agent`` is what the API server's logs call us: not
    "cluster-autoscaler" as in CA, so that the two can be told apart. ``record_duplicated_events`` writes an event
    as often as it happens, not once in five minutes. The object of a node whose machine was removed is deleted after
    ``node_object_cleanup_delay``, if the cloud's own controller has not done it by then (0: never).
    """

    kubeconfig: str = ""
    kubernetes: str = ""
    namespace: str = "kube-system"
    write_status_configmap: bool = True
    status_config_map_name: str = "cluster-autoscaler-status"
    max_cache_age: Duration = 180.0
    user_agent: str = "nodewright"
    record_duplicated_events: bool = False
    node_object_cleanup_delay: Duration = 120.0


class LeaderSettings(Section, frozen=True, kw_only=True):
    """One leader among several processes, CA's among them: by its name, the lease excludes both.

    The times are CA's. A call to a cloud may outlast the lease: what is about to be called is saved before, and whoever
    leads next holds those groups until the call is over. The lease is released at an orderly end. Its namespace is the
    daemon's, unless ``leader_elect_resource_namespace`` says otherwise.
    """

    leader_elect: bool = True
    leader_elect_resource_name: str = "cluster-autoscaler"
    leader_elect_resource_namespace: str = ""
    leader_elect_lease_duration: Duration = 15.0
    leader_elect_renew_deadline: Duration = 10.0
    leader_elect_retry_period: Duration = 2.0


class ServingSettings(Section, frozen=True, kw_only=True):
    """What the daemon tells by HTTP, and when its health check fails.

    ``address`` (metrics and health) is by default CA's ``:8085`` inside a pod, and loopback's elsewhere.
    ``debug_address`` shows pods and nodes: without authentication it belongs on loopback; empty: nowhere.
    """

    address: str = ""
    debug_address: str = "127.0.0.1:8086"
    max_inactivity: Duration = 600.0
    max_failing_time: Duration = 900.0
    max_startup_time: Duration = 1200.0
    emit_per_nodegroup_metrics: bool = False


class ProviderSettings(Section, frozen=True, kw_only=True):
    """One provider: its own options, and node groups in the form its plugin reads."""

    options: dict[str, Any] = {}
    nodes: tuple[str, ...] = ()
    node_group_auto_discovery: tuple[str, ...] = ()
    call_timeout: Duration = 60.0
