"""``nodewright record`` beside a real API server, with the rights of one who only looks; the trace simulates."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.e2e.cloud import RealClock
from tests.e2e.conftest import StartDaemon
from tests.e2e.control_plane import ControlPlane
from tests.e2e.daemon import run_command, wait_until
from tests.e2e.test_scale_up import PODS, count_running, deploy

from nodewright_simulator.recorded import load_trace


def begin_record(plane: ControlPlane, trace: Path) -> "subprocess.Popen[bytes]":
    """Begin a recording, and return once it has saved for the first time."""
    words = ["record", "--to", str(trace), "--kubeconfig", str(plane.kubeconfig("onlooker"))]
    process = subprocess.Popen([sys.executable, "-m", "nodewright", *words], env=dict(os.environ))
    wait_until((trace.parent / f"{trace.name}.parts" / "rest.parquet").exists, "first save")
    return process


def read(*words: object) -> Any:
    done = run_command(*map(str, words), "--output=json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_live_cluster_is_recorded_and_its_trace_runs(clean: ControlPlane, start: StartDaemon, tmp_path: Path) -> None:
    """Six pods come and go meanwhile, with the machines that the daemon buys for them; three stay."""
    trace = tmp_path / "own.parquet"
    start()
    deploy(clean, "stays", 3)
    wait_until(lambda: count_running(clean) == 3, "three running pods")
    recorder = begin_record(clean, trace)
    deploy(clean, "goes", 6)
    wait_until(lambda: count_running(clean) == 9, "nine running pods")
    clean.request("/apis/apps/v1/namespaces/default/deployments/goes", method="DELETE")
    wait_until(lambda: len(clean.request(PODS)["items"]) == 3, "end of the others")
    RealClock().sleep(3)  # until the watch has told of the last one
    recorder.send_signal(signal.SIGTERM)
    assert recorder.wait(60) == 0
    assert not (tmp_path / "own.parquet.parts").exists()
    assert b"goes" not in trace.read_bytes()
    pods = load_trace(trace).pods
    assert sorted(pod.ended is not None for pod in pods) == [False] * 3 + [True] * 6
    assert all(pod.started is not None and pod.cpu_milli == 1000 for pod in pods)
    found = read("simulate", trace)["pods"]
    assert (found["started"], found["pending"]) == (9, 0)


def test_what_a_killed_recording_had_saved_is_a_trace(clean: ControlPlane, tmp_path: Path) -> None:
    trace = tmp_path / "own.parquet"
    deploy(clean, "web", 2)
    wait_until(lambda: len(clean.request(PODS)["items"]) == 2, "two pods")
    recorder = begin_record(clean, trace)
    recorder.kill()
    recorder.wait()
    refused = run_command("record", "--to", str(trace), "--kubeconfig", str(clean.kubeconfig("onlooker")))
    assert refused.returncode == 2
    assert "holds a recording that was cut off" in refused.stderr
    assert read("record", "--finish", "--to", trace)["pods"] == 2
