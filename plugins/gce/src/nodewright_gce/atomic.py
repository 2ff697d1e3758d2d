"""Increases that Compute Engine grants as a whole or not at all, by resize requests.

A request that cannot be granted at once waits in Compute Engine's queue, until it is granted or the core gives it up: see
``resize_queue``. A group for which Compute Engine accepts no resize requests loses the capability, with its reason.
"""

from collections.abc import Mapping

from nodewright.spec import NodeGroup, ProviderError, ProviderUnavailable
from nodewright_gce.api import Api
from nodewright_gce.errors import TOO_SLOW
from nodewright_gce.resize_queue import PREFIX, ResizeQueue
from nodewright_gce.writes import Writer, demand_room

# Why a group has no atomic resize.
UNLIMITED = (
    "Compute Engine grants resize requests for machines with a run duration; neither the template has one, nor is the option"
    " atomic_run_duration set"
)
REGIONAL = "resize requests of regional groups are not used"
_UNFIT = frozenset(("invalid", "badRequest", "unsupportedOperation", "conditionNotMet", "operationNotSupported"))


class AtomicWriter:
    """Sends resize requests."""

    def __init__(self, api: Api, queue: ResizeQueue, writer: Writer) -> None:
        self._api = api
        self._queue = queue
        self._writer = writer
        self._unfit: dict[str, str] = {}

    @property
    def unfit(self) -> Mapping[str, str]:
        """Groups that accept no resize requests, with Compute Engine's message."""
        return self._unfit

    def increase(self, listed: NodeGroup, expected: int, target: int) -> int:
        """Request the machines and return their number; raise an error if Compute Engine refuses them at once."""
        group = self._writer.expect(listed.id, expected, machines=False)
        demand_room(listed, target)
        pending = self._writer.open_write(group, expected, target)
        name = f"{PREFIX}{pending.request_ids[0]}"
        self._queue.add(group.ref, name, target - expected)
        try:
            self._api.request_resize(group.ref, name, target - expected, pending.request_ids[0])
        except ProviderUnavailable:
            raise
        except ProviderError as error:
            if error.code == TOO_SLOW:
                raise ProviderUnavailable(str(error)) from error
            self._queue.forget(listed.id, name)
            self._writer.settle(listed.id)
            if error.code in _UNFIT:
                self._unfit[listed.id] = str(error)
            raise
        self._writer.settle(listed.id)
        refused = self._queue.note_accepted(listed.id, name)
        if refused is not None:
            raise refused
        return target - expected
