"""``nodewright record`` beside a live API server: what it sees, and that it writes nothing."""

import json
from pathlib import Path
from typing import Any

import pytest
from core.tests.kube.conftest import NOW, ApiServer

from nodewright.adapters.clocks import VirtualClock
from nodewright.model.decode import decode_objects
from nodewright.model.errors import ConfigError
from nodewright_simulator.cli.record import Saver, watch
from nodewright_simulator.recorded import RecordedTrace, UnfinishedTrace, finish_trace, load_trace
from nodewright_simulator.recording import Anonymiser, Recording, TraceMaker

PODS = "/api/v1/pods"
LONG = 1_000_000.0  # virtual seconds: the watch of another thread must have told by then


def node() -> dict[str, Any]:
    return {"metadata": {}, "status": {"allocatable": {"cpu": "4", "memory": "16Gi", "pods": "110"}}}


def pod(cpu: str) -> dict[str, Any]:
    return {"metadata": {}, "spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]}}


def make_trace(recording: Recording) -> RecordedTrace:
    return recording.make_trace(Anonymiser(None))


def test_pods_that_come_and_go_are_recorded_until_a_signal_comes(server: ApiServer) -> None:
    clock = VirtualClock(NOW)
    server.put("/api/v1/nodes/one", node())
    server.put(f"{PODS}/a", pod("1500m"))
    done: list[str] = []

    def tell(recording: Recording) -> None:
        ends = {held.name: held.ended for held in make_trace(recording).pods}
        if not done:
            assert ends == {"a": None}
            server.put(f"{PODS}/b", pod("2"))
            done.append("put b")
        elif done == ["put b"] and "b" in ends:
            server.drop(f"{PODS}/a")
            done.append("drop a")
        elif len(done) == 2 and ends["a"] is not None:
            raise KeyboardInterrupt

    recording = watch(server, clock, clock.now, NOW + LONG, tell)
    assert clock.now() < NOW + LONG
    a, b = make_trace(recording).pods
    assert (a.cpu_milli, b.cpu_milli, b.ended) == (1500, 2000, None)
    assert a.ended is not None
    assert [group["max_size"] for group in make_trace(recording).header.groups] == [1]
    assert server.writes == []


def test_a_pod_between_two_looks_is_recorded() -> None:
    """It came after a list and was gone before the next: only the watch told of it."""
    recording = Recording()
    recording.see((), (), NOW)
    short = decode_objects(
        json.dumps({"kind": "Pod", "apiVersion": "v1", **pod("1"), "metadata": {"name": "short"}}).encode(), "short"
    ).pods[0]
    recording.see((), (), NOW + 1, passed=(short,))
    assert [(held.cpu_milli, held.ended) for held in make_trace(recording).pods] == [(1000, 1.0)]


def test_the_recording_ends_after_its_time(server: ApiServer) -> None:
    clock = VirtualClock(NOW)
    server.put("/api/v1/nodes/one", node())
    recording = watch(server, clock, clock.now, NOW + 30.5)
    assert (recording.start, recording.end) == (NOW, NOW + 30.5)


def test_a_save_that_fails_is_told_and_the_next_one_holds_all(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    clock, path, recording = VirtualClock(NOW), tmp_path / "own.parquet", Recording()
    names = ("a", "b", "c")
    texts = [json.dumps({"kind": "Pod", "apiVersion": "v1", **pod("1"), "metadata": {"name": name}}) for name in names]
    a, b, c = (decode_objects(text.encode(), "pods").pods[0] for text in texts)
    parts, aside = tmp_path / "own.parquet.parts", tmp_path / "aside"
    with UnfinishedTrace(path) as target:
        saver = Saver(TraceMaker(recording, Anonymiser(None), None, None), target, clock.now)
        recording.see((), [a, b], clock.now())
        saver.see()
        parts.rename(aside)
        parts.write_text("no folder")
        for there in ([b], [b, c], [b]):
            clock.sleep(30)
            recording.see((), there, clock.now())
            saver.see()
        told = capfd.readouterr().err
        assert told.count("rest.parquet: cannot be written: ") == 1
        assert told.count("is saved again in a minute") == 1
        with pytest.raises(ConfigError, match="cannot be written"):
            saver.save()
        parts.unlink()
        aside.rename(parts)
        clock.sleep(60)
        saver.see()
    assert finish_trace(path)[1] == 3
    assert sorted(held.ended or 0.0 for held in load_trace(path).pods) == [0.0, 30.0, 90.0]


def test_a_first_save_that_fails_ends_the_recording(tmp_path: Path) -> None:
    recording = Recording()
    recording.see((), (), NOW)
    (tmp_path / "own.parquet.parts").write_text("no folder")
    target = UnfinishedTrace(tmp_path / "own.parquet")
    saver = Saver(TraceMaker(recording, Anonymiser(None), None, None), target, VirtualClock(NOW).now)
    with pytest.raises(ConfigError, match="cannot be written"):
        saver.see()


def test_it_is_saved_each_minute_and_a_signal_waits_for_a_save(server: ApiServer, tmp_path: Path) -> None:
    clock, path = VirtualClock(NOW), tmp_path / "own.parquet"
    server.put("/api/v1/nodes/one", node())
    server.put(f"{PODS}/a", pod("1500m"))
    recording = Recording()
    saves: list[float] = []

    class Target(UnfinishedTrace):
        """Is told to stop in the middle of its third save."""

        def save(self, gone: Any, rest: RecordedTrace) -> None:
            saves.append(clock.now() - NOW)
            if len(saves) == 3:
                saver.stop()
            super().save(gone, rest)

    saver = Saver(TraceMaker(recording, Anonymiser(None), None, None), Target(path), clock.now)
    watch(server, clock, clock.now, NOW + LONG, lambda _: saver.see(), recording)
    assert saves == [0.0, 60.0, 120.0]
    header, pods = finish_trace(path)
    assert (header.seconds, pods) == (120.0, 1)
    assert [held.name for held in load_trace(path).pods] == ["a"]
    with pytest.raises(KeyboardInterrupt):
        saver.stop()
