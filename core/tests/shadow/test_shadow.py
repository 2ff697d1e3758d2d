"""Compares what another autoscaler did with our own plan."""

from dataclasses import replace
from random import Random

from msgspec.structs import replace as changed

from nodewright.adapters.shadow import Comparison, ComparisonVerdict, HealthShadow, Shadow, read_health
from nodewright.engine.report import LoopReport
from nodewright.model.group import Price
from nodewright.model.node import TO_BE_DELETED_TAINT
from nodewright.model.settings import Settings
from nodewright.planner import make_plan
from nodewright.testkit import build_pod, build_taint
from nodewright.testkit.world import NOW, World, ref, settings_with


class Site:
    """A cluster in which another writer acts, seen loop by loop."""

    def __init__(self, sizes: dict[str, int], settings: Settings | None = None) -> None:
        self.world = World()
        for name, size in sizes.items():
            self.world.add_group(name, size)
        self.settings = settings or Settings()
        self._shadow = Shadow()

    def wait(self, pods: int) -> None:
        self.world.pending = [build_pod(f"p{number}", cpu="3") for number in range(pods)]

    def grow(self, group: str, by: int) -> None:
        seen = self.world.groups[ref(group)]
        grown = replace(seen, target=(seen.target or 0) + by)
        self.world.groups = {**self.world.groups, ref(group): grown}

    def taint(self, name: str) -> None:
        mark = build_taint(TO_BE_DELETED_TAINT)
        self.world.nodes = [
            changed(node, spec=changed(node.spec, taints=(mark,))) if node.name == name else node
            for node in self.world.nodes
        ]

    def loop(self, seconds: float = 10.0) -> tuple[Comparison, ...]:
        self.world.now += seconds
        state = self.world.state(self.settings)
        plan, after = make_plan(state, self.settings, Random(1))
        self.world.memory = replace(state.memory, scale_down=after.scale_down)
        report = LoopReport(started=self.world.now, finished=self.world.now, state=state)
        return self._shadow.compare(report, plan, self.settings)


def test_the_first_loop_has_nothing_to_compare_with() -> None:
    site = Site({"a": 1})
    site.wait(5)
    assert site.loop() == ()


def test_the_same_growth_whoever_is_faster() -> None:
    """The pods and the other one's growth turn up in one loop: we never had a chance to plan for these pods."""
    site = Site({"a": 0})
    site.loop()
    site.wait(3)
    site.grow("a", 3)
    [found] = site.loop()
    assert (found.subject, found.verdict, found.theirs, found.ours) == ("cloud/a", ComparisonVerdict.SAME, "+3", "+3")


def test_another_size() -> None:
    site = Site({"a": 0})
    site.loop()
    site.wait(3)
    site.grow("a", 5)
    [found] = site.loop()
    assert (found.verdict, found.theirs, found.ours) == (ComparisonVerdict.OTHER_SIZE, "+5", "+3")


def test_growth_that_we_would_not_want() -> None:
    site = Site({"a": 1})
    site.loop()
    site.grow("a", 1)
    [found] = site.loop()
    assert (found.verdict, found.reason) == (ComparisonVerdict.ONLY_THEIRS, "no pending pod needs a node here")


def test_another_group() -> None:
    site = Site({"a": 0, "b": 0}, settings_with(max_nodes_total=10))
    site.loop()
    site.wait(1)
    ours = next(found for found in plans(site))
    other = "b" if ours == "a" else "a"
    site.grow(other, 1)
    found = {one.subject: one for one in site.loop()}
    assert found[f"cloud/{other}"].verdict is ComparisonVerdict.ONLY_THEIRS
    assert found[f"cloud/{ours}"].verdict is ComparisonVerdict.ONLY_OURS
    assert found[f"cloud/{ours}"].reason == "they chose another group"


def plans(site: Site) -> list[str]:
    plan = make_plan(site.world.state(site.settings), site.settings, Random(0))[0]
    return [action.group.group_id for action in plan.actions]


def test_what_they_do_not_do_is_told_once_after_a_minute() -> None:
    site = Site({"a": 0})
    site.loop()
    site.wait(2)
    found = [one for _ in range(10) for one in site.loop()]
    [told] = found
    assert (told.verdict, told.ours) == (ComparisonVerdict.ONLY_OURS, "+2")
    assert "wanted here for 60 s" in told.reason


def test_a_wish_that_lasts_or_soon_returns_is_told_once() -> None:
    """Also where they grow another group meanwhile, several times. After an hour without it, it is a new one."""
    site = Site({"a": 0, "b": 0})
    site.loop()
    site.wait(1)
    ours = next(found for found in plans(site))
    other = "b" if ours == "a" else "a"
    found = []
    for _ in range(3):
        site.grow(other, 1)
        found += [*site.loop(), *(one for _ in range(8) for one in site.loop())]
        site.wait(0)
        found += site.loop()
        site.wait(1)
    told = [one for one in found if one.verdict is ComparisonVerdict.ONLY_OURS]
    assert [(one.subject, one.machines) for one in told] == [(f"cloud/{ours}", 1)]
    assert len([one for one in found if one.verdict is ComparisonVerdict.ONLY_THEIRS]) == 3
    site.wait(0)
    site.loop()
    site.loop(3601.0)
    site.wait(1)
    again = [one for _ in range(8) for one in site.loop()]
    assert [one.verdict for one in again] == [ComparisonVerdict.ONLY_OURS]


def test_a_cause_is_the_same_whatever_the_numbers_and_names() -> None:
    causes = set()
    for by in (5, 7):
        site = Site({"a": 0})
        site.loop()
        site.wait(by - 2)
        site.grow("a", by)
        [found] = site.loop()
        assert (found.machines, found.verdict) == (-2, ComparisonVerdict.OTHER_SIZE)
        causes.add((found.reason, found.cause))
    assert causes == {(f"{pods} pods are pending", "another size for the pending pods") for pods in (3, 5)}


def test_a_removal_that_comes_before_ours() -> None:
    site = Site({"a": 2})
    site.loop()
    site.loop()
    site.taint("a-0")
    [found] = site.loop()
    assert (found.what, found.subject, found.verdict) == ("removal", "a-0", ComparisonVerdict.NOT_YET)


def test_a_removal_of_a_node_that_we_would_keep() -> None:
    site = Site({"a": 2})
    site.world.running = [build_pod("busy", cpu="3", node_name="a-0")]
    site.loop()
    site.loop()
    site.taint("a-0")
    [found] = site.loop()
    assert (found.verdict, found.cause) == (ComparisonVerdict.ONLY_THEIRS, "NotUnderutilized")
    assert found.reason


def test_the_same_removal() -> None:
    site = Site({"a": 1})
    for _ in range(62):
        assert site.loop() == ()
    site.taint("a-0")
    [found] = site.loop()
    assert found.verdict is ComparisonVerdict.SAME


STATUS = """
autoscalerStatus: Running
clusterWide: {health: {status: Healthy}, scaleUp: {status: NoActivity}}
nodeGroups:
- {name: a, health: {status: Healthy}, scaleUp: {status: Backoff, backoffInfo: {errorCode: X}}}
- {name: b, health: {status: 3}}
- 7
"""


def test_the_other_ones_status() -> None:
    assert read_health(STATUS) == {
        ("cluster", "health"): "Healthy",
        ("cluster", "scaleUp"): "NoActivity",
        ("a", "health"): "Healthy",
        ("a", "scaleUp"): "Backoff",
    }
    for text in (None, "", "[", "- 1", "a: &a [*a]"):
        assert read_health(text) == {}


def test_a_difference_in_health_is_told_once_when_it_lasts() -> None:
    ours = {"nodeGroups": [{"name": "a", "health": {"status": "Healthy"}, "scaleUp": {"status": "NoActivity"}}]}
    shadow = HealthShadow()
    found = [one for loop in range(12) for one in shadow.compare(STATUS, ours, NOW + 10 * loop)]
    [told] = found
    assert (told.subject, told.what, told.theirs, told.ours) == ("a", "scaleUp", "Backoff", "NoActivity")
    assert told.at == NOW + 60
    assert not shadow.compare(None, ours, NOW + 130)


def test_what_a_difference_costs_an_hour() -> None:
    site = Site({"a": 2, "b": 2})
    site.world.groups = {
        one: replace(group, price=Price(per_hour=price, source="the test"))
        for (one, group), price in zip(site.world.groups.items(), (0.5, 2.0), strict=True)
    }
    site.loop()
    site.grow("b", 1)
    site.taint("a-0")
    found = {(one.what, one.subject, one.verdict): one.cost for one in site.loop()}
    assert found["growth", "cloud/b", ComparisonVerdict.ONLY_THEIRS] == -2.0
    [(removal, cost)] = [(key, cost) for key, cost in found.items() if key[0] == "removal"]
    assert cost == (0.5 if removal[2] == ComparisonVerdict.ONLY_THEIRS else 0.0)
