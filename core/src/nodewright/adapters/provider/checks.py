"""Checks of the results of hooks. A check returns the clean value, or raises Unfit with a message.

The message completes the sentence "the hook answered …".
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from nodewright.model.capability import Capability
from nodewright.model.group import (
    ErrorClass,
    FailedInstance,
    FailureScope,
    GroupOptions,
    Instance,
    MachineType,
    NewNodeGroup,
    NodeGroup,
    NodeTemplate,
    Price,
)
from nodewright.model.interruption import Interruption, InterruptionKind
from nodewright.model.limits import NodeGroupFlag
from nodewright.model.quantity import ZERO, Quantity
from nodewright.spec.hooks import ProvisioningVerdict

_HIDDEN = "***"
_NAMES = "token|secret|passw|signature|credential|apikey|api[-_]key"
_IS = r"""(?:=["']?|["'] ?: ?["'])"""
# User names and passwords in URLs; values of names that sound secret; the content of an Authorization header.
_SECRETS = (
    (re.compile(r"(?<=://)[^/\s@]{1,500}@"), f"{_HIDDEN}@"),
    (re.compile(rf"(?i)\b((?:[\w.-]{{0,40}}(?:{_NAMES})[\w.-]{{0,40}}|sig){_IS})[^&\s\"'<>,;]+"), rf"\1{_HIDDEN}"),
    (re.compile(r"(?i)\b(authorization: *(?:[a-z]+ +)?|bearer +)[^\s\"',]+"), rf"\1{_HIDDEN}"),
)


def writable(text: str) -> str:
    """Return the text without lone surrogates, which UTF-8 cannot hold but a cloud's JSON may contain."""
    return text if text.isascii() else text.encode(errors="replace").decode()


def tellable(text: str) -> str:
    """Return the text as ``writable`` does, without what looks like a secret: SDKs put URLs and headers into errors."""
    text = writable(text)
    for pattern, instead in _SECRETS:
        text = pattern.sub(instead, text)
    return text


T = TypeVar("T")
V = TypeVar("V", bound=object)

# The API server's rule for the reason of a condition.
_REASON = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]{0,1022}[A-Za-z0-9_])?")
_CURRENCY = re.compile(r"[A-Z]{3}")
_NEEDED_RESOURCES = ("cpu", "memory", "pods")


class Unfit(ValueError):
    """The answer breaks the contract."""


def a(kind: type[T]) -> Callable[[Any], T]:
    """Return a check that the answer is exactly one value of that kind."""
    article = "an" if kind.__name__[0] in "AEIOaeio" else "a"

    def check(answer: Any) -> T:
        if not isinstance(answer, kind):
            raise Unfit(f"{_shown(answer)}, not {article} {kind.__name__}")
        return answer

    return check


def done(answer: Any) -> bool:
    """Check that the answer is True: False would be a failure without a reason."""
    if answer is not True:
        raise Unfit(f"{_shown(answer)}, not True")
    return True


def several(kind: type[T]) -> Callable[[Any], tuple[T, ...]]:
    """Return a check for a sequence of values of that kind."""
    one = a(kind)

    def check(answer: Any) -> tuple[T, ...]:
        if isinstance(answer, str) or not isinstance(answer, Sequence):
            raise Unfit(f"{_shown(answer)}, not a sequence of {kind.__name__}")
        return tuple(one(item) for item in answer)

    return check


def names(answer: Any) -> tuple[str, ...]:
    """Check for unique, non-empty strings."""
    found = several(str)(answer)
    _demand_unique(found, "the name")
    return found


def name(answer: Any) -> str:
    if not isinstance(answer, str) or not answer:
        raise Unfit(f"{_shown(answer)}, not a non-empty string")
    if writable(answer) != answer:
        raise Unfit(f"{_shown(answer)}, not a text")
    return answer


def size(answer: Any) -> int:
    """Check for a count of machines; a bool is refused."""
    if isinstance(answer, bool) or not isinstance(answer, int):
        raise Unfit(f"{_shown(answer)}, not a whole number")
    if answer < 0:
        raise Unfit(f"{answer}, a negative number")
    return answer


def size_up_to(most: int) -> Callable[[Any], int]:
    """Return a check that the answer is a number of accepted machines, at most ``most``."""

    def check(answer: Any) -> int:
        if size(answer) > most:
            raise Unfit(f"{answer} accepted of {most} asked for")
        return size(answer)

    return check


def ids_among(asked: Sequence[str]) -> Callable[[Any], tuple[str, ...]]:
    """Return a check for accepted ids: each must be among those asked for."""

    def check(answer: Any) -> tuple[str, ...]:
        accepted = names(answer)
        if strange := sorted(set(accepted) - set(asked)):
            raise Unfit(f"{_shown(strange[0])}, which was not asked for")
        return accepted

    return check


def price(answer: Any) -> Price:
    """Check for a price that is finite, not negative, dated by a number and in a currency's code."""
    found = a(Price)(answer)
    if isinstance(found.per_hour, bool) or not isinstance(found.per_hour, (int, float)):
        raise Unfit(f"a price of {_shown(found.per_hour)}, not a number")
    if not math.isfinite(found.per_hour) or found.per_hour < 0:
        raise Unfit(f"a price of {found.per_hour}, not a finite number of at least 0")
    if not isinstance(found.currency, str) or not _CURRENCY.fullmatch(found.currency):
        raise Unfit(f"a price in {_shown(found.currency)}, not a currency's code such as USD")
    if found.as_of is not None and not math.isfinite(instant(found.as_of)):
        raise Unfit(f"a price as of {found.as_of}, not a moment")
    return msgspec.structs.replace(found, per_hour=float(found.per_hour), source=name(found.source))


def _seconds(answer: Any) -> float:
    if isinstance(answer, bool) or not isinstance(answer, (int, float)):
        raise Unfit(f"{_shown(answer)}, not a number")
    if not math.isfinite(answer) or answer < 0:
        raise Unfit(f"{answer}, not a number of seconds")
    return float(answer)


def instant(answer: Any) -> float:
    if isinstance(answer, bool) or not isinstance(answer, (int, float)) or math.isnan(answer):
        raise Unfit(f"{_shown(answer)}, not a moment")
    return float(answer)


def node_groups(limits: Mapping[str, NodeGroupFlag]) -> Callable[[Any], tuple[NodeGroup, ...]]:
    """Return a check of node groups. A group that ``limits`` names must have the limits given there."""

    def check(answer: Any) -> tuple[NodeGroup, ...]:
        groups = tuple(node_group(group) for group in several(NodeGroup)(answer))
        _demand_unique((group.id for group in groups), "the group id")
        for group in groups:
            asked = limits.get(group.id)
            if asked is not None and (asked.min_size, asked.max_size) != (group.min_size, group.max_size):
                found = f"group {group.id} with the limits {group.min_size} to {group.max_size}"
                raise Unfit(f"{found}, while --nodes says {asked.min_size} to {asked.max_size}")
        return groups

    return check


def node_group(answer: Any) -> NodeGroup:
    group = a(NodeGroup)(answer)
    name(group.id)
    if size(group.min_size) > size(group.max_size):
        raise Unfit(f"group {group.id} with minimum {group.min_size} above maximum {group.max_size}")
    for capability, reason in group.switched_off.items():
        a(Capability)(capability)
        name(reason)
    for bucket in a(frozenset)(group.buckets):
        name(bucket)
    return group


def machine_types(answer: Any) -> tuple[MachineType, ...]:
    kinds = several(MachineType)(answer)
    _demand_unique((name(kind.name) for kind in kinds), "the machine type")
    for kind in kinds:
        template(kind.template)
        name(kind.id_prefix)
        if kind.price is not None:
            price(kind.price)
    return kinds


def made_group(spec: NewNodeGroup) -> Callable[[Any], NodeGroup]:
    """Return a check for the new group: it has the id asked for and is marked with its machine type."""

    def check(answer: Any) -> NodeGroup:
        group = node_group(answer)
        if (group.id, group.autoprovisioned) != (spec.group_id, spec.machine_type):
            said = f"group {_shown(group.id)} of machine type {_shown(group.autoprovisioned)}"
            raise Unfit(f"{said}, asked for {spec.group_id} of {spec.machine_type}")
        return group

    return check


def instances(*, ignores_case: bool) -> Callable[[Any], tuple[Instance, ...]]:
    """Return a check for instances with unique ids; ``ignores_case``: the provider compares ids without case."""

    def check(answer: Any) -> tuple[Instance, ...]:
        found = several(Instance)(answer)
        _demand_unique((name(item.id).lower() if ignores_case else name(item.id) for item in found), "the instance id")
        return found

    return check


def failures(answer: Any) -> tuple[FailedInstance, ...]:
    found = several(FailedInstance)(answer)
    _demand_unique((name(failure.failure_id) for failure in found), "the failure id")
    for failure in found:
        if size(failure.count) < 1 or failure.instance_id == "":
            raise Unfit(f"failure {failure.failure_id} that stands for no machine")
        if failure.instance_id is not None:
            name(failure.instance_id)
        a(ErrorClass)(failure.error_class)
        a(FailureScope)(failure.scope)
        for text in (failure.code, failure.message, failure.bucket):
            a(str)(text)
    return tuple(
        msgspec.structs.replace(failure, code=writable(failure.code), message=tellable(failure.message))
        for failure in found
    )


def interruptions(answer: Any) -> tuple[Interruption, ...]:
    """Check for notices with unique ids that each name a machine."""
    found = several(Interruption)(answer)
    _demand_unique((name(notice.id) for notice in found), "the notice")
    for notice in found:
        name(notice.instance_id)
        a(InterruptionKind)(notice.kind)
        if notice.deadline is not None and not math.isfinite(instant(notice.deadline)):
            raise Unfit(f"notice {notice.id} with the deadline {notice.deadline}, not a moment")
        if notice.scope is not None:
            a(FailureScope)(notice.scope)
    return found


def template(answer: Any) -> NodeTemplate:
    found = a(NodeTemplate)(answer)
    for resource in _NEEDED_RESOURCES:
        if resource not in found.allocatable:
            raise Unfit(f"a template without {resource}")
    _demand_quantities(found.allocatable)
    _demand_quantities(found.capacity)
    return found


def group_options(answer: Any) -> GroupOptions:
    """Return the options with plain numbers: a plugin may use number types of its own, and options are saved."""
    found = a(GroupOptions)(answer)
    return msgspec.structs.replace(
        found,
        max_node_provision_seconds=_seconds(found.max_node_provision_seconds),
        max_node_startup_seconds=_seconds(found.max_node_startup_seconds),
    )


def verdict(answer: Any) -> ProvisioningVerdict:
    """Return the verdict; its reason must be a valid reason of a condition."""
    found = a(ProvisioningVerdict)(answer)
    if not _REASON.fullmatch(name(found.reason)):
        raise Unfit(f"a verdict with the reason {_shown(found.reason)}, not letters, digits and underscores")
    return found


def _demand_quantities(resources: Mapping[str, object]) -> None:
    for resource, amount in resources.items():
        if not isinstance(amount, Quantity) or amount < ZERO:
            raise Unfit(f"a template with {resource} of {_shown(amount)}, not a Quantity of at least 0")


def _demand_unique(values: Iterable[str], what: str) -> None:
    seen: set[str] = set()
    for value in values:
        if not value:
            raise Unfit(f"an empty string where {what} belongs")
        if value in seen:
            raise Unfit(f"{what} {value} twice")
        seen.add(value)


def _shown(answer: object) -> str:
    """Return a short repr: a plugin's result may be huge or unprintable."""
    text = repr(answer)
    return text if len(text) <= 80 else text[:77] + "..."
