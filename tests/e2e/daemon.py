"""``nodewright run`` as a process of its own."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

PLUGIN = Path(__file__).parent / "plugin"
_LOOK_EVERY = 0.05
# For what should come at once, or in some seconds: on a machine that is busy with much else it takes longer.
PATIENCE = 240.0


def wait_until(probe: Callable[[], object], what: str, seconds: float = PATIENCE) -> None:
    """Until ``probe`` answers something true: the real control plane runs in real time."""
    deadline = time.monotonic() + seconds
    while not probe():
        assert time.monotonic() < deadline, f"within {seconds:g} s there was no {what}"
        threading.Event().wait(_LOOK_EVERY)


def run_command(*words: str, environ: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """A command of nodewright, to its end; ``environ`` is added to ours."""
    command, env = [sys.executable, "-m", "nodewright", *words], {**os.environ, **(environ or {})}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=env)


class DaemonProcess:
    """The daemon with the shared cloud as its only provider; it loops every second. ``settings`` stand in its file.

    Without ``kubeconfig`` it finds its cluster by itself; ``environ`` is added to ours.
    """

    def __init__(
        self,
        folder: Path,
        kubeconfig: Path | None,
        cloud: Path,
        flags: Sequence[str] = (),
        settings: Mapping[str, Any] | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self._config = config = folder / "config.yaml"
        self._providers = {"shared": {"options": {"address": str(cloud)}, "call-timeout": "5s"}}
        self.write_settings(settings or {})
        self._log = folder / "log.jsonl"
        usual = ["--v=4", "--scan-interval=1s", "--address=127.0.0.1:0", "--debug-address=127.0.0.1:0"]
        command = [sys.executable, "-m", "nodewright", "run", "--config", str(config)]
        command += ["--kubeconfig", str(kubeconfig)] if kubeconfig is not None else []
        path = os.pathsep.join([str(PLUGIN), os.environ.get("PYTHONPATH", "")])
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [*command, *usual, *flags],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, "PYTHONPATH": path, **(environ or {})},
            )

    def write_settings(self, settings: Mapping[str, Any]) -> None:
        """Into its file, which it watches."""
        self._config.write_text(yaml.safe_dump({"providers": self._providers, **settings}))

    def lines(self) -> list[dict[str, Any]]:
        """What it has logged."""
        found = []
        for line in self._log.read_text().splitlines():
            try:
                found.append(json.loads(line))
            except json.JSONDecodeError:
                found.append({"message": line})
        return found

    def says(self, message: str) -> list[dict[str, Any]]:
        return [line for line in self.lines() if message in str(line.get("message"))]

    def page(self, server: str, path: str) -> str:
        """A page of one of its servers, ``address`` or ``debug_address``."""
        [told] = self.says("starting")
        with urllib.request.urlopen(f"http://127.0.0.1:{told['ports'][server]}{path}", timeout=PATIENCE) as reply:
            text: str = reply.read().decode()
        return text

    def freeze(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def end(self, seconds: float = PATIENCE) -> int:
        """Ask it to stop; answers its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(seconds)

    def wait(self, seconds: float = PATIENCE) -> int:
        return self.process.wait(seconds)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
