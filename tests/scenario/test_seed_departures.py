"""Where design documents stop more than we do: groups in backoff, sick groups and full clusters still shrink (ADR 24)."""

from tests.scenario.story import Story

A = {"name": "a", "price_per_hour": 0.1}
SOON = {
    "scale-down-unneeded-time": "1m",
    "scale-down-delay-after-add": "0s",
    "scale-down-delay-after-failure": "0s",
}


def test_a_group_in_backoff_still_gives_up_nodes_that_nobody_needs() -> None:
    story = Story({**A, "size": 2}, stock_outs=[{"group": "a"}], settings=SOON, minutes=10)
    story.pods(4, at=5, until=60)
    gone = [write[0] for write in story.writes("delete") if write[4] < 2]
    assert gone
    backoff = story.state("a", gone[0]).backoff
    assert backoff is not None
    assert gone[0] < backoff.until


def test_a_group_with_many_unready_nodes_still_gives_up_those_that_nobody_needs() -> None:
    settings = {**SOON, "scale-down-unneeded-time": "20m", "scale-down-unready-time": "100h"}
    story = Story({**A, "size": 6}, {"name": "b", "size": 10}, settings=settings, minutes=40)
    story.turn("a-0", "a-1", "a-2", "a-3", at=1000, ready=False)
    gone = [write[0] for write in story.writes("delete") if write[2] == "a"]
    assert len(gone) == 2
    assert not story.state("a", gone[0]).healthy
    assert story.machines("a") == 4


def test_a_cluster_at_its_limit_still_shrinks() -> None:
    story = Story({**A, "size": 3}, settings={**SOON, "max-nodes-total": 3}, minutes=10)
    story.pods(1, at=5, cpu="2")  # fits no machine
    story.pods(1, at=5, name="small")
    assert len(story.writes("delete")) == 2
    assert story.writes("increase") == []
