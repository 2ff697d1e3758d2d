"""What happens in a simulation: the values of a scenario, as scenario_file.py reads them."""

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from nodewright.model.provisioning_request import CHECK_CAPACITY
from nodewright_simulator.scheduler import Preference

Count = Annotated[int, Meta(ge=0, le=1_000_000)]
Name = Annotated[str, Meta(pattern="^[a-z0-9]([-a-z0-9.]{0,200}[a-z0-9])?$")]
Amount = str | int | float
IntOrPercent = Count | Annotated[str, Meta(pattern="^([0-9]|[1-9][0-9]|100)%$")]


class Seconds(float):
    """A length of time: a number of seconds, or text like ``90s`` or ``1h30m``."""

    __slots__ = ()


class Strict(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of everything in a scenario file: an unknown key is refused."""


class TolerationSpec(Strict, frozen=True, kw_only=True):
    key: str = ""
    operator: Annotated[str, Meta(pattern="^(Exists|Equal)$")] = "Equal"
    value: str = ""
    effect: str = ""


class SpreadSpec(Strict, frozen=True, kw_only=True):
    """Pods of one workload spread over the values of a node label."""

    key: str = "topology.kubernetes.io/zone"
    max_skew: Annotated[int, Meta(ge=1)] = 1
    when_unsatisfiable: Annotated[str, Meta(pattern="^(DoNotSchedule|ScheduleAnyway)$")] = "DoNotSchedule"


class PodTemplate(Strict, frozen=True, kw_only=True):
    """What each pod of a workload asks for; ``resources`` are further resources by name.

    A pod that is evicted runs on for ``grace``. ``local_storage``: it has an emptyDir, which is lost with it.
    """

    cpu: Amount = "100m"
    memory: Amount = "128Mi"
    resources: dict[str, Amount] = {}
    namespace: Name = "default"
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    node_selector: dict[str, str] = {}
    tolerations: tuple[TolerationSpec, ...] = ()
    spread: tuple[SpreadSpec, ...] = ()
    apart: bool = False  # no two pods of the workload on one node
    priority: int | None = None
    grace: Seconds = Seconds(30)
    local_storage: bool = False


class Workload(Strict, frozen=True, kw_only=True):
    """Pods of one kind. A workload's name is unique in its scenario."""

    name: Name
    pod: PodTemplate = PodTemplate()


class DaemonSetSpec(Workload, frozen=True, kw_only=True):
    """One pod on every node that takes it."""


class DeploymentSpec(Workload, frozen=True, kw_only=True):
    """Pods that run until the end; a lost one is replaced."""

    replicas: Count
    at: Seconds = Seconds(0)


class JobsSpec(Workload, frozen=True, kw_only=True):
    """``count`` pods that end by themselves, one after the other.

    The first comes ``at``, the others ``every`` so often, on average when ``random_arrivals``. Each runs for
    ``duration``, or for a time between that and ``longest``.
    """

    count: Count = 1
    at: Seconds = Seconds(0)
    every: Seconds = Seconds(0)
    random_arrivals: bool = False
    duration: Seconds
    longest: Seconds | None = None


class BudgetSpec(Strict, frozen=True, kw_only=True):
    """A PodDisruptionBudget for the pods of one workload, or for those with ``labels`` in ``namespace``.

    Exactly one of ``min_available`` and ``max_unavailable`` is given, as a number of pods or a share like ``25%``.
    """

    name: Name
    workload: Name | None = None
    labels: dict[str, str] = {}
    namespace: Name = "default"
    min_available: IntOrPercent | None = None
    max_unavailable: IntOrPercent | None = None


class PodSetSpec(Strict, frozen=True, kw_only=True):
    """So many pods of one kind in a request."""

    count: Count
    pod: PodTemplate = PodTemplate()


class RequestSpec(Strict, frozen=True, kw_only=True):
    """A ProvisioningRequest that somebody creates ``at``, with its PodTemplates, and perhaps deletes ``deleted_at``.

    Pods consume it that carry the two annotations (``pod: {annotations: …}`` of a workload).
    """

    name: Name
    class_name: Name = msgspec.field(default=CHECK_CAPACITY, name="class")
    namespace: Name = "default"
    parameters: dict[str, str] = {}
    pod_sets: tuple[PodSetSpec, ...]
    at: Seconds = Seconds(0)
    deleted_at: Seconds | None = None


class SpareSpec(Strict, frozen=True, kw_only=True):
    """A CapacityBuffer that somebody creates ``at``, and perhaps deletes ``deleted_at``.

    Its pods are like those of a ``deployment`` or, with a PodTemplate of its own, like ``pod``.
    """

    name: Name
    pod: PodTemplate | None = None
    deployment: Name | None = None
    replicas: Count | None = None
    percentage: Count | None = None
    limits: dict[str, Amount] | None = None
    at: Seconds = Seconds(0)
    deleted_at: Seconds | None = None


class TraceSpec(Strict, frozen=True, kw_only=True):
    """A recorded workload: a folder with the tables of the openb trace, or the cut that is packaged.

    All times are divided by ``compression``, times of arrival moreover by ``rush``; with ``all_at_once`` every
    pod comes at the start. Unless the provider has groups of its own, every node shape of the trace becomes one.
    """

    folder: str | None = None
    compression: Annotated[float, Meta(gt=0, le=1_000_000)] = 1.0
    rush: Annotated[float, Meta(gt=0, le=1_000_000)] = 1.0
    all_at_once: bool = False


class Happening(Strict, frozen=True, kw_only=True, tag_field="do"):
    """Something that is done to the world at a time."""

    at: Seconds


class Scale(Happening, frozen=True, kw_only=True, tag="scale"):
    """A deployment gets another number of replicas."""

    deployment: Name
    replicas: Count


class Crash(Happening, frozen=True, kw_only=True, tag="crash"):
    """The engine dies at its ``write``-th change of the cloud after ``at``, before the call or after its effect,
    and starts again ``down`` later.
    """

    write: Annotated[int, Meta(ge=1)] = 1
    after_effect: bool = False
    down: Seconds = Seconds(30)
    keeps_memory: bool = True


class Restart(Happening, frozen=True, kw_only=True, tag="restart"):
    """The engine dies between two loops, and starts again ``down`` later.

    ``saved`` is what it finds then: what it had saved, or a save of some time before, a part of the file, the state of
    another cluster, or that of a later version.
    """

    down: Seconds = Seconds(30)
    keeps_memory: bool = True
    saved: Annotated[str, Meta(pattern="^(kept|old|truncated|foreign|newer)$")] = "kept"


class Kill(Happening, frozen=True, kw_only=True, tag="kill"):
    """The engine dies at the ``step``-th point after ``at`` before or after something that it leaves behind: a call of the
    cloud, an edit, an eviction or a save. It starts again ``down`` later.
    """

    step: Annotated[int, Meta(ge=1)] = 1
    down: Seconds = Seconds(30)
    keeps_memory: bool = True


class FullDisk(Happening, frozen=True, kw_only=True, tag="full_disk"):
    """For that long no state can be saved."""

    lasts: Seconds = msgspec.field(name="for")


class Outage(Happening, frozen=True, kw_only=True, tag="unready"):
    """So many nodes that are ready, the oldest, are not ready for that long."""

    nodes: Count = 1
    lasts: Seconds = msgspec.field(name="for")


class PauseWrites(Happening, frozen=True, kw_only=True, tag="pause"):
    """Somebody orders ``nodewright pause``: nothing is written to any cloud for that long."""

    lasts: Seconds = msgspec.field(name="for")

    def __post_init__(self) -> None:
        if not self.lasts > 0:
            raise ValueError("a pause lasts longer than nothing")


class ResumeWrites(Happening, frozen=True, kw_only=True, tag="resume"):
    """Somebody ends the pause."""


class RefuseEvictions(Happening, frozen=True, kw_only=True, tag="refuse_evictions"):
    """For that long the API server lets no pod be evicted, of one namespace or of any."""

    lasts: Seconds = msgspec.field(name="for")
    namespace: Name | None = None


class RefuseEdits(Happening, frozen=True, kw_only=True, tag="refuse_edits"):
    """For that long the API server refuses edits of nodes; ``takes_effect``: only the answer is lost."""

    lasts: Seconds = msgspec.field(name="for")
    takes_effect: bool = False


class Misread(Happening, frozen=True, kw_only=True, tag="misread"):
    """For that long the list of the cluster is wrong: it shows no pods, every other one, what was there before, or the
    nodes alone as they were before.
    """

    lasts: Seconds = msgspec.field(name="for")
    shows: Annotated[str, Meta(pattern="^(no_pods|half_of_the_pods|stale|stale_nodes)$")] = "no_pods"


class TouchNodes(Happening, frozen=True, kw_only=True, tag="touch_nodes"):
    """Somebody cordons or taints the oldest so many ready nodes, and undoes that after that long; or deletes them, and
    their kubelets register again after that long.
    """

    how: Annotated[str, Meta(pattern="^(cordon|taint|delete)$")]
    nodes: Count = 1
    lasts: Seconds = msgspec.field(name="for")


class JumpClock(Happening, frozen=True, kw_only=True, tag="jump_clock"):
    """Somebody sets the wall clock of the engine's machine ``by`` so many seconds, and back after that long, if ever."""

    by: float
    lasts: Seconds | None = msgspec.field(name="for", default=None)


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
    """One simulation. ``settings`` are flags without their dashes; ``providers`` maps names to their options.

    ``engine_pod``: the engine itself runs in such a pod, in namespace kube-system unless that says otherwise, once one
    has found a node; when that pod is evicted or lost, the engine goes on in the pod that replaces it.

    ``stops_idle`` ends the run when nothing is left to happen, before ``duration`` is over.
    """

    name: str
    description: str = ""
    duration: Seconds
    seed: int = 0
    settings: dict[str, Any] = {}
    providers: dict[Name, dict[str, Any]]
    scheduler: Preference = Preference.LEAST_ALLOCATED
    stops_idle: bool = False
    startup_taints_last: Seconds = Seconds(0)
    daemon_sets: tuple[DaemonSetSpec, ...] = ()
    deployments: tuple[DeploymentSpec, ...] = ()
    jobs: tuple[JobsSpec, ...] = ()
    disruption_budgets: tuple[BudgetSpec, ...] = ()
    provisioning_requests: tuple[RequestSpec, ...] = ()
    capacity_buffers: tuple[SpareSpec, ...] = ()
    engine_pod: PodTemplate | None = None
    trace: TraceSpec | None = None
    timeline: tuple[Event, ...] = ()


def amounts_of(pod: PodTemplate) -> Mapping[str, Amount]:
    """Everything that the pod requests, by resource name."""
    return {"cpu": pod.cpu, "memory": pod.memory, **pod.resources}
