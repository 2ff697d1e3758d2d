"""Resize requests that wait in Compute Engine's queue, for hours if need be: they are read at each refresh.

The API's description says that a group's size grows by a request's machines, not whether it does so when the request is
made, with managed instances that are CREATING, or when it is granted. So the group's list decides: as many machines in creation as no other request asked for
are those of the requests, and what the list lacks is added to the size. A request that ends without a grant is one failure of all its machines until the core deletes it; one whose time is over
for the core is cancelled. After a start each group is asked once for the requests of the process before.
"""

from collections.abc import Collection, Iterable, Sequence

import msgspec

from nodewright.spec import (
    Clock,
    ErrorClass,
    FailedInstance,
    FailureScope,
    InstanceState,
    OutOfCapacity,
    ProviderError,
    Throttled,
)
from nodewright.spec.cache import attempt, attempt_each
from nodewright_gce.api import Api
from nodewright_gce.errors import failed_operation
from nodewright_gce.fleet import Fleet
from nodewright_gce.refs import Ref
from nodewright_gce.shapes import ErrorItem, ResizeRequest
from nodewright_gce.states import classify

PREFIX = "nodewright-"
_GRANTED, _WAITS, _CANCELLED = "SUCCEEDED", "ACCEPTED", "CANCELLED"
_OVER = ("FAILED", _CANCELLED)
_ENDED = (_GRANTED, *_OVER)
# A new request that is not found may appear within this time, or never.
_LOST_SECONDS = 120.0
# After a throttled call; Compute Engine may ask for more.
_PAUSE_SECONDS = 60.0
_MAX_MESSAGE = 500


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """A resize request of ours. ``state`` is Compute Engine's; empty: it is not known whether the request exists."""

    ref: Ref
    name: str
    count: int
    made_at: float
    state: str = ""
    complaints: tuple[ErrorItem, ...] = ()

    @property
    def is_over(self) -> bool:
        return self.state in _OVER

    @property
    def failure_id(self) -> str:
        return f"{self.ref.group_id}/resizeRequests/{self.name}"

    @property
    def said(self) -> str:
        """What became of the request, in words."""
        errors = "; ".join(f"{one.code}: {one.message}" for one in self.complaints)
        return f"the resize request {self.name} of {self.ref.name} is {self.state}{': ' if errors else ''}{errors}"

    @property
    def failure(self) -> FailedInstance:
        """The failure of all its machines."""
        found = [classify(one) for one in self.complaints]
        first = next((one for one in found if one.error_class is not ErrorClass.OTHER), None)
        return FailedInstance(
            failure_id=self.failure_id,
            count=self.count,
            error_class=first.error_class if first is not None else ErrorClass.OUT_OF_RESOURCES,
            scope=first.scope if first is not None else FailureScope.GROUP,
            bucket=first.bucket if first is not None else "",
            code=first.code if first is not None else self.state,
            message=self.said[:_MAX_MESSAGE],
        )

    @property
    def refusal(self) -> ProviderError:
        """The error if it ended at once."""
        return failed_operation(self.said, self.complaints) if self.complaints else OutOfCapacity(self.said)


class ResizeQueue:
    """Our resize requests that are not granted, by group. ``Fleet`` counts their machines in the group's target."""

    def __init__(self, api: Api, fleet: Fleet, clock: Clock, parallel_calls: int) -> None:
        self._api = api
        self._fleet = fleet
        self._clock = clock
        self._held: dict[str, dict[str, Waiting]] = {}
        self._others: dict[str, frozenset[str]] = {}
        self._parallel_calls = parallel_calls
        self._searched: set[str] = set()
        self._search_at = float("-inf")

    def refresh(self, able: Iterable[str]) -> None:
        """Read what became of the requests. ``able``: groups that have resize requests, read once after the start."""
        self._search([group_id for group_id in able if group_id not in self._searched])
        for group_id in list(self._held):
            if group_id in self._fleet.groups:
                said = attempt(lambda group_id=group_id: self.poll(group_id))  # type: ignore[misc]  # mypy cannot type a lambda with a default
                if isinstance(said, Throttled):
                    return

    def poll(self, group_id: str) -> None:
        """Read what became of the group's requests; read the group again if one was granted or is over."""
        held, has_ended = {}, False
        for name, one in self._held.get(group_id, {}).items():
            found = one if one.is_over else self._read(one)
            if found is not None and found.state != _GRANTED:
                held[name] = found
            has_ended = has_ended or (found is not None and found.state != one.state and found.state in _ENDED)
        self._keep(group_id, held)
        if has_ended:
            self._fleet.reread(group_id, machines=True)

    def add(self, ref: Ref, name: str, count: int) -> None:
        """Note a request before it is sent: its answer may be lost."""
        group_id = ref.group_id
        made = Waiting(ref=ref, name=name, count=count, made_at=self._clock.now())
        if group_id not in self._held:
            coming = [one for one in self._fleet.group(group_id).machines if one.state is InstanceState.CREATING]
            self._others[group_id] = frozenset(one.ref.name for one in coming)
        self._keep(group_id, {**self._held.get(group_id, {}), name: made})

    def set_apart(self, group_id: str, names: Iterable[str]) -> None:
        """Note names of machines that are requested otherwise while requests wait."""
        if group_id in self._held:
            self._others[group_id] = self._others.get(group_id, frozenset()).union(names)
            self._keep(group_id, self._held[group_id])

    def note_accepted(self, group_id: str, name: str) -> ProviderError | None:
        """Note that Compute Engine took the request; return the reason if it ended at once."""
        held = self._held.get(group_id, {})
        self._keep(group_id, {**held, name: msgspec.structs.replace(held[name], state=_WAITS)})
        attempt(lambda: self.poll(group_id))
        one = self._held.get(group_id, {}).get(name)
        if one is None or not one.is_over:
            return None
        self.forget(group_id, name)
        return one.refusal

    def forget(self, group_id: str, name: str) -> None:
        """Remove a request that Compute Engine refused, or that is settled."""
        self._keep(group_id, {key: one for key, one in self._held.get(group_id, {}).items() if key != name})

    def failures(self, group_id: str) -> tuple[FailedInstance, ...]:
        """Return a failure for each request that ended without a grant."""
        return tuple(one.failure for one in self._held.get(group_id, {}).values() if one.is_over)

    def drop(self, group_id: str, failure_ids: Collection[str]) -> frozenset[str]:
        """Remove requests that ended, by the ids of their failures; return the ids."""
        gone = [one for one in self._held.get(group_id, {}).values() if one.is_over and one.failure_id in failure_ids]
        for one in gone:
            self.forget(group_id, one.name)
        return frozenset(one.failure_id for one in gone)

    def withdraw(self, group_id: str, most: int) -> int:
        """Cancel requests, the oldest first, of together at most so many machines; return their number."""
        left = most
        for one in tuple(self._held.get(group_id, {}).values()):
            if one.count <= left and (one.is_over or self._cancel(one)):
                self.forget(group_id, one.name)
                left -= one.count
        return most - left

    def _cancel(self, one: Waiting) -> bool:
        """Return whether the request is cancelled; it may have been granted just before."""
        refused = attempt(lambda: self._api.cancel_resize(one.ref, one.name))
        self.poll(one.ref.group_id)
        last = self._held.get(one.ref.group_id, {}).get(one.name)
        if last is not None and not last.is_over and isinstance(refused, ProviderError):
            raise refused
        return last is not None and last.is_over

    def _read(self, one: Waiting) -> Waiting | None:
        """Return the request as it is now; None: it never came into being."""
        found = self._api.resize_request(one.ref, one.name)
        if found is not None:
            return msgspec.structs.replace(one, state=found.state or one.state, complaints=found.complaints)
        if self._clock.now() <= one.made_at + _LOST_SECONDS:
            return one
        return msgspec.structs.replace(one, state=_CANCELLED) if one.state else None  # another deleted it

    def _search(self, group_ids: Sequence[str]) -> None:
        """Read the groups' requests; after a throttled call, the others are read when Compute Engine permits it."""
        if self._clock.now() < self._search_at:
            return
        refs = [self._fleet.group(group_id).ref for group_id in group_ids]
        for start in range(0, len(refs), self._parallel_calls):
            some = refs[start : start + self._parallel_calls]
            answers = attempt_each(self._api.resize_requests, some, self._parallel_calls)
            for ref, answer in zip(some, answers, strict=True):
                if isinstance(answer, Throttled):
                    self._search_at = self._clock.now() + max(answer.retry_after, _PAUSE_SECONDS)
                elif not isinstance(answer, ProviderError):
                    self._adopt(ref, answer)
            if self._clock.now() < self._search_at:
                return

    def _adopt(self, ref: Ref, found: Iterable[ResizeRequest]) -> None:
        """Note the requests of the process before."""
        self._searched.add(ref.group_id)
        now, held = self._clock.now(), self._held.get(ref.group_id, {})
        ours = {
            one.name: Waiting(ref=ref, name=one.name, count=one.resize_by, made_at=now, state=one.state)
            for one in found
            if _may_be_granted(one)
        }
        if ours:
            self._keep(ref.group_id, {**ours, **held})

    def _keep(self, group_id: str, held: dict[str, Waiting]) -> None:
        if held:
            self._held[group_id] = held
        else:
            self._held.pop(group_id, None)
            self._others.pop(group_id, None)
        self._fleet.count_queued(group_id, _machines(held.values()), self._others.get(group_id, frozenset()))


def _machines(requests: Iterable[Waiting]) -> int:
    return sum(one.count for one in requests if one.state)


def _may_be_granted(one: ResizeRequest) -> bool:
    return one.name.startswith(PREFIX) and one.state not in ("", *_ENDED)
