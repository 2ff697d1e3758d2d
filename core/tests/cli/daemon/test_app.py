"""The whole daemon, with an API server in memory and the fake cloud."""

import io
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from core.tests.kube.conftest import ApiServer

from nodewright.adapters.clocks import SystemClock
from nodewright.adapters.kube.api import ApiError, Request
from nodewright.adapters.kube.config_maps import ConfigMaps
from nodewright.adapters.kube.store import ConfigMapStore
from nodewright.cli.daemon.app import DaemonApp
from nodewright.cli.daemon.build import DaemonOptions, build_daemon
from nodewright.cli.settings.flags import SettingsSource
from nodewright.clusterstate.memory import Memory
from nodewright.model.duration import format_moment
from nodewright.model.errors import ConfigError
from nodewright.model.group import GroupRef, NodeGroup
from nodewright.snapshot.observation import GroupSeen

DAY = 86400.0
PATIENCE = 60.0


class Front(BaseHTTPRequestHandler):
    """Puts ``api`` on the wire."""

    api: ApiServer
    has_dates = True

    def send_response(self, code: int, message: str | None = None) -> None:
        """Send a date, or none."""
        super().send_response(code, message) if self.has_dates else self.send_response_only(code, message)

    def _answer(self) -> None:
        address = urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        request = Request(
            method=self.command,
            path=address.path,
            query=dict(parse_qsl(address.query)),
            body=body or None,
            content_type=self.headers.get("Content-Type") or "",
        )
        with suppress(ConnectionError):  # the daemon has ended
            self._watch(request) if "watch" in request.query else self._send(request)

    def _send(self, request: Request) -> None:
        try:
            status, said = 200, self.api.send(request)
        except ApiError as error:
            status, said = error.status, b"{}"
        self.send_response(status)
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def _watch(self, request: Request) -> None:
        self.send_response(200)
        self.end_headers()
        with self.api.follow(request) as lines:
            for line in lines:
                self.wfile.write(line + b"\n")

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _answer  # noqa: N815 - as the standard library calls them

    def log_message(self, *_: object) -> None:
        """Nothing is said of it."""


class WallClock(SystemClock):
    """Real time, which a test sets."""

    ahead = 0.0

    def now(self) -> float:
        return super().now() + self.ahead


class Log(io.BytesIO):
    """What the daemon logs; ``changed`` is notified of each write."""

    def __init__(self) -> None:
        super().__init__()
        self.changed = threading.Condition()

    def write(self, text: Any) -> int:
        with self.changed:
            written = super().write(text)
            self.changed.notify_all()
        return written

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.getvalue().splitlines()]

    def wait_for(self, **said: object) -> dict[str, Any]:
        """Return the first line with these values."""

        def find() -> dict[str, Any] | None:
            return next((line for line in self.lines() if said.items() <= line.items()), None)

        with self.changed:
            assert self.changed.wait_for(find, PATIENCE), self.getvalue().decode()
        found = find()
        assert found is not None
        return found


@pytest.fixture
def server() -> ApiServer:
    return ApiServer()


@pytest.fixture
def has_dates() -> bool:
    return True


@pytest.fixture
def address(server: ApiServer, has_dates: bool) -> Iterator[str]:
    handler = type("FrontOfOne", (Front,), {"api": server, "has_dates": has_dates})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as front:
        threading.Thread(target=front.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{front.server_port}"
        server.cut()
        front.shutdown()


GROUP = {"name": "a", "cpu": 1, "memory": "4Gi", "max_size": 3}


@contextmanager
def running(
    folder: Path,
    address: str,
    wall: WallClock,
    log: Log,
    level: str = "debug",
    more: Mapping[str, object] | None = None,
    **provider: object,
) -> Iterator[None]:
    """The daemon, from its first loop on."""
    with built(folder, address, wall, log, level, more, **provider) as app:
        thread = threading.Thread(target=app.run)
        thread.start()
        try:
            log.wait_for(message="loop")
            yield
        finally:
            app.stop()
            thread.join(PATIENCE)


def built(
    folder: Path,
    address: str,
    wall: WallClock,
    log: Log,
    level: str = "debug",
    more: Mapping[str, object] | None = None,
    **provider: object,
) -> DaemonApp:
    """The daemon before its start; ``provider`` are further settings of its one provider."""
    source = written(folder, address, level, more, **provider)
    return build_daemon(source, source.load().settings, DaemonOptions(wall=wall), log)


def written(
    folder: Path, address: str, level: str = "debug", more: Mapping[str, object] | None = None, **provider: object
) -> SettingsSource:
    """The files of settings and of the connection."""
    here = {"name": "here", "cluster": {"server": address}}
    kubeconfig = {
        "current-context": "here",
        "clusters": [here],
        "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
        "users": [{"name": "me", "user": {"token": "secret"}}],
    }
    settings = {
        "kubeconfig": str(folder / "kubeconfig"),
        "leader-elect": False,
        "scan-interval": "1s",
        "log-level": level,
        "address": "127.0.0.1:0",
        "debug-address": "127.0.0.1:0",
        "write-status-configmap": False,
        "providers": {"fake": {"options": {"groups": [GROUP]}, **provider}},
        **(more or {}),
    }
    (folder / "kubeconfig").write_text(json.dumps(kubeconfig))
    (folder / "config.yaml").write_text(json.dumps(settings))
    return SettingsSource({}, str(folder / "config.yaml"))


@pytest.mark.parametrize("has_dates", [True, False])
@pytest.mark.parametrize(
    ("jump", "way"),
    [(DAY, "forward by 24h"), pytest.param(-DAY, "back by 24h", marks=pytest.mark.slow)],
)
def test_a_jump_of_the_wall_clock_is_told_once(
    server: ApiServer, address: str, tmp_path: Path, jump: float, way: str, has_dates: bool
) -> None:
    """In an event and in the log; the loops go on as before. The event shows the API server's time, if that is known."""
    wall, log = WallClock(), Log()
    with running(tmp_path, address, wall, log):
        before = format_moment(wall.now() + jump)
        wall.ahead = jump
        told = log.wait_for(event="WallClockJumped")
        after = told["loop"]
        log.wait_for(message="loop", loop=f"{after.rpartition('-')[0]}-{int(after.rpartition('-')[2]) + 2}")
    assert f"This machine's clock jumped {way}. " in told["message"]
    assert ("the API server's time is used" in told["message"]) == has_dates
    assert told["time"] >= before
    assert [line["loop"] for line in log.lines() if line.get("event") == "WallClockJumped"] == [after]
    events = [held for path, held in server.objects.items() if "/events/" in path]
    (event,) = [held for held in events if held["reason"] == "WallClockJumped"]
    assert (event["type"], event["message"]) == ("Warning", told["message"])
    shown = SystemClock().now() + (0 if has_dates else jump)
    assert format_moment(shown - PATIENCE) <= event["lastTimestamp"] <= format_moment(shown + PATIENCE)


@pytest.mark.parametrize("has_dates", [True, False])
@pytest.mark.parametrize("ahead", [DAY, pytest.param(-DAY, marks=pytest.mark.slow)])
def test_a_daemon_whose_machine_has_a_wrong_clock_starts_with_the_api_servers_time(
    address: str, tmp_path: Path, ahead: float, has_dates: bool
) -> None:
    """The ids of loops begin with the time by which it decides. Without dates it has only the machine's time, and says so."""
    wall, log = WallClock(), Log()
    wall.ahead = ahead
    with running(tmp_path, address, wall, log):
        started = float(log.wait_for(message="loop")["loop"].rpartition("-")[0])
    wrong = started - SystemClock().now()
    assert wrong == pytest.approx(0.0 if has_dates else ahead, abs=PATIENCE)
    [told] = [line["message"] for line in log.lines() if line["message"].startswith("the clock: ")]
    apart = "ahead of the API server's, whose" if ahead > 0 else "behind the API server's, whose"
    assert (apart if has_dates else "have no Date header: this machine's clock is used, unchecked") in told


def test_a_loop_that_does_nothing_is_only_a_line_for_debugging(address: str, tmp_path: Path) -> None:
    """The first one shows that the daemon works. Jumps of the clock tell when further loops begin."""
    wall, log = WallClock(), Log()

    def find_jumps() -> list[dict[str, Any]]:
        return [line for line in log.lines() if line.get("event") == "WallClockJumped"]

    with running(tmp_path, address, wall, log, "info"):
        for ahead in (DAY, 0.0, DAY):
            known = len(find_jumps())
            wall.ahead = ahead
            with log.changed:
                while len(find_jumps()) == known:
                    assert log.changed.wait(PATIENCE)
    assert len({line["loop"] for line in find_jumps()}) == 3
    assert [line["level"] for line in log.lines() if line["message"] == "loop"] == ["info"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "budgets: --disruption-config-map-name: there is no ConfigMap budgets, so no "),
        ("disruption: [{nodes: 1}]", ""),
        ("disruption: [{nodes: 1, reason: [empty]}]", "disruption: ConfigMap budgets: "),
    ],
)
def test_disruption_budgets_are_read_from_a_config_map(
    server: ApiServer, address: str, tmp_path: Path, text: str | None, said: str
) -> None:
    if text is not None:
        metadata = {"name": "budgets", "namespace": "kube-system"}
        held = {"metadata": metadata, "data": {"disruption.yaml": text}}
        server.put("/api/v1/namespaces/kube-system/configmaps/budgets", held)
    log = Log()
    with running(tmp_path, address, WallClock(), log, more={"disruption-config-map-name": "budgets"}):
        pass
    told = [line["message"] for line in log.lines() if line["message"].startswith(("disruption: ", "budgets: "))]
    assert [line.startswith(said) for line in told] == [True] * bool(said)


BUDGETS = "/api/v1/namespaces/kube-system/configmaps/budgets"


def test_no_node_goes_while_a_config_map_has_no_good_text(server: ApiServer, address: str, tmp_path: Path) -> None:
    """It may hold a budget. An operator who deletes it lifts its budgets, also for the next start."""
    options = {"groups": [{**GROUP, "size": 1}]}
    at_once = {"scale-down-unneeded-time": "1s", "scale-down-delay-after-add": "0s"}
    more = {"disruption-config-map-name": "budgets", **at_once}
    conditions = [{"type": "Ready", "status": "True"}]
    allocatable = {"cpu": "1", "memory": "4Gi", "pods": "110"}
    node = {"spec": {"providerID": "fake:///a/a-0"}, "status": {"conditions": conditions, "allocatable": allocatable}}
    server.put("/api/v1/nodes/a-0", node)
    server.put(BUDGETS, {"data": {"disruption.yaml": "disruption: [{nodes: many}]"}})
    with running(tmp_path, address, WallClock(), log := Log(), more=more, options=options):
        first, number = log.wait_for(message="loop")["loop"].rsplit("-", 1)
        log.wait_for(message="loop", loop=f"{first}-{int(number) + 6}")
        assert [line for line in log.lines() if line.get("event") == "ScaleDownEmpty"] == []
        server.drop(BUDGETS)
        server.cut()  # the client gets no line of an answer without chunks before it ends
        log.wait_for(event="ScaleDownEmpty")
    told = [line["message"] for line in log.lines() if line["message"].startswith(("disruption: ", "budgets: "))]
    assert [line.partition(": ")[0] for line in told] == ["disruption", "budgets"]
    server.put("/api/v1/nodes/a-0", node)
    with running(tmp_path, address, WallClock(), log := Log(), more=more, options=options):
        log.wait_for(event="ScaleDownEmpty")


@pytest.mark.slow
def test_there_is_no_loop_while_a_config_map_cannot_be_read(server: ApiServer, address: str, tmp_path: Path) -> None:
    """That it does not exist is said by the API server, not by a read that fails."""
    path = BUDGETS.rpartition("/")[0]
    server.refusals[path] = ApiError("busy", status=503)
    more = {"disruption-config-map-name": "budgets"}
    with built(tmp_path, address, WallClock(), log := Log(), more=more) as app:
        thread = threading.Thread(target=app.run)
        thread.start()
        try:
            assert "ConfigMap/budgets" in log.wait_for(message="waiting for the API server")["missing"]
            assert [line for line in log.lines() if line["message"] == "loop"] == []
            del server.refusals[path]
            log.wait_for(message="loop")
        finally:
            app.stop()
            thread.join(PATIENCE)


def without(*names: str) -> dict[str, object]:
    """Options of a cloud with groups a, aa and c, which does not list those that are named."""
    groups = [{**GROUP, "name": name, "max_size": size} for name, size in (("a", 3), ("aa", 5), ("c", 2))]
    gone = [{"do": "vanish", "group": name, "start": 0, "gone_for": "1h"} for name in names]
    return {"groups": groups, "interference": gone}


def test_a_misspelt_group_ends_the_start(address: str, tmp_path: Path) -> None:
    with (
        built(tmp_path, address, WallClock(), log := Log(), nodes=["0:3:a", "0:5:aa"], options=without("aa")) as app,
        pytest.raises(
            ConfigError, match=r"^--nodes: provider fake lists no group aa, nor another .*; did you mean a\?$"
        ),
    ):
        app.run()
    assert [line for line in log.lines() if line["message"] == "loop"] == []


def test_a_group_that_is_gone_stops_neither_the_engine_nor_its_next_start(address: str, tmp_path: Path) -> None:
    wall = WallClock()
    with running(tmp_path, address, wall, Log(), nodes=["0:3:a", "0:5:aa"], options=without()):
        pass
    for _ in range(2):
        with running(tmp_path, address, wall, log := Log(), nodes=["0:3:a", "0:5:aa"], options=without("aa")):
            log.wait_for(message="--nodes of fake: not listed by the provider, so not scaled: aa")
    nodes, options = ["0:3:a", "0:5:aa", "0:2:c"], without("aa", "c")
    with (
        built(tmp_path, address, wall, Log(), nodes=nodes, options=options) as app,
        pytest.raises(ConfigError, match="lists no group c, "),
    ):
        app.run()


def test_a_dry_run_only_tells_of_a_misspelt_group(address: str, tmp_path: Path) -> None:
    """It saves no state, so it cannot know of groups that were deleted."""
    source = written(tmp_path, address, nodes=["0:3:a", "0:5:aa"], options=without("aa"))
    options, log = DaemonOptions(wall=WallClock(), dry_run=True, once=True), Log()
    with build_daemon(source, source.load().settings, options, log) as app:
        assert app.run() is not None
    [told] = [line for line in log.lines() if line["message"].startswith("--nodes: provider fake lists no group aa")]
    assert told["level"] == "warning"


def test_a_group_that_an_older_version_saved_stops_no_start(server: ApiServer, address: str, tmp_path: Path) -> None:
    """That version saved no names, only the groups that it saw."""
    seen = GroupSeen(ref=GroupRef("fake", "aa"), group=NodeGroup(id="aa", min_size=0, max_size=5), target=0)
    open_store(server).save_if_changed(Memory(last_known={seen.ref: seen}))
    with running(tmp_path, address, WallClock(), log := Log(), nodes=["0:3:a", "0:5:aa"], options=without("aa")):
        log.wait_for(message="--nodes of fake: not listed by the provider, so not scaled: aa")


def test_a_standby_takes_the_names_over_that_its_leader_saved(server: ApiServer, address: str, tmp_path: Path) -> None:
    """It compared --nodes with the cloud long before it leads."""
    lease, held = (
        "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/cluster-autoscaler",
        "2100-01-01T00:00:00.000000Z",
    )
    spec = {"holderIdentity": "other", "leaseDurationSeconds": 60, "acquireTime": held, "renewTime": held}
    server.put(lease, {"metadata": {"name": "cluster-autoscaler", "namespace": "kube-system"}, "spec": spec})
    more = {"leader-elect": True, "leader-elect-retry-period": "1s"}
    nodes = ["0:3:a", "0:5:aa"]
    store = open_store(server)
    store.save_if_changed(Memory(named=frozenset({GroupRef("fake", "aa")})))
    with built(tmp_path, address, WallClock(), log := Log(), more=more, nodes=nodes, options=without("aa")) as app:
        thread = threading.Thread(target=app.run)
        thread.start()
        log.wait_for(message="waiting to become the leader")
        names = frozenset(GroupRef("fake", name) for name in ("aa", "c", "z"))
        store.save_if_changed(Memory(named=names))
        server.drop(lease)
        log.wait_for(message="loop")
        app.stop()
        thread.join(PATIENCE)
    assert store.peek().named == {GroupRef("fake", "aa"), GroupRef("fake", "a")}


def open_store(server: ApiServer) -> ConfigMapStore:
    """The store of a process before the one under test."""
    store = ConfigMapStore(ConfigMaps(server, "kube-system"), lambda: None)
    store.load()
    return store


def ask(app: DaemonApp, path: str) -> str:
    line = HTTPConnection("127.0.0.1", app.ports["debug_address"], timeout=PATIENCE)
    with closing(line):
        line.request("GET", path)
        return line.getresponse().read().decode()


def test_the_console_shows_the_page_and_writes_nothing(server: ApiServer, address: str, tmp_path: Path) -> None:
    """Each loop plans the same machine anew, since none is bought. With the same cluster, the daemon itself does write."""
    requests = {"resources": {"requests": {"cpu": "500m"}}}
    spec = {"schedulerName": "default-scheduler", "containers": [{"name": "c", **requests}]}
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    pod = {
        "metadata": {"name": "<b>web</b>", "namespace": "default", "uid": "web"},
        "spec": spec,
        "status": {"phase": "Pending", "conditions": [condition]},
    }
    server.put("/api/v1/pods/web", pod)
    more = {"new-pod-scale-up-delay": "0s"}
    source = written(tmp_path, address, more=more)
    with build_daemon(source, source.load().settings, DaemonOptions(console=True), log := Log()) as app:
        assert set(app.ports) == {"debug_address"}
        thread = threading.Thread(target=app.run)
        thread.start()
        try:
            first = log.wait_for(message="loop")["loop"]
            log.wait_for(message="loop", loop=f"{first.rpartition('-')[0]}-{int(first.rpartition('-')[2]) + 1}")
            shown = {path: ask(app, path) for path in ("/", "/pods", "/groups")}
        finally:
            app.stop()
            thread.join(PATIENCE)
    assert ["This process only plans: it writes nothing." in text for text in shown.values()] == [True] * 3
    assert "gets new nodes" in shown["/pods"]
    assert "default/&lt;b&gt;web&lt;/b&gt;" in shown["/pods"]
    assert server.writes == []
    with running(tmp_path, address, WallClock(), log := Log(), more=more):
        log.wait_for(event="TriggeredScaleUp")
    assert server.writes
