"""Controllers that keep pods alive: Deployments, Jobs and DaemonSets of a simulated cluster."""

import math
from datetime import UTC, datetime

from msgspec.structs import replace

from nodewright.model.cluster import (
    DaemonSet,
    Job,
    PodTemplateSpec,
    ReplicaSet,
    ReplicaSetSpec,
    TemplatedSpec,
)
from nodewright.model.cluster import Deployment as DeploymentObject
from nodewright.model.meta import ObjectMeta, OwnerReference
from nodewright.model.pod import Pod, Toleration
from nodewright.predicates import feasible
from nodewright_simulator.agenda import Agenda, Happening
from nodewright_simulator.cluster import SimulatedCluster, SimulatedPod

# What the DaemonSet controller adds to every pod it makes.
_NODE = "node.kubernetes.io/"
_DAEMON_TOLERATIONS = tuple(
    Toleration(key=f"{_NODE}{what}", operator="Exists", effect=effect)
    for what, effect in (
        ("not-ready", "NoExecute"),
        ("unreachable", "NoExecute"),
        ("disk-pressure", "NoSchedule"),
        ("memory-pressure", "NoSchedule"),
        ("pid-pressure", "NoSchedule"),
        ("unschedulable", "NoSchedule"),
        ("network-unavailable", "NoSchedule"),
    )
)


class DeploymentController:
    """Keeps ``replicas`` pods of one template, and replaces a lost one at once.

    ``on_start`` is called when a pod starts, ``on_loss`` when one is lost.
    """

    def __init__(
        self,
        cluster: SimulatedCluster,
        name: str,
        template: Pod,
        on_start: Happening | None = None,
        on_loss: Happening | None = None,
    ) -> None:
        self._on_start = on_start
        self._on_loss = on_loss
        self._cluster = cluster
        self._name = name
        self._template = owned(template, "ReplicaSet", name)
        meta = template.metadata
        uid = _uid("Deployment", meta.namespace, name)
        self._owner = ObjectMeta(name=name, namespace=meta.namespace, uid=uid)
        self._shape = PodTemplateSpec(
            metadata=ObjectMeta(labels=meta.labels, annotations=meta.annotations), spec=template.spec
        )
        self._meta = ObjectMeta(
            name=name,
            namespace=meta.namespace,
            uid=_uid("ReplicaSet", meta.namespace, name),
            owner_references=(OwnerReference(kind="Deployment", name=name, uid=uid, controller=True),),
        )
        self._pods: list[SimulatedPod] = []
        self._made = 0

    def scale(self, replicas: int, at: float) -> None:
        """Create or delete pods; those that wait go first, then the youngest."""
        self._cluster.declare(ReplicaSet(metadata=self._meta, spec=ReplicaSetSpec(replicas=replicas)))
        wanted = DeploymentObject(metadata=self._owner, spec=TemplatedSpec(replicas=replicas, template=self._shape))
        self._cluster.deployments = {**self._cluster.deployments, wanted.key: wanted}
        self._pods = [held for held in self._pods if not held.gone]
        while len(self._pods) < replicas:
            self._create(at)
        ranked = sorted(self._pods, key=lambda held: held.started is None)  # each in order of creation
        self._pods, surplus = ranked[:replicas], ranked[replicas:]
        for doomed in surplus:
            doomed.on_loss = None
            self._cluster.delete(doomed, at)

    def _create(self, at: float) -> None:
        pod = named(self._template, f"{self._name}-{self._made}", at)
        self._made += 1
        created = SimulatedPod(pod=pod, arrived=at, on_start=self._note_start, on_loss=self._replace)
        self._pods.append(created)
        self._cluster.submit(created)

    def _note_start(self, started: SimulatedPod, at: float) -> None:  # noqa: ARG002 - which one does not matter
        if self._on_start is not None:
            self._on_start(at)

    def _replace(self, lost: SimulatedPod, at: float) -> None:
        if self._on_loss is not None:
            self._on_loss(at)
        self._pods.remove(lost)
        self._create(at)


class Jobs:
    """Runs pods that end by themselves; one that is lost on the way starts again."""

    def __init__(self, cluster: SimulatedCluster, agenda: Agenda) -> None:
        self._cluster = cluster
        self._agenda = agenda
        self._declared: set[str] = set()

    def run(self, pod: Pod, lifetime: float, at: float, *, resumes: bool = False) -> None:
        """Create ``pod`` now; it ends ``lifetime`` seconds after it starts.

        With an infinite ``lifetime`` it does not end. A pod that ``resumes`` runs only the rest of that time when it starts again, like a service with a fixed end.
        """

        def end_later(started: SimulatedPod, moment: float) -> None:
            if math.isfinite(lifetime):
                self._agenda.at(moment + lifetime, lambda due: self._cluster.end(started, due))

        def run_again(lost: SimulatedPod, moment: float) -> None:
            done = moment - lost.started if resumes and lost.started is not None else 0.0
            again = named(pod, _retried(lost.pod.metadata.name), moment)
            self.run(again, max(0.0, lifetime - done), moment, resumes=resumes)

        self._declare(pod)
        self._cluster.submit(SimulatedPod(pod=pod, arrived=at, on_start=end_later, on_loss=run_again))

    def _declare(self, pod: Pod) -> None:
        owner, namespace = pod.metadata.controller, pod.metadata.namespace
        if owner is not None and owner.uid not in self._declared:
            self._declared.add(owner.uid)
            self._cluster.declare(Job(metadata=ObjectMeta(name=owner.name, namespace=namespace, uid=owner.uid)))


def start_daemons(cluster: SimulatedCluster, node: str, at: float) -> None:
    """Start the pod of every DaemonSet that runs on this node and has none there yet, where it fits."""
    running = {held.pod.metadata.controller for held in cluster.pods_on(node)}
    for daemon_set in cluster.daemon_sets:
        pod = _daemon_pod(daemon_set, node, at)
        snapshot = cluster.live
        row = snapshot.row(node)
        fits = feasible(snapshot, snapshot.class_of(pod), slice(row, row + 1))
        if pod.metadata.controller not in running and fits[0]:
            bound = replace(pod, spec=replace(pod.spec, node_name=node))
            cluster.submit(SimulatedPod(pod=bound, arrived=at))


def _daemon_pod(daemon_set: DaemonSet, node: str, at: float) -> Pod:
    template = daemon_set.spec.template
    spec = replace(template.spec, tolerations=(*template.spec.tolerations, *_DAEMON_TOLERATIONS))
    meta = daemon_set.metadata
    labels, annotations = template.metadata.labels, template.metadata.annotations
    pod = Pod(metadata=ObjectMeta(namespace=meta.namespace, labels=labels, annotations=annotations), spec=spec)
    return named(owned(pod, "DaemonSet", meta.name, meta.uid), f"{meta.name}-{node}", at)


def owned(pod: Pod, kind: str, name: str, uid: str = "") -> Pod:
    """Return the pod with a controller."""
    group = "batch/v1" if kind == "Job" else "apps/v1"
    uid = uid or _uid(kind, pod.metadata.namespace, name)
    owner = OwnerReference(kind=kind, name=name, uid=uid, api_version=group, controller=True)
    return replace(pod, metadata=replace(pod.metadata, owner_references=(owner,)))


def named(pod: Pod, name: str, at: float) -> Pod:
    """Return the pod under a name of its own, created at ``at``."""
    created = datetime.fromtimestamp(at, tz=UTC)
    uid = f"{pod.metadata.namespace}/{name}"
    return replace(pod, metadata=replace(pod.metadata, name=name, uid=uid, creation_timestamp=created))


def _retried(name: str) -> str:
    """Return the name of the next try: ``job-3`` → ``job-3-r1`` → ``job-3-r2``."""
    stem, mark, number = name.rpartition("-r")
    return f"{stem}-r{int(number) + 1}" if mark and number.isdecimal() else f"{name}-r1"


def _uid(kind: str, namespace: str, name: str) -> str:
    return f"{kind}/{namespace}/{name}"
