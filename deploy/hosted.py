"""Write where the project is hosted into what is released: the packages' metadata, the chart, and its default values.

``python deploy/hosted.py OWNER/NAME``, a step of the release workflow in its own checkout. The tree itself names no host.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def main() -> None:
    owner, name = sys.argv[1].split("/")
    for manifest in (ROOT / "core", ROOT / "simulator", *(ROOT / "plugins").iterdir()):
        path = manifest / "pyproject.toml"
        if path.exists():
            path.write_text(path.read_text() + _package_urls(owner, name))
    chart = ROOT / "deploy/chart"
    _edit(chart / "Chart.yaml", {r"^annotations:\n": _chart_facts(owner, name)})
    for page in (ROOT / "core/src/nodewright/cli/provider_kit/docs").rglob("*.md"):
        page.write_text(_linked(page.read_text(), _home(owner, name)))
    registry = {r"^  repository: nodewright$": f"  repository: {_image(owner, name)}"}
    _edit(chart / "values.yaml", registry | {r'^  runbookUrl: ""$': f"  runbookUrl: {_site(owner, name)}runbooks/"})


def _package_urls(owner: str, name: str) -> str:
    home = _home(owner, name)
    return f"""
[project.urls]
Homepage = "{home}"
Documentation = "{_site(owner, name)}"
Source = "{home}"
Issues = "{home}/issues"
Changelog = "{home}/blob/main/CHANGELOG.md"
"""


def _chart_facts(owner: str, name: str) -> str:
    return f"""home: {_home(owner, name)}
sources: ["{_home(owner, name)}"]
annotations:
  artifacthub.io/images: |
    - name: nodewright
      image: {_image(owner, name)}:{_version()}
  artifacthub.io/links: |
    - name: Documentation
      url: {_site(owner, name)}
    - name: Issues
      url: {_home(owner, name)}/issues
"""


def _linked(page: str, home: str) -> str:
    """Return a page for authors with links to the pages of the repository that it names."""
    return re.sub(r"(`([\w./-]+)`)(?= in nodewright's repository)", rf"[\1]({home}/blob/main/\2)", page)


def _home(owner: str, name: str) -> str:
    return f"https://github.com/{owner}/{name}"


def _site(owner: str, name: str) -> str:
    """Return the address of the pages that the workflow Documentation publishes."""
    return f"https://{owner.lower()}.github.io/{name}/"


def _image(owner: str, name: str) -> str:
    return f"ghcr.io/{owner}/{name}".lower()


def _version() -> str:
    [version] = re.findall(r'^version = "(.+)"$', (ROOT / "core/pyproject.toml").read_text(), re.MULTILINE)
    return str(version)


def _edit(path: Path, changes: dict[str, str]) -> None:
    """Make each change exactly once; a place that is not there ends the release."""
    text = path.read_text()
    for pattern, new in changes.items():
        text, count = re.subn(pattern, new, text, flags=re.MULTILINE)
        if count != 1:
            raise SystemExit(f"{path}: {count} places of {pattern}")
    path.write_text(text)


if __name__ == "__main__":
    main()
