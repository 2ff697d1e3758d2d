"""For every test: hypothesis allows an example any time, since how long one takes says more of the machine's load."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

settings.register_profile("nodewright", deadline=None)
settings.load_profile("nodewright")

# make axe brings it; it is under MPL-2.0, and no part of this repository.
AXE = Path(__file__).parent / "out/axe/node_modules/axe-core/axe.min.js"
# What is serious or critical, by rule, with the first elements.
LOOK = """async () => (await axe.run(document, {resultTypes: ['violations']})).violations
    .filter(found => ['serious', 'critical'].includes(found.impact))
    .map(found => `${found.id}: ${found.nodes.slice(0, 3).map(node => node.html.slice(0, 120) + ' ' + node.failureSummary).join(' | ')}`)"""
CHROMIUM = Path("/usr/bin/chromium")
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium without a window; in CI it must be there, elsewhere tests that need it are skipped."""
    if not CHROMIUM.exists():
        if os.environ.get("CI") == "true":
            pytest.fail(f"{CHROMIUM} is missing, and in CI it must be there")
        pytest.skip(f"{CHROMIUM} is not installed: no page was looked at in a browser")
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with sync_api.sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=str(CHROMIUM), args=ARGUMENTS)
        yield launched
        launched.close()


class Axe:
    """Looks at a page in the browser with axe-core, which finds faults of accessibility."""

    def find_faults(self, page: Any) -> list[str]:
        """Return what is serious on the page that is open."""
        if not page.evaluate("() => 'axe' in window"):
            page.evaluate(AXE.read_text())  # not by a script tag, which the policy of the daemon's pages forbids
        found: list[str] = page.evaluate(LOOK)
        return found

    def find_planted_fault(self, page: Any) -> list[str]:
        """Return the rules that an image without a text breaks, which is put into the page: axe does look."""
        page.evaluate(
            "() => { const image = document.createElement('img'); document.querySelector('h1').after(image) }"
        )
        return [found.partition(":")[0] for found in self.find_faults(page)]


@pytest.fixture(scope="session")
def axe() -> Axe:
    """Skip the test where axe-core is not; with ``AXE=require`` fail it."""
    if not AXE.exists():
        if os.environ.get("AXE") == "require":
            pytest.fail(f"{AXE} is missing: make axe")
        pytest.skip("axe-core is not here: make axe brings it")
    return Axe()
