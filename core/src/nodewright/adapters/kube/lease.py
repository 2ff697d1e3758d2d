"""Leader election by a Lease, under client-go's rules, so that nodewright and cluster-autoscaler exclude each other.

- The clock goes on while the machine is suspended, and a renewal counts from before its request was sent. So a process
  that was frozen sees at its first look at the clock that its lease has run out.
- Clocks of other processes are never compared with ours. A lease has run out when it has not changed for its duration, or
  for ours if that is longer.
- A lease that an operator deletes or edits does not run out sooner: its holder writes it again, and the other processes go
  on waiting. Only a release, as client-go writes it, frees the lease at once.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from math import ceil
from random import Random
from typing import Any

import msgspec

from nodewright.adapters.kube.api import Api, ApiError, Request, read_answer
from nodewright.adapters.kube.resources import collection_path
from nodewright.model.clock import Clock
from nodewright.model.errors import KubeApiError

_LEASES = "coordination.k8s.io"
# The duration that a holder writes when it releases the lease, as client-go does.
_RELEASED_SECONDS = 1


@dataclass(frozen=True, kw_only=True)
class LeaseOptions:
    """Durations in seconds.

    ``is_first`` is called if no lease exists. It returns True if no process has ever led, so that none can still be leader.
    """

    namespace: str
    name: str
    identity: str
    duration: float
    renew_deadline: float
    retry_period: float
    is_first: Callable[[], bool] = lambda: True


class _Spec(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class _LeaseMeta(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    resource_version: str = ""


class _Lease(msgspec.Struct, frozen=True, kw_only=True):
    metadata: _LeaseMeta = _LeaseMeta()
    spec: _Spec = _Spec()


class Leadership:
    """``acquire``, then ``keep`` in a thread of its own; ``remaining`` says how long writing is still allowed.

    ``clock`` never stops and never jumps (time since boot); ``wall`` is for the times that people read in the lease.
    ``report_problem`` is called after each try, in the thread that tried, with what was wrong; "": nothing.
    """

    def __init__(
        self,
        api: Api,
        options: LeaseOptions,
        clock: Clock,
        wall: Clock,
        random: Random,
        report_problem: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._api = api
        self._options = options
        self._clock = clock
        self._wall = wall
        self._random = random
        self._report_problem = report_problem
        # A renewal makes two calls, and one renewal may fail.
        self._call_seconds = options.renew_deadline / 4
        self._collection = collection_path(_LEASES, "leases", options.namespace)
        self._path = f"{self._collection}/{options.name}"
        self._seen: _Lease | None = None
        self._seen_at = 0.0
        # The renew time of the last holder that was seen.
        self._renewal: str | None = None
        self._until = -1.0
        self._held = _Spec()
        # Whether the lease may be ours although no response confirmed it.
        self._is_unsure = False
        self._missing_since: float | None = None
        self._stop = threading.Event()
        self._lost = threading.Event()
        self._keeper: threading.Thread | None = None
        self.renewed = 0
        self.failed = 0

    def remaining(self) -> float:
        """Return for how many seconds no other process can become leader; 0 if this process does not lead."""
        return max(0.0, self._until - self._clock.now())

    @property
    def is_lost(self) -> bool:
        """Return whether this process led and has lost the lease for good."""
        return self._lost.is_set()

    @property
    def holder(self) -> str:
        """Return the leader that was seen last; empty: unknown."""
        return (self._seen.spec.holder_identity or "") if self._seen is not None else ""

    def acquire(self) -> bool:
        """Wait until we lead, then renew in a thread; return False if ``stop`` was called first."""
        while not self._stop.is_set():
            if self.attempt():
                break
            self._stop.wait(self._options.retry_period * self._random.uniform(1.0, 1.2))
        if self._stop.is_set():
            return False
        self._keeper = threading.Thread(target=self._keep, name="lease", daemon=True)
        self._keeper.start()
        return not self._stop.is_set()

    def stop(self) -> None:
        """Stop taking and renewing the lease. Any thread may call this."""
        self._stop.set()

    def release(self) -> None:
        """Release the lease, so that another process may lead at once. Call it only when no write of ours is under way."""
        self.stop()
        if self._keeper is not None:
            self._keeper.join(self._options.renew_deadline)
        if self.remaining() <= 0 or self._seen is None:
            return
        self._until = -1.0
        now = self._timestamp()
        said = _Spec(
            holder_identity="",
            lease_duration_seconds=_RELEASED_SECONDS,
            acquire_time=now,
            renew_time=now,
            lease_transitions=self._held.lease_transitions,
        )
        try:
            self._write(self._seen.metadata.resource_version, said)
        except ApiError as error:
            self._report_problem(str(error))

    def _keep(self) -> None:
        """Renew until ``_stop`` is set, or until renewals have failed for too long."""
        while not self._stop.wait(self._options.retry_period) and not self.is_lost:
            self.attempt()
            self.give_up_if_late()

    def give_up_if_late(self) -> None:
        """Stop leading if no renewal succeeded within the deadline."""
        renewed_at = self._until - self._options.duration
        if self._clock.now() > renewed_at + self._options.renew_deadline:
            self._until = -1.0
            self._lost.set()

    def attempt(self) -> bool:
        """Take the lease or renew it; return whether it is ours now."""
        try:
            ours, problem = self._take_or_renew(), ""
        except KubeApiError as error:
            ours, problem = False, str(error)
            self.failed += 1
        self._report_problem(problem)
        return ours

    def _take_or_renew(self) -> bool:
        self._read_lease()
        began = self._clock.now()
        seen = self._seen
        ours = seen is not None and seen.spec.holder_identity == self._options.identity
        # A missing lease does not tell whether another process held it meanwhile.
        knows = seen is not None and (seen.metadata.resource_version or self.remaining() > 0)
        if self._until >= 0 and (self._is_late() or not (ours and knows)):
            # This process was silent for too long: another one may have held the lease meanwhile. Writes that other threads
            # of this process decided on before that must not be allowed again.
            self._until = -1.0
            self._lost.set()
        # Our name in a lease that we never wrote was put there by an editor: another process may still lead.
        may_take = self._until >= 0 or (ours and self._is_unsure) or self._has_run_out(seen, began)
        if self.is_lost or not may_take:
            return False
        said = self._renewed(seen, takes=self._until < 0)
        try:
            self._write(seen.metadata.resource_version if seen is not None else "", said)
        except ApiError as error:
            self._is_unsure = not error.is_conflict
            raise
        self._held, self._until = said, began + self._options.duration
        self.renewed += 1
        return True

    def _is_late(self) -> bool:
        return self._until <= self._clock.now()

    def _read_lease(self) -> None:
        try:
            found = _decode(self._api.send(Request(method="GET", path=self._path, timeout=self._call_seconds)))
        except ApiError as error:
            if not error.is_missing:
                raise
            if self._missing_since is None:
                self._missing_since = self._clock.now()
            if self._seen is not None:
                self._seen = msgspec.structs.replace(self._seen, metadata=_LeaseMeta())
            return
        # Counted from after the response. The holder counts from before the request that renewed: we never count shorter.
        if self._seen is None or found.spec != self._seen.spec:
            self._seen_at = self._clock.now()
        self._seen, self._missing_since = found, None
        if found.spec.holder_identity:
            self._renewal = found.spec.renew_time

    def _has_run_out(self, seen: _Lease | None, now: float) -> bool:
        if self._missing_since is not None and not (seen is None and self._options.is_first()):
            # Another process may have taken it since it was last read, before it was deleted.
            return now > self._missing_since + self._options.duration and (seen is None or self._is_over(seen, now))
        return seen is None or self._is_over(seen, now)

    def _is_over(self, seen: _Lease, now: float) -> bool:
        lasts = max(seen.spec.lease_duration_seconds or 0, self._options.duration)
        # A release has a time of its own. One with the time of the last renewal was made by an editor.
        is_given_up = _is_release(seen.spec) and (self._renewal is None or seen.spec.renew_time != self._renewal)
        return is_given_up or now > self._seen_at + lasts

    def _renewed(self, seen: _Lease | None, *, takes: bool) -> _Spec:
        now = self._timestamp()
        before = seen.spec if seen is not None else _Spec()
        changes = int(takes and before.holder_identity != self._options.identity and seen is not None)
        return _Spec(
            holder_identity=self._options.identity,
            lease_duration_seconds=ceil(self._options.duration),
            acquire_time=now if takes else before.acquire_time,
            renew_time=now,
            lease_transitions=(before.lease_transitions or 0) + changes,
        )

    def _timestamp(self) -> str:
        return datetime.fromtimestamp(self._wall.now(), tz=UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")

    def _write(self, version: str, said: _Spec) -> None:
        """Write the lease. Raise ApiError; a conflict means that another process was faster."""
        metadata: dict[str, Any] = {"name": self._options.name, "namespace": self._options.namespace}
        if version:
            metadata["resourceVersion"] = version
        spec = {key: value for key, value in msgspec.to_builtins(said).items() if value is not None}
        body = {"apiVersion": f"{_LEASES}/v1", "kind": "Lease", "metadata": metadata, "spec": spec}
        method, path = ("PUT", self._path) if version else ("POST", self._collection)
        encoded = msgspec.json.encode(body)
        request = Request(method=method, path=path, body=encoded, timeout=self._call_seconds)
        self._seen = _decode(self._api.send(request))
        self._seen_at = self._clock.now()


def _is_release(spec: _Spec) -> bool:
    """Return whether the holder released the lease. An editor that removes its name leaves the other fields unchanged."""
    is_ended = spec.lease_duration_seconds == _RELEASED_SECONDS and spec.acquire_time == spec.renew_time
    return is_ended and not spec.holder_identity


def _decode(raw: bytes) -> _Lease:
    return read_answer(raw, _Lease, "Lease")
