"""A support bundle: what is in it, what is not, and that plan and explain read it back."""

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from core.tests.cli.console.worlds import build_last_loop, build_world

from nodewright.cli import bundle
from nodewright.cli.daemon.debug_server import BundleSources, DebugServer
from nodewright.cli.main import cli
from nodewright.model.settings import ProviderSettings, ScaleDownSettings, Settings
from nodewright.testkit import FakeClock, build_pod
from nodewright.testkit.world import NOW, World

HIDDEN = "hunter2"
SETTINGS = Settings(
    scale_down=ScaleDownSettings(scale_down_unneeded_time=77.0),
    providers={"cloud": ProviderSettings(options={"region": "north", "auth": {"token": HIDDEN}})},
)


def make_server(world: World | None) -> DebugServer:
    kinds: dict[str, list[Any]] = {}
    if world is not None:
        kinds = {"Node": world.nodes, "Pod": [*world.running, *world.pending]}
    sources = BundleSources(
        metrics=lambda: b"nodewright_leader 1.0\n",
        log=lambda: b'{"message":"leading"}\n',
        objects=lambda kind: kinds.get(kind, ()),
        settings=lambda: SETTINGS,
    )
    server = DebugServer(FakeClock(NOW + 5), sources=sources)
    if world is not None:
        last = build_last_loop(world)
        server.publish(last.report, SETTINGS, None)
    return server


def write(folder: Path, world: World | None) -> Path:
    page = make_server(world).pages()["/bundle"]({})
    assert page.status == 200
    path = folder / "bundle.tar.gz"
    path.write_bytes(page.body)
    return path


def unpack(path: Path) -> dict[str, bytes]:
    found = {}
    with tarfile.open(path) as packed:
        for told in packed:
            held = packed.extractfile(told)
            assert held is not None
            found[told.name.removeprefix("nodewright-bundle/")] = held.read()
    return found


def invoke(*words: str) -> Any:
    result = CliRunner().invoke(cli, [*words, "--output", "json"])
    assert result.exception is None, result.output
    return json.loads(result.stdout)


def test_what_is_in_it_and_that_no_secret_is(tmp_path: Path) -> None:
    world = build_world("small")
    manifest = {"kubectl.kubernetes.io/last-applied-configuration": f'{{"env": "{HIDDEN}"}}', "kept": "yes"}
    world.pending.append(build_pod("told", cpu="64", annotations=manifest))
    found = unpack(write(tmp_path, world))
    assert found.keys() == {
        "about.json",
        "cluster.json",
        "decisions.json",
        "groups.json",
        "log.txt",
        "metrics.txt",
        "settings.json",
        "status.json",
    }
    assert HIDDEN not in b"".join(found.values()).decode()
    assert b'"kept": "yes"' in found["cluster.json"]
    assert json.loads(found["settings.json"])["providers"]["cloud"]["options"]["region"] == "north"
    assert json.loads(found["status.json"])["loop"] == "1-7"
    assert json.loads(found["about.json"])["loop"] == "1-7"


def test_plan_and_explain_read_it_back(tmp_path: Path) -> None:
    path = write(tmp_path, build_world("small"))
    document = invoke("plan", str(path))
    assert document["schema"] == 1
    assert "dump/cloud/general" in json.dumps(document)
    assert invoke("explain", "pod", "default/train-0", str(path))["outcome"] == "unhelped"
    assert invoke("explain", "node", "general-0", str(path))["group"]["group"] == "dump/cloud/general"


def test_its_settings_hold_unless_others_are_given(tmp_path: Path) -> None:
    held = bundle.read_bundle(write(tmp_path, build_world("small")).read_bytes(), "it")
    assert held.settings.scale_down.scale_down_unneeded_time == 77
    assert held.settings.providers == {}
    assert held.at == NOW - 1
    assert {group.name for group in held.groups} >= {"cloud/general", "cloud/gpu"}


def test_without_a_loop_it_says_why_there_is_no_cluster(tmp_path: Path) -> None:
    path = write(tmp_path, None)
    assert {"settings.json", "metrics.txt", "log.txt"} <= unpack(path).keys()
    result = CliRunner().invoke(cli, ["plan", str(path)])
    assert "holds no cluster: no loop has ended yet" in str(result.exception)


@pytest.mark.parametrize("content", [bundle.MAGIC + b"broken", bundle.pack({"a": b"b"}, NOW)])
def test_another_archive_is_refused_in_one_sentence(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "other.tar.gz"
    path.write_bytes(content)
    result = CliRunner().invoke(cli, ["explain", "loop", "", str(path)])
    assert "bundle of nodewright" in str(result.exception)


def test_a_file_that_pretends_to_be_a_bundle(tmp_path: Path) -> None:
    about = json.dumps({"schema": 1, "at": "never"}).encode()
    files = {"about.json": about, "cluster.json": b"{}", "groups.json": b'{"groups": []}', "settings.json": b"{}"}
    path = tmp_path / "b.tar.gz"
    path.write_bytes(bundle.pack(files, NOW))
    result = CliRunner().invoke(cli, ["plan", str(path)])
    assert "bundle of nodewright" in str(result.exception)
    assert io.BytesIO(path.read_bytes()).read(2) == bundle.MAGIC
