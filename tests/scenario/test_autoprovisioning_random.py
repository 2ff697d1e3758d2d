"""Random pods, machine types, refusals and crashes: groups that are made and deleted on demand never go wrong."""

from dataclasses import dataclass
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.scenario.story import MINUTE, Story

from nodewright import spec
from nodewright.spec import hookimpl
from nodewright_fake import FakeProvider

SOON = {"scale-down-unneeded-time": "1m", "scale-down-delay-after-add": "30s", "max-bulk-soft-taint-count": 0}
ON = {"node-autoprovisioning-enabled": True, "initial-node-group-backoff-duration": "1m", **SOON}
HOOKS = ("create_node_group", "delete_node_group", "increase_size")
OWN = "own"
END = 50 * MINUTE


class Watched(FakeProvider):
    """Looks at the cloud with every group that is made or deleted."""

    def __init__(self, context: spec.ProviderContext) -> None:
        super().__init__(context)
        self.faults: list[str] = []
        self.most = 0

    @hookimpl
    def create_node_group(self, spec: spec.NewNodeGroup) -> spec.NodeGroup:
        made = super().create_node_group(spec)
        self.most = max(
            self.most, sum(bool(self.cloud.group(name).autoprovisioned) for name in self.cloud.group_names())
        )
        return made

    @hookimpl
    def delete_node_group(self, group_id: str) -> bool:
        group = self.cloud.group(group_id)
        if not group.autoprovisioned or group.target or group.machines:
            self.faults.append(f"{group_id} was to be deleted with {len(group.machines)} machines")
        return super().delete_node_group(group_id)


@dataclass(frozen=True)
class Case:
    """``pods`` are (count, team, from, for how long); ``refusals`` (hook, how often); ``crash`` is the number of a write."""

    kinds: tuple[int, ...]
    pods: tuple[tuple[int, str, float, float], ...]
    refusals: tuple[tuple[str, int], ...]
    limit: int
    crash: int
    after_effect: bool


@st.composite
def cases(draw: st.DrawFn) -> Case:
    moments = st.integers(1, 10).map(lambda minute: minute * MINUTE)
    pods = st.tuples(st.integers(1, 5), st.sampled_from(("", "a", "b")), moments, moments)
    return Case(
        kinds=tuple(draw(st.lists(st.sampled_from((1, 2, 4)), min_size=1, max_size=3, unique=True))),
        pods=tuple(draw(st.lists(pods, min_size=1, max_size=4))),
        refusals=tuple(draw(st.lists(st.tuples(st.sampled_from(HOOKS), st.integers(1, 2)), max_size=2))),
        limit=draw(st.integers(1, 4)),
        crash=draw(st.integers(0, 5)),
        after_effect=draw(st.booleans()),
    )


def play(case: Case) -> tuple[Story, Watched]:
    kinds = [{"name": f"k{cpu}", "cpu": cpu, "memory": "16Gi", "price_per_hour": cpu / 10} for cpu in case.kinds]
    refusals = [{"kind": "refuse", "hook": hook, "error": "out_of_capacity", "times": n} for hook, n in case.refusals]
    told: dict[str, Any] = {"machine_types": kinds, "faults": refusals}
    watched: list[Watched] = []

    class Kept(Watched):
        def __init__(self, context: spec.ProviderContext) -> None:
            super().__init__(context)
            watched.append(self)

    story = Story(
        {"name": OWN, "max_size": 1},
        settings={**ON, "max-autoprovisioned-node-group-count": case.limit},
        minutes=END / MINUTE,
        variant=Kept,
        **told,
    )
    for number, (count, team, at, lasts) in enumerate(case.pods):
        selector = {"team": team} if team else {}
        story.pods(count, at=at, until=at + lasts, name=f"p{number}", node_selector=selector)
    if case.crash:
        story.simulation.engine.crash(
            0.0, write=case.crash, after_effect=case.after_effect, down_seconds=25.0, keeps_memory=True
        )
    return story, watched[0]


# A trial of a group that was refused makes it; for the rest of its pods no second one may be made.
TRIAL_AND_REST = Case(
    kinds=(1, 2),
    pods=((1, "a", 60.0, 60.0), (2, "a", 300.0, 60.0)),
    refusals=(("create_node_group", 1),),
    limit=1,
    crash=0,
    after_effect=False,
)


@given(cases())
@example(TRIAL_AND_REST)
@settings(max_examples=25, deadline=None)
def test_groups_come_and_go_as_they_should(case: Case) -> None:
    story, watched = play(case)
    assert story.result.violations == ()
    assert watched.faults == []
    assert watched.most <= case.limit
    # All pods are gone for long: so is all that was made for them, and what others made is there.
    assert list(story.cloud.group_names()) == [OWN]
