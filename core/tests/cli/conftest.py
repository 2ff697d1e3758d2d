"""Runs the command line in this process, and writes dumps to run it on."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from click.testing import CliRunner

from nodewright.cli.main import run
from nodewright.model.meta import Object
from nodewright.model.objects import KINDS


class WriteOutcome(NamedTuple):
    """One finished command."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(self.out)


Nodewright = Callable[..., WriteOutcome]
WriteDump = Callable[..., str]


@pytest.fixture
def nodewright() -> Nodewright:
    """``nodewright("plan", "dump.json")`` as main() runs it, on a wide screen."""

    def call(*args: object) -> WriteOutcome:
        with CliRunner().isolation(env={"COLUMNS": "200"}) as (out, err, _):
            code = run([str(arg) for arg in args])
            return WriteOutcome(code, out.getvalue().decode(), err.getvalue().decode())

    return call


@pytest.fixture
def write_dump(tmp_path: Path) -> WriteDump:
    """Writes objects as kubectl's List; answers the path."""

    def write(*objects: Object) -> str:
        path = tmp_path / "dump.json"
        items = [_as_kubectl_prints(thing) for thing in objects]
        path.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": items}))
        return str(path)

    return write


def _as_kubectl_prints(thing: Object) -> dict[str, Any]:
    kind = next(kind for kind in KINDS.values() if kind.type is type(thing))
    version = f"{kind.api_group}/v1".lstrip("/")
    return {"kind": kind.name, "apiVersion": version, **msgspec.to_builtins(thing, enc_hook=str)}
