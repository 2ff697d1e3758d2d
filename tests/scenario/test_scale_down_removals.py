"""How nodes go once that is decided: marked, emptied, deleted, or given back (behaviour/down.md A12 to A15)."""

from tests.scenario.removing import Removing
from tests.scenario.story import LOOP, MINUTE

from nodewright.adapters.simulated.journal import What
from nodewright.model.removal import RemovalResult

POOL = {"name": "pool", "size": 3, "price_per_hour": 0.1, "cpu": 4}
DELAY = 5.0


def test_an_empty_node_is_marked_and_deleted_after_the_delay() -> None:
    story = Removing(POOL, minutes=20)
    story.remove("pool-2", at=5 * MINUTE)
    (over,) = story.ended()
    assert over.result == RemovalResult.OK
    assert over.at == over.started + DELAY
    assert [name.rpartition("/")[2] for _, name in story.facts(What.MACHINE_GONE)] == ["pool-2"]
    assert story.writes("delete") == [(over.at, "delete", "pool", 3, 2)]
    assert story.result.final.nodes == {"fake/pool": 2}
    assert [message for _, message in story.events("ScaleDownEmpty")] == ["Scale-down: removing empty node pool-2"]
    assert [message for _, message in story.events("ScaleDown")] == [
        "marked the node as toBeDeleted/unschedulable",
        "node removed by cluster autoscaler",
    ]
    assert [record.reason for record in story.result.audit] == ["scale-down: empty"]
    assert 5 * MINUTE <= over.started <= 5 * MINUTE + LOOP
