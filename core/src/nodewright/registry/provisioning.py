"""What is remembered of requests for capacity from loop to loop, beside the conditions that the API server keeps."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from nodewright.model.group import GroupRef


class Retry(msgspec.Struct, frozen=True, kw_only=True):
    """A request was examined ``at`` that time (epoch seconds) in vain; it is again ``wait`` seconds later."""

    at: float
    wait: float


class GrantPart(msgspec.Struct, frozen=True, kw_only=True):
    """What one group owes a grant: ``nodes`` machines, of which those came whose ids are ``machines``.

    ``ahead`` machines of those that come first are for others. ``asked``: the call is known to have been made; until
    then a target above ``expected_target`` tells.
    """

    provider: str
    group: str
    expected_target: int
    nodes: int
    ahead: int = 0
    asked: bool = False
    machines: tuple[str, ...] = ()

    @property
    def ref(self) -> GroupRef:
        return GroupRef(self.provider, self.group)

    @property
    def missing(self) -> int:
        return self.nodes - len(self.machines)


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """Machines under way for a request of all or nothing; times in epoch seconds.

    ``key`` is the request's ``namespace/name``. By ``deadline`` all ``nodes`` must have registered, and ``patience``
    seconds later be ready. ``broken`` says why it is over: then what came goes, and what did not is withdrawn.
    """

    key: str
    started: float
    deadline: float
    patience: float
    nodes: int
    parts: tuple[GrantPart, ...] = ()
    broken: str = ""

    def with_part(self, fresh: GrantPart) -> "Grant":
        """With that part in place of the one of its group."""
        parts = tuple(fresh if part.ref == fresh.ref else part for part in self.parts)
        return msgspec.structs.replace(self, parts=parts)


@dataclass(frozen=True, kw_only=True)
class ProvisioningMemory:
    """Requests are named by their ids (``ProvisioningRequest.id``).

    ``prefers_requests``: where pods and requests want the cloud in one loop, it is the requests' turn. ``retries`` are
    requests for which no capacity was found. ``homeless_since`` says since when capacity that was promised has not all
    been there (epoch seconds). ``grants`` are machines under way for requests.
    """

    prefers_requests: bool = False
    retries: Mapping[str, Retry] = field(default_factory=dict)
    homeless_since: Mapping[str, float] = field(default_factory=dict)
    grants: Mapping[str, Grant] = field(default_factory=dict)
