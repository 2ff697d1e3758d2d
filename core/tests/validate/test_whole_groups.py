"""The independent check of groups that are made and deleted."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
from msgspec.structs import replace as changed

from nodewright.model.action import CreateNodeGroup, DeleteNodeGroup, IncreaseSize
from nodewright.model.group import FailedInstance, MachineType, NewNodeGroup
from nodewright.model.settings import Settings
from nodewright.snapshot.observation import Observation, ProviderSeen
from nodewright.testkit.builders import build_template
from nodewright.testkit.world import World, ref, settings_with
from nodewright.validate import check_actions
from nodewright.validate.actions import Planned

MADE, USED, OTHERS, NEW = ref("made"), ref("used"), ref("others"), ref("new")
BIG = MachineType(name="big", template=build_template(cpu="4", labels={"zone": "a"}))
SPEC = NewNodeGroup(group_id="new", machine_type="big", max_size=3)
CREATE = CreateNodeGroup(group=NEW, spec=SPEC, reason="")
DELETE = DeleteNodeGroup(group=MADE, reason="")


def settings(most: int = 3, **flat: object) -> Settings:
    on = {"node_autoprovisioning_enabled": True, "max_autoprovisioned_node_group_count": most}
    return settings_with(**{**on, **flat})


def observed() -> Observation:
    """Two groups that were made, one of them in use, and an empty one of another writer."""
    world = World()
    world.add_group("made", size=0)
    world.add_group("used", size=1)
    world.add_group("others", size=0)
    seen = world.state().observation
    groups = {
        name: replace(group, group=changed(group.group, autoprovisioned="" if name == OTHERS else "big"))
        for name, group in seen.groups.items()
    }
    return replace(seen, groups=groups, providers={NEW.provider: ProviderSeen(name=NEW.provider, machine_types=(BIG,))})


def rules(*actions: Planned, given: Settings | None = None, seen: Observation | None = None) -> list[str]:
    found = check_actions(seen or observed(), actions, given or settings())
    return [violation.rule for violation in found]


def test_a_group_may_be_made_and_grow() -> None:
    assert rules(CREATE, IncreaseSize(group=NEW, expected_target=0, target=3)) == []


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"group_id": "another"}, "it would be created with the id another"),
        ({"machine_type": "tiny"}, "the provider cannot create groups of machine type tiny"),
        ({"labels": {"zone": "b"}}, "its labels contradict those of its machine type"),
    ],
)
def test_a_group_that_may_not_be_made(change: Mapping[str, str], rule: str) -> None:
    assert rules(changed(CREATE, spec=changed(SPEC, **change))) == [rule]


def test_a_group_that_is_there_is_not_made() -> None:
    spec = changed(SPEC, group_id="others")
    assert rules(changed(CREATE, group=OTHERS, spec=spec)) == ["the group exists already"]


def test_no_more_groups_than_allowed() -> None:
    assert rules(CREATE, given=settings(2)) == ["more than --max-autoprovisioned-node-group-count=2"]
    second = changed(CREATE, group=ref("second"), spec=changed(SPEC, group_id="second"))
    assert rules(CREATE, second) == ["more than --max-autoprovisioned-node-group-count=3"]
    assert rules(CREATE, given=settings(node_autoprovisioning_enabled=False)) == [
        "--node-autoprovisioning-enabled is off"
    ]


def test_growth_of_a_new_group_counts_like_any_other() -> None:
    increase = IncreaseSize(group=NEW, expected_target=0, target=3)
    assert rules(increase) == ["the group's size is unknown"]
    assert rules(CREATE, changed(increase, target=4)) == ["above the group's maximum size of 3"]
    assert rules(CREATE, increase, given=settings(cores_total="0:15")) == [
        "cpu of 4 and 12 more exceeds the cluster's limit of 15"
    ]


def test_only_empty_groups_that_were_made_are_deleted() -> None:
    assert rules(DELETE) == []
    assert rules(changed(DELETE, group=USED)) == ["planned for a target of 0, observed 1"]
    assert rules(changed(DELETE, group=USED, expected_target=1)) == ["the group is not empty"]
    assert rules(changed(DELETE, group=OTHERS)) == ["nodewright did not create the group"]
    assert rules(changed(DELETE, group=NEW)) == ["the group's size is unknown"]


def test_a_group_does_not_grow_and_go_at_once() -> None:
    increase = IncreaseSize(group=MADE, expected_target=0, target=1)
    assert rules(increase, changed(DELETE, expected_target=1)) == ["the group is not empty"]
    assert rules(DELETE, increase) == ["the group's size is unknown"]


def test_a_group_with_failures_is_not_empty() -> None:
    seen = observed()
    failed = replace(seen.groups[MADE], failed=(FailedInstance(failure_id="f"),))
    assert rules(DELETE, seen=replace(seen, groups={**seen.groups, MADE: failed})) == ["the group is not empty"]
