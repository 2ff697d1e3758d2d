"""Increases that Compute Engine grants as a whole or not at all, by resize requests.

A request that is not granted in time is cancelled, so that no machine of it comes later. A group for which Compute
Engine accepts no resize requests loses the capability, with its reason.
"""

from collections.abc import Mapping

from nodewright.spec import Clock, NodeGroup, OutOfCapacity, ProviderError, ProviderUnavailable, Shortage
from nodewright.spec.cache import attempt
from nodewright_gce.api import Api
from nodewright_gce.errors import failed_operation
from nodewright_gce.fleet import Fleet, Group
from nodewright_gce.options import Options
from nodewright_gce.shapes import ResizeRequest
from nodewright_gce.writes import Writer, demand_room

# Why a group has no atomic resize.
UNLIMITED = (
    "Compute Engine grants resize requests for machines with a run duration; neither the template has one, nor is the option"
    " atomic_run_duration set"
)
REGIONAL = "resize requests of regional groups are not used"
_POLL_SECONDS = 2.0
_GRANTED, _OVER = "SUCCEEDED", ("FAILED", "CANCELLED")
_UNFIT = frozenset(("invalid", "badRequest", "unsupportedOperation", "conditionNotMet", "operationNotSupported"))


class AtomicWriter:
    """Sends resize requests and waits for them."""

    def __init__(self, api: Api, fleet: Fleet, writer: Writer, options: Options, clock: Clock) -> None:
        self._api = api
        self._fleet = fleet
        self._writer = writer
        self._options = options
        self._clock = clock
        self._unfit: dict[str, str] = {}

    @property
    def unfit(self) -> Mapping[str, str]:
        """Groups that accept no resize requests, with Compute Engine's message."""
        return self._unfit

    def increase(self, listed: NodeGroup, expected: int, target: int) -> int:
        """Request the machines and return their number; raise OutOfCapacity if they are not granted in time."""
        group = self._writer.expect(listed.id, expected, machines=False)
        demand_room(listed, target)
        pending = self._writer.open_write(group, expected, target)
        name = f"nodewright-{pending.request_ids[0]}"
        try:
            self._api.request_resize(group.ref, name, target - expected, pending.request_ids[0])
        except ProviderUnavailable:
            raise
        except ProviderError as error:
            self._writer.settle(listed.id)
            if error.code in _UNFIT:
                self._unfit[listed.id] = str(error)
            raise
        refused = self._await(group, name)
        self._writer.settle(listed.id)
        self._fleet.reread(listed.id, machines=True)
        if refused is not None:
            raise refused
        return target - expected

    def _await(self, group: Group, name: str) -> ProviderError | None:
        """Wait for the request. Return None if it was granted; otherwise the reason, after it has ended."""
        ends = self._clock.now() + self._options.atomic_timeout
        last = ResizeRequest()
        while self._clock.now() < ends:
            found = self._api.resize_request(group.ref, name)
            if found is not None:
                last = found
            if last.state == _GRANTED:
                return None
            if last.state in _OVER:
                return _why_not(last, f"the resize request {name} of {group.ref.name} is {last.state}")
            self._clock.sleep(_POLL_SECONDS)
        return self._cancel(group, name)

    def _cancel(self, group: Group, name: str) -> ProviderError | None:
        refused = attempt(lambda: self._api.cancel_resize(group.ref, name))
        last = self._api.resize_request(group.ref, name)
        if last is not None and last.state == _GRANTED:
            return None
        if isinstance(refused, ProviderError):
            raise refused
        seconds = f"{self._options.atomic_timeout:g} s"
        said = f"the resize request {name} of {group.ref.name} was not granted in {seconds} and was cancelled"
        return _why_not(last or ResizeRequest(), said)


def _why_not(request: ResizeRequest, said: str) -> ProviderError:
    found = failed_operation(said, request.complaints) if request.complaints else OutOfCapacity(said)
    return found if isinstance(found, Shortage) else OutOfCapacity(str(found))
