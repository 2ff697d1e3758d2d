"""moto's server as a separate process."""

import os
import socket
import subprocess
import sys
import threading
from types import TracebackType
from typing import Self


class MotoServer:
    """Starts with the ``with`` block and ends with it."""

    def __init__(self) -> None:
        self.port = _free_port()
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        environment = {**os.environ, "MOTO_EC2_LOAD_DEFAULT_AMIS": "false"}
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)]
        self._process = subprocess.Popen(
            command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, bufsize=0
        )
        self._wait()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.communicate(timeout=20)

    def _wait(self) -> None:
        """Until it says that it runs: werkzeug announces the address on stderr once the socket listens."""
        assert self._process is not None
        assert self._process.stderr is not None
        said = b""
        while b"Running on" not in said:
            line = self._process.stderr.readline()
            if not line:
                raise RuntimeError(f"moto's server did not start: {said.decode(errors='replace')}")
            said += line
        _drain(self._process.stderr.fileno())


def _drain(descriptor: int) -> None:
    """Read on in the background, so that the server never waits for a reader of its log."""

    def read() -> None:
        try:
            while os.read(descriptor, 65536):
                pass
        except OSError:
            return

    threading.Thread(target=read, daemon=True).start()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
