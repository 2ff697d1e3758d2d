"""What a dry run goes on with of a plan."""

from dataclasses import fields

from nodewright.engine.planning import withhold
from nodewright.model.plan import Plan, ScaleDownReport

# What a dry run withholds. A new field is withheld, too, until ``withhold`` names it.
WITHHELD = {"actions", "held_back", "paused"}
WITHHELD_OF_SCALE_DOWN = {"removals", "soft_taint", "soft_untaint"}


def test_a_dry_run_goes_on_with_the_reports_alone() -> None:
    down = {one.name: object() for one in fields(ScaleDownReport)}
    marked = {one.name: object() for one in fields(Plan)} | {"scale_down": ScaleDownReport(**down)}  # type: ignore[arg-type]
    left = withhold(Plan(**marked))  # type: ignore[arg-type]
    assert {name for name, value in marked.items() if getattr(left, name) is not value} == WITHHELD | {"scale_down"}
    assert {
        name for name, value in down.items() if getattr(left.scale_down, name) is not value
    } == WITHHELD_OF_SCALE_DOWN
    assert (left.actions, left.held_back, left.paused) == ((), (), "")
