"""What happens in a simulation: the values of a scenario, as scenario_file.py reads them."""

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from nodewright.model.provisioning_request import CHECK_CAPACITY
from nodewright.model.settings_base import Help
from nodewright_simulator.scheduler import Preference

Count = Annotated[int, Meta(ge=0, le=1_000_000)]
Name = Annotated[str, Meta(pattern="^[a-z0-9]([-a-z0-9.]{0,200}[a-z0-9])?$")]
Amount = str | int | float
IntOrPercent = Count | Annotated[str, Meta(pattern="^([0-9]|[1-9][0-9]|100)%$")]


class TimeSpan(float):
    """A length of time: a number of seconds, or text like ``90s`` or ``1h30m``."""

    __slots__ = ()


class Strict(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of everything in a scenario file: an unknown key is refused."""


class TolerationSpec(Strict, frozen=True, kw_only=True):
    """A toleration of a pod, as in Kubernetes."""

    key: Annotated[str, Help("The key of the taint. Empty with the operator Exists: every taint.")] = ""
    operator: Annotated[
        str,
        Meta(pattern="^(Exists|Equal)$"),
        Help("Exists tolerates every value of the key, Equal only the given one."),
    ] = "Equal"
    value: Annotated[str, Help("The value of the taint, for the operator Equal.")] = ""
    effect: Annotated[str, Help("NoSchedule, NoExecute or PreferNoSchedule. Empty: every effect.")] = ""


class SpreadSpec(Strict, frozen=True, kw_only=True):
    """Spread the pods of one workload over the values of a node label."""

    key: Annotated[str, Help("The label of the nodes.")] = "topology.kubernetes.io/zone"
    max_skew: Annotated[int, Meta(ge=1), Help("How many more pods one value may have than another.")] = 1
    when_unsatisfiable: Annotated[
        str,
        Meta(pattern="^(DoNotSchedule|ScheduleAnyway)$"),
        Help("DoNotSchedule: a pod that would break the rule waits. ScheduleAnyway: it runs all the same."),
    ] = "DoNotSchedule"


class PodShape(Strict, frozen=True, kw_only=True):
    """What each pod of a workload asks for."""

    cpu: Annotated[Amount, Help("Requested CPU, as a Kubernetes quantity.")] = "100m"
    memory: Annotated[Amount, Help("Requested memory, as a Kubernetes quantity.")] = "128Mi"
    resources: Annotated[dict[str, Amount], Help("Further requested resources, by name.")] = {}
    namespace: Annotated[Name, Help("The namespace of the pods.")] = "default"
    labels: Annotated[dict[str, str], Help("Labels of the pods.")] = {}
    annotations: Annotated[dict[str, str], Help("Annotations of the pods.")] = {}
    node_selector: Annotated[dict[str, str], Help("Labels that the node must have.")] = {}
    tolerations: Annotated[tuple[TolerationSpec, ...], Help("Taints that the pods tolerate.")] = ()
    spread: Annotated[tuple[SpreadSpec, ...], Help("Topology spread constraints.")] = ()
    apart: Annotated[bool, Help("No two pods of the workload run on one node.")] = False
    priority: Annotated[int | None, Help("The priority of the pods.")] = None
    grace: Annotated[TimeSpan, Help("How long an evicted pod runs on before it ends.")] = TimeSpan(30)
    local_storage: Annotated[bool, Help("The pods have an emptyDir on disk, which is lost with them.")] = False


class Workload(Strict, frozen=True, kw_only=True):
    """Pods of one kind."""

    name: Annotated[Name, Help("The name of the workload, unique in the scenario.")]
    pod: Annotated[PodShape, Help("What each of its pods asks for.")] = PodShape()


class ScenarioDaemonSet(Workload, frozen=True, kw_only=True):
    """One pod on every node that takes it."""


class DeploymentSpec(Workload, frozen=True, kw_only=True):
    """Pods that run until the end. A lost one is replaced."""

    replicas: Annotated[Count, Help("How many pods there are.")]
    at: Annotated[TimeSpan, Help("When the deployment is created.")] = TimeSpan(0)
    gang: Annotated[
        Count | None, Help("The pods are a gang of this name: at least so many of them start together, or none.")
    ] = None


class JobsSpec(Workload, frozen=True, kw_only=True):
    """Pods that end by themselves and come one after the other."""

    count: Annotated[Count, Help("How many pods come.")] = 1
    at: Annotated[TimeSpan, Help("When the first one comes.")] = TimeSpan(0)
    every: Annotated[TimeSpan, Help("Time between two of them, on average with random_arrivals.")] = TimeSpan(0)
    random_arrivals: Annotated[bool, Help("The pods come at random times.")] = False
    duration: Annotated[TimeSpan, Help("How long each pod runs, or at least with longest.")]
    longest: Annotated[TimeSpan | None, Help("Each pod runs for a random time from duration to this.")] = None


class BudgetSpec(Strict, frozen=True, kw_only=True):
    """A PodDisruptionBudget. Give one of min_available and max_unavailable, and one of workload and labels."""

    name: Annotated[Name, Help("The name of the budget.")]
    workload: Annotated[Name | None, Help("The workload whose pods it protects.")] = None
    labels: Annotated[dict[str, str], Help("Labels of the pods that it protects.")] = {}
    namespace: Annotated[Name, Help("The namespace of these pods, with labels.")] = "default"
    min_available: Annotated[IntOrPercent | None, Help("How many pods must stay, as a number or a share like 25%.")] = (
        None
    )
    max_unavailable: Annotated[
        IntOrPercent | None, Help("How many pods may be missing, as a number or a share like 25%.")
    ] = None


class PodSetSpec(Strict, frozen=True, kw_only=True):
    """Pods of one kind in a request."""

    count: Annotated[Count, Help("How many pods.")]
    pod: Annotated[PodShape, Help("What each of them asks for.")] = PodShape()


class RequestSpec(Strict, frozen=True, kw_only=True):
    """A ProvisioningRequest with its PodTemplates. Pods with its two annotations consume it."""

    name: Annotated[Name, Help("The name of the request.")]
    class_name: Annotated[Name, Help("The provisioning class.")] = msgspec.field(default=CHECK_CAPACITY, name="class")
    namespace: Annotated[Name, Help("The namespace of the request.")] = "default"
    parameters: Annotated[dict[str, str], Help("Parameters of the class.")] = {}
    pod_sets: Annotated[tuple[PodSetSpec, ...], Help("The pods for which it asks for capacity.")]
    at: Annotated[TimeSpan, Help("When the user creates it.")] = TimeSpan(0)
    deleted_at: Annotated[TimeSpan | None, Help("When the user deletes it.")] = None


class SpareSpec(Strict, frozen=True, kw_only=True):
    """A CapacityBuffer. Its pods are like those of deployment, or like pod."""

    name: Annotated[Name, Help("The name of the buffer.")]
    pod: Annotated[PodShape | None, Help("A pod template of its own.")] = None
    deployment: Annotated[Name | None, Help("The deployment whose pods it is for.")] = None
    replicas: Annotated[Count | None, Help("How many pods it holds room for.")] = None
    percentage: Annotated[Count | None, Help("The same as a share of the deployment, in percent.")] = None
    limits: Annotated[
        dict[str, Amount] | None, Help("The most resources that its pods may ask for together, by name.")
    ] = None
    at: Annotated[TimeSpan, Help("When the user creates it.")] = TimeSpan(0)
    deleted_at: Annotated[TimeSpan | None, Help("When the user deletes it.")] = None


class TraceSpec(Strict, frozen=True, kw_only=True):
    """A recorded workload. Unless the provider has groups of its own, every node shape of the trace becomes one."""

    folder: Annotated[
        str | None, Help("A folder with the tables of the openb trace. Without it and file: the part that is packaged.")
    ] = None
    file: Annotated[
        str | None,
        Help("A Parquet file of nodewright record, or with mapping a CSV or Parquet file of another source."),
    ] = None
    mapping: Annotated[str | None, Help("A YAML file that says what the columns of file mean (docs/traces.md).")] = None
    compression: Annotated[float, Meta(gt=0, le=1_000_000), Help("All times are divided by this.")] = 1.0
    rush: Annotated[float, Meta(gt=0, le=1_000_000), Help("Times of arrival are divided by this besides.")] = 1.0
    all_at_once: Annotated[bool, Help("Every pod comes at the start.")] = False


class Happening(Strict, frozen=True, kw_only=True, tag_field="do"):
    """Something that happens at a time."""

    at: Annotated[TimeSpan, Help("When it happens.")]


class Scale(Happening, frozen=True, kw_only=True, tag="scale"):
    """A deployment gets another number of replicas."""

    deployment: Annotated[Name, Help("The name of the deployment.")]
    replicas: Annotated[Count, Help("Its new number of replicas.")]


class Crash(Happening, frozen=True, kw_only=True, tag="crash"):
    """The engine dies at a write to the cloud, and starts again later."""

    write: Annotated[int, Meta(ge=1), Help("Which write after at: 1 is the first.")] = 1
    after_effect: Annotated[bool, Help("It dies after the write took effect, not before the call.")] = False
    down: Annotated[TimeSpan, Help("How long it is down.")] = TimeSpan(30)
    keeps_memory: Annotated[bool, Help("It finds its saved state again.")] = True


class Restart(Happening, frozen=True, kw_only=True, tag="restart"):
    """The engine dies between two loops, and starts again later."""

    down: Annotated[TimeSpan, Help("How long it is down.")] = TimeSpan(30)
    keeps_memory: Annotated[bool, Help("It finds a saved state again.")] = True
    saved: Annotated[
        str,
        Meta(pattern="^(kept|missing|old|truncated|foreign|newer)$"),
        Help(
            "Which state it finds: its own, none, an older one, a part of the file, that of another cluster, or "
            "one of a later version."
        ),
    ] = "kept"


class Kill(Happening, frozen=True, kw_only=True, tag="kill"):
    """The engine dies beside any of its writes: to the cloud, to nodes, to pods, to its state. It starts again later."""

    step: Annotated[
        int,
        Meta(ge=1),
        Help("Which point after at: 1 is the first. There is one before and one after each write."),
    ] = 1
    down: Annotated[TimeSpan, Help("How long it is down.")] = TimeSpan(30)
    keeps_memory: Annotated[bool, Help("It finds its saved state again.")] = True


class FullDisk(Happening, frozen=True, kw_only=True, tag="full_disk"):
    """No state can be saved for a time."""

    lasts: Annotated[TimeSpan, Help("For how long.")] = msgspec.field(name="for")


class Outage(Happening, frozen=True, kw_only=True, tag="unready"):
    """The oldest ready nodes are not ready for a time."""

    nodes: Annotated[Count, Help("How many nodes.")] = 1
    lasts: Annotated[TimeSpan, Help("For how long.")] = msgspec.field(name="for")


class PauseWrites(Happening, frozen=True, kw_only=True, tag="pause"):
    """An operator runs nodewright pause: nothing is written to any cloud for a time."""

    lasts: Annotated[TimeSpan, Help("For how long, more than nothing.")] = msgspec.field(name="for")

    def __post_init__(self) -> None:
        if not self.lasts > 0:
            raise ValueError("a pause lasts longer than nothing")


class ResumeWrites(Happening, frozen=True, kw_only=True, tag="resume"):
    """An operator ends the pause."""


class RefuseEvictions(Happening, frozen=True, kw_only=True, tag="refuse_evictions"):
    """The API server refuses evictions for a time."""

    lasts: Annotated[TimeSpan, Help("For how long.")] = msgspec.field(name="for")
    namespace: Annotated[Name | None, Help("Of pods of this namespace only.")] = None


class RefuseEdits(Happening, frozen=True, kw_only=True, tag="refuse_edits"):
    """The API server refuses edits of nodes for a time."""

    lasts: Annotated[TimeSpan, Help("For how long.")] = msgspec.field(name="for")
    takes_effect: Annotated[bool, Help("The edits take effect; only the response is lost.")] = False


class Misread(Happening, frozen=True, kw_only=True, tag="misread"):
    """The list of the cluster is wrong for a time."""

    lasts: Annotated[TimeSpan, Help("For how long.")] = msgspec.field(name="for")
    shows: Annotated[
        str,
        Meta(pattern="^(no_pods|half_of_the_pods|few_pods|empty_nodes|stale|stale_nodes)$"),
        Help(
            "What it shows: no pods, every other one, all but one in ten (on the nodes with the fewest), none on every third "
            "node, everything as it was before, or the nodes alone as they were before."
        ),
    ] = "no_pods"
    direct: Annotated[bool, Help("The pods of a node are shown in the same way right before it is deleted.")] = False


class TouchNodes(Happening, frozen=True, kw_only=True, tag="touch_nodes"):
    """A person changes the oldest ready nodes, and undoes it after a time.

    Deleted nodes register again, under another name for ``rename``. ``double`` creates a second Node object for each
    machine, which no kubelet makes ready; for ``twin`` a kubelet does.
    """

    how: Annotated[
        str,
        Meta(pattern="^(cordon|taint|label|delete|rename|double|twin)$"),
        Help("What is done: cordon, taint, label, delete, rename, double or twin."),
    ]
    nodes: Annotated[Count, Help("How many nodes.")] = 1
    lasts: Annotated[TimeSpan, Help("After what time it is undone.")] = msgspec.field(name="for")


class JumpClock(Happening, frozen=True, kw_only=True, tag="jump_clock"):
    """The wall clock of the engine's machine is set to another time."""

    by: Annotated[float, Help("By how many seconds. Below zero: back.")]
    lasts: Annotated[TimeSpan | None, Help("After what time it is set right again. Without it: never.")] = (
        msgspec.field(name="for", default=None)
    )
    date_header: Annotated[
        bool,
        Help(
            "Whether responses of the API server tell its time, throughout the run. Without it the engine's machine does."
        ),
    ] = True


Event = (
    Scale
    | Crash
    | Restart
    | Kill
    | FullDisk
    | Outage
    | PauseWrites
    | ResumeWrites
    | RefuseEvictions
    | RefuseEdits
    | Misread
    | TouchNodes
    | JumpClock
)


class Scenario(Strict, frozen=True, kw_only=True):
    """A simulation: a cluster, its clouds, its workloads, and what happens to them."""

    name: Annotated[str, Help("The name of the scenario.")]
    description: Annotated[str, Help("What it shows.")] = ""
    duration: Annotated[TimeSpan, Help("How long it lasts, in virtual time.")]
    seed: Annotated[int, Help("The seed of everything that is left to chance.")] = 0
    settings: Annotated[dict[str, Any], Help("Settings of nodewright, by flag without dashes (docs/settings.md).")] = {}
    providers: Annotated[dict[Name, dict[str, Any]], Help("The clouds: each provider's options, by its name.")]
    scheduler: Annotated[Preference, Help("Which nodes kube-scheduler prefers.")] = Preference.LEAST_ALLOCATED
    stops_idle: Annotated[bool, Help("The run ends when nothing is left to happen, before duration is over.")] = False
    startup_taints_last: Annotated[TimeSpan, Help("How long start-up taints stay on a node that is ready.")] = TimeSpan(
        0
    )
    daemon_sets: Annotated[tuple[ScenarioDaemonSet, ...], Help("Workloads with one pod on every node.")] = ()
    deployments: Annotated[tuple[DeploymentSpec, ...], Help("Workloads that run until the end.")] = ()
    jobs: Annotated[tuple[JobsSpec, ...], Help("Pods that end by themselves.")] = ()
    disruption_budgets: Annotated[tuple[BudgetSpec, ...], Help("PodDisruptionBudgets.")] = ()
    provisioning_requests: Annotated[tuple[RequestSpec, ...], Help("ProvisioningRequests.")] = ()
    capacity_buffers: Annotated[tuple[SpareSpec, ...], Help("CapacityBuffers.")] = ()
    engine_pod: Annotated[
        PodShape | None,
        Help(
            "The pod in which the engine runs, in kube-system unless it says otherwise. When it is evicted "
            "or lost, the engine goes on in the pod that replaces it."
        ),
    ] = None
    trace: Annotated[TraceSpec | None, Help("A recorded workload, besides the ones above.")] = None
    timeline: Annotated[tuple[Event, ...], Help("What happens besides.")] = ()


def amounts_of(pod: PodShape) -> Mapping[str, Amount]:
    """Return all that the pod requests, by resource name."""
    return {"cpu": pod.cpu, "memory": pod.memory, **pod.resources}
