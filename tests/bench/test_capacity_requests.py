"""The benchmark of requests for capacity decides all, small as it is run here."""

import capacity_requests as bench


def test_every_small_request_is_decided_in_as_many_loops_as_they_take() -> None:
    found = bench.many_small(count=1001, nodes=200)
    assert (len(found.loops), found.writes, found.decided) == (3, 1001, 1001)


def test_a_huge_request_takes_one_loop() -> None:
    found = bench.one_huge(count=512, sets=32)
    assert (len(found.loops), found.writes) == (1, 1)
    assert found.nodes > 0
