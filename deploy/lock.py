"""Write deploy/locked: for the image, every version with the hashes of its files, so that pip takes nothing else.

``make lock`` runs it with the Python of the image. Versions are those of constraints.txt. ``core.txt`` is for nodewright itself with the extras of the image,
``build.txt`` for the tools that build our wheels, and each other file for what a plugin needs beside core.txt.
"""

import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOCKED = ROOT / "deploy/locked"
EXTRAS = ("optimizer", "dra")
# No option that could name where the packages came from.
_UNNAMED = ("--no-header", "--no-annotate", "--no-emit-index-url", "--no-emit-trusted-host", "--no-emit-find-links")


def main() -> None:
    """Write the files that the command line names, or all. Needs pip-tools, and an index of packages."""
    LOCKED.mkdir(exist_ok=True)
    for name, wanted in requirements().items():
        if name in (sys.argv[1:] or requirements()):
            (LOCKED / f"{name}.txt").write_text(lock(wanted))


def requirements() -> dict[str, list[str]]:
    """Return what is locked by name of its file: requirements as our manifests have them, without our own distributions."""
    core = tomllib.loads((ROOT / "core/pyproject.toml").read_text())
    extras = core["project"]["optional-dependencies"]
    found = {
        "build": core["build-system"]["requires"],
        "core": [*core["project"]["dependencies"], *(one for extra in EXTRAS for one in extras[extra])],
    }
    for manifest in sorted((ROOT / "plugins").glob("*/pyproject.toml")):
        found[manifest.parent.name] = tomllib.loads(manifest.read_text())["project"]["dependencies"]
    return {name: [one for one in wanted if not one.startswith("nodewright")] for name, wanted in found.items()}


def lock(wanted: list[str]) -> str:
    """Return a file of requirements with hashes; raises CalledProcessError where the versions do not go together."""
    options = ("--quiet", "--generate-hashes", "--allow-unsafe", "--strip-extras", "--output-file=-")
    command = [sys.executable, "-m", "piptools", "compile", *options, *_UNNAMED, "-"]
    text = "\n".join([f"-c {ROOT / 'constraints.txt'}", *wanted])
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout.lstrip()


if __name__ == "__main__":
    main()
