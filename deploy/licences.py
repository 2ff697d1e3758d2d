"""Write deploy/third-party-licences.md: each package of deploy/locked with its version and the licence that its metadata names.

``make licences`` runs it with the packages of .venv. A package that is not installed there keeps the row it has.
"""

import re
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "deploy/third-party-licences.md"
_PIN = re.compile(r"^([\w.-]+)==(\S+)", re.MULTILINE)
_ROW = re.compile(r"^\| `([\w.-]+)` \| (\S+) \| (.+) \|$", re.MULTILINE)
_HEAD = """# Licences of what the image contains

`make licences` writes this page from the metadata of the packages in `deploy/locked`; a test compares names and versions. The image
also contains its base, Python and Debian, with the licences in `/usr/share/doc`. `build.txt` is used to build and is not in the image.
The package `nodewright` holds two files of others for the page of the daemon, each with its licence beside it: htmx 4.0.1 (0BSD) and
uPlot 1.6.32 (MIT).

| package | version | licence |
|---|---|---|
"""


def main() -> None:
    known = (
        {name: (version, licence) for name, version, licence in _ROW.findall(PAGE.read_text())} if PAGE.exists() else {}
    )
    rows = []
    for name, version in sorted(pins().items()):
        found = licence_of(name) or (known[name][1] if known.get(name, ("",))[0] == version else "")
        rows.append(f"| `{name}` | {version} | {found or 'not named in its metadata'} |\n")
    PAGE.write_text(_HEAD + "".join(rows))


def pins() -> dict[str, str]:
    """Return the version of each package of the image."""
    files = [path for path in (ROOT / "deploy/locked").glob("*.txt") if path.name != "build.txt"]
    return {name: version for path in files for name, version in _PIN.findall(path.read_text())}


def licence_of(name: str) -> str:
    """Return what a package says of its licence, in one line; empty if it is not installed or says nothing."""
    try:
        told = metadata(name)
    except PackageNotFoundError:
        return ""
    classified = [one.rpartition(" :: ")[2] for one in told.get_all("Classifier") or () if one.startswith("License")]
    expression, stated = ((told.get_all(key) or [""])[0].strip() for key in ("License-Expression", "License"))
    if expression:
        return str(expression)
    return stated if stated and "\n" not in stated and len(stated) < 80 else ", ".join(classified)


if __name__ == "__main__":
    main()
