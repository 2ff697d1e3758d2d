"""The README's tables and its policy are those of the code."""

import re
from pathlib import Path

from nodewright.spec import ProviderContext
from nodewright.testkit import FakeClock
from nodewright_azure.options import Method, Options
from nodewright_azure.provider import AzureProvider
from readme_table import own_options, shown_options

README = (Path(__file__).parents[1] / "README.md").read_text()


def test_the_options_are_all_there_with_their_defaults() -> None:
    table = README.partition("## Options")[2].partition("##")[0]
    assert shown_options(table) == own_options(Options)


def test_the_ways_to_log_in_are_all_there() -> None:
    table = README.partition("## Credentials")[2].partition("##")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) - {"credential"} == set(Method) - {Method.AUTO}


def test_the_policy_is_the_one_that_doctor_prints() -> None:
    [shown] = re.findall(r"```json\n(.*?)\n```", README, re.DOTALL)
    place = {"subscription_id": "<subscription>", "resource_group": "<group>", "credential": "chain"}
    assert shown == AzureProvider(ProviderContext(clock=FakeClock(), options=place)).minimal_policy()
