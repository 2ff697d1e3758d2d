"""What Kueue's admission check does with a request: create it with its templates, wait, start the job, delete it."""

from typing import Any

import pytest
from tests.scenario.requesting import ON, Asking
from tests.scenario.story import MINUTE, Story

from nodewright.model.provisioning_request import (
    BEST_EFFORT_ATOMIC,
    CHECK_CAPACITY,
    FAILED,
    PROVISIONED,
    ProvisioningRequest,
)

POOL = {"name": "pool", "size": 1, "max_size": 10}


class Kueue:
    """Admits a workload once its request is provisioned, and deletes that afterwards. One that failed is replaced by the
    next attempt, a minute later; after the last one the workload is given up.
    """

    def __init__(self, asking: Asking, count: int, kind: str, attempts: int) -> None:
        self.admitted: list[float] = []
        self.given_up: list[float] = []
        self._asking, self._count, self._kind = asking, count, kind
        self._attempt, self._attempts = 0, attempts
        asking.requests.watchers.append(self._reconcile)
        self._try(MINUTE)

    def _try(self, at: float) -> None:
        """As Kueue names them: workload, check, attempt."""
        self._attempt += 1
        name = f"job-check-{self._attempt}"
        self._asking.ask(name, self._count, at=at, kind=self._kind, parameters={"ValidUntilSeconds": "0h15m"})

    def _reconcile(self, request: ProvisioningRequest, now: float) -> None:
        if request.has(FAILED) and self._attempt < self._attempts:
            self._asking.withdraw(request.name, at=now + 5)
            self._try(now + MINUTE)
        elif request.has(FAILED):
            self.given_up.append(now)
        elif request.has(PROVISIONED) and not self.admitted:
            self.admitted.append(now)
            self._asking.consume(request.name, self._count, at=now + 5, kind=self._kind)
            self._asking.withdraw(request.name, at=now + 2 * MINUTE)


def admit(count: int, kind: str, minutes: float = 30, attempts: int = 1, **more: Any) -> tuple[Kueue, Asking]:
    asking = Asking(Story(POOL, minutes=minutes, settings=ON, **more))
    kueue = Kueue(asking, count, kind, attempts)
    assert asking.story.result
    return kueue, asking


@pytest.mark.parametrize(("kind", "count"), [(BEST_EFFORT_ATOMIC, 4), (CHECK_CAPACITY, 1)])
def test_a_workload_is_admitted_runs_and_its_request_goes(kind: str, count: int) -> None:
    kueue, asking = admit(count, kind)
    assert len(kueue.admitted) == 1
    assert asking.story.result.final.running == count
    assert asking.story.result.final.pending == 0
    assert asking.requests.all() == ()
    assert asking.story.machines("pool") == count


def test_a_workload_for_which_there_is_no_quota_is_given_up_when_its_time_is_over() -> None:
    kueue, asking = admit(12, BEST_EFFORT_ATOMIC)
    assert not kueue.admitted
    (at,) = kueue.given_up[:1]
    assert 16 * MINUTE < at <= 16 * MINUTE + 20
    assert asking.story.writes("increase") == []


def test_the_next_attempt_is_admitted_once_the_cloud_has_machines() -> None:
    kueue, asking = admit(4, BEST_EFFORT_ATOMIC, 40, attempts=2, stock_outs=[{"group": "pool", "end": 16 * MINUTE}])
    (at,) = kueue.admitted
    assert 17 * MINUTE < at < 25 * MINUTE
    assert not kueue.given_up
    assert asking.story.result.final.running == 4
    assert asking.requests.all() == ()
