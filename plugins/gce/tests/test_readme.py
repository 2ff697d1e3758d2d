"""The README's tables and its policy are those of the code."""

import re
from pathlib import Path

from nodewright.spec import ProviderContext
from nodewright.testkit import FakeClock
from nodewright_gce.discovery import select
from nodewright_gce.doctor import minimal_policy
from nodewright_gce.options import Options, load_options
from readme_table import own_options, shown_options

README = (Path(__file__).parents[1] / "README.md").read_text()


def test_the_options_are_all_there_with_their_defaults() -> None:
    assert shown_options(README) == own_options(Options)


def test_the_policy_is_the_one_that_doctor_prints() -> None:
    [shown] = re.findall(r"```yaml\n(title.*?)```", README, re.DOTALL)
    printed = minimal_policy(
        load_options(ProviderContext(clock=FakeClock(), options={"region": "us-central1"})), select((), ())
    )
    assert printed.endswith(f"\n{shown}")
