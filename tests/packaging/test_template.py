"""``nodewright provider new``: what it makes is the guide's example, passes its tests, and can be installed."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ACME = ROOT / "docs" / "examples" / "acme"

Finished = subprocess.CompletedProcess[str]
Render = Callable[..., Path]


def python(*args: object, path: Path, cwd: Path) -> Finished:
    environment = {**os.environ, "PYTHONPATH": str(path)}
    command = [sys.executable, "-m", *(str(arg) for arg in args)]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture
def render(tmp_path: Path) -> Render:
    """``render("acme")``: the folder that the command makes."""

    def new(name: str, *options: str) -> Path:
        made = tmp_path / "made"
        done = python("nodewright", "provider", "new", name, *options, "--folder", made, path=tmp_path, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        return made

    return new


def test_the_guides_example_is_what_the_template_makes(render: Render) -> None:
    made = files(render("acme"))
    guide, chart = (
        {name: made.pop(name) for name in list(made) if name.startswith(part)} for part in ("docs/", "chart/")
    )
    assert made == files(ACME)
    assert set(guide) == {
        "docs/plugin-guide.md",
        "docs/plugin-hooks.md",
        "docs/commands.md",
        "docs/scenarios/README.md",
        "docs/scenarios/stock-out-detected.yaml",
        "docs/schemas/scenario.schema.json",
    }
    assert chart == {f"chart/{name}": text for name, text in files(ROOT / "deploy/chart").items()}


def test_every_link_of_a_new_package_leads_to_a_file_of_it(render: Render) -> None:
    made = render("acme")
    pages = [path for path in made.rglob("*.md") if "__pycache__" not in path.parts]
    links = [(page, link) for page in pages for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text())]
    assert {page.relative_to(made).parts[0] for page in pages} >= {"README.md", "docs", "chart"}
    inside = [(page, link) for page, link in links if not re.match(r"[a-z]+:|#", link)]
    assert len(inside) > 2
    for page, link in inside:
        found = (page.parent / link.partition("#")[0]).resolve()
        assert found.is_file(), f"{page.relative_to(made)}: {link}"
        assert found.is_relative_to(made.resolve())


def test_a_new_plugin_passes_its_tests_at_once(render: Render) -> None:
    made = render("blue-sky", "--title", "Blue Sky")
    done = python(
        "pytest", "-q", "-p", "no:cacheprovider", "-c", "pyproject.toml", "tests", path=made / "src", cwd=made
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "TestBlueSky: " in done.stdout
    assert " 0 failed" in done.stdout


def test_a_new_plugin_can_be_installed_and_is_listed(render: Render, tmp_path: Path) -> None:
    made, site = render("blue-sky", "--title", "Blue Sky"), tmp_path / "site"
    install = ("install", "--no-deps", "--no-build-isolation", "--no-index", "--target", site, made)
    done = python("pip", *install, path=tmp_path, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    listed = python("nodewright", "providers", "--output", "json", path=site, cwd=tmp_path)
    found = {plugin["name"]: plugin for plugin in json.loads(listed.stdout)["providers"]}
    assert (found["blue-sky"]["distribution"], found["blue-sky"]["problem"]) == ("nodewright-blue-sky", None)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("Acme",), "NAME: Acme must be lower case letters, digits and dashes, and begin with a letter"),
        (("two words",), "NAME: two words must be"),
        (("",), "must be lower case letters"),
        (("../up",), "NAME: ../up must be"),
        (("fake",), "NAME: the package nodewright-fake offers a provider fake already"),
        (("acme", "--title", 'The "best"'), "--title: "),
        (("acme", "--title", " "), "--title: "),
        (("acme", "--title", "A\\qB"), "--title: "),
        (("acme", "--folder", "full"), "--folder: full is not empty"),
        (("acme", "--folder", "full/file"), "full/file"),
    ],
)
def test_bad_input_is_refused_and_nothing_is_written(tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    done = python("nodewright", "provider", "new", *arguments, path=tmp_path, cwd=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert files(tmp_path) == {"full/file": ""}


def files(folder: Path) -> dict[str, str]:
    paths = (path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {str(path.relative_to(folder)): path.read_text() for path in paths}
