"""What the wheels hold."""

import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., str]

ROOT = Path(__file__).parents[2]
of_each = pytest.mark.parametrize(
    "name",
    [
        "nodewright",
        "nodewright_aws",
        "nodewright_azure",
        "nodewright_externalgrpc",
        "nodewright_fake",
        "nodewright_gce",
        "nodewright_simulator",
    ],
)


@of_each
def test_a_wheel_is_typed_and_licensed(wheels: Path, name: str) -> None:
    [wheel] = wheels.glob(f"{name}-0*.whl")
    with zipfile.ZipFile(wheel) as content:
        files = content.namelist()
        licence = next(file for file in files if file.endswith("licenses/LICENSE"))
        assert content.read(licence) == (ROOT / "LICENSE").read_bytes()
    assert f"{name}/py.typed" in files
    ours = [file for file in files if "/provider_template/" not in file]
    assert not [file for file in ours if "/tests/" in file or file.endswith(".pyc")]


def test_what_an_author_without_a_checkout_needs_is_in_the_wheel(wheels: Path) -> None:
    [wheel] = wheels.glob("nodewright-0*.whl")
    kit, chart = "nodewright/cli/provider_kit", ROOT / "deploy/chart"
    wanted = {f"{kit}/chart/{path.relative_to(chart)}": path for path in chart.rglob("*") if path.is_file()}
    guide = ROOT / "core/src" / kit / "docs"
    wanted |= {f"{kit}/docs/{path.relative_to(guide)}": path for path in guide.rglob("*") if path.is_file()}
    with zipfile.ZipFile(wheel) as content:
        held = {name: content.read(name) for name in content.namelist() if name.startswith(kit)}
    assert held == {name: path.read_bytes() for name, path in wanted.items()}


def test_an_index_would_take_them(wheels: Path, run: Run) -> None:
    """Metadata and long descriptions are valid, and no wheel holds what it should not."""
    run(sys.executable, "-m", "twine", "check", "--strict", *sorted(wheels.iterdir()))
    run(Path(sys.executable).parent / "check-wheel-contents", *sorted(wheels.glob("*.whl")))


def test_the_trace_of_the_demo_comes_along_with_its_licence(wheels: Path) -> None:
    [wheel] = wheels.glob("nodewright_simulator-0*.whl")
    with zipfile.ZipFile(wheel) as content:
        folders = {file.rpartition("/")[0] for file in content.namelist() if file.endswith((".csv", ".csv.gz"))}
        assert folders
        for folder in folders:
            said = [content.read(file).decode() for file in content.namelist() if file.startswith(f"{folder}/README")]
            assert any("Apache" in text for text in said), folder


@of_each
def test_a_source_distribution_builds_on_its_own(wheels: Path, name: str) -> None:
    [archive] = wheels.glob(f"{name}-0*.tar.gz")
    with tarfile.open(archive) as content:
        files = {Path(member.name).parts[1:] for member in content.getmembers()}
    assert {("LICENSE",), ("README.md",), ("pyproject.toml",)} <= files
