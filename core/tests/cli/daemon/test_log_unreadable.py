"""Which providers and groups fail is a line of the log when it begins."""

import io
from dataclasses import replace

import msgspec

from nodewright.adapters.clocks import VirtualClock
from nodewright.adapters.logs import ConditionLog, JsonLog
from nodewright.cli.daemon.app import log_unreadable
from nodewright.model.group import GroupRef, NodeGroup
from nodewright.snapshot.observation import GroupSeen, Observation, ProviderSeen
from nodewright.snapshot.snapshot import Snapshot

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
    lasting = ConditionLog(JsonLog(stream, VirtualClock(1_800_000_000.0)))
    observation = seen()
    priced = replace(observation.groups[A], price_problem="it is in EUR")
    for groups in (observation.groups, {A: priced}, {A: priced}):
        log_unreadable(lasting, replace(observation, groups=groups))
    told = [msgspec.json.decode(line)["message"] for line in stream.getvalue().splitlines()]
    assert told == ["price of group cloud/a: it is in EUR"]


def test_each_is_told_once_and_a_provider_speaks_for_its_groups() -> None:
    stream = io.BytesIO()
    lasting = ConditionLog(JsonLog(stream, VirtualClock(1_800_000_000.0)))
    course = (seen(), seen(b="gone"), seen(b="gone"), seen("no answer", a="no answer", b="no answer"), seen(b="gone"))
    for observation in course:
        log_unreadable(lasting, observation)
    told = [msgspec.json.decode(line)["message"] for line in stream.getvalue().splitlines()]
    assert told == ["group cloud/b: gone", "provider cloud: no answer", "group cloud/b: gone"]
