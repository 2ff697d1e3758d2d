"""What a restarted engine knows of hedges: how many machines of a request are one, and that they are to be withdrawn."""

from dataclasses import replace

from nodewright.adapters.store.codec import decode_memory, encode_memory
from nodewright.clusterstate.fold import fold
from nodewright.clusterstate.memory import Memory, ScaleUpRequest
from nodewright.engine.intent import with_intent
from nodewright.model.action import DecreaseTargetSize, IncreaseSize
from nodewright.testkit.world import NOW, World, ref, settings_with


def world(target: int, memory: Memory) -> World:
    found = World(memory=memory)
    found.add_group("a", target=target, instances=())
    return found


def test_a_hedge_is_remembered_as_one() -> None:
    state = world(0, Memory()).state()
    action = IncreaseSize(group=ref("a"), expected_target=0, target=3, hedged=2, hedge_for=(ref("b"),), reason="why")
    held = decode_memory(encode_memory(with_intent(state.memory, state, (action,))))
    (request,) = held.requests[ref("a")]
    assert (request.increase, request.hedged, request.hedge_for) == (3, 2, (ref("b"),))


def test_a_withdrawn_hedge_is_no_failure_of_its_group_after_a_crash() -> None:
    request = ScaleUpRequest(
        increase=2, started=NOW - 60, deadline=NOW + 840, accepted=True, hedged=2, hedge_for=(ref("b"),)
    )
    before = world(2, Memory(requests={ref("a"): (request,)})).state()
    decrease = DecreaseTargetSize(group=ref("a"), expected_target=2, target=0, reason="not needed")
    after = world(0, Memory()).state().observation
    for actions, failed in (((), True), ((decrease,), False)):
        held = decode_memory(encode_memory(with_intent(before.memory, before, actions)))
        state = fold(held, replace(after, now=NOW + 10), [], settings_with())
        assert bool(state.groups[ref("a")].failures) is failed
