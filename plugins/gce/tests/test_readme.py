"""The README's tables and its policy are those of the code."""

import re
from pathlib import Path

import msgspec

from nodewright.model.duration import format_duration
from nodewright.spec import ProviderContext
from nodewright.spec.options import Seconds
from nodewright.testkit import FakeClock
from nodewright_gce.doctor import minimal_policy
from nodewright_gce.options import Options, load_options

README = (Path(__file__).parents[1] / "README.md").read_text()


def test_the_options_are_all_there_with_their_defaults() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (\S*) ?\|", README, re.MULTILINE)
    assert rows == [(field.name, _shown(field.default)) for field in msgspec.structs.fields(Options)]


def test_the_policy_is_the_one_that_doctor_prints() -> None:
    [shown] = re.findall(r"```yaml\n(title.*?)```", README, re.DOTALL)
    assert shown == minimal_policy(load_options(ProviderContext(clock=FakeClock(), options={"region": "us-central1"})))


def _shown(default: object) -> str:
    if isinstance(default, Seconds):
        return format_duration(default)
    if isinstance(default, bool):
        return str(default).lower()
    return str(default) if default and default is not msgspec.NODEFAULT else ""
