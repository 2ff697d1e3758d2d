"""Replays decisions of the real cluster-autoscaler: ``run.py [--why] FILE…``.

Every FILE holds one case a line (JSON lines, also gzipped; schema: docs of the cases). For each file and kind one
line ``<kind> <passed>/<total>`` is printed, then the names of the cases that fail; ``--why`` adds what differs.
Exit code 1: some case failed, or is of an unknown kind. 2: the input cannot be read.

A kind is a module ``kinds/<kind>.py`` (dashes are underscores there) with ``check(case) -> list[str]``: what differs, empty when nothing does.
What a kind needs besides is in ``support/``.
"""

import gzip
import json
import sys
import tomllib
import zlib
from collections.abc import Callable, Iterator, Mapping
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
Check = Callable[[Mapping[str, Any]], list[str]]


class InputError(Exception):
    """The cases cannot be read; the text says where and why."""


class Case(NamedTuple):
    """One observed decision."""

    name: str
    kind: str
    whole: Mapping[str, Any]


class Result(NamedTuple):
    """What came of the cases of one kind in one file; ``failures`` maps names to what differs."""

    kind: str
    total: int
    failures: dict[str, str]


def known_kinds() -> list[str]:
    """Kinds for which there is a check."""
    return sorted(path.stem.replace("_", "-") for path in (HERE / "kinds").glob("[a-z]*.py"))


def argued_cases() -> dict[str, str]:
    """Cases believed to be wrong, each with the reason; they fail all the same."""
    argued: dict[str, str] = tomllib.loads((HERE / "argued.toml").read_text())
    return argued


def read_cases(path: Path) -> list[Case]:
    """All cases of a file; raises InputError."""
    return [_parse(line, f"{path}:{number}") for number, line in _lines(path) if line.strip()]


def judge(cases: list[Case]) -> list[Result]:
    """Run the cases, kind by kind, in order of appearance."""
    results = []
    for kind in dict.fromkeys(case.kind for case in cases):
        mine = [case for case in cases if case.kind == kind]
        check = _load_check(kind) if kind in known_kinds() else None
        outcomes = ((case.name, _judge_case(case, check)) for case in mine)
        failures = {name: "; ".join(differences) for name, differences in outcomes if differences}
        results.append(Result(kind, len(mine), failures))
    return results


def main(arguments: list[str]) -> int:
    why = "--why" in arguments
    files = [Path(argument) for argument in arguments if argument != "--why"]
    if not files:
        print("usage: run.py [--why] FILE…", file=sys.stderr)
        return 2
    try:
        results = [result for path in files for result in judge(read_cases(path))]
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    for result in results:
        _show(result, why=why)
    return 1 if any(result.failures for result in results) else 0


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    opened = gzip.open if path.suffix == ".gz" else open
    try:
        with opened(path, "rt", encoding="utf-8") as file:
            yield from enumerate(file, start=1)
    except (OSError, EOFError, UnicodeDecodeError, zlib.error) as error:
        raise InputError(f"{path}: cannot be read: {error}") from error


def _parse(line: str, where: str) -> Case:
    try:
        case = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where}: not JSON: {error}") from error
    if not isinstance(case, dict) or not isinstance(case.get("input"), dict) or "expected" not in case:
        raise InputError(f"{where}: not a case, which has name, kind, input and expected")
    name, kind = case.get("name"), case.get("kind")
    if not isinstance(name, str) or not isinstance(kind, str):
        raise InputError(f"{where}: not a case: name and kind must be texts")
    return Case(name, kind, case)


def _load_check(kind: str) -> Check:
    support = str(HERE / "support")
    if support not in sys.path:
        sys.path.append(support)
    spec = spec_from_file_location(f"conformance_{kind}", HERE / "kinds" / f"{kind.replace('-', '_')}.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    check: Check = module.check
    return check


def _judge_case(case: Case, check: Check | None) -> list[str]:
    if check is None:
        return [f"unknown kind {case.kind!r}"]
    try:
        return check(case.whole)
    except Exception as error:  # noqa: BLE001 - a case that breaks the check is a case that fails
        return [f"{type(error).__name__}: {error}"]


def _show(result: Result, *, why: bool) -> None:
    print(f"{result.kind} {result.total - len(result.failures)}/{result.total}")
    if result.kind not in known_kinds():
        print(f"unknown kind {result.kind!r}: known are {', '.join(known_kinds())}")
    for name, difference in result.failures.items():
        print(f"{name}: {difference}" if why else name)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
