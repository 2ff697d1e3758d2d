"""The cost of a simulation beside the lower bound, as time goes by."""

import pytest

from nodewright.model.price_book import ReservedInstances
from nodewright.model.settings import Settings
from nodewright.testkit import build_pod
from nodewright.testkit.world import NOW, World, ref
from nodewright_simulator.cost_meter import CostMeter

HOUR = 3600.0


def make_world(reserved: ReservedInstances | None = None) -> World:
    """Return a world with four nodes at 1 USD an hour, whose pods fill one of them."""
    world = World()
    world.add_group("a", 4, cpu="4", hourly_price=1.0, reserved=reserved)
    world.running = [build_pod(f"p{n}", "1", node_name=f"a-{n}") for n in range(4)]
    return world


def test_costs_sum_up_beside_the_bound() -> None:
    world, meter = make_world(), CostMeter(NOW)
    meter.look(world.state(), Settings())
    meter.use({ref("a"): 4})
    assert [meter.rate, meter.bound] == pytest.approx([4.0, 1.0])
    meter.advance(2 * HOUR)
    meter.use({ref("a"): 2})
    meter.advance(HOUR)
    assert meter.spent == 10.0
    assert meter.least == pytest.approx((3.0, 10.0 / 3.0))


def test_what_was_spent_while_there_was_no_bound_is_not_compared() -> None:
    world, meter = make_world(), CostMeter(NOW)
    world.add_group("b", 1, cpu="4")
    meter.look(world.state(), Settings())
    meter.use({ref("a"): 4})
    meter.advance(HOUR)
    assert (meter.spent, meter.bound, meter.least) == (4.0, None, None)
    del world.groups[ref("b")]
    world.now += HOUR
    meter.look(world.state(), Settings())
    meter.advance(HOUR)
    assert meter.spent == 8.0
    assert meter.least == pytest.approx((1.0, 4.0))


def test_the_bound_is_taken_anew_after_a_part_of_the_time_that_has_passed() -> None:
    world, meter, bounds = make_world(), CostMeter(NOW), []
    for after in (0, 10, 10_000, 10_010, 10_060):
        world.now = NOW + after
        meter.look(world.state(), Settings())
        bounds.append(meter.bound)
        world.pending.append(build_pod(f"w{after}", "4"))
    assert bounds == pytest.approx([1, 2, 3, 3, 5])


def test_without_prices_there_is_neither() -> None:
    world, meter = World(), CostMeter(NOW)
    world.add_group("a", 4, cpu="4")
    meter.look(world.state(), Settings())
    meter.use({ref("a"): 4})
    meter.advance(HOUR)
    assert (meter.has_prices, meter.spent, meter.bound, meter.least, meter.sources) == (False, 0.0, None, None, ())


def test_paid_machines_cost_nothing() -> None:
    meter = CostMeter(NOW)
    meter.look(make_world(reserved=ReservedInstances("r", 3)).state(), Settings())
    meter.use({ref("a"): 4})
    assert (meter.rate, meter.bound) == (1.0, 0.0)
