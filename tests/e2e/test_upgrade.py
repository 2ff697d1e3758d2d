"""From the version before to this one and back: what it saved, its custom resources, and the release of its chart."""

import base64
import io
import json
import os
import subprocess
import sys
import tarfile
import zlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.e2e.cloud import SharedCloud
from tests.e2e.conftest import StartDaemon, make_group
from tests.e2e.control_plane import ControlPlane
from tests.e2e.daemon import PLUGIN, wait_until
from tests.e2e.helm import CHART, run_helm
from tests.e2e.requesting import DEFINITIONS, install_crds, is_established
from tests.e2e.test_provisioning_crds import SAMPLES, manifest, path_of
from tests.e2e.test_scale_up import SYSTEM, deploy

from nodewright.adapters.kube.store import STATE_NAME
from nodewright_fake import GroupConfig, fixed

ROOT = Path(__file__).parents[2]
# The commit at which the version before was cut: 0.1.0. Who cuts a version puts the one before here.
PREVIOUS = "af9233d4"
_PARTS = ("core/src", "deploy/chart", "deploy/crds")


@pytest.fixture(scope="module")
def previous(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sources, the chart and the definitions of the version before, from the history."""
    asked = ["git", "archive", PREVIOUS, *_PARTS]
    ended = subprocess.run(asked, cwd=ROOT, capture_output=True, check=False)
    if ended.returncode:
        pytest.skip(f"the history does not go back to {PREVIOUS}")
    folder = tmp_path_factory.mktemp("previous")
    with tarfile.open(fileobj=io.BytesIO(ended.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder


@pytest.fixture
def groups() -> tuple[GroupConfig, ...]:
    """One whose machines are still on their way when all is over."""
    slow = make_group("small")
    return (GroupConfig(name=slow.name, max_size=slow.max_size, cpu=4.0, memory="16Gi", provision_delay=fixed(3600)),)


@pytest.fixture
def released(clean: ControlPlane) -> Iterator[ControlPlane]:
    """Without the chart's release in the end."""
    yield clean
    run_helm("uninstall", "nodewright", *_place(clean), "--ignore-not-found")


def test_versions_read_what_each_other_saved(
    released: ControlPlane, shared: SharedCloud, start: StartDaemon, previous: Path
) -> None:
    """Machines are on their way during an upgrade and a rollback: each version knows since when, and buys none again."""
    before = {"PYTHONPATH": os.pathsep.join([str(PLUGIN), str(previous / "core/src")])}
    assert _code_of(before) == previous / "core/src/nodewright"
    values = {"fullnameOverride": "released", "replicaCount": 0, "cloudProvider": "fake"}

    _helm("install", "nodewright", str(previous / "deploy/chart"), *_place(released), values=values)
    deploy(released, "web", 4)
    first = start(environ=before)
    wait_until(lambda: _find_requests(released), "saved request")
    assert first.end() == 0
    saved = _find_requests(released)
    calls = list(shared.calls)
    [(what, increased)] = calls
    assert what == "increase"

    _helm("upgrade", "nodewright", str(CHART), *_place(released), values=values)
    second = start()
    wait_until(lambda: len(second.says("loop")) > 1, "loops after the upgrade")
    assert _read_target(released) == increased[2]
    assert second.end() == 0
    assert _find_requests(released) == saved

    _helm("rollback", "nodewright", "1", *_place(released))
    third = start(environ=before)
    wait_until(lambda: len(third.says("loop")) > 1, "loops after the rollback")
    assert _read_target(released) == increased[2]
    assert third.end() == 0
    assert _find_requests(released) == saved

    assert shared.calls == calls
    said = json.dumps([*second.lines(), *third.lines()])
    assert "StateNotUsable" not in said
    assert "Traceback" not in said


def test_custom_resources_outlive_an_upgrade_and_a_rollback(clean: ControlPlane, previous: Path) -> None:
    """The definitions of either version are laid over those of the other, and no object changes."""
    install_crds(clean)
    _apply(clean, previous / "deploy/crds")
    made: dict[str, Any] = {}
    for plural, samples in SAMPLES.items():
        definition = yaml.safe_load((previous / f"deploy/crds/{plural}.yaml").read_text())["spec"]
        version = next(one["name"] for one in definition["versions"] if one["storage"])
        path = path_of(plural, version)
        for number, spec in enumerate(samples.good.values()):
            body = {**manifest(plural, version, spec), "metadata": {"name": f"sample-{number}"}}
            made[f"{path}/sample-{number}"] = clean.request(path, method="POST", body=body)["spec"]
    for folder in (ROOT / "deploy/crds", previous / "deploy/crds"):
        _apply(clean, folder)
        assert {path: clean.request(path)["spec"] for path in made} == made
    _apply(clean, ROOT / "deploy/crds")
    for path in made:
        clean.request(path, method="DELETE")


def _place(plane: ControlPlane) -> tuple[str, ...]:
    return "--namespace=kube-system", f"--kubeconfig={plane.kubeconfig()}"


def _helm(*words: str, values: dict[str, Any] | None = None) -> None:
    ended = run_helm(*words, values=values)
    assert ended.returncode == 0, ended.stderr


def _code_of(environ: dict[str, str]) -> Path:
    """Where a process with this environment has nodewright from."""
    asked = [sys.executable, "-c", "import nodewright.cli.main; print(nodewright.__path__[0])"]
    ended = subprocess.run(asked, env={**os.environ, **environ}, capture_output=True, text=True, check=True)
    return Path(ended.stdout.strip())


def _find_requests(plane: ControlPlane) -> list[Any]:
    """The increases that are saved and have not arrived: what both versions save of each."""
    items = plane.request(f"{SYSTEM}/configmaps")["items"]
    heads = [one["binaryData"]["state"] for one in items if one["metadata"]["name"] == STATE_NAME]
    states = [json.loads(zlib.decompress(base64.b64decode(head))) for head in heads]
    requests = (one for state in states for group in state.get("groups", ()) for one in group.get("requests", ()))
    return [{key: one[key] for key in ("increase", "started", "deadline", "accepted", "atomic")} for one in requests]


def _read_target(plane: ControlPlane) -> int:
    """The target size of the only group, as the status ConfigMap tells it."""
    text = plane.request(f"{SYSTEM}/configmaps/cluster-autoscaler-status")["data"]["status"]
    [group] = yaml.safe_load(text)["nodeGroups"]
    return int(group["health"]["cloudProviderTarget"])


def _apply(plane: ControlPlane, folder: Path) -> None:
    """Every definition of a folder, as ``kubectl apply --server-side`` does, until the API server has taken it."""
    for file in folder.glob("*.yaml"):
        text = file.read_text()
        name = yaml.safe_load(text)["metadata"]["name"]
        path = f"{DEFINITIONS}/{name}?fieldManager=upgrade&force=true"
        plane.request(path, method="PATCH", body=yaml.safe_load(text), content="application/apply-patch+yaml")
        wait_until(partial(is_established, plane, name), f"definition {name}")
