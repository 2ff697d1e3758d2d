"""Preemptions of spot machines. Compute Engine lists them as operations, about half a minute before the machine stops."""

import threading
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from nodewright.spec import Clock, FailureScope, Interruption, InterruptionKind, ProviderError
from nodewright.spec.cache import attempt
from nodewright_gce.api import Api
from nodewright_gce.options import Options
from nodewright_gce.refs import Place, parse_instance_url

# Seconds that a preempted machine has to shut down.
_STOP_SECONDS = 30.0
# A group may create a machine of the same name again: an older operation is about the former one.
_OVER_SECONDS = 120.0


@dataclass
class Preemptions:
    """Reads the operations of zones. ``wait`` runs in a thread of its own, beside all other methods."""

    api: Api
    options: Options
    clock: Clock
    _places: tuple[Place, ...] = ()
    _known: dict[str, Interruption] = field(default_factory=dict)
    _problem: ProviderError | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def refresh(self, places: Collection[Place]) -> None:
        """Read the operations of these zones."""
        with self._lock:
            self._places = tuple(sorted(places))
        answer = attempt(self._read)
        with self._lock:
            self._problem = answer if isinstance(answer, ProviderError) else None

    def wait(self, timeout: float) -> bool:
        """Look again and again, for at most ``timeout`` seconds; return whether there is a new notice."""
        end = self.clock.now() + timeout
        while not self._read():
            left = end - self.clock.now()
            if left <= 0:
                return False
            self.clock.sleep(min(self.options.preemption_interval, left))
        return True

    def told(self, machines: Collection[str]) -> Sequence[Interruption]:
        """Return the notices about these machines; raise ProviderError if the operations could not be read."""
        with self._lock:
            if self._problem is not None:
                raise self._problem
            return tuple(notice for notice in self._known.values() if notice.instance_id in machines)

    def _read(self) -> bool:
        """Read all operations; return whether one of them was not known."""
        found: dict[str, Interruption] = {}
        with self._lock:
            places = self._places
        for place in places:
            for one in self.api.preemptions(place):
                ref, started = parse_instance_url(one.target_link), datetime.fromisoformat(one.insert_time).timestamp()
                if ref is not None and self.clock.now() < started + _OVER_SECONDS:
                    found[one.name] = Interruption(
                        id=one.name,
                        instance_id=ref.provider_id,
                        kind=InterruptionKind.RECLAIM,
                        deadline=started + _STOP_SECONDS,
                        scope=FailureScope.GROUP,
                    )
        with self._lock:
            is_new = not found.keys() <= self._known.keys()
            self._known = found
        return is_new
