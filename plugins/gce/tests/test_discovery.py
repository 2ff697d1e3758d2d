"""Which groups are found, when Compute Engine is called, and how many calls that takes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gcecloud import GceCloud
from nodewright.spec import (
    ConfigError,
    NodeGroupNotFound,
    ProviderContext,
    ProviderError,
    ProviderUnavailable,
    Throttled,
)
from nodewright.testkit import FakeClock
from nodewright_gce.provider import GceProvider

Attach = Callable[..., Any]
_URL = "https://www.googleapis.com/compute/v1/projects/proj/zones"
_LIST, _MANAGED = "instanceGroupManagers.list", "instanceGroupManagers.listManagedInstances"


def test_groups_are_discovered_by_the_beginning_of_their_name(cloud: GceCloud, attach: Attach) -> None:
    found = [cloud.add_group(name, size=1) for name in ("pool-a", "pool-b")]
    cloud.add_group("pool")
    cloud.add_group("my-pool-c")
    cloud.add_group("pool-other-zone", zone="us-east1-c")
    client = attach(discover=("mig:namePrefix=pool,min=1,max=7",)).client
    assert [(group.id, group.min_size, group.max_size) for group in client.node_groups()] == [
        (group_id, 1, 7) for group_id in found
    ]


def test_a_region_is_all_its_zones(cloud: GceCloud, attach: Attach) -> None:
    found = [cloud.add_group("pool-a"), cloud.add_group("pool-b", zone="us-east1-d")]
    client = attach(discover=("mig:namePrefix=pool,max=7",), zones=[], region="us-east1").client
    assert sorted(group.id for group in client.node_groups()) == sorted(found)
    stage = attach(discover=("mig:namePrefix=pool,max=7",), zones=[], region="mars", read=False)
    with pytest.raises(ProviderError, match="options of provider gce: region: proj has no region mars"):
        stage.client.refresh()


def test_a_zone_that_does_not_exist_is_named(cloud: GceCloud, attach: Attach) -> None:
    cloud.add_group("pool-a")
    with pytest.raises(ProviderError, match=r"zone mars-a of project proj: instanceGroupManagers\.list: 404 notFound"):
        attach(discover=("mig:namePrefix=pool,max=7",), zones=["mars-a"])


def test_an_explicit_group_keeps_the_limits_of_its_flag_and_stays(cloud: GceCloud, attach: Attach) -> None:
    name, other = cloud.add_group("pool-a", size=2), cloud.add_group("pool-b")
    gone, mars = f"{_URL}/us-east1-b/instanceGroups/gone", f"{_URL}/mars-a/instanceGroups/pool-a"
    stage = attach(f"1:4:{name}", f"0:3:{gone}", f"0:3:{mars}", discover=("mig:namePrefix=pool,max=9",))
    client = stage.client
    limits = {group.id: (group.min_size, group.max_size) for group in client.node_groups()}
    assert limits == {name: (1, 4), gone: (0, 3), mars: (0, 3), other: (0, 9)}
    with pytest.raises(
        NodeGroupNotFound, match=r"--nodes names .*gone: there is no managed instance group gone in proj"
    ):
        client.target_size(gone)
    with pytest.raises(ProviderError, match=r"--nodes names .*: zone mars-a of project proj: .* was not found"):
        client.target_size(mars)
    assert (client.target_size(name), client.target_size(other)) == (2, 0)


def test_a_discovered_group_that_vanishes_is_forgotten(cloud: GceCloud, attach: Attach) -> None:
    name, other = cloud.add_group("pool-a", size=1), cloud.add_group("pool-b")
    stage = attach(discover=("mig:namePrefix=pool,max=7",))
    cloud.remove_group(name)
    stage.later(1, name)
    assert [group.id for group in stage.client.node_groups()] == [other]
    stage.later(61)
    assert [group.id for group in stage.client.node_groups()] == [other]


def test_many_groups_cost_no_call_for_a_machine_and_few_for_a_group(cloud: GceCloud, attach: Attach) -> None:
    template = cloud.add_template()
    for number in range(500):
        cloud.add_group(f"pool-{number:03d}", size=10, template=template)
    stage = attach(discover=("mig:namePrefix=pool,max=20",), api_calls_per_minute=100)
    groups = stage.client.node_groups()
    assert sum(len(stage.client.instances(group.id)) for group in groups) == 5000
    # One page of groups, ten of machines, a template and a machine type for all.
    assert {name: count for name, count in cloud.calls.items() if name != "token"} == {
        _LIST: 1,
        "instances.list": 10,
        "instanceTemplates.get": 1,
        "machineTypes.get": 1,
    }
    before = sum(cloud.calls.values())
    stage.later(61, groups[0].id)
    assert sum(cloud.calls.values()) - before == 11


def test_a_server_that_tells_who_made_a_machine_is_believed(cloud: GceCloud, attach: Attach) -> None:
    cloud.state.honours_masks = False
    groups = [cloud.add_group(f"pool-{number}", size=2) for number in range(8)]
    for group_id in groups:
        for slot in cloud.group(group_id).slots.values():
            slot.name = f"named-by-hand-{slot.number}"
    client = attach(discover=("mig:namePrefix=pool,max=20",)).client
    assert [{one.id for one in client.instances(group_id)} for group_id in groups] == [
        cloud.machines(group_id) for group_id in groups
    ]
    assert cloud.calls[_MANAGED] == 0


def test_a_throttled_listing_of_machines_is_no_reason_to_ask_for_each_group(cloud: GceCloud, attach: Attach) -> None:
    groups = [cloud.add_group(f"pool-{number}", size=2) for number in range(8)]
    stage = attach(discover=("mig:namePrefix=pool,max=20",))
    for _ in range(4):
        cloud.refuse_once("instances.list", 429, "rateLimitExceeded")
    with pytest.raises(Throttled):
        stage.later(61)
    assert [len(stage.client.instances(group_id)) for group_id in groups] == [2] * 8
    cloud.refuse_once("instances.list", 403, "forbidden")
    assert cloud.calls[_MANAGED] == 0
    stage.later(61)
    assert [len(stage.client.instances(group_id)) for group_id in groups] == [2] * 8
    assert cloud.calls[_MANAGED] == 8


def test_groups_whose_machines_cannot_be_told_apart_are_asked_one_by_one(cloud: GceCloud, attach: Attach) -> None:
    groups = [cloud.add_group(f"pool-{number}", size=2) for number in range(8)]
    for number, group_id in enumerate(groups[:2]):
        cloud.group(group_id).base = "shared"
        for slot in cloud.group(group_id).slots.values():
            slot.name = f"shared-{number}{slot.name[-3:]}"
    client = attach(discover=("mig:namePrefix=pool,max=20",)).client
    assert [len(client.instances(group_id)) for group_id in groups] == [2] * 8
    assert {one.id for one in client.instances(groups[0])} == cloud.machines(groups[0])
    assert (cloud.calls["instances.list"], cloud.calls[_MANAGED]) == (1, 2)


def test_nothing_is_asked_within_the_interval_but_for_wanted_groups(cloud: GceCloud, attach: Attach) -> None:
    names = [cloud.add_group(f"pool-{number}", size=1) for number in range(3)]
    stage = attach(discover=("mig:namePrefix=pool,max=7",))
    before = sum(cloud.calls.values())
    stage.later(30)
    assert sum(cloud.calls.values()) == before
    cloud.set_target(names[0], 3)
    cloud.set_target(names[1], 3)
    stage.later(1, names[1])
    assert [stage.client.target_size(name) for name in names] == [1, 3, 1]
    assert sum(cloud.calls.values()) == before + 2
    stage.later(30)
    assert [stage.client.target_size(name) for name in names] == [3, 3, 1]


def test_calls_are_counted_and_kept_within_the_budget(cloud: GceCloud, attach: Attach) -> None:
    name = cloud.add_group(size=1)
    stage = attach(f"0:10:{name}", api_calls_per_minute=12, refresh_interval=0)
    made = {(one.operation, one.result): one.calls for one in stage.client.api_calls()}
    assert (made[_LIST, "ok"], made[_MANAGED, "ok"]) == (1, 1)
    started = stage.clock.now()
    for _ in range(12):
        stage.later(4)
    # The core waits as long as the budget says, and goes on: no call was refused in the end.
    assert stage.clock.now() - started > 48
    assert cloud.calls[_LIST] == 13
    stage.client.increase_size(name, 1, 2)


def test_what_the_budget_does_not_allow_at_once_comes_by_and_by(cloud: GceCloud, attach: Attach) -> None:
    names = [cloud.add_group(f"pool-{number:02d}", size=1) for number in range(30)]
    for name in names:
        cloud.hold(name)
        cloud.set_target(name, 2)  # groups that move are listed one by one
    own = {"api_calls_per_minute": 20, "parallel_calls": 1, "refresh_interval": "10m"}
    stage = attach(discover=("mig:namePrefix=pool,max=7",), **own)
    with pytest.raises(ProviderError, match=r"not known yet: .*the budget of 20 calls per minute is used up"):
        stage.client.instances(names[-1])
    assert len(stage.client.instances(names[0])) == 2
    for _ in range(12):
        stage.later(10)
    assert [len(stage.client.instances(name)) for name in names] == [2] * 30
    assert cloud.calls[_MANAGED] == 30


def test_one_zone_out_of_order_keeps_its_last_state_and_harms_no_other(cloud: GceCloud, attach: Attach) -> None:
    here, there = cloud.add_group("pool-a", size=1), cloud.add_group("pool-b", size=1, zone="us-east1-c")
    stage = attach(f"0:10:{here}", f"0:10:{there}")
    cloud.set_target(here, 2)
    cloud.set_target(there, 2)
    cloud.refuse_once(_LIST, 503, "backendError")
    stage.later(61)
    assert sorted([stage.client.target_size(here), stage.client.target_size(there)]) == [1, 2]
    cloud.refuse_once(_LIST, 503, "backendError")
    cloud.refuse_once(_LIST, 503, "backendError")
    stage.later(61)
    assert [stage.client.target_size(here), stage.client.target_size(there)] == [2, 2]


def test_a_group_whose_machines_cannot_be_listed_harms_no_other(cloud: GceCloud, attach: Attach) -> None:
    names = [cloud.add_group(f"pool-{number}", size=1) for number in range(2)]
    cloud.refuse_once(_MANAGED, 403, "forbidden", "not for you")
    stage = attach(*(f"0:10:{name}" for name in names), parallel_calls=1)
    with pytest.raises(ProviderError, match=r"listManagedInstances: 403 forbidden: .*not for you"):
        stage.client.instances(names[0])
    assert len(stage.client.instances(names[1])) == 1
    stage.later(61)
    assert len(stage.client.instances(names[0])) == 1
    cloud.refuse_once(_MANAGED, 500, "backendError")
    stage.later(61)
    assert len(stage.client.instances(names[0])) == 1


@pytest.mark.parametrize(
    ("nodes", "discoveries", "complaint"),
    [
        (("1:2",), (), "--nodes: '1:2' is not of the form min:max:name"),
        (("1:2:web",), (), "--nodes: web is not of the form https://"),
        ((f"5:3:{_URL}/a-b/instanceGroups/x",), (), "--nodes: .* greater than the maximum"),
        ((), ("asg:tag=a",), "gce discovers by 'mig', not by 'asg'"),
        ((), ("mig:prefix=a",), "there is no key 'prefix', only namePrefix, min, max"),
        ((), ("mig:namePrefix=,max=3",), "names no prefix"),
        ((), ("mig:namePrefix=a",), "max must be at least 1"),
        ((), ("mig:namePrefix=a,min=x,max=1",), "min 'x' is not a whole number"),
        ((), ("mig:namePrefix=(,max=1",), "not a regular expression"),
        ((), ("mig",), "is not of the form mig:namePrefix="),
    ],
)
def test_malformed_flags_are_refused(nodes: tuple[str, ...], discoveries: tuple[str, ...], complaint: str) -> None:
    context = ProviderContext(clock=FakeClock(), node_group_specs=nodes, auto_discovery_specs=discoveries)
    with pytest.raises(ConfigError, match=complaint):
        GceProvider(context)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"projet": "x"}, "unknown key projet, did you mean project?"),
        ({"refresh_interval": "soon"}, "'soon' is not a duration"),
        ({"parallel_calls": 0}, "parallel_calls: must be at least 1, not the number 0"),
        ({"endpoints": {"storage": "x"}}, "endpoints: there is no service storage"),
        ({"zones": ["a-b"], "region": "a"}, "zones and region exclude each other"),
        ({"zones": ["mars"]}, "zones: 'mars' is not a zone like us-central1-a"),
        ({"machine_types": {"x": {"cpu": 2}}}, "memory_mib"),
        ({"cloud_config": "/no/such/file"}, "cloud_config /no/such/file: cannot be read"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigError, match=f"options of provider gce.*{complaint}"):
        GceProvider(ProviderContext(clock=FakeClock(), options=options))


def test_the_file_of_cloud_config_tells_project_and_zone(cloud: GceCloud, attach: Attach, tmp_path: Path) -> None:
    name = cloud.add_group("pool-a")
    file = tmp_path / "gce.conf"
    file.write_text('[Global]\nproject-id = "proj"\nlocal-zone = us-east1-b\n')
    own = {"project": "", "zones": [], "cloud_config": str(file)}
    client = attach(discover=("mig:namePrefix=pool,max=7",), **own).client
    assert [group.id for group in client.node_groups()] == [name]


def test_a_dead_endpoint_is_one_error_that_says_where(cloud: GceCloud, attach: Attach) -> None:
    name = cloud.add_group()
    dead = {"compute": "http://127.0.0.1:9"}
    with pytest.raises(ProviderUnavailable, match=r"instanceGroupManagers.list: ConnectionError: .*127.0.0.1"):
        attach(f"0:1:{name}", endpoints=dead)
