"""A machine with two Node objects, of which no kubelet looks after the second, is there once."""

from tests.scenario.story import LOOP, MINUTE, SOON, Story

from nodewright_simulator.journal import What

DOUBLED = 2 * MINUTE
LASTS = 30 * MINUTE
STARTUP = 15 * MINUTE


def make() -> Story:
    """Two machines with a pod each; the first is doubled for longer than a node may take to start."""
    story = Story({"name": "pool", "size": 2, "max_size": 5}, {"name": "dear", "price_per_hour": 1.0}, minutes=60)
    story.deploy("web", (1.0, 2), (DOUBLED + MINUTE, 3), (DOUBLED + STARTUP + MINUTE, 4))
    story.simulation.touch_nodes(DOUBLED, "double", 1, LASTS)
    return story


def test_a_double_is_no_machine_that_is_about_to_be_ready() -> None:
    assert make().asked("pool")[0] <= DOUBLED + MINUTE + LOOP


def test_a_group_is_not_to_blame_for_a_double_that_never_becomes_ready() -> None:
    story = make()
    assert [(at > DOUBLED + STARTUP) for at in story.asked("pool")] == [False, True]
    assert not story.asked("dear")
    assert not story.writes("delete")


def test_a_machine_with_two_ready_nodes_stays_while_one_of_them_holds_pods() -> None:
    """Also where the idle one is unneeded for long enough; the machine that is idle as a whole goes."""
    story = Story({"name": "pool", "size": 3, "max_size": 5}, settings=SOON, minutes=40)
    story.deploy("web", (1.0, 2))
    story.simulation.touch_nodes(DOUBLED, "twin", 1, LASTS)
    first = next(fact.name for fact in story.result.journal if fact.what == What.MACHINE_STARTED)
    gone = [fact.name for fact in story.result.journal if fact.what == What.MACHINE_GONE]
    assert len(gone) == 1
    assert first not in gone
    assert story.result.final.running == 2
    assert not story.asked("pool")


def test_two_ready_nodes_are_one_machine() -> None:
    """The group is as large as its target says: nothing is missing, and nothing is given up or taken back."""
    story = Story({"name": "pool", "size": 2, "max_size": 5}, minutes=60)
    story.deploy("web", (1.0, 2))
    story.simulation.touch_nodes(DOUBLED, "twin", 1, LASTS)
    assert not story.writes()
    assert all(state.groups[ref].seen.target == 2 for state in story.states() for ref in state.groups)


def test_consolidation_and_renewal_leave_a_machine_with_two_ready_nodes() -> None:
    """One of the two nodes is empty, and both are old; only when the twin is gone is the machine replaced for its age."""
    settings = {
        **SOON,
        "scale-down-utilization-threshold": 0,
        "consolidation-policy": "when-cheaper",
        "node-max-age": "5m",
    }
    story = Story({"name": "pool", "price_per_hour": 1.0, "max_size": 5}, settings=settings, minutes=60)
    story.deploy("web", (1.0, 1))
    story.simulation.touch_nodes(DOUBLED, "twin", 1, LASTS)
    first = next(fact.name for fact in story.result.journal if fact.what == What.MACHINE_STARTED)
    gone = {fact.name: fact.at for fact in story.result.journal if fact.what == What.MACHINE_GONE}
    assert gone[first] > DOUBLED + LASTS
    assert story.result.final.running == 1
