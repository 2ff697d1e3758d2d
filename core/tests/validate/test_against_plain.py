"""The check of removals, which asks once for pods alike, against a plain one on random clusters and random claims."""

import re
from typing import Any

from core.tests.validate.plain_removals import broken_by_pods
from core.tests.validate.test_removals import removal
from hypothesis import given, settings
from hypothesis import strategies as st

from nodewright.model.meta import LabelSelector
from nodewright.model.node import HOSTNAME_LABEL, ZONE_LABEL
from nodewright.model.pod import Affinity, EmptyDir, Pod, PodAffinity, PodAffinityTerm, Toleration, Volume
from nodewright.model.sharing import Sharing
from nodewright.testkit.builders import build_budget, build_pod, build_taint
from nodewright.testkit.world import NOW, World, settings_with
from nodewright.validate import check_removals

SAFE = "cluster-autoscaler.kubernetes.io/safe-to-evict"
X, Y = {"app": "x"}, {"app": "y"}


def apart(key: str) -> Affinity:
    term = PodAffinityTerm(topology_key=key, label_selector=LabelSelector(match_labels=X))
    return Affinity(pod_anti_affinity=PodAffinity(required=(term,)))


SHAPES: list[dict[str, Any]] = [
    {},
    {"labels": X},
    {"labels": Y},
    {"labels": {**X, **Y, "tier": "t"}},
    {"labels": X, "affinity": apart(HOSTNAME_LABEL)},
    {"affinity": apart(ZONE_LABEL)},
    {"labels": X, "annotations": {SAFE: "true"}},
    {"annotations": {SAFE: "false"}},
    {"owner": None},
    {"owner": None, "phase": "Failed"},
    {"owner": ("DaemonSet", "ds")},
    {"labels": X, "deleted_at": NOW - 10.0},
    {"deleted_at": NOW - 100.0},
    {"namespace": "kube-system", "created_at": NOW - 60.0},
    {"namespace": "kube-system", "created_at": NOW - 7200.0},
    {"namespace": "kube-system", "created_at": NOW - 7200.0, "annotations": {SAFE: "false"}},
    {"volumes": [Volume(name="v", empty_dir=EmptyDir())]},
    {"host_ports": [80]},
    {"priority": -20},
    {"node_selector": {ZONE_LABEL: "a"}},
    {"tolerations": [Toleration(key="own", operator="Exists")]},
    {"extended": {"acme.com/gpu": 1}},
]
GROUPS: list[dict[str, Any]] = [
    {"zone": "a"},
    {"zone": "b", "extended": {"acme.com/gpu": 2}},
    {"zone": "b", "taints": [build_taint("own")]},
    {"unschedulable": True},
]
# Where it runs, quarters of a core, which of the shapes of this cluster it has; where it is said to go (beyond the nodes: to none), whether it was
# planned for.
PODS = st.lists(
    st.tuples(
        st.integers(0, 7),
        st.integers(1, 6),
        st.integers(0, 3),
        st.sampled_from([*range(10), *range(8)]),
        st.sampled_from([True, True, True, False]),
    ),
    max_size=20,
)
BUDGETS = st.lists(
    st.tuples(st.sampled_from([X, Y]), st.integers(0, 3)), max_size=2, unique_by=lambda made: made[0]["app"]
)


@settings(max_examples=400)
@given(
    PODS,
    st.lists(st.sampled_from(SHAPES), min_size=1, max_size=4),
    st.lists(st.integers(0, 7), min_size=1, max_size=5, unique=True),
    BUDGETS,
    st.sampled_from(["nodewright", "ca"]),
)
def test_violations_are_those_of_a_plain_check(
    pods: list[tuple[int, int, int, int, bool]],
    shapes: list[dict[str, Any]],
    removed: list[int],
    budgets: list[tuple[dict[str, str], int]],
    profile: str,
) -> None:
    made, names = World(), [f"g{n // 2}-{n % 2}" for n in range(8)]
    for number, kind in enumerate(GROUPS):
        made.add_group(f"g{number}", size=2, cpu="3", **kind)
    made.budgets += [build_budget(f"b{n}", allowed, labels) for n, (labels, allowed) in enumerate(budgets)]
    share, planned, places = Sharing(), dict[str, list[str]](), dict[str, str]()
    for number, (at, quarters, shape, to, is_planned) in enumerate(pods):
        pod = _pod(number, names[at], quarters, shapes[shape % len(shapes)])
        made.running.append(share.pod(pod))
        if is_planned:
            planned.setdefault(names[at], []).append(pod.key)
        if to < len(names):
            places[pod.metadata.uid if number % 2 else pod.key] = names[to]
    chosen = settings_with(profile=profile)
    seen = made.state(chosen).observation
    removals = [removal(names[n], *planned.get(names[n], ())) for n in removed]
    found = [(v.action, v.rule) for v in check_removals(seen, removals, places, chosen)]
    reported = [(action.node, _without_example(rule)) for action, rule in found if hasattr(action, "node")]
    expected = [entry for entry in broken_by_pods(seen, removals, places, chosen) if entry[0]]
    assert sorted(reported) == sorted(expected)


def _pod(number: int, node: str, quarters: int, shape: dict[str, Any]) -> Pod:
    return build_pod(f"p{number}", cpu=f"{quarters * 250}m", node_name=node, **shape)


def _without_example(rule: str) -> str:
    """The plain check names no pod that is near."""
    return re.sub(
        r"^pod (\S+) has no place: on node (\S+) it would violate anti-affinity with .*$", r"\1 is too near on \2", rule
    )
