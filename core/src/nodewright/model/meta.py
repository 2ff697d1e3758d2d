"""Parts of every Kubernetes object: names, labels, owners, selectors, conditions."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from nodewright.model.quantity import Quantity


class Kube(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """Base of all decoded Kubernetes values; holds only the fields that nodewright uses.

    The cyclic garbage collector ignores them: frozen values never form a cycle, and there are millions of them.
    """


Resources = dict[str, Quantity]
Time = Annotated[datetime, Meta(tz=True)]
Int32 = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]


class OwnerReference(Kube, frozen=True, kw_only=True):
    kind: str
    name: str
    uid: str = ""
    api_version: str = ""
    controller: bool = False


class ObjectMeta(Kube, frozen=True, kw_only=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: tuple[OwnerReference, ...] = ()
    creation_timestamp: Time | None = None
    deletion_timestamp: Time | None = None
    resource_version: str = ""
    generation: Int64 = 0

    @property
    def controller(self) -> OwnerReference | None:
        """Return the owner that manages the object; None if there is none."""
        for owner in self.owner_references:  # no generator: this runs for every pod in every loop
            if owner.controller:
                return owner
        return None


class Requirement(Kube, frozen=True, kw_only=True):
    """One expression of a label selector or node selector."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class LabelSelector(Kube, frozen=True, kw_only=True):
    match_labels: dict[str, str] = {}
    match_expressions: tuple[Requirement, ...] = ()


class Object(Kube, frozen=True, kw_only=True):
    """A named object of the API server."""

    metadata: ObjectMeta = ObjectMeta()

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def key(self) -> str:
        """Return ``namespace/name``, or only the name of a cluster-scoped object."""
        namespace = self.metadata.namespace
        return f"{namespace}/{self.metadata.name}" if namespace else self.metadata.name

    @property
    def created(self) -> float:
        """Return the creation time in seconds since the epoch; 0 if it is not given."""
        created = self.metadata.creation_timestamp
        return created.timestamp() if created is not None else 0.0


# The longest message that the API server accepts, in characters.
MOST_TEXT = 32_768


class Condition(Kube, frozen=True, kw_only=True):
    """One condition of an object."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: Time | None = None
    observed_generation: int = 0

    @property
    def is_true(self) -> bool:
        return self.status == "True"

    @property
    def since(self) -> float:
        """Return the time of the last change of status, in seconds since the epoch; 0 if it is not given."""
        return self.last_transition_time.timestamp() if self.last_transition_time is not None else 0.0


def as_of(now: float, fresh: Condition, held: Condition | None) -> Condition:
    """Return the condition with its transition time, and its message cut to MOST_TEXT.

    The transition time is ``now`` (seconds since the epoch). If ``held`` has the same status, it is the time of
    ``held``, but not later than ``now``.
    """
    since = datetime.fromtimestamp(now, tz=UTC)
    if held is not None and held.status == fresh.status:
        since = min(since, held.last_transition_time or since)
    return replace(fresh, message=fresh.message[:MOST_TEXT], last_transition_time=since)


def find_condition(held: Sequence[Condition], kind: str) -> Condition | None:
    """Return the condition of this type; None if there is none."""
    return next((one for one in held if one.type == kind), None)


def with_condition(held: tuple[Condition, ...], fresh: Condition) -> tuple[Condition, ...]:
    """Return the conditions with ``fresh`` added, or in place of the one of the same type."""
    if find_condition(held, fresh.type) is None:
        return (*held, fresh)
    return tuple(fresh if one.type == fresh.type else one for one in held)
