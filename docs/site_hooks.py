"""Hooks of MkDocs: pages that lie outside of docs/, links to sources, and the list of decisions in the nav."""

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
# Pages of the repository that are part of the site: where they lie, and where they are in the site.
ADDED = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "deploy/README.md": "deploy.md",
    "deploy/chart/README.md": "chart.md",
    "deploy/third-party-licences.md": "licences.md",
    "plugins/aws/README.md": "plugins/aws.md",
    "plugins/azure/README.md": "plugins/azure.md",
    "plugins/externalgrpc/README.md": "plugins/externalgrpc.md",
    "plugins/fake/README.md": "plugins/fake.md",
    "plugins/gce/README.md": "plugins/gce.md",
}
_LINK = re.compile(r"(?P<text>\[(?:[^\]\[]|\[[^\]]*\])*\])\((?P<target>[^)\s#]+)(?P<anchor>#[^)\s]*)?\)")
_FENCE = re.compile(r"(^```.*?^```)", re.MULTILINE | re.DOTALL)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put every decision of docs/adr into the nav, in its order."""
    config.nav = _filled(config.nav)
    return config


def _filled(nav: Any) -> Any:
    if isinstance(nav, list):
        return [_filled(entry) for entry in nav]
    if isinstance(nav, dict):
        return {title: _filled(entry) for title, entry in nav.items()}
    return list(_decisions()) if nav == "DECISIONS" else nav


def _decisions() -> Iterator[str]:
    yield "adr/README.md"
    yield from (f"adr/{path.name}" for path in sorted((ROOT / "docs/adr").glob("[0-9]*.md")))


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for source, uri in ADDED.items():
        files.append(File.generated(config, uri, abs_src_path=str(ROOT / source)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Return the page with links as the site has them; fenced code stays as it is."""
    uri = page.file.src_uri
    source = next((path for path, there in ADDED.items() if there == uri), f"docs/{uri}")
    repo = (config.repo_url or "").rstrip("/")

    def link(match: re.Match[str]) -> str:
        target = match["target"]
        if re.match(r"[a-z]+:", target):
            return match[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        there = ADDED.get(path, path.removeprefix("docs/") if path.startswith("docs/") else "")
        if _is_in_site(there, files):
            return f"{match['text']}({posixpath.relpath(there, posixpath.dirname(uri) or '.')}{match['anchor'] or ''})"
        if not (ROOT / path).exists():
            return match[0]  # MkDocs reports it
        if repo:
            return f"{match['text']}({repo}/blob/main/{path}{match['anchor'] or ''})"
        return _as_path(match["text"], path)

    parts = _FENCE.split(markdown)
    return "".join(part if part.startswith("```") else _LINK.sub(link, part) for part in parts)


def _is_in_site(uri: str, files: Files) -> bool:
    found = files.get_file_from_path(uri) if uri else None
    return found is not None and found.inclusion is not InclusionLevel.EXCLUDED


def _as_path(text: str, path: str) -> str:
    """Return a link to a source as text: sources are not part of the site."""
    shown = text[1:-1]
    return shown if path in shown else f"{shown} (`{path}`)"
