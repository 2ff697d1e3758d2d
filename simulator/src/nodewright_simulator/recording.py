"""From what was seen of a cluster to a trace, with names hashed."""

import hashlib
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec

from nodewright.model.node import HOSTNAME_LABEL, INSTANCE_TYPE_LABEL, ZONE_LABEL, Node, Taint
from nodewright.model.pod import SAFE_TO_EVICT_ANNOTATION, Pod, Toleration
from nodewright.model.quantity import Quantity
from nodewright.predicates.selectors import matches_selector
from nodewright.snapshot.requests import exact_requests
from nodewright_simulator.recorded import RecordedPod, RecordedTrace, TraceHeader
from nodewright_simulator.scenario import PodShape, ScenarioDaemonSet, SpreadSpec, TimeSpan, TolerationSpec

_KNOWN_KEYS = frozenset(
    {
        "",
        ZONE_LABEL,
        HOSTNAME_LABEL,
        INSTANCE_TYPE_LABEL,
        "topology.kubernetes.io/region",
        "kubernetes.io/arch",
        "kubernetes.io/os",
        "nvidia.com/gpu",
        "karpenter.sh/capacity-type",
        "eks.amazonaws.com/capacityType",
        "cloud.google.com/gke-spot",
        "kubernetes.azure.com/scalesetpriority",
    }
)
_KNOWN_VALUES = frozenset(
    {"", "true", "false", "amd64", "arm64", "linux", "windows", "spot", "on-demand", "SPOT", "ON_DEMAND", "regular"}
)
_KNOWN_RESOURCES = re.compile(r"cpu|memory|pods|ephemeral-storage|hugepages-\w+|(nvidia|amd)\.com/gpu")
_PUBLIC_TYPE = re.compile(
    r"[a-z]{1,4}\d[a-z0-9-]{0,8}\.(nano|micro|small|medium|\d{0,3}x?large|metal(-\d+xl)?)"  # AWS
    r"|[a-z]\d[a-z]?-(standard|highmem|highcpu|megamem|ultramem|highgpu|megagpu)-\d{1,3}g?"  # Compute Engine
    r"|Standard_[A-Z]{1,3}\d{1,3}[a-z]{0,6}(-\d{1,3}[a-z]{0,6})?(_v\d)?"  # Azure
)
# The labels by which managed Kubernetes and Karpenter tell node groups apart.
_GROUP_LABELS = (
    "eks.amazonaws.com/nodegroup",
    "cloud.google.com/gke-nodepool",
    "kubernetes.azure.com/agentpool",
    "karpenter.sh/nodepool",
)
_PASSING_TAINTS = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/", "ToBeDeleted", "DeletionCandidate")
_CONTROLLERS = frozenset({"ReplicaSet", "StatefulSet", "Job", "ReplicationController", "DaemonSet", "Deployment"})


class Anonymiser:
    """Replaces names by hashes with a salt of this file: equal names have equal hashes in it, and in no other file."""

    def __init__(self, salt: bytes | None) -> None:
        self._salt = salt  # None: names are kept

    @property
    def hides(self) -> bool:
        return self._salt is not None

    def name(self, what: str, text: str) -> str:
        """Return ``what`` with a hash; an empty text stays empty."""
        if self._salt is None or not text:
            return text
        return f"{what}-{hashlib.blake2b(text.encode(), key=self._salt, digest_size=6).hexdigest()}"

    def key(self, text: str) -> str:
        return text if text in _KNOWN_KEYS else self.name("k", text)

    def value(self, text: str) -> str:
        return text if text in _KNOWN_VALUES else self.name("v", text)

    def resource(self, text: str) -> str:
        return text if _KNOWN_RESOURCES.fullmatch(text) else self.name("example.com/r", text)

    def machine_type(self, text: str) -> str:
        """Keep a machine type of a public cloud: prices are looked up by it."""
        return text if _PUBLIC_TYPE.fullmatch(text) else self.value(text)

    def label(self, key: str, value: str) -> str:
        return self.machine_type(value) if key == INSTANCE_TYPE_LABEL else self.value(value)


@dataclass(kw_only=True)
class _Seen:
    """``is_here``: the last list had the pod; it may have ended all the same."""

    pod: Pod
    ended: float | None = None
    is_here: bool = True


class Recording:
    """Takes in the cluster at several moments. Times in epoch seconds; the first moment is the start of the trace.

    It holds every pod that it saw until ``take_gone``. Of nodes that are gone it holds one for all that are alike.
    """

    def __init__(self) -> None:
        self.start: float | None = None
        self.end = 0.0
        self._pods: dict[str, _Seen] = {}
        # The pods that were taken last and before that: the watch may tell of one once more.
        self._taken: tuple[frozenset[str], frozenset[str]] = (frozenset(), frozenset())
        self._count = 0
        # Nodes that are there, and since when.
        self._nodes: dict[str, tuple[Node, float]] = {}
        self._left: list[tuple[Node, float, float]] = []
        self._alike: dict[object, Node] = {}

    @property
    def pods(self) -> int:
        """Return how many pods were seen."""
        return self._count

    def see(self, nodes: Iterable[Node], pods: Iterable[Pod], at: float, passed: Iterable[Pod] = ()) -> None:
        """Take in all nodes and pods of the moment ``at``, and pods that were there since the last one (``passed``)."""
        self.start = at if self.start is None else self.start
        self.end = max(self.end, at)
        for pod in passed:
            self._note(pod, at)
        here = set()
        for pod in pods:
            here.add(_identity(pod))
            self._note(pod, at)
        for identity, seen in self._pods.items():
            seen.is_here = identity in here
            if not seen.is_here and seen.ended is None:
                seen.ended = at
        names = set()
        for node in nodes:
            names.add(node.name)
            self._nodes[node.name] = (node, self._nodes[node.name][1] if node.name in self._nodes else at)
        for name in [name for name in self._nodes if name not in names]:
            node, since = self._nodes.pop(name)
            self._left.append((self._alike.setdefault(_kind_of_node(node), node), since, at))

    def _note(self, pod: Pod, at: float) -> None:
        identity = _identity(pod)
        seen = self._pods.get(identity)
        ended = _end_of(pod, at) if pod.is_terminal else None
        if seen is None:
            is_new = ended is None or ended > (self.start or 0.0)
            if is_new and not any(identity in taken for taken in self._taken):
                self._pods[identity] = _Seen(pod=pod, ended=ended)
                self._count += 1
            return
        if ended is None or seen.ended is None:
            seen.ended = ended
        seen.pod = pod

    def make_trace(self, hides: Anonymiser, group_by: str | None = None, group_max: int | None = None) -> RecordedTrace:
        """Return the trace of what was seen; pods of DaemonSets become its DaemonSets.

        ``group_by`` is the label of the nodes that names their group. ``group_max`` is how far each may grow, by default to
        the most nodes that it had at a time.
        """
        return TraceMaker(self, hides, group_by, group_max).peek()

    def take_gone(self) -> list[tuple[Pod, float | None]]:
        """Return the pods that are not in the cluster any more, each with its end, and forget them."""
        gone = {identity: seen for identity, seen in self._pods.items() if not seen.is_here}
        for identity in gone:
            del self._pods[identity]
        self._taken = (self._taken[1], frozenset(gone))
        return [(seen.pod, seen.ended) for seen in gone.values()]

    def seen_pods(self) -> Iterable[tuple[Pod, float | None]]:
        return ((seen.pod, seen.ended) for seen in self._pods.values())

    def stays(self) -> Iterable[tuple[Node, float, float]]:
        """Yield nodes with when each came and when it was gone (infinite: it is there); a node may come again."""
        yield from self._left
        yield from ((node, since, math.inf) for node, since in self._nodes.values())


def _kind_of_node(node: Node) -> object:
    """Return what nodes have in common that may stand for each other in a trace."""
    labels = tuple(sorted((key, value) for key, value in node.metadata.labels.items() if key != HOSTNAME_LABEL))
    taints = tuple((taint.key, taint.value, taint.effect) for taint in node.spec.taints if not _is_passing(taint.key))
    return labels, taints, tuple(sorted((name, amount.nano) for name, amount in node.allocatable.items()))


def _identity(pod: Pod) -> str:
    return pod.metadata.uid or f"{pod.key}@{pod.created}"


def _end_of(pod: Pod, at: float) -> float:
    """Return when a pod that ended did so: the last change of its conditions, or ``at`` if it has none."""
    changed = [c.last_transition_time.timestamp() for c in pod.status.conditions if c.last_transition_time is not None]
    return min(at, max(changed, default=at))


def _start_of(pod: Pod) -> float | None:
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.status == "True":
            return condition.last_transition_time.timestamp() if condition.last_transition_time is not None else None
    return None


class TraceMaker:
    """Makes the rows and the header of one trace, also piece by piece while it is recorded."""

    def __init__(self, recording: Recording, hides: Anonymiser, group_by: str | None, most: int | None) -> None:
        self._recording = recording
        self._hides = hides
        self._group_labels = (group_by,) if group_by is not None else _GROUP_LABELS
        self._most = most
        self._classes: dict[bytes, int] = {}
        self._shapes: list[PodShape] = []
        self._daemons: dict[str, ScenarioDaemonSet] = {}
        self._keys: set[str] = set()
        self._left_out = Counter[str]()

    def take_gone(self) -> list[RecordedPod]:
        """Return the rows of the pods that are gone, which the recording then forgets."""
        return self._rows(self._recording.take_gone())

    def peek(self) -> RecordedTrace:
        """Return the trace as it would be if the recording ended now, without the pods that were taken."""
        counted = self._left_out.copy()
        pods = self._rows(self._recording.seen_pods())
        start = self._recording.start or 0.0
        header = TraceHeader(
            seconds=max(0.0, self._recording.end - start),
            anonymous=self._hides.hides,
            groups=tuple(self._groups()),
            classes=tuple(self._shapes),
            daemon_sets=tuple(self._daemons[name] for name in sorted(self._daemons)),
            left_out=dict(sorted(self._left_out.items())),
        )
        self._left_out = counted  # these pods are counted again, when they are gone or at the next peek
        return RecordedTrace(header=header, pods=tuple(pods))

    def _rows(self, seen: Iterable[tuple[Pod, float | None]]) -> list[RecordedPod]:
        rows = []
        for pod, ended in seen:
            if pod.is_mirror:
                self._left_out["static pods"] += 1
            elif pod.is_daemonset_pod:
                daemon = self._daemon(pod)
                self._daemons[daemon.name] = daemon
            else:
                rows.append(self._pod(pod, ended))
        return sorted(rows, key=lambda row: (row.created, row.name))

    def _pod(self, pod: Pod, ended: float | None) -> RecordedPod:
        amounts = self._amounts(pod)
        controller = pod.metadata.controller
        kind = controller.kind if controller is not None else ""
        started, begin = _start_of(pod), self._recording.start or 0.0
        return RecordedPod(
            name=self._hides.name("pod", pod.metadata.uid or pod.key) if self._hides.hides else pod.name,
            owner=self._owner(pod),
            owner_kind=kind if kind in _CONTROLLERS or not self._hides.hides else self._hides.name("kind", kind),
            kind=self._class_of(self._shape(pod)),
            cpu_milli=amounts.pop("cpu", Quantity(0)).milli,
            memory_bytes=amounts.pop("memory", Quantity(0)).value,
            resources={name: amount.value for name, amount in amounts.items()},
            created=max(0.0, pod.created - begin),
            started=max(0.0, started - begin) if started is not None else None,
            ended=max(0.0, ended - begin) if ended is not None else None,
        )

    def _class_of(self, shape: PodShape) -> int:
        found = self._classes.setdefault(msgspec.json.encode(shape, enc_hook=float), len(self._shapes))
        if found == len(self._shapes):
            self._shapes.append(shape)
        return found

    def _owner(self, pod: Pod) -> str:
        controller = pod.metadata.controller
        if controller is None:
            return ""
        place = f"{controller.kind}/{pod.metadata.namespace}/{controller.name}"
        return self._hides.name("owner", place) if self._hides.hides else controller.name

    def _amounts(self, pod: Pod) -> dict[str, Quantity]:
        asked = exact_requests(pod, placed=bool(pod.spec.node_name))
        return {self._hides.resource(name): Quantity(nano) for name, nano in sorted(asked.items()) if nano > 0}

    def _daemon(self, pod: Pod) -> ScenarioDaemonSet:
        amounts = self._amounts(pod)
        shape = self._shape(pod)
        sized = PodShape(
            cpu=str(amounts.pop("cpu", Quantity(0))),
            memory=str(amounts.pop("memory", Quantity(0))),
            resources={name: str(amount) for name, amount in amounts.items()},
            namespace=shape.namespace,
            node_selector=shape.node_selector,
            tolerations=shape.tolerations,
            priority=shape.priority,
        )
        return ScenarioDaemonSet(name=self._owner(pod) or self._hides.name("daemon", pod.name), pod=sized)

    def _shape(self, pod: Pod) -> PodShape:
        """Return what the pod asks for besides its size; count what cannot be kept."""
        spec, hides, labels = pod.spec, self._hides, pod.metadata.labels
        selector = dict(spec.node_selector or {})
        if not pod.is_daemonset_pod:
            selector |= self._affinity(pod)
            self._count_lost(pod)
        if selector.pop(HOSTNAME_LABEL, None) is not None:
            self._left_out["bound to one node by name"] += 1
        self._keys |= selector.keys()
        spreads = [s for s in spec.topology_spread_constraints if matches_selector(labels, s.label_selector)]
        self._left_out["spread over pods of others"] += len(spec.topology_spread_constraints) - len(spreads)
        self._left_out += Counter()  # drops zeros
        self._keys |= {spread.topology_key for spread in spreads}
        evict = pod.metadata.annotations.get(SAFE_TO_EVICT_ANNOTATION)
        return PodShape(
            cpu=0,
            memory=0,
            namespace=hides.name("ns", pod.metadata.namespace) or "default",
            annotations={SAFE_TO_EVICT_ANNOTATION: evict} if evict in ("true", "false") else {},
            node_selector={hides.key(key): hides.label(key, value) for key, value in sorted(selector.items())},
            tolerations=tuple(self._toleration(one) for one in spec.tolerations if not _is_passing(one.key)),
            spread=tuple(
                SpreadSpec(key=hides.key(s.topology_key), max_skew=s.max_skew, when_unsatisfiable=s.when_unsatisfiable)
                for s in spreads
            ),
            apart=_keeps_apart(pod),
            priority=spec.priority,
            grace=TimeSpan(pod.grace_seconds),
            local_storage=any(
                volume.host_path is not None or (volume.empty_dir is not None and volume.empty_dir.medium != "Memory")
                for volume in spec.volumes
            ),
        )

    def _affinity(self, pod: Pod) -> Mapping[str, str]:
        """Return a required node affinity that says the same as a node selector; count any other."""
        affinity = pod.spec.affinity
        required = (
            affinity.node_affinity.required if affinity is not None and affinity.node_affinity is not None else None
        )
        if required is None:
            return {}
        terms = required.node_selector_terms
        plain = len(terms) == 1 and not terms[0].match_fields
        if plain and all(e.operator == "In" and len(e.values) == 1 for e in terms[0].match_expressions):
            return {expression.key: expression.values[0] for expression in terms[0].match_expressions}
        self._left_out["node affinity with several choices"] += 1
        return {}

    def _count_lost(self, pod: Pod) -> None:
        spec = pod.spec
        affinity = spec.affinity
        anti = affinity.pod_anti_affinity.required if affinity is not None and affinity.pod_anti_affinity else ()
        lost = {
            "pod affinity": affinity is not None and affinity.pod_affinity is not None,
            "pod anti-affinity other than to its like on one node": len(anti) > _keeps_apart(pod),
            "persistent volumes": any(
                v.persistent_volume_claim is not None or v.ephemeral is not None for v in spec.volumes
            ),
            "host ports": any(port.host_port for one in spec.containers for port in one.ports),
            "devices (DRA)": bool(spec.resource_claims),
            "gangs": spec.scheduling_group is not None,
        }
        self._left_out.update(word for word, is_lost in lost.items() if is_lost)

    def _toleration(self, held: Toleration) -> TolerationSpec:
        return TolerationSpec(
            key=self._hides.key(held.key),
            operator=held.operator or "Equal",
            value=self._hides.value(held.value),
            effect=held.effect,
        )

    def _groups(self) -> Iterable[dict[str, object]]:
        members = defaultdict[tuple[str, ...], list[tuple[Node, float, float]]](list)
        for node, since, until in self._recording.stays():
            members[self._kind_of(node)].append((node, since, until))
        names = Counter[str]()
        for kind, stays in sorted(members.items()):
            yield self._group(kind, stays, names)

    def _kind_of(self, node: Node) -> tuple[str, ...]:
        labels = node.metadata.labels
        group = next((labels[key] for key in self._group_labels if labels.get(key)), "")
        size = labels.get(INSTANCE_TYPE_LABEL) or "-".join(
            str(node.allocatable[name].value >> shift)
            for name, shift in (("cpu", 0), ("memory", 30))
            if name in node.allocatable
        )
        taints = sorted(f"{t.key}={t.value}:{t.effect}" for t in node.spec.taints if not _is_passing(t.key))
        own = [f"{key}={labels.get(key, '')}" for key in self._asked_labels()]
        return group, labels.get(ZONE_LABEL, ""), size, *own, *taints

    def _asked_labels(self) -> list[str]:
        """Return the keys that pods ask for, but for those that a simulated node has anyway."""
        return sorted(self._keys - {ZONE_LABEL, HOSTNAME_LABEL, INSTANCE_TYPE_LABEL})

    def _group(
        self, kind: tuple[str, ...], stays: list[tuple[Node, float, float]], names: Counter[str]
    ) -> dict[str, object]:
        hides, nodes = self._hides, [node for node, _, _ in stays]
        first, (size, most) = nodes[0], self._count_nodes(stays)
        smallest = {
            name: str(min((node.allocatable.get(name, Quantity(0)) for node in nodes), key=lambda q: q.nano))
            for name in first.allocatable
        }
        offered = {
            hides.resource(name): amount
            for name, amount in smallest.items()
            if amount != "0" and not name.startswith("attachable-volumes-")
        }
        labels = {
            hides.key(key): hides.label(key, first.metadata.labels[key])
            for key in self._asked_labels()
            if key in first.metadata.labels
        }
        tainted = [t for t in first.spec.taints if not _is_passing(t.key)]
        return {
            "name": hides.name("group", "/".join(kind)) if hides.hides else _group_name(kind, names),
            "size": size,
            "max_size": most if self._most is None else max(size, self._most),
            "zone": hides.value(kind[1]),
            "instance_type": hides.machine_type(first.metadata.labels.get(INSTANCE_TYPE_LABEL, "")),
            **{name: offered.pop(name) for name in ("cpu", "memory", "pods") if name in offered},
            "resources": offered,
            "labels": labels,
            "taints": [self._taint(taint) for taint in tainted],
        }

    def _count_nodes(self, stays: list[tuple[Node, float, float]]) -> tuple[int, int]:
        """Return how many of these nodes were there at the start, and the most that were there at a time."""
        changes = sorted(
            [(since, 1) for _, since, _ in stays] + [(until, -1) for _, _, until in stays]
        )  # ends go first
        there = most = 0
        for _, change in changes:
            there += change
            most = max(most, there)
        return sum(since == self._recording.start for _, since, _ in stays), most

    def _taint(self, taint: Taint) -> dict[str, str]:
        return {"key": self._hides.key(taint.key), "value": self._hides.value(taint.value), "effect": taint.effect}


def _group_name(kind: tuple[str, ...], names: Counter[str]) -> str:
    """Return the group's name or machine type with its zone; groups that are equal in these are numbered."""
    name = "-".join(word for word in (kind[0] or kind[2], kind[1]) if word).replace("/", "_") or "nodes"
    names[name] += 1
    return name if names[name] == 1 else f"{name}-{names[name]}"


def _is_passing(key: str) -> bool:
    """Return whether a taint comes and goes with the state of a node."""
    return key.startswith(_PASSING_TAINTS)


def _keeps_apart(pod: Pod) -> bool:
    """Return whether no two pods like this one may run on one node."""
    affinity = pod.spec.affinity
    if affinity is None or affinity.pod_anti_affinity is None:
        return False
    required = affinity.pod_anti_affinity.required
    return any(
        term.topology_key == HOSTNAME_LABEL and matches_selector(pod.metadata.labels, term.label_selector)
        for term in required
    )
