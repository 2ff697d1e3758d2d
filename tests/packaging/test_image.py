"""The image's recipe, without Docker: what it runs leaves an environment in which nodewright works."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.packaging.conftest import ROOT, judge

RECIPE = (ROOT / "deploy" / "Dockerfile").read_text()


@pytest.mark.slow
def test_what_the_image_runs(tmp_path: Path) -> None:
    sources = re.findall(r"^COPY (?!--from)(\S+) ", RECIPE, re.MULTILINE)
    for source in sources:
        copy = shutil.copytree if (ROOT / source).is_dir() else shutil.copy
        copy(ROOT / source, tmp_path / source)
    build, compile_ours = re.findall(r"^RUN (.*?[^\\\n])$", RECIPE, re.MULTILINE | re.DOTALL)
    home = tmp_path / "opt"
    said = run(build, home, Path(sys.executable).parent)
    assert re.search(r"^ fake +nodewright-fake .* ok +$", said, re.MULTILINE)
    assert not (home / "bin" / "pip").exists()
    run(compile_ours, home, home / "bin")
    # The simulator is no part of an image for production.
    assert not list(home.glob("lib/python*/site-packages/nodewright_simulator*"))
    asked = f"{home}/bin/nodewright simulate scenario.yaml 2>&1 || test $? -eq 2"
    assert 'pip install "nodewright[simulator]"' in run(asked, home, home / "bin")
    _add_a_new_plugin(home)


def _add_a_new_plugin(home: Path) -> None:
    """Do what the recipe of a plugin from ``nodewright provider new`` does on top of this image."""
    source = home.parent / "source"
    run(f"{home}/bin/nodewright provider new blue-sky --folder {source}", home, home / "bin")
    recipe = (source / "Dockerfile").read_text()
    [step] = re.findall(r"^RUN (.*?[^\\\n])$", recipe, re.MULTILINE | re.DOTALL)
    [there] = re.findall(r"^COPY \. (\S+)$", recipe, re.MULTILINE)
    said = run(step.replace(there, str(source)), home, home / "bin")
    assert re.search(r"^ blue-sky +nodewright-blue-sky .* ok +$", said, re.MULTILINE)


def run(command: str, home: Path, first_on_path: Path) -> str:
    """What a step of the recipe says, with ``home`` in the place of the image's folder."""
    path = f"{first_on_path}{os.pathsep}{os.environ['PATH']}"
    ended = subprocess.run(
        ["sh", "-c", command.replace("\\\n", "").replace("/opt/nodewright", str(home))],
        cwd=home.parent,
        env={**os.environ, "PATH": path, "PROVIDERS": "fake", "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    judge(ended)
    return ended.stdout
