"""Node groups without a cloud."""

import pytest

from nodewright.cli.dry_run.dump_groups import DumpedGroups, GroupEntry, group_by_label, read_groups_file
from nodewright.model.errors import NodeGroupNotFound
from nodewright.model.group import GroupOptions, Price
from nodewright.model.node import HOSTNAME_LABEL
from nodewright.testkit import build_node

NODES = [
    build_node("a-0", cpu="4", labels={"pool": "a"}, provider_id="x:///a-0"),
    build_node("a-1", cpu="4", labels={"pool": "a"}, provider_id="x:///a-1"),
    build_node("b-0", cpu="8", labels={"pool": "b"}, provider_id="x:///b-0"),
    build_node("none", provider_id="x:///none"),
]


def test_nodes_belong_by_their_labels() -> None:
    groups = DumpedGroups(group_by_label(NODES, "pool", 7), NODES)
    assert [(group.id, group.min_size, group.max_size) for group in groups.node_groups()] == [("a", 0, 7), ("b", 0, 7)]
    assert groups.target_size("a") == 2
    assert [instance.id for instance in groups.instances("b")] == ["x:///b-0"]


def test_a_group_looks_like_its_nodes() -> None:
    template = DumpedGroups(group_by_label(NODES, "pool", 7), NODES).template_node("b")
    assert template.allocatable["cpu"].value == 8
    assert template.labels == {"pool": "b"}
    assert HOSTNAME_LABEL not in template.labels


def test_a_described_group_looks_like_its_description() -> None:
    [entry] = read_groups_file(
        b"groups: [{name: g, max_size: 2, cpu: 500m, memory: 1Gi, zone: z, instance_type: t, "
        b"resources: {x/gpu: 2}, labels: {k: v}, taints: [{key: t}]}]",
        "g.yaml",
    )
    template = DumpedGroups([entry], NODES).template_node("g")
    assert {name: str(amount) for name, amount in template.allocatable.items()} == {
        "cpu": "500m",
        "memory": "1073741824",
        "pods": "110",
        "x/gpu": "2",
    }
    assert template.labels == {
        "topology.kubernetes.io/zone": "z",
        "node.kubernetes.io/instance-type": "t",
        "k": "v",
    }
    assert [taint.key for taint in template.taints] == ["t"]


def test_what_is_not_known_is_not_made_up() -> None:
    groups = DumpedGroups([GroupEntry(name="g", max_size=1, cpu=1, memory=1)], [])
    assert groups.failed_instances("g") is None
    assert groups.node_price("g") is None
    assert groups.group_options("g", GroupOptions()) == GroupOptions()
    assert (groups.gpu_label(), groups.gpu_resources()) == (None, None)
    assert (groups.ignored_labels(), groups.same_group_labels()) == (None, None)
    with pytest.raises(NodeGroupNotFound):
        groups.target_size("other")


def test_prices_are_per_hour() -> None:
    groups = DumpedGroups([GroupEntry(name="g", max_size=1, cpu=1, memory=1, price_per_hour=2.0)], [])
    assert groups.node_price("g") == Price(per_hour=2.0, source="the file of groups")
