"""What docs/reference/public.md promises to keep, where no other test holds it: the numbers of JSON documents and of saved state."""

import re
from pathlib import Path

from nodewright.adapters.store.codec import SCHEMA as STATE_SCHEMA
from nodewright.cli import explanation_view, plan_view, savings_view, status_view
from nodewright.cli.commands import config, provider, providers
from nodewright.spec import SPEC_VERSION

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/reference/public.md").read_text()


def test_the_numbers_of_what_is_public_are_those_on_the_page() -> None:
    """Who raises a number raises it on the page, too, and says in the changelog what readers must do."""
    commands = {"config": config, "explain": explanation_view, "plan": plan_view, "providers": providers}
    commands |= {"savings": savings_view, "status": status_view, "provider check": provider}
    known = {f"`{name}`": str(module.SCHEMA) for name, module in commands.items()}
    known |= {"saved state": str(STATE_SCHEMA), "contract of providers": ".".join(map(str, SPEC_VERSION))}
    assert dict(re.findall(r"^\| JSON of (`[\w -]+`) \| (\d+) \|$", PAGE, re.MULTILINE)) == {
        name: number for name, number in known.items() if name.startswith("`")
    }
    assert dict(re.findall(r"^\| (saved state|contract of providers) \| ([\d.]+) \|$", PAGE, re.MULTILINE)) == {
        name: number for name, number in known.items() if not name.startswith("`")
    }


def test_what_holds_each_promise_exists() -> None:
    named = re.findall(r"`((?:core|tests)/[\w/.-]+)`", PAGE)
    assert named
    assert [path for path in named if not (ROOT / path).exists()] == []
