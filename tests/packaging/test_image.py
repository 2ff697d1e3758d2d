"""The image's recipe, without Docker: what it runs leaves an environment in which nodewright works."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.packaging.conftest import ROOT, judge

RECIPE = (ROOT / "deploy" / "Dockerfile").read_text()


def test_what_the_image_runs(tmp_path: Path) -> None:
    sources = re.findall(r"^COPY (?!--from)(\S+) ", RECIPE, re.MULTILINE)
    for source in sources:
        copy = shutil.copytree if (ROOT / source).is_dir() else shutil.copy
        copy(ROOT / source, tmp_path / source)
    [command] = re.findall(r"^RUN (.*?[^\\])$", RECIPE, re.MULTILINE | re.DOTALL)
    home = tmp_path / "opt"
    script = command.replace("\\\n", "").replace("/opt/nodewright", str(home))
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    ended = subprocess.run(
        ["sh", "-c", script],
        cwd=tmp_path,
        env={**os.environ, "PATH": path, "PROVIDERS": "fake", "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    judge(ended)
    assert re.search(r"^ fake +nodewright-fake .* ok +$", ended.stdout, re.MULTILINE)
    assert not (home / "bin" / "pip").exists()
