"""Every observed decision is repeated, and the runner says so in the way it promises."""

import gzip
import json
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

HERE = Path(__file__).resolve().parent


def _load_runner() -> ModuleType:
    spec = spec_from_file_location("conformance_run", HERE / "run.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


runner = _load_runner()
# A vendor's cases are next to its plugin.
FOUND = [*sorted((HERE / "cases").iterdir()), *sorted(HERE.parents[1].glob("plugins/*/tests/data/*.jsonl.gz"))]
FILES = [path for path in FOUND if path.name.partition(".")[0] in runner.known_kinds()]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name.removesuffix(".jsonl.gz"))
def test_every_case_but_the_argued_ones(path: Path) -> None:
    argued, cases = runner.argued_cases(), runner.read_cases(path)
    for result in runner.judge(cases):
        mine = {name for name in argued if name.startswith(f"{result.kind}/")}
        assert {name: why for name, why in result.failures.items() if name not in argued} == {}
        assert mine - set(result.failures) == set(), "argued to be wrong, yet they pass"


def test_there_are_cases_of_every_kind() -> None:
    assert {path.name.partition(".")[0] for path in FILES} == set(runner.known_kinds())


def _run(*arguments: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, str(HERE / "run.py"), *arguments], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout, done.stderr


def _case(name: str, fits: bool, kind: str = "predicates") -> str:
    node = {"metadata": {"name": "n"}, "status": {"allocatable": {"pods": "1"}}}
    given = {"nodes": [node], "pod": {"metadata": {"name": "p", "namespace": "default"}, "spec": {}}}
    return json.dumps({"name": name, "kind": kind, "input": given, "expected": {"results": {"n": {"fits": fits}}}})


def test_passing_cases(tmp_path: Path) -> None:
    file = tmp_path / "cases.jsonl.gz"
    file.write_bytes(gzip.compress(f"{_case('predicates/a', fits=True)}\n\n".encode()))
    assert _run(str(file)) == (0, "predicates 1/1\n", "")


def test_failing_cases_are_named(tmp_path: Path) -> None:
    file = tmp_path / "cases.jsonl"
    file.write_text("\n".join([_case("predicates/a", fits=True), _case("predicates/b", fits=False)]))
    assert _run(str(file)) == (1, "predicates 1/2\npredicates/b\n", "")
    assert "observed" in _run("--why", str(file))[1]


def test_a_loop_that_differs_is_told(tmp_path: Path) -> None:
    lines = gzip.decompress((HERE / "cases" / "runonce.jsonl.gz").read_bytes()).splitlines()
    case = next(case for case in map(json.loads, lines) if case["name"].startswith("runonce/up/"))
    case["expected"]["loops"][0]["targetSizes"] = {"ng1": 99}
    file = tmp_path / "cases.jsonl"
    file.write_text(json.dumps(case))
    code, out, _ = _run("--why", str(file))
    assert code == 1
    assert "loop 0: targetSizes: " in out


def test_unknown_kinds_are_named_and_fail(tmp_path: Path) -> None:
    file = tmp_path / "cases.jsonl"
    file.write_text(_case("weather/a", fits=True, kind="weather"))
    code, out, _ = _run(str(file))
    assert code == 1
    assert out.startswith("weather 0/1\nunknown kind 'weather'")


def test_a_case_that_breaks_the_check_fails(tmp_path: Path) -> None:
    file = tmp_path / "cases.jsonl"
    file.write_text(json.dumps({"name": "predicates/x", "kind": "predicates", "input": {}, "expected": {}}))
    assert _run(str(file))[:2] == (1, "predicates 0/1\npredicates/x\n")


@pytest.mark.parametrize(
    "content",
    [b"{", b"[]", b'{"name": 1}', b"\xff\xfe", b"[" * 100_000, b"\x1f\x8b not gzip"],
    ids=lambda content: repr(content[:12]),
)
def test_unreadable_input_takes_one_sentence(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / ("cases.jsonl.gz" if content.startswith(b"\x1f") else "cases.jsonl")
    file.write_bytes(content)
    code, out, err = _run(str(file))
    assert (code, out) == (2, "")
    assert str(file) in err
    assert err.count("\n") == 1


def test_a_missing_file_takes_one_sentence(tmp_path: Path) -> None:
    code, _, err = _run(str(tmp_path / "gone.jsonl"))
    assert (code, err.count("\n")) == (2, 1)
    assert _run()[0] == 2
