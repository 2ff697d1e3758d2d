"""A support bundle: what is in it, what is not, and that plan and explain read it back."""

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from core.tests.cli.console.worlds import build_last_loop, build_world
from msgspec.structs import replace

from nodewright.cli import bundle
from nodewright.cli.commands import bundle as commands_bundle
from nodewright.cli.daemon.debug_server import BundleSources, DebugServer
from nodewright.cli.daemon.turn import Turn
from nodewright.cli.dry_run.dump import plan_dump
from nodewright.cli.dry_run.dump_options import DumpSource
from nodewright.cli.main import cli
from nodewright.cli.settings.load import load
from nodewright.cli.settings.values import without_secrets
from nodewright.model.cluster import PodTemplateSpec
from nodewright.model.errors import ConfigError
from nodewright.model.quantity import Quantity
from nodewright.model.settings import ProviderSettings, ScaleDownSettings, Settings
from nodewright.testkit import FakeClock, build_pod
from nodewright.testkit.builders import build_controller
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


@pytest.mark.parametrize("content", [bundle.MAGIC + b"broken", bundle.pack({"a": [b"b"]}, NOW)])
def test_another_archive_is_refused_in_one_sentence(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "other.tar.gz"
    path.write_bytes(content)
    result = CliRunner().invoke(cli, ["explain", "loop", "", str(path)])
    assert "bundle of nodewright" in str(result.exception)


FINE = {
    "about.json": {"schema": 1, "at": NOW},
    "cluster.json": {"kind": "List", "items": [{"kind": "Node", "metadata": {"name": "n"}}]},
    "groups.json": {"groups": []},
    "settings.json": {},
}
DEEP = b"[" * 200_000


def group(**changed: Any) -> dict[str, Any]:
    return {"name": "a", "max_size": 3, "cpu": "1", "memory": "1Gi"} | changed


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("about.json", {"schema": 1, "at": "never"}, "bundle of nodewright"),
        ("about.json", {"schema": 1, "at": 1e300}, "at 1e+300 is not a time"),
        ("about.json", {"schema": 1, "at": "nan"}, "at nan is not a time"),
        ("about.json", {"schema": 1}, "'at' is missing"),
        ("about.json", {"schema": 99, "at": NOW}, "schema 99 is not 1"),
        ("about.json", {"schema": 99, "at": NOW, "versions": {"nodewright": "99.1"}}, "made by nodewright 99.1"),
        ("about.json", b'{"x": ' + DEEP, "maximum recursion depth"),
        ("groups.json", DEEP, "bundle of nodewright"),
        ("groups.json", b'{"groups": [{"name": ' + DEEP, "bundle of nodewright"),
        ("settings.json", b'{"x": ' + DEEP, "bundle of nodewright"),
        ("cluster.json", DEEP, "cluster.json"),
        ("settings.json", {"loop": {"scan-interval": "often"}}, "bundle of nodewright"),
        ("groups.json", {"groups": [group(cpu="zzz")]}, "groups.json: group 'a': cpu: 'zzz' is not a quantity"),
        ("groups.json", {"groups": [group(name="")]}, "unique and not empty"),
        ("groups.json", {"groups": [group(), group()]}, "unique and not empty"),
        ("groups.json", {"groups": [group(min_size=4)]}, "min_size 4 is above max_size 3"),
    ],
)
def test_a_file_that_pretends_to_be_a_bundle(tmp_path: Path, file: str, content: Any, said: str) -> None:
    held = {name: [json.dumps(document).encode()] for name, document in FINE.items()}
    held[file] = [content if isinstance(content, bytes) else json.dumps(content).encode()]
    path = tmp_path / "b.tar.gz"
    path.write_bytes(bundle.pack(held, NOW))
    result = CliRunner().invoke(cli, ["plan", str(path), "--group-by", "x"])
    assert isinstance(result.exception, ConfigError)
    assert said in str(result.exception)
    assert "\n" not in str(result.exception)


def test_an_archive_that_only_seems_small_is_refused() -> None:
    """Also where what is large is none of the files that are read."""
    parts = {name: [json.dumps(document).encode()] for name, document in FINE.items()}
    large = bundle.pack(parts | {"log.txt": [bytes(2**20)] * 4}, NOW)
    assert len(large) < 2**16
    assert bundle.read_bundle(large, "it").at == NOW
    with pytest.raises(ConfigError, match="it: is too large"):
        bundle.read_bundle(large, "it", 2**21)


def test_settings_that_are_given_are_laid_over_those_of_the_bundle(tmp_path: Path) -> None:
    """A default that is given counts, too."""
    path = write(tmp_path, build_world("small"))
    default = Settings()
    given = replace(default, scale_down=replace(default.scale_down, scale_down_utilization_threshold=0.3))
    for flags, wanted in (
        ({}, (77.0, 0.5)),
        ({"scale-down-utilization-threshold": "0.3"}, (77.0, 0.3)),
        ({"scale-down-unneeded-time": "10m", "scale-down-utilization-threshold": "0.3"}, (600.0, 0.3)),
    ):
        source = DumpSource(
            dump=str(path),
            groups=None,
            group_by=None,
            group_max=1,
            now=None,
            seed=0,
            given=load(flags, {}).given_fields,
        )
        planned, _ = plan_dump(given, source)
        found = planned.settings.scale_down
        assert (found.scale_down_unneeded_time, found.scale_down_utilization_threshold) == wanted


def test_no_loop_waits_while_a_bundle_is_encoded() -> None:
    """The turn is free when amounts become text."""
    world, free, turn = build_world("small"), list[bool](), Turn()

    class Watched(Quantity):
        def __str__(self) -> str:
            with turn.page(0.0) as got:
                free.append(got)
            return "1"

    pod = world.running[0]
    node = world.nodes[0]
    node = replace(node, status=replace(node.status, capacity={"cpu": Watched(10**9)}))
    kinds: dict[str, list[Any]] = {"Node": [node], "Pod": [pod]}
    sources = BundleSources(objects=lambda kind: kinds.get(kind, ()))
    server = DebugServer(FakeClock(NOW + 5), sources=sources, turn=turn)
    server.publish(build_last_loop(world).report, SETTINGS, None)
    assert server.pages()["/bundle"]({}).status == 200
    assert free == [True]


def test_a_pod_template_has_no_manifest_of_kubectl() -> None:
    noted = {"kubectl.kubernetes.io/last-applied-configuration": HIDDEN, "kept": "yes"}
    pod = build_pod("p", annotations=noted)
    daemon = build_controller("DaemonSet", "d")
    daemon = replace(daemon, spec=replace(daemon.spec, template=PodTemplateSpec(metadata=pod.metadata, spec=pod.spec)))
    told = b"".join(bundle.write_cluster({"DaemonSet": [daemon]}, {})).decode()
    assert "kept" in told
    assert HIDDEN not in told


def test_logins_are_cut_out_of_urls(tmp_path: Path) -> None:
    sources = BundleSources(
        log=f"proxy http://me:{HIDDEN}@proxy:3128/x failed\n".encode,
        settings=lambda: replace(
            SETTINGS,
            cluster=replace(SETTINGS.cluster, kubernetes=f"https://me:{HIDDEN}@api:6443"),
            providers={"c": ProviderSettings(options={"endpoints": [f"https://{HIDDEN}@cloud/"], "sasUrl": HIDDEN})},
        ),
    )
    path = tmp_path / "b.tar.gz"
    path.write_bytes(DebugServer(FakeClock(NOW), sources=sources).pages()["/bundle"]({}).body)
    told = b"".join(unpack(path).values()).decode()
    assert HIDDEN not in told
    for kept in ("http://proxy:3128/x", "https://api:6443", "https://cloud/"):
        assert kept in told


def test_only_the_owner_may_read_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "b.tar.gz"
    path.write_bytes(b"before")
    path.chmod(0o644)
    monkeypatch.setattr(commands_bundle, "fetch_page", lambda *_: b"after")
    for file in (path, tmp_path / "new.tar.gz"):
        assert CliRunner().invoke(cli, ["bundle", str(file)]).exception is None
        assert (file.read_bytes(), file.stat().st_mode & 0o777) == (b"after", 0o600)


@pytest.mark.parametrize(
    ("words", "said"),
    [([""], "FILE is empty"), (["--debug-address", ""], "--debug-address: is empty")],
)
def test_an_empty_word_is_named(words: list[str], said: str) -> None:
    assert said in str(CliRunner().invoke(cli, ["bundle", *words]).exception)


@pytest.mark.parametrize(
    ("key", "is_secret"),
    [
        *((key, True) for key in ("passwd", "db_pwd", "credentials", "connection_string", "connectionString")),
        *((key, True) for key in ("Authorization", "bearer", "sas", "sasUrl", "SAS-URL", "client.pem", "api_token")),
        *((key, False) for key in ("region", "disaster", "development", "templates")),
    ],
)
def test_which_names_of_options_hold_secrets(key: str, is_secret: bool) -> None:
    assert (without_secrets({key: HIDDEN}) != {key: HIDDEN}) == is_secret
