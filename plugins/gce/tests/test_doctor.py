"""``nodewright doctor`` on Compute Engine: its findings and its output, and that it changes nothing."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from doctoring import bad, run_doctor, said
from gcecloud import GceCloud
from gcecloud.group import API
from nodewright.spec import FindingLevel

Attach = Callable[..., Any]
_WRITES = {
    "instanceGroupManagers.createInstances",
    "instanceGroupManagers.deleteInstances",
    "instanceGroupManagerResizeRequests.insert",
}


def test_a_group_in_order_with_every_permission(cloud: GceCloud, attach: Attach) -> None:
    name = cloud.add_group(size=1)
    findings = attach(f"0:10:{name}").client.diagnose()
    assert bad(findings) == {}
    assert {"compute.instanceGroupManagers.update", "other writers"} <= {finding.subject for finding in findings}


def test_each_missing_permission_is_named_with_what_is_lost(cloud: GceCloud, attach: Attach) -> None:
    name = cloud.add_group(size=1)
    cloud.denied_permissions = {"compute.instanceGroupManagers.update", "compute.autoscalers.list"}
    wrong = bad(attach(f"0:10:{name}").client.diagnose())
    update = wrong["compute.instanceGroupManagers.update"]
    assert update.level is FindingLevel.PROBLEM
    assert update.message == "not granted in proj: no size can be changed and no machine deleted"
    assert wrong["compute.autoscalers.list"].level is FindingLevel.WARNING


def test_permissions_that_are_not_told_are_a_warning(cloud: GceCloud, attach: Attach) -> None:
    name = cloud.add_group(size=1)
    cloud.tells_permissions = False
    wrong = bad(attach(f"0:10:{name}").client.diagnose())
    assert wrong["permissions"].level is FindingLevel.WARNING
    assert "Cloud Resource Manager API has not been used" in wrong["permissions"].message


def test_what_was_never_looked_for_is_not_said_to_be_missing(cloud: GceCloud, attach: Attach) -> None:
    name = cloud.add_group(size=1)
    assert "group" not in bad(attach(f"0:10:{name}", read=False).client.diagnose())


def test_what_else_moves_a_group(cloud: GceCloud, attach: Attach) -> None:
    template = cloud.add_template()
    update = {"type": "PROACTIVE", "minimalAction": "REPLACE"}
    versions = [{"instanceTemplate": template}, {"instanceTemplate": cloud.add_template()}]
    name = cloud.add_group("pool-a", size=1, template=template, updatePolicy=update, versions=versions)
    manager = f"{API}/projects/proj/zones/us-east1-b/instanceGroupManagers/pool-a"
    cloud.state.autoscalers.append({"name": "cpu", "target": manager})
    cloud.state.regional.append(
        {"name": "pool-r", "updatePolicy": {"type": "OPPORTUNISTIC", "instanceRedistributionType": "PROACTIVE"}}
    )
    gone = f"{API}/projects/proj/zones/us-east1-b/instanceGroups/gone"
    zones = ["us-east1-b", "mars-a"]
    stage = attach(f"0:10:{name}", f"0:3:{gone}", discover=("mig:namePrefix=pool,max=3",), zones=zones)
    findings = stage.client.diagnose()
    lines = said(findings)
    assert "other writers: Compute Engine's autoscaler cpu also changes the size of this group" in lines
    assert "updatePolicy: a proactive update between several templates replaces running machines" in lines
    assert "pool-r in us-east1 is a regional group and is ignored (redistribution PROACTIVE)" in lines
    assert "group: --nodes names " in lines
    assert "zone: zone mars-a of project proj cannot be read: instanceGroupManagers.list: 404" in lines


def test_acting_as_every_account_of_the_project_is_a_warning(cloud: GceCloud, attach: Attach) -> None:
    cloud.lets_act_as_all = True
    client = attach(f"0:10:{cloud.add_group(size=1)}").client
    warned = bad(client.diagnose())["iam.serviceAccounts.actAs"]
    assert "granted on the whole project proj" in warned.message
    policy = client.minimal_policy()
    assert "iam.serviceAccounts.actAs" not in yaml.safe_load(policy)["includedPermissions"]
    assert "add-iam-policy-binding ACCOUNT" in policy


def test_errors_that_a_manager_met_lately_are_told(cloud: GceCloud, attach: Attach) -> None:
    name = cloud.add_group(size=1)
    for moment, code in (("2026-11-27T01:00:00Z", "QUOTA_EXCEEDED"), ("2026-11-27T02:00:00Z", "IP_SPACE_EXHAUSTED")):
        cloud.group(name).errors.append({"error": {"code": code, "message": "no more"}, "timestamp": moment})
    told = bad(attach(f"0:10:{name}").client.diagnose())["errors"]
    assert told.message == "2 errors lately, the newest at 2026-11-27T02:00:00Z: IP_SPACE_EXHAUSTED: no more"


def test_nothing_is_changed_by_looking(cloud: GceCloud, attach: Attach) -> None:
    name = cloud.add_group(size=2)
    stage = attach(f"0:10:{name}")
    before = cloud.group(name).as_manager(), cloud.machines(name)
    stage.client.diagnose()
    assert (cloud.group(name).as_manager(), cloud.machines(name)) == before
    assert set(cloud.calls) & _WRITES == set()


def test_the_policy_is_a_custom_role(cloud: GceCloud, attach: Attach) -> None:
    name = cloud.add_group()
    role = yaml.safe_load(attach(f"0:1:{name}", read=False).client.minimal_policy())
    assert "compute.instanceGroupManagers.update" in role["includedPermissions"]
    assert "compute.regions.get" not in role["includedPermissions"]
    regional = attach(f"0:1:{name}", zones=[], region="us-east1", read=False).client.minimal_policy()
    assert "compute.regions.get" in regional


@pytest.mark.parametrize(("denied", "code"), [((), 0), (("compute.instances.list",), 3)], ids=["in order", "a warning"])
def test_the_command_over_http(cloud: GceCloud, tmp_path: Path, denied: tuple[str, ...], code: int) -> None:
    name = cloud.add_group(size=1)
    cloud.denied_permissions = set(denied)
    options = {"project": "proj", "endpoints": cloud.endpoints}
    told = run_doctor(tmp_path, "gce", options, f"0:10:{name}", code)
    assert (told.provider["provider"], told.provider["examines"]) == ("gce", True)
    assert yaml.safe_load(told.provider["policy"])["title"] == "nodewright"
    assert sum(made["calls"] for made in told.provider["api_calls"]) > 4
    assert "compute.instanceGroupManagers.update" in told.shown
    assert ("machines are listed group by group" in told.shown) == bool(code)
