"""A process that has imported the command, and forks for each call: the imports take longer than most commands.

Every call has a process of its own all the same, with its own files, environment and exit code. What depends on how
Python starts needs a new interpreter. ``Forks`` is the tests' side; this file, run as a script, is the other.
"""

import gc
import importlib
import json
import os
import pkgutil
import runpy
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

SECONDS = 120
_ROOMS = ("nodewright.cli", "nodewright_simulator", "nodewright_fake")


class Forks:
    """Ends with the ``with`` block."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = dict(environment)
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        command = [sys.executable, __file__]
        self._process = subprocess.Popen(
            command, env=self._environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self._process.communicate(timeout=SECONDS)

    def run(
        self, args: Sequence[str], *, stdin: str, env: Mapping[str, str], cwd: Path, folder: Path
    ) -> "subprocess.CompletedProcess[str]":
        """Run ``python -m nodewright`` with these arguments; ``folder`` is for what it reads and prints.

        Raises:
            subprocess.TimeoutExpired: it took too long and was killed.
        """
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        names = [folder / name for name in ("stdin", "stdout", "stderr")]
        names[0].write_text(stdin, encoding="utf-8")
        call = {"args": list(args), "env": dict(env), "cwd": str(cwd), "files": [str(name) for name in names]}
        self._process.stdin.write(f"{json.dumps(call)}\n")
        self._process.stdin.flush()
        code = int(self._process.stdout.readline())
        if code == -signal.SIGALRM:
            raise subprocess.TimeoutExpired(list(args), SECONDS)
        stdout, stderr = (name.read_text(encoding="utf-8") for name in names[1:])
        return subprocess.CompletedProcess(list(args), code, stdout, stderr)


def _import_all() -> None:
    for room in _ROOMS:
        package = importlib.import_module(room)
        for module in pkgutil.walk_packages(package.__path__, f"{room}."):
            if "template" not in module.name:  # texts of a package that is made from them
                importlib.import_module(module.name)
    gc.collect()
    gc.freeze()


def _become(call: Mapping[str, Any]) -> None:
    """Make this process that of the command, as a new interpreter would be."""
    signal.alarm(SECONDS)
    for descriptor, name in enumerate(call["files"]):
        opened = os.open(name, os.O_RDONLY if not descriptor else os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(opened, descriptor)
        os.close(opened)
    os.environ.clear()
    os.environ.update(call["env"])
    os.chdir(call["cwd"])
    # As with ``python -m``: the working directory first, then PYTHONPATH.
    sys.path[:1] = [call["cwd"], *call["env"].get("PYTHONPATH", "").split(os.pathsep)]
    importlib.invalidate_caches()
    sys.argv = ["-m", *call["args"]]


def _serve() -> Mapping[str, Any] | None:
    """Answer calls with exit codes until there are no more; in the process of a call, return the call."""
    with os.fdopen(os.dup(0), encoding="utf-8") as calls, os.fdopen(os.dup(1), "w", encoding="utf-8") as codes:
        for line in calls:
            child = os.fork()
            if not child:
                return dict(json.loads(line))
            _, status = os.waitpid(child, 0)
            codes.write(f"{os.waitstatus_to_exitcode(status)}\n")
            codes.flush()
    return None


if __name__ == "__main__":
    _import_all()
    asked = _serve()
    if asked is not None:
        _become(asked)
        runpy.run_module("nodewright", run_name="__main__", alter_sys=True)
