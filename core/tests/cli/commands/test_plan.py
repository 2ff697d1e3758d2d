"""``nodewright plan``: one dry loop on a dump, explained for every pod."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from nodewright.model.cluster import ConfigMap
from nodewright.model.meta import ObjectMeta
from nodewright.testkit import build_node, build_pod, build_taint

Nodewright = Callable[..., Any]
WriteDump = Callable[..., str]

HOUR = 3600.0
POOL = {"pool": "general"}


@pytest.fixture
def dump(write_dump: WriteDump) -> str:
    """Two full nodes of four cores, and pods of every outcome."""
    nodes = [
        build_node(f"general-{n}", provider_id=f"fake:///general/general-{n}", labels=POOL, created_at=HOUR)
        for n in range(2)
    ]
    running = [build_pod(f"run-{n}", "3500m", node_name=f"general-{n}") for n in range(2)]
    return write_dump(
        *nodes,
        *running,
        *(build_pod(f"web-{n}", "2", created_at=2 * HOUR) for n in range(3)),
        build_pod("small", "400m"),
        build_pod("huge", "64", owner=("ReplicaSet", "other")),
        build_pod("untried", unschedulable=False, phase="Pending"),
        build_pod("done", "2", phase="Succeeded"),
        build_pod("stray", node_name="gone"),
    )


@pytest.fixture
def groups(tmp_path: Path) -> Path:
    path = tmp_path / "groups.yaml"
    path.write_text(
        """
groups:
- {name: general, nodes: {pool: general}, max_size: 8}
- {name: gpu, cpu: 96, memory: 64Gi, max_size: 5, taints: [{key: gpu}]}
"""
    )
    return path


def test_every_pod_has_a_fate_and_a_reason(nodewright: Nodewright, dump: str, groups: Path) -> None:
    document = nodewright("plan", dump, "--groups", groups, "-o", "json").document
    outcomes = {pod["pod"]: pod["outcome"] for pod in document["pods"]}
    assert outcomes == {
        "default/small": "fits",
        "default/huge": "unhelped",
        "default/untried": "ignored",
        "default/web-0": "helped",
        "default/web-1": "helped",
        "default/web-2": "helped",
    }
    assert all(pod["reason"] for pod in document["pods"])
    [huge] = [pod for pod in document["pods"] if pod["outcome"] == "unhelped"]
    assert huge["groups"]["dump/general"] == {"code": "NodeResourcesFit", "message": "Insufficient cpu"}
    assert huge["groups"]["dump/gpu"]["code"] == "TaintToleration"


def test_json_says_what_grows_and_what_was_weighed(nodewright: Nodewright, dump: str, groups: Path) -> None:
    document = nodewright("plan", dump, "--groups", groups, "-o", "json").document
    growth = {"group": "dump/general", "current": 2, "target": 4, "max": 8, "purpose": "pods"}
    assert document["expansions"] == [growth]
    assert document["options"] == [{"group": "dump/general", "nodes": 2, "pods": 3, "chosen": True}]
    assert document["cluster"] == {"nodes": 2, "pending_pods": 6, "stray_pods": ["default/stray"], "healthy": True}
    [action] = document["actions"]
    assert (action["type"], action["expected_target"], action["target"]) == ("IncreaseSize", 2, 4)
    assert document["now"] == "1970-01-01T02:00:00Z"


def test_the_same_dump_gives_the_same_plan(nodewright: Nodewright, dump: str, groups: Path) -> None:
    args = ("plan", dump, "--groups", groups, "--expander", "random", "-o", "json")
    assert nodewright(*args).out == nodewright(*args).out


def test_the_table_folds_equal_pods(nodewright: Nodewright, dump: str, groups: Path) -> None:
    ended = nodewright("plan", dump, "--groups", groups)
    assert ended.code == 0
    assert "2 → 4" in ended.out
    assert "default/web-0, default/web-1, default/web-2" in ended.out
    assert "dump/general: Insufficient cpu" in ended.out
    assert "Plan: 2 more nodes in 1 group for 3 pods; 1 pod is not helped." in ended.out
    assert "left out: default/stray" in ended.out


def test_all_pods_folds_none(nodewright: Nodewright, dump: str, groups: Path) -> None:
    ended = nodewright("plan", dump, "--groups", groups, "--all-pods")
    assert "default/web-0, " not in ended.out
    assert ended.out.count("default/web-") == 3


def test_groups_from_a_label(nodewright: Nodewright, dump: str) -> None:
    document = nodewright("plan", dump, "--group-by", "pool", "--group-max", 3, "-o", "json").document
    [growth] = document["expansions"]
    assert (growth["current"], growth["target"], growth["max"]) == (2, 3, 3)


def test_groups_of_a_provider(nodewright: Nodewright, dump: str, tmp_path: Path) -> None:
    """The fake cloud's machines are the dump's nodes, matched by providerID."""
    config = tmp_path / "c.yaml"
    config.write_text("providers: {fake: {options: {groups: [{name: general, size: 2, max_size: 9}]}}}")
    document = nodewright("plan", dump, "--config", config, "-o", "json").document
    [group] = document["groups"]
    assert (group["group"], group["target"], group["ready"]) == ("fake/general", 2, 2)
    assert document["expansions"][0]["target"] == 4


def test_settings_flags_hold(nodewright: Nodewright, dump: str, groups: Path) -> None:
    document = nodewright("plan", dump, "--groups", groups, "--max-nodes-total", 3, "-o", "json").document
    assert document["expansions"][0]["target"] == 3


@pytest.mark.parametrize(
    ("pods", "code"),
    [([], 0), ([("fits", "1")], 0), ([("web", "4")], 3), ([("web", "4"), ("huge", "99")], 4)],
)
def test_detailed_exit_codes(
    nodewright: Nodewright, write_dump: WriteDump, pods: list[tuple[str, str]], code: int
) -> None:
    node = build_node("general-0", labels=POOL)
    runs = build_pod("run", "2", node_name="general-0")
    path = write_dump(node, runs, *(build_pod(name, cpu) for name, cpu in pods))
    args = ("plan", path, "--group-by", "pool")
    assert nodewright(*args).code == 0
    assert nodewright(*args, "--detailed-exitcode").code == code


def test_groups_left_out_say_why(nodewright: Nodewright, dump: str) -> None:
    ended = nodewright("plan", dump, "--group-by", "pool", "--group-max", 1)  # it has two nodes: they stay
    assert "left out: max node group size reached" in ended.out
    assert "Plan: no group grows; 4 pods are not helped." in ended.out


def test_a_halted_plan_says_why(nodewright: Nodewright, write_dump: WriteDump) -> None:
    nodes = [build_node(f"n-{n}", labels=POOL, ready=False, created_at=HOUR) for n in range(9)]
    path = write_dump(*nodes, build_pod("web", "2"))
    args = ("plan", path, "--group-by", "pool", "--now", "1970-01-02T00:00:00Z")
    ended = nodewright(*args, "--detailed-exitcode")
    assert "Nothing is planned: cluster is unhealthy" in ended.out
    assert ended.code == 4
    assert nodewright(*args, "-o", "json").document["pods"][0]["outcome"] == "halted"


def test_nominated_pods_hold_their_room(nodewright: Nodewright, write_dump: WriteDump) -> None:
    node = build_node("n", cpu="4", labels=POOL)
    path = Path(write_dump(node, build_pod("first", "3"), build_pod("second", "3")))
    path.write_text(path.read_text().replace('"nominatedNodeName": ""', '"nominatedNodeName": "n"', 1))
    document = nodewright("plan", path, "--group-by", "pool", "-o", "json").document
    assert [(pod["pod"], pod["outcome"]) for pod in document["pods"]] == [("default/second", "helped")]


def test_names_are_text_not_markup(nodewright: Nodewright, write_dump: WriteDump) -> None:
    evil = "[red]x[/red]\x1b[31m</script>:boom:"
    path = write_dump(build_node("n", labels=POOL), build_pod(evil, "99"))
    ended = nodewright("plan", path, "--group-by", "pool")
    assert "\x1b" not in ended.out
    assert r"[red]x[/red]\x1b[31m</script>:boom:" in ended.out


def test_priced_groups_feed_the_price_expander(nodewright: Nodewright, write_dump: WriteDump, tmp_path: Path) -> None:
    file = tmp_path / "g.yaml"
    file.write_text(
        """groups:
- {name: dear, cpu: 4, memory: 16Gi, max_size: 5, price_per_hour: 9.5}
- {name: cheap, cpu: 4, memory: 16Gi, max_size: 5, price_per_hour: 0.5}
"""
    )
    path = write_dump(build_pod("web", "2"))
    document = nodewright("plan", path, "--groups", file, "--expander", "price", "-o", "json").document
    assert [growth["group"] for growth in document["expansions"]] == ["dump/cheap"]
    assert [group["hourly_price"] for group in document["groups"]] == [9.5, 0.5]


@pytest.fixture
def two_types(tmp_path: Path) -> Path:
    file = tmp_path / "g.yaml"
    file.write_text(
        """groups:
- {name: dear, cpu: 4, memory: 16Gi, max_size: 5, price_per_hour: 9.5, instance_type: m5.xlarge}
- {name: cheap, cpu: 4, memory: 16Gi, max_size: 5, price_per_hour: 0.5, instance_type: c5.xlarge}
- {name: unknown, cpu: 4, memory: 16Gi, max_size: 5}
"""
    )
    return file


def test_the_operator_s_prices_and_paid_machines_decide(
    nodewright: Nodewright, write_dump: WriteDump, two_types: Path, tmp_path: Path
) -> None:
    prices = tmp_path / "prices.yaml"
    args = ("plan", write_dump(build_pod("web", "2")), "--groups", two_types, "--expander", "price", "-o", "json")
    prices.write_text("prices: [{type: m5.xlarge, per_hour: 0.1, as_of: 2026-11-01}]")
    document = nodewright(*args, "--prices", prices).document
    assert [growth["group"] for growth in document["expansions"]] == ["dump/dear"]
    assert [group["hourly_price"] for group in document["groups"]] == [0.1, 0.5, None]
    told = {"source": str(prices), "as_of": "2026-11-01", "spot": False, "reserved": None}
    assert document["groups"][0]["price"] == told
    assert document["groups"][2]["price"] is None
    prices.write_text("reserved: [{type: m5.xlarge, count: 1}]")
    document = nodewright(*args, "--prices", prices).document
    assert [growth["group"] for growth in document["expansions"]] == ["dump/dear"]
    assert document["groups"][0]["price"]["reserved"] == {"name": "m5.xlarge", "count": 1}
    assumed = nodewright(*args, "--assume-prices").document["groups"][2]
    assert (assumed["hourly_price"], assumed["price"]["source"]) == (0.5, "assumed from c5.xlarge (the file of groups)")


def test_a_bad_file_of_prices_is_refused(
    nodewright: Nodewright, write_dump: WriteDump, two_types: Path, tmp_path: Path
) -> None:
    prices = tmp_path / "prices.yaml"
    prices.write_text("prices: [{type: m5.xlarge, per_hour: -1}]")
    ended = nodewright("plan", write_dump(build_pod("web", "2")), "--groups", two_types, "--prices", prices)
    assert ended.code == 2
    assert ended.err == f"nodewright: {prices}: the price of type m5.xlarge is -1, not a finite number of at least 0\n"


def test_taints_of_starting_nodes_do_not_last(nodewright: Nodewright, write_dump: WriteDump) -> None:
    taint = build_taint("node.kubernetes.io/not-ready")
    node = build_node("n", labels=POOL, ready=False, taints=[taint])
    path = write_dump(node, build_pod("a", "3"), build_pod("b", "3"))
    document = nodewright("plan", path, "--group-by", "pool", "-o", "json").document
    assert {pod["outcome"] for pod in document["pods"]} == {"fits", "helped"}


def test_a_gpu_limit_that_would_do_nothing_is_refused(nodewright: Nodewright, dump: str, groups: Path) -> None:
    ended = nodewright("plan", dump, "--groups", groups, "--gpu-total", "t4:0:2")
    assert ended.code == 2
    assert "--gpu-total: no provider here reports which nodes have GPUs" in ended.err


def test_a_pod_nominated_to_a_node_that_is_gone_is_nobodys_growth(
    nodewright: Nodewright, write_dump: WriteDump
) -> None:
    pod = build_pod("lost", "3")
    lost = structs.replace(pod, status=structs.replace(pod.status, nominated_node_name="gone"))
    path = write_dump(build_node("n", labels=POOL), lost)
    document = nodewright("plan", path, "--group-by", "pool", "-o", "json").document
    assert document["expansions"] == []
    assert document["pods"] == []


def test_a_priority_list_that_is_missing_is_said(nodewright: Nodewright, dump: str, groups: Path) -> None:
    ended = nodewright("plan", dump, "--groups", groups, "--expander", "priority")
    assert "there is no ConfigMap cluster-autoscaler-priority-expander" in " ".join(ended.out.split())


def test_a_daemon_pod_without_room_is_told_apart(nodewright: Nodewright, write_dump: WriteDump) -> None:
    daemon = build_pod("agent-x", "9", owner=("DaemonSet", "agent"))
    path = write_dump(build_node("n", labels=POOL), daemon)
    document = nodewright("plan", path, "--group-by", "pool", "-o", "json").document
    (pod,) = document["pods"]
    assert pod["outcome"] == "ignored"
    assert "DaemonSet" in pod["reason"]


@pytest.mark.parametrize("profile", ["nodewright", "ca"])
def test_json_says_null_of_a_utilization_that_is_no_number(
    nodewright: Nodewright, write_dump: WriteDump, profile: str
) -> None:
    """A DaemonSet takes all of the cpu, and is not to count: for the other pod there is none."""
    node = build_node("n", labels=POOL)
    daemon = build_pod("daemon", "4", node_name="n", owner=("DaemonSet", "d"))
    path = write_dump(node, daemon, build_pod("p", "1", node_name="n"))
    flags = ("--ignore-daemonsets-utilization", "--profile", profile, "-o", "json")
    ended = nodewright("plan", path, "--group-by", "pool", *flags)
    assert ended.code == 0
    assert ended.document["scale_down"]["utilization"] == {"n": None}
    assert ended.document["scale_down"]["unremovable"]["n"]["code"] == "NotUnderutilized"


def test_a_node_that_would_go_is_something_to_do(nodewright: Nodewright, write_dump: WriteDump) -> None:
    path = write_dump(build_node("n", labels=POOL, created_at=2 * HOUR))
    args = ("plan", path, "--group-by", "pool", "--scale-down-unneeded-time", "0s", "--detailed-exitcode")
    assert nodewright(*args).code == 3


def test_every_round_of_a_salvo_is_told(nodewright: Nodewright, write_dump: WriteDump) -> None:
    nodes = [build_node(f"{pool}-0", labels={"pool": pool}, created_at=HOUR) for pool in "ab"]
    running = [build_pod(f"run-{pool}", "3500m", node_name=f"{pool}-0") for pool in "ab"]
    pods = [build_pod(f"web-{pool}", "2", node_selector={"pool": pool}, owner=("ReplicaSet", pool)) for pool in "ab"]
    options = (write_dump(*nodes, *running, *pods), "--group-by", "pool", "--salvo-scale-up")
    document = nodewright("plan", *options, "-o", "json").document
    grown = {(one["group"], one["current"], one["target"], one["purpose"]) for one in document["expansions"]}
    assert grown == {("dump/a", 1, 2, "pods"), ("dump/b", 1, 2, "pods")}
    assert {one["outcome"] for one in document["pods"]} == {"helped"}
    assert len([one for one in document["options"] if one["chosen"]]) == 2
    said = " ".join(nodewright("plan", *options).out.split())
    assert said.count("1 → 2") == 2
    assert "fits on new nodes of dump/a" in said
    assert said.endswith("Plan: 2 more nodes in 2 groups for 2 pods.")


@pytest.fixture
def priced_groups(tmp_path: Path) -> Path:
    path = tmp_path / "priced.yaml"
    path.write_text(
        """
groups:
- {name: general, nodes: {pool: general}, max_size: 8, price_per_hour: 0.5}
- {name: cpu, cpu: 16, memory: 8Gi, max_size: 5, price_per_hour: 1}
- {name: memory, cpu: 2, memory: 64Gi, max_size: 5, price_per_hour: 1}
- {name: gpu, cpu: 96, memory: 640Gi, max_size: 5, taints: [{key: gpu}]}
"""
    )
    return path


@pytest.fixture
def two_shapes(write_dump: WriteDump) -> str:
    """A full node of four cores, four pods of much cpu, and two of much memory, for which that node has no room."""
    node = build_node(
        "general-0", cpu="4", memory="16Gi", labels=POOL, created_at=HOUR, provider_id="fake:///general-0"
    )
    cpu = [build_pod(f"cpu-{n}", "4", "1Gi", owner=("ReplicaSet", "cpu")) for n in range(4)]
    memory = [build_pod(f"memory-{n}", "500m", "30Gi", owner=("ReplicaSet", "memory")) for n in range(2)]
    return write_dump(node, build_pod("run", "3900m", "1Gi", node_name="general-0"), *cpu, *memory)


def test_the_cost_of_a_mix_stands_beside_the_bound_and_what_all_nodes_cost(
    nodewright: Nodewright, two_shapes: str, priced_groups: Path
) -> None:
    cost = nodewright("plan", two_shapes, "--groups", priced_groups, "-o", "json").document["cost"]
    assert cost == {
        "currency": "USD",
        "expander": "least-cost",
        "time_was_up": False,
        "nodes": 2,
        "price": 2.0,
        "bound": 1 + 60 / 64,
        "gap_percent": 3.23,
        "single_group": None,
        "before": 0.5,
        "after": 2.5,
        "not_counted": [],
        "price_sources": ["the file of groups"],
    }


def test_another_expander_has_a_bound_too_and_the_text_says_who_chose(
    nodewright: Nodewright, two_shapes: str, priced_groups: Path
) -> None:
    ended = nodewright("plan", two_shapes, "--groups", priced_groups, "--expander", "most-pods,least-nodes")
    rows = [" ".join(line.split()) for line in ended.out.splitlines()]
    assert "bought for pods 1.000 1 node, chosen by most-pods,least-nodes" in rows
    assert "lower bound 1.000 no nodes of these groups are cheaper for these pods; bought: 0.0 % above" in rows
    assert "one group only 1.000 1 node of dump/cpu, the cheapest group that takes all of these pods" in rows
    assert "all nodes now 0.500 by the file of groups" in rows
    assert "after the plan 1.500 +1.000" in rows


def test_the_mix_is_named_where_groups_are_explained(
    nodewright: Nodewright, two_shapes: str, priced_groups: Path
) -> None:
    said = nodewright("plan", two_shapes, "--groups", priced_groups).out
    assert "helps 4 pods; in the mix of least-cost: 2 nodes for 2.000 USD an hour" in said
    assert "no node of it is in the cheapest mix" in said


def test_a_group_that_takes_none_of_the_pods_is_not_said_to_be_dear(
    nodewright: Nodewright, two_shapes: str, priced_groups: Path
) -> None:
    said = nodewright("plan", two_shapes, "--groups", priced_groups).out
    [general] = [line for line in said.splitlines() if line.strip().startswith("dump/general")]
    [gpu] = [line for line in said.splitlines() if line.strip().startswith("dump/gpu")]
    assert "no node of it is in the cheapest mix" in general
    assert "no pending pod needs it" in gpu


def test_that_time_was_up_is_told(nodewright: Nodewright, two_shapes: str, priced_groups: Path) -> None:
    flags = ("--least-cost-budget", "1ns")
    ended = nodewright("plan", two_shapes, "--groups", priced_groups, *flags, "-o", "json")
    assert ended.document["cost"]["time_was_up"] is True


def test_groups_without_a_price_are_named_and_without_any_price_there_is_no_table(
    nodewright: Nodewright, dump: str, groups: Path, tmp_path: Path
) -> None:
    said = nodewright("plan", dump, "--groups", groups)
    assert "USD" not in said.out
    some = tmp_path / "some.yaml"
    some.write_text(groups.read_text() + "- {name: big, cpu: 32, memory: 64Gi, max_size: 5, price_per_hour: 2}\n")
    document = nodewright("plan", dump, "--groups", some, "-o", "json").document
    cost = document["cost"]
    assert (cost["price"], cost["bound"], cost["not_counted"]) == (None, None, ["dump/general"])
    assert cost["expander"] == "least-cost,least-waste (one group, since group dump/general has no price)"
    assert cost["single_group"] == {"group": "dump/big", "nodes": 1, "price": 2.0}
    said = nodewright("plan", dump, "--groups", some)
    assert "not known: a group that takes one of these pods has no price" in said.out
    assert "not counted, since without a price: dump/general" in said.out


def test_at_shows_which_budgets_and_schedules_hold_then(
    nodewright: Nodewright, dump: str, groups: Path, tmp_path: Path
) -> None:
    config = tmp_path / "disruption.yaml"
    config.write_text(
        """
disruption: [{nodes: 0, when: {cron: 0 8 * * 1-5, for: 10h, timezone: Europe/Berlin}}]
schedules: [{match: {groups: [gpu]}, when: {cron: 0 7 * * *, for: 2h}, set: {min: 2}}]
"""
    )

    def plan(*at: str) -> Any:
        args = ("plan", dump, "--groups", str(groups), "--disruption-config", str(config), *at, "--output", "json")
        return nodewright(*args).document

    found = plan("--at", "2026-12-01T08:00+01:00")
    assert found["now"] == "2026-12-01T07:00:00Z"
    held = [(row["entry"], row["holds"], row["until"]) for row in found["disruption"]]
    assert held == [
        ("disruption[0]", True, "2026-12-01T17:00:00Z"),
        ("schedules[0]", True, "2026-12-01T09:00:00Z"),
    ]
    assert {group["id"]: group["min"] for group in found["groups"]} == {"general": 0, "gpu": 2}
    later = plan("--at", "2026-12-01T17:00")
    assert [row["holds"] for row in later["disruption"]] == [False, False]
    assert later["disruption"][0]["until"] == "2026-12-02T07:00:00Z"


def test_budgets_of_a_config_map_of_the_dump_hold(nodewright: Nodewright, write_dump: WriteDump, groups: Path) -> None:
    metadata = ObjectMeta(name="budgets", namespace="kube-system")
    budgets = ConfigMap(metadata=metadata, data={"disruption.yaml": "disruption: [{nodes: 3}]"})
    dump = write_dump(build_node("general-0", provider_id="fake:///general/general-0", labels=POOL), budgets)
    for name, nodes, told in (("budgets", [3], False), ("others", [], True)):
        args = ("--output", "json", "--disruption-config-map-name", name)
        found = nodewright("plan", dump, "--groups", str(groups), *args)
        assert [row["nodes"] for row in found.document["disruption"]] == nodes
        assert ("--disruption-config-map-name: there is no ConfigMap others" in found.err) == told


def test_at_is_a_time_and_not_together_with_now(nodewright: Nodewright, dump: str, groups: Path) -> None:
    both = nodewright("plan", dump, "--groups", str(groups), "--at", "2026-12-01T08:00", "--now", "2026-12-01T08:00")
    assert (both.code, "--at and --now" in both.err) == (2, True)
    noon = nodewright("plan", dump, "--groups", str(groups), "--at", "noon")
    assert (noon.code, "--at: 'noon' is not a time" in noon.err) == (2, True)
