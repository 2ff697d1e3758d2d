"""Regional groups: one group whose machines are in several zones."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from doctoring import said
from gcecloud import GceCloud
from gcecloud.cloud import REGION
from nodewright.spec import Capability, InstanceState

Attach = Callable[..., Any]
_ZONE = "topology.kubernetes.io/zone"


def test_a_regional_group_is_served_with_its_zones(cloud: GceCloud, attach: Attach) -> None:
    name = cloud.add_group(size=4, zone=REGION)
    client = attach(f"0:10:{name}").client
    [group] = client.node_groups()
    assert (group.id, group.min_size, group.max_size) == (name, 0, 10)
    assert client.target_size(name) == 4
    assert {one.id for one in client.instances(name)} == cloud.machines(name)
    assert Counter(one.id.split("/")[3] for one in client.instances(name)) == {
        "us-east1-b": 2,
        "us-east1-c": 1,
        "us-east1-d": 1,
    }
    template = client.template_node(name)
    assert template.labels["topology.kubernetes.io/region"] == "us-east1"
    assert template.labels[_ZONE] in ("us-east1-b", "us-east1-c", "us-east1-d")


def test_the_zones_of_an_empty_group_take_turns(cloud: GceCloud, attach: Attach) -> None:
    name = cloud.add_group(zone=REGION)
    stage = attach(f"0:10:{name}")
    found = set()
    for _ in range(3):
        found.add(stage.client.template_node(name).labels[_ZONE])
        stage.later(60)
    assert found == {"us-east1-b", "us-east1-c", "us-east1-d"}


def test_each_zone_has_its_turn_but_one_without_capacity(cloud: GceCloud, attach: Attach) -> None:
    name = cloud.add_group(size=1, zone=REGION)
    stage = attach(f"0:10:{name}")

    def planned() -> set[str]:
        found = set()
        for _ in range(5):
            found.add(stage.client.template_node(name).labels[_ZONE])
            stage.later(60, name)
        return found

    zones = {"us-east1-b", "us-east1-c", "us-east1-d"}
    assert planned() == zones, "also the zone that has most machines"
    cloud.hold(name)
    stage.client.increase_size(name, 1, 2)
    short = cloud.fail(name).split("/")[3]
    stage.later(5, name)
    assert planned() == zones - {short}
    stage.later(300, name)
    assert planned() == zones, "the zone is tried again"


@pytest.mark.parametrize(("status", "reason"), [(429, "rateLimitExceeded"), (403, "forbidden")])
def test_an_increase_that_cannot_be_read_again_was_accepted(
    cloud: GceCloud, attach: Attach, status: int, reason: str
) -> None:
    name = cloud.add_group(size=1, zone=REGION)
    client = attach(f"0:10:{name}").client
    cloud.refuse_once("regionInstanceGroupManagers.listManagedInstances", status, reason)
    assert client.increase_size(name, 1, 3) == 2
    assert client.target_size(name) == 3


def test_the_role_for_a_regional_group_reads_its_operations(cloud: GceCloud, attach: Attach) -> None:
    needed = "compute.regionOperations.get"
    client = attach(f"0:10:{cloud.add_group(zone=REGION)}").client
    assert needed in client.minimal_policy()
    assert needed in {finding.subject for finding in client.diagnose()}
    assert needed not in attach(f"0:10:{cloud.add_group()}").client.minimal_policy()


@pytest.mark.parametrize("seconds", [0, 5])
def test_it_grows_and_shrinks_by_name(cloud: GceCloud, attach: Attach, seconds: float) -> None:
    cloud.state.operation_seconds = seconds
    name = cloud.add_group(size=1, zone=REGION)
    stage = attach(f"0:10:{name}")
    assert stage.client.increase_size(name, 1, 3) == 2
    assert stage.client.target_size(name) == 3
    assert {one.id for one in stage.client.instances(name)} == cloud.machines(name)
    victim = min(cloud.machines(name))
    assert stage.client.delete_instances(name, [victim], 3) == (victim,)
    stage.later(5, name)
    states = {one.id: one.state for one in stage.client.instances(name)}
    assert states[victim] is InstanceState.DELETING
    assert stage.client.target_size(name) == 2
    assert len(cloud.machines(name)) == 2


def test_a_creation_that_fails_is_told_with_its_zone(cloud: GceCloud, attach: Attach) -> None:
    name = cloud.add_group(size=1, zone=REGION)
    cloud.hold(name)
    stage = attach(f"0:10:{name}")
    stage.client.increase_size(name, 1, 2)
    failed = cloud.fail(name)
    stage.later(5, name)
    [failure] = stage.client.failed_instances(name)
    assert failure.instance_id == failed
    assert stage.client.delete_instances(name, [failed], 2) == (failed,)


def test_many_groups_are_never_listed_as_if_they_were_in_one_zone(cloud: GceCloud, attach: Attach) -> None:
    names = [cloud.add_group(size=2, zone=REGION) for _ in range(7)]
    client = attach(*(f"0:10:{name}" for name in names)).client
    for name in names:
        assert {one.id for one in client.instances(name)} == cloud.machines(name)
    assert cloud.findings == []


def test_only_named_ones_are_served_and_others_are_told(cloud: GceCloud, attach: Attach) -> None:
    named = cloud.add_group("pool-r", size=1, zone=REGION)
    cloud.add_group("pool-s", size=1, zone=REGION)
    zonal = cloud.add_group("pool-z", size=1)
    stage = attach(f"0:3:{named}", discover=("mig:namePrefix=pool,max=3",))
    assert {group.id for group in stage.client.node_groups()} == {named, zonal}
    lines = said(stage.client.diagnose())
    assert "pool-s in us-east1 is a regional group and is ignored" in lines
    assert "pool-r in us-east1" not in lines
    assert "redistribution PROACTIVE: Compute Engine deletes running machines to balance its zones" in lines


def test_it_has_no_atomic_increases(cloud: GceCloud, attach: Attach) -> None:
    name = cloud.add_group(zone=REGION)
    [group] = attach(f"0:3:{name}", atomic_run_duration="1h").client.node_groups()
    assert "regional" in group.switched_off[Capability.ATOMIC_RESIZE]


def test_preemptions_in_its_zones_are_told(cloud: GceCloud, attach: Attach) -> None:
    name = cloud.add_group(size=3, zone=REGION)
    stage = attach(f"0:3:{name}", preemption_interval=5)
    gone = max(cloud.machines(name))
    cloud.preempt(gone)
    stage.later(5, name)
    assert [one.instance_id for one in stage.client.interruptions()] == [gone]
