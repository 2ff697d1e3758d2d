"""What is remembered of requests for capacity from loop to loop, beside the conditions that the API server keeps."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from nodewright.model.group import GroupRef


class Retry(msgspec.Struct, frozen=True, kw_only=True):
    """A request was examined ``at`` that time (epoch seconds) in vain; it is again ``wait`` seconds later."""

    at: float
    wait: float


class Shortfall(NamedTuple):
    """Why a group is at fault that a reservation is broken, as code and message.

    ``asked`` is when machines were asked for that nobody has seen (epoch seconds; 0: it is not about such machines).
    """

    code: str
    message: str
    asked: float = 0.0


class GrantPart(msgspec.Struct, frozen=True, kw_only=True):
    """What one group owes a grant: ``nodes`` machines, of which those came whose ids are ``machines``.

    ``ahead`` machines of those that come first are for others. ``asked``: the call is known to have been made; until
    then a target above ``expected_target`` tells. All of them must have registered by ``deadline`` (epoch seconds; 0:
    by that of the grant). ``withdrawn_at`` is when a decrease for it was last tried in vain (0: never).
    """

    provider: str
    group: str
    expected_target: int
    nodes: int
    ahead: int = 0
    asked: bool = False
    machines: tuple[str, ...] = ()
    deadline: float = 0.0
    withdrawn_at: float = 0.0

    @property
    def ref(self) -> GroupRef:
        return GroupRef(self.provider, self.group)

    @property
    def missing(self) -> int:
        return self.nodes - len(self.machines)


class Reservation(msgspec.Struct, frozen=True, kw_only=True):
    """Machines under way for a request of all or nothing; times in epoch seconds.

    ``key`` is the request's ``namespace/name``. By ``deadline``, the latest of its parts, all ``nodes`` must have
    registered, and ``patience`` seconds later be ready. ``broken`` says why it is over: then what came goes, and what did
    not is withdrawn. Meanwhile the request may get another.
    """

    key: str
    started: float
    deadline: float
    patience: float
    nodes: int
    parts: tuple[GrantPart, ...] = ()
    broken: str = ""

    def leftover_name(self, request_id: str) -> str:
        """By which it is remembered once it is broken, so that it does not keep the request from its next try."""
        return f"{request_id}@{self.started:.3f}"

    def with_part(self, fresh: GrantPart) -> "Reservation":
        """With that part in place of the one of its group."""
        parts = tuple(fresh if part.ref == fresh.ref else part for part in self.parts)
        return msgspec.structs.replace(self, parts=parts)


@dataclass(frozen=True, kw_only=True)
class ProvisioningMemory:
    """Requests are named by their ids (``ProvisioningRequest.id``).

    ``prefers_requests``: where pods and requests want the cloud in one loop, it is the requests' turn. ``retries`` are
    requests for which no capacity was found. ``homeless_since`` says since when capacity that was promised has not all
    been there (epoch seconds). ``grants`` are machines under way for requests; one that is broken has a name of its own
    (``Grant.leftover_name``).
    """

    prefers_requests: bool = False
    retries: Mapping[str, Retry] = field(default_factory=dict)
    homeless_since: Mapping[str, float] = field(default_factory=dict)
    grants: Mapping[str, Reservation] = field(default_factory=dict)
