"""Increases that are granted as a whole or not at all, by Compute Engine's resize requests.

A request that is not granted in time is taken back, so nothing of it comes later. Groups of which Compute Engine takes no
resize requests lose the capability, with its reason.
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

_LOOK_SECONDS = 2.0
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
        """Groups that take no resize requests, with what Compute Engine said."""
        return self._unfit

    def increase(self, listed: NodeGroup, expected: int, target: int) -> int:
        """Answers how many machines were granted: all of them. Raises OutOfCapacity if not in time."""
        group = self._writer.expect(listed.id, expected, machines=False)
        demand_room(listed, target)
        attempt = self._writer.attempt(group, expected, target)
        name = f"nodewright-{attempt.request_ids[0]}"
        try:
            self._api.request_resize(group.ref, name, target - expected, attempt.request_ids[0])
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
        """None once it is granted; otherwise why not, and nothing is asked for any more."""
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
            self._clock.sleep(_LOOK_SECONDS)
        return self._take_back(group, name)

    def _take_back(self, group: Group, name: str) -> ProviderError | None:
        refused = attempt(lambda: self._api.cancel_resize(group.ref, name))
        last = self._api.resize_request(group.ref, name)
        if last is not None and last.state == _GRANTED:
            return None
        if isinstance(refused, ProviderError):
            raise refused
        seconds = f"{self._options.atomic_timeout:g} s"
        said = f"the resize request {name} of {group.ref.name} was not granted in {seconds} and taken back"
        return _why_not(last or ResizeRequest(), said)


def _why_not(request: ResizeRequest, said: str) -> ProviderError:
    found = failed_operation(said, request.complaints) if request.complaints else OutOfCapacity(said)
    return found if isinstance(found, Shortage) else OutOfCapacity(str(found))
