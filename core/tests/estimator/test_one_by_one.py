"""Estimates of random pods in random clusters, against CA's steps taken one pod at a time with predicates from scratch.

The reference knows no columns, counts or closed forms: it asks the plain predicates of every node in turn.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from core.tests.predicates.reference import explain_affinity, explain_fit, explain_spread
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DataObject

from nodewright.estimator.binpacking import Template, decreasing, estimate
from nodewright.estimator.pod_group import PodGroup, group_pods
from nodewright.model.meta import LabelSelector
from nodewright.model.node import HOSTNAME_LABEL, ZONE_LABEL, Node
from nodewright.model.pod import Affinity, Pod, PodAffinity, PodAffinityTerm, Toleration, TopologySpreadConstraint
from nodewright.predicates import static_fit
from nodewright.predicates.node_ports import host_ports
from nodewright.snapshot.pod_class import PodClass
from nodewright.snapshot.snapshot import Snapshot
from nodewright.testkit.builders import build_node, build_pod, build_taint

APPS = ("a", "b")
KINDS = ("plain", "tolerant", "picky", "apart", "avoids", "zoned", "spread", "spread-zone", "port", "gpu", "close")


def extras_of(kind: str, app: str, other: str, skew: int) -> dict[str, Any]:
    own, foreign = LabelSelector(match_labels={"app": app}), LabelSelector(match_labels={"app": other})

    def away(key: str, selector: LabelSelector) -> Affinity:
        return Affinity(
            pod_anti_affinity=PodAffinity(required=(PodAffinityTerm(topology_key=key, label_selector=selector),))
        )

    def even(key: str) -> tuple[TopologySpreadConstraint, ...]:
        return (TopologySpreadConstraint(topology_key=key, max_skew=skew, label_selector=own),)

    known: dict[str, dict[str, Any]] = {
        "plain": {},
        "tolerant": {"tolerations": (Toleration(key="t", operator="Exists"),)},
        "picky": {"node_selector": {"disk": "ssd"}},
        "apart": {"affinity": away(HOSTNAME_LABEL, own)},
        "avoids": {"affinity": away(HOSTNAME_LABEL, foreign)},
        "zoned": {"affinity": away(ZONE_LABEL, own)},
        "spread": {"topology_spread_constraints": even(HOSTNAME_LABEL)},
        "spread-zone": {"topology_spread_constraints": even(ZONE_LABEL)},
        "port": {"host_ports": (8080,)},
        "gpu": {"extended": {"example.com/gpu": 1}},
        "close": {
            "affinity": Affinity(
                pod_affinity=PodAffinity(required=(PodAffinityTerm(topology_key=ZONE_LABEL, label_selector=own),))
            )
        },
    }
    return known[kind]


@st.composite
def pods_alike(draw: st.DrawFn, number: int) -> list[Pod]:
    app, other, kind = draw(st.sampled_from(APPS)), draw(st.sampled_from(APPS)), draw(st.sampled_from(KINDS))
    extras = extras_of(kind, app, other, draw(st.integers(1, 2)))
    cpu, owner = f"{draw(st.sampled_from((100, 300, 450, 700)))}m", ("ReplicaSet", f"rs{number}")
    count = draw(st.integers(1, 6))
    alone = draw(st.booleans())
    return [
        build_pod(f"p{number}-{k}", cpu, 10, owner=None if alone else owner, labels={"app": app}, **extras)
        for k in range(count)
    ]


@st.composite
def nodes_of(draw: st.DrawFn, name: str) -> Node:
    return build_node(
        name,
        cpu=f"{draw(st.sampled_from((200, 500, 1000)))}m",
        memory=1000,
        pods=draw(st.integers(2, 6)),
        zone=draw(st.sampled_from(("x", "y"))),
        labels={"disk": draw(st.sampled_from(("ssd", "hdd")))},
        taints=(build_taint("t"),) if draw(st.integers(0, 4)) == 0 else (),
        extended={"example.com/gpu": draw(st.integers(0, 2))},
    )


@dataclass
class Reference:
    """CA's steps, with predicates computed from scratch each time."""

    snapshot: Snapshot
    template: Template
    limit: int
    first: int = 0
    cursor: int = 0
    exhausted: bool = False
    packed: list[list[str]] = field(default_factory=list)
    beside: list[str] = field(default_factory=list)
    rows: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.first = len(self.snapshot)

    def refusal(self, pod: PodClass, row: int) -> Sequence[str] | None:
        if not static_fit(self.snapshot, pod, slice(row, row + 1))[0]:
            return ("static",)
        held = host_ports(pod)
        if any(row in rows and held & host_ports(other) for other, rows in self.snapshot.placements()):
            return ("ports",)
        for explain in (explain_fit, explain_spread, explain_affinity):
            reasons = explain(self.snapshot, pod, row)
            if reasons is not None:
                return reasons
        return None

    def put(self, pod: PodClass, row: int, name: str) -> bool:
        self.snapshot.place(pod, row)
        if row >= self.first:
            self.packed[row - self.first].append(name)
        else:
            self.beside.append(name)
            self.rows.add(row)
        return True

    def add(self, group: PodGroup) -> None:
        """Add the pods of a group; each of those that stand alone is a group of its own."""
        for pods in [[pod] for pod in group.pods] if group.alone else [group.pods]:
            self._add(group.pod_class, pods)

    def _add(self, pod_class: PodClass, pods: Sequence[Pod]) -> None:
        place = self.on_new
        for pod in pods:
            if place(pod_class, pod.name):
                continue
            place = self.or_grow
            if self.exhausted or not place(pod_class, pod.name):
                return

    def on_new(self, pod: PodClass, name: str) -> bool:
        count = len(self.packed)
        start = max(self.cursor, 0)  # negative: an existing node was the last, and all new ones follow it
        for turn in range(count):
            index = (start + turn) % count
            if self.refusal(pod, self.first + index) is None:
                self.cursor = index + 1  # beyond the last node, where the next one may come (conformance, random/208)
                return self.put(pod, self.first + index, name)
        return False

    def or_grow(self, pod: PodClass, name: str) -> bool:
        if self.packed:
            last = len(self.snapshot) - 1
            refused = self.refusal(pod, last)
            if refused is None:
                return self.put(pod, last, name)
            if self.elsewhere(pod, name, last, refused):
                return True
            if not self.packed[-1]:
                return False
        if self.limit and len(self.packed) >= self.limit:
            self.exhausted = True
            return False
        row = self.snapshot.add_copies(self.template.node, 1).start
        for daemon in self.template.pods:
            self.snapshot.place(self.snapshot.class_of(daemon, placed=True), row)
        self.packed.append([])
        return self.refusal(pod, row) is None and self.put(pod, row, name)

    def elsewhere(self, pod: PodClass, name: str, last: int, refused: Sequence[str]) -> bool:
        by_hostname = any(c.topology_key == HOSTNAME_LABEL for c in pod.spec.topology_spread_constraints)
        if not by_hostname or not any("spread" in reason for reason in refused):
            return False
        start = self.first + self.cursor
        for turn in range(last):
            row = (start + turn) % last if start < last else turn
            if self.refusal(pod, row) is None:
                self.cursor = row + 1 - self.first
                return self.put(pod, row, name)
        return False


@st.composite
def single_pod(draw: st.DrawFn, number: int) -> Pod:
    """A pod of no controller that is like no other; it may ask for nothing of some resource."""
    kind = draw(st.sampled_from(("plain",) * 6 + ("gpu", "picky", "tolerant")))
    extras = extras_of(kind, "", "", 1) | {"labels": {"number": str(number)}}
    cpu, memory = draw(st.integers(0, 500)), draw(st.integers(0, 500))
    return build_pod(f"s{number}", f"{cpu}m", memory, owner=None, **extras)


@settings(max_examples=150)
@given(st.data())
def test_many_pods_that_are_all_different_go_where_one_pod_at_a_time_puts_them(data: DataObject) -> None:
    snapshot = Snapshot()
    others = [pod for k in range(data.draw(st.integers(0, 2))) for pod in data.draw(pods_alike(k))]
    pods = others + [data.draw(single_pod(k)) for k in range(data.draw(st.integers(16, 40)))]
    daemons = (build_pod("agent", "50m", data.draw(st.sampled_from((10, 2000))), owner=("DaemonSet", "agent")),)
    template, limit = Template(data.draw(nodes_of("template")), daemons), data.draw(st.integers(0, 12))
    found = estimate(snapshot, template, group_pods(pods, snapshot), limit)

    fork = snapshot.fork()
    reference = Reference(fork, template, limit)
    for group in decreasing(group_pods(pods, fork), template.node):
        reference.add(group)
    packing = [[pod.name for pod in node] for node in found.packing]
    assert told(packing) == told(reference.packed)
    assert others or packing == reference.packed


def test_pods_without_a_controller_that_another_pod_keeps_away_move_the_turn_each() -> None:
    """The scan for the last of them went beyond the second node, so that the next pod goes to the third."""
    snapshot = Snapshot()
    away = extras_of("avoids", "a", "b", 1)
    pods = [
        build_pod("guard", "300m", 10, owner=None, labels={"app": "a"}, **away),
        *(build_pod(f"alone-{k}", "300m", 10, owner=None, labels={"app": "b"}) for k in range(3)),
        build_pod("small", "100m", 10, owner=None, labels={"app": "a"}),
    ]
    template = Template(build_node("template", cpu="1", memory=1000, pods=2), ())
    found = estimate(snapshot, template, group_pods(pods, snapshot), 0)
    names = [[pod.name for pod in node] for node in found.packing]
    assert names == [["guard"], ["alone-0", "alone-1"], ["alone-2", "small"]]


@settings(max_examples=300)
@given(st.data())
def test_estimates_equal_ca_steps_one_pod_at_a_time(data: DataObject) -> None:
    real = [data.draw(nodes_of(f"n{k}")) for k in range(data.draw(st.integers(0, 3)))]
    running = [pod for k in range(data.draw(st.integers(0, 2))) for pod in data.draw(pods_alike(100 + k))]
    snapshot = Snapshot()
    snapshot.add_nodes(real)
    for k, pod in enumerate(running if real else []):
        snapshot.place(snapshot.class_of(pod, placed=True), k % len(real), pod=pod)
    daemons = (build_pod("agent", "50m", 10, owner=("DaemonSet", "agent")),) if data.draw(st.booleans()) else ()
    template = Template(data.draw(nodes_of("template")), daemons)
    pods = [pod for k in range(data.draw(st.integers(1, 4))) for pod in data.draw(pods_alike(k))]
    limit = data.draw(st.integers(0, 4))
    found = estimate(snapshot, template, group_pods(pods, snapshot), limit)

    fork = snapshot.fork()
    reference = Reference(fork, template, limit)
    for group in decreasing(group_pods(pods, fork), template.node):
        reference.add(group)
    assert told([[pod.name for pod in node] for node in found.packing]) == told(reference.packed)
    helped = Counter(kind_of(name) for node in (*reference.packed, reference.beside) for name in node)
    assert Counter(kind_of(pod.name) for pod in found.pods) == helped
    assert found.node_count == sum(map(bool, reference.packed)) + len(reference.rows)
    assert sum(found.helped.values()) == len(found.pods)


def told(nodes: Sequence[Sequence[str]]) -> list[list[tuple[str, int]]]:
    """What each node holds of which pods; which of two alike nodes came first is open."""
    return sorted(sorted(Counter(map(kind_of, node)).items()) for node in nodes)


def kind_of(name: str) -> str:
    return name.partition("-")[0]
