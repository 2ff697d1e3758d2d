"""Constructors do no I/O: they read and write no file, call no server and start no thread."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_CONSTRUCTORS = {"__init__", "__new__", "__post_init__"}
# Functions that read, write, connect or start something, by their last name.
_IO = {
    *("open", "read", "read_bytes", "read_text", "write", "write_bytes", "write_text"),
    *("exists", "glob", "is_dir", "is_file", "iterdir", "mkdir", "stat", "touch", "unlink"),
    *("bind", "connect", "create_connection", "listen", "request", "send", "urlopen"),
    *("Popen", "load", "run", "save", "sleep", "start", "submit", "wait"),
}


def test_constructors_do_no_io() -> None:
    sources = [*ROOT.glob("core/src/**/*.py"), *ROOT.glob("simulator/src/**/*.py"), *ROOT.glob("plugins/*/src/**/*.py")]
    assert len(sources) > 200
    found = [f"{path.relative_to(ROOT)}: {call}" for path in sources for call in _calls(path.read_text())]
    assert not found


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("self._saved = store.load()", ["store.load()"]),
        ("threading.Thread(target=f).start()", ["threading.Thread(target=f).start()"]),
        ("self._text = open(path).read()", ["open(path).read()", "open(path)"]),
        ("self._path = path", []),
        # What a constructor defines runs later.
        ("self._read = lambda: path.read_text()", []),
    ],
)
def test_io_in_a_constructor_is_found(body: str, found: list[str]) -> None:
    text = f"class C:\n    def __init__(self):\n        {body}\n\n    def start(self):\n        self.file = open('x')\n"
    assert list(_calls(text)) == found


def _calls(text: str) -> Iterator[str]:
    """Yield the calls of I/O in the constructors of a source file."""
    classes = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ClassDef))
    for part in (part for found in classes for part in found.body):
        if isinstance(part, ast.FunctionDef) and part.name in _CONSTRUCTORS:
            yield from (ast.unparse(call) for call in _run_now(part) if _name(call.func) in _IO)


def _run_now(node: ast.AST) -> Iterator[ast.Call]:
    """Yield the calls below a node, without those of functions and classes that are defined there."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            continue
        if isinstance(child, ast.Call):
            yield child
        yield from _run_now(child)


def _name(function: ast.expr) -> str:
    return getattr(function, "attr", "") or getattr(function, "id", "")
