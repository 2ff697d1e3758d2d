"""``nodewright doctor`` on Compute Engine: what it finds, what it prints, and that it touches nothing."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from gcecloud import GceCloud
from gcecloud.group import API
from nodewright.spec import Finding, FindingLevel

Attach = Callable[..., Any]
_WRITES = {
    "instanceGroupManagers.createInstances",
    "instanceGroupManagers.deleteInstances",
    "instanceGroupManagerResizeRequests.insert",
}


def _bad(findings: tuple[Finding, ...]) -> dict[str, Finding]:
    return {finding.subject: finding for finding in findings if finding.level is not FindingLevel.OK}


def test_a_group_in_order_with_every_permission(cloud: GceCloud, attach: Attach) -> None:
    name = cloud.add_group(size=1)
    findings = attach(f"0:10:{name}").client.diagnose()
    assert _bad(findings) == {}
    assert {"compute.instanceGroupManagers.update", "other writers"} <= {finding.subject for finding in findings}


def test_each_missing_permission_is_named_with_what_is_lost(cloud: GceCloud, attach: Attach) -> None:
    name = cloud.add_group(size=1)
    cloud.denied_permissions = {"compute.instanceGroupManagers.update", "compute.autoscalers.list"}
    bad = _bad(attach(f"0:10:{name}").client.diagnose())
    update = bad["compute.instanceGroupManagers.update"]
    assert update.level is FindingLevel.PROBLEM
    assert update.message == "not granted in proj: no size can be changed and no machine deleted"
    assert bad["compute.autoscalers.list"].level is FindingLevel.WARNING


def test_permissions_that_are_not_told_are_a_warning(cloud: GceCloud, attach: Attach) -> None:
    name = cloud.add_group(size=1)
    cloud.tells_permissions = False
    bad = _bad(attach(f"0:10:{name}").client.diagnose())
    assert bad["permissions"].level is FindingLevel.WARNING
    assert "Cloud Resource Manager API has not been used" in bad["permissions"].message


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
    said = "\n".join(f"{one.subject}: {one.message}" for one in findings if one.level is not FindingLevel.OK)
    assert "other writers: Compute Engine's autoscaler cpu writes the size of this group too" in said
    assert "updatePolicy: a proactive update between several templates replaces running machines" in said
    assert "pool-r in us-east1 is a regional group and passed over (redistribution PROACTIVE)" in said
    assert "group: --nodes names " in said
    assert "zone: zone mars-a of project proj cannot be read: instanceGroupManagers.list: 404" in said


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
    config = tmp_path / "config.yaml"
    options = {"project": "proj", "endpoints": cloud.endpoints}
    config.write_text(yaml.safe_dump({"providers": {"gce": {"options": options, "nodes": [f"0:10:{name}"]}}}))
    command = [sys.executable, "-m", "nodewright", "doctor", "--config", str(config)]
    environment = {**os.environ, "COLUMNS": "200"}
    told = subprocess.run([*command, "--output", "json"], capture_output=True, text=True, env=environment, check=False)
    assert told.returncode == code, told.stderr
    [provider] = json.loads(told.stdout)["providers"]
    assert (provider["provider"], provider["examines"]) == ("gce", True)
    assert yaml.safe_load(provider["policy"])["title"] == "nodewright"
    assert sum(made["calls"] for made in provider["api_calls"]) > 4
    shown = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert "compute.instanceGroupManagers.update" in shown.stdout
    assert ("machines are listed group by group" in shown.stdout) == bool(code)
