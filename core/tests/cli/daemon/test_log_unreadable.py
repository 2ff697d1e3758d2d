"""Which providers and groups fail is a line of the log when it begins."""

import io
from dataclasses import replace
from random import Random

import msgspec
import pytest

from nodewright import spec
from nodewright.adapters.clocks import VirtualClock
from nodewright.adapters.logs import ConditionLog, DaemonLog, without_numbers
from nodewright.adapters.provider import InlineRunner, connect_provider
from nodewright.cli.daemon.app import log_unlisted, log_unreadable
from nodewright.model.group import GroupRef, NodeGroup
from nodewright.snapshot.observation import GroupSeen, Observation, ProviderSeen
from nodewright.snapshot.snapshot import Snapshot
from nodewright_fake import FakeProvider

A, B = GroupRef("cloud", "a"), GroupRef("cloud", "b")


def seen(provider: str = "", **groups: str) -> Observation:
    return Observation(
        now=1.0,
        snapshot=Snapshot(),
        providers={"cloud": ProviderSeen(name="cloud", problem=provider)},
        groups={
            ref: GroupSeen(
                ref=ref, group=NodeGroup(id=ref.group_id, min_size=0, max_size=1), problem=groups.get(ref.group_id, "")
            )
            for ref in (A, B)
        },
    )


def test_a_price_that_cannot_be_used_is_told_once() -> None:
    stream = io.BytesIO()
    lasting = ConditionLog(DaemonLog(stream, VirtualClock(1_800_000_000.0)))
    observation = seen()
    priced = replace(observation.groups[A], price_problem="it is in EUR")
    for groups in (observation.groups, {A: priced}, {A: priced}):
        log_unreadable(lasting, replace(observation, groups=groups))
    told = [msgspec.json.decode(line)["message"] for line in stream.getvalue().splitlines()]
    assert told == ["price of group cloud/a: it is in EUR"]


def test_each_is_told_once_and_a_provider_speaks_for_its_groups() -> None:
    stream = io.BytesIO()
    lasting = ConditionLog(DaemonLog(stream, VirtualClock(1_800_000_000.0)))
    course = (seen(), seen(b="gone"), seen(b="gone"), seen("no answer", a="no answer", b="no answer"), seen(b="gone"))
    for observation in course:
        log_unreadable(lasting, observation)
    told = [msgspec.json.decode(line)["message"] for line in stream.getvalue().splitlines()]
    assert told == ["group cloud/b: gone", "provider cloud: no answer", "group cloud/b: gone"]


def test_groups_of_nodes_that_are_not_listed_are_told_once() -> None:
    clock = VirtualClock(1_800_000_000.0)
    context = spec.ProviderContext(clock=clock, random=Random(1), options={"groups": [{"name": "a", "max_size": 3}]})
    stream = io.BytesIO()
    lasting = ConditionLog(DaemonLog(stream, clock))
    client = connect_provider("fake", FakeProvider(context), clock=clock, runner=InlineRunner(clock))
    client.demand_limits(("0:3:a", "0:5:other", "1:2:third"))
    client.refresh()
    for _ in range(3):
        client.node_groups()
        log_unlisted(lasting, [client])
    told = [msgspec.json.decode(line)["message"] for line in stream.getvalue().splitlines()]
    assert told == ["--nodes of fake: not listed by the provider, so not scaled: other, third"]


@pytest.mark.parametrize(
    ("before", "later"),
    [
        ("nothing about Pod for 3m10s", "nothing about Pod for 1h2m"),
        ("busy for 12s.", "busy for 2.5s."),
        ("busy for 12.5 s, 3 calls (of 7)", "busy for 8 s, 5 calls (of 10)"),
        ("since 2026-11-27T15:03:12Z", "since 2026-12-01T08:00:00.25+01:00"),
    ],
)
def test_a_problem_is_the_same_with_other_numbers_and_times(before: str, later: str) -> None:
    assert without_numbers(before) == without_numbers(later) != ""


@pytest.mark.parametrize("name", ["pool-2", "a2", "3m10s-pool", "pool.7", "1.30.2", "5xlarge"])
def test_numbers_in_names_tell_problems_apart(name: str) -> None:
    assert without_numbers(f"no answer from {name}, 3 times") == f"no answer from {name},  times"
