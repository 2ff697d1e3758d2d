"""What the image installs: every version is that of constraints.txt, has a hash, and its licence is listed; no file names a host."""

import re
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "deploy/locked").glob("*.txt"))


def load(name: str) -> Any:
    spec = spec_from_file_location(name, ROOT / f"deploy/{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def pins(text: str) -> dict[str, str]:
    return {
        canonicalize_name(name): version for name, version in re.findall(r"^([\w.-]+)==([^\s\\]+)", text, re.MULTILINE)
    }


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.stem))
def test_each_version_is_pinned_as_in_the_constraints_and_has_a_hash(path: Path) -> None:
    text = path.read_text()
    wanted = pins((ROOT / "constraints.txt").read_text())
    found = pins(text)
    assert found
    assert {name: wanted.get(name) for name in found} == found, "run: make lock"
    entries = re.split(r"^(?=[\w.-]+==)", text, flags=re.MULTILINE)[1:]
    assert [entry.split(" ")[0] for entry in entries if "--hash=sha256:" not in entry] == []


def test_each_requirement_of_a_manifest_is_locked() -> None:
    wanted = load("lock").requirements()
    assert sorted(wanted) == [path.stem for path in FILES]
    for name, requirements in wanted.items():
        found = pins((ROOT / f"deploy/locked/{name}.txt").read_text())
        for one in map(Requirement, requirements):
            assert one.specifier.contains(found[canonicalize_name(one.name)]), f"{name}: {one}: run: make lock"


def test_no_file_says_where_packages_come_from() -> None:
    for path in (*FILES, ROOT / "constraints.txt"):
        assert re.findall(r"://|^ *--(?!hash).*", path.read_text(), re.MULTILINE) == [], path.name


def test_each_package_of_the_image_is_listed_with_its_licence() -> None:
    rows = re.findall(
        r"^\| `([\w.-]+)` \| (\S+) \| (.+) \|$", (ROOT / "deploy/third-party-licences.md").read_text(), re.MULTILINE
    )
    assert {name: version for name, version, _ in rows} == load("licences").pins(), "run: make licences"
    assert [name for name, _, licence in rows if licence == "not named in its metadata"] == []
