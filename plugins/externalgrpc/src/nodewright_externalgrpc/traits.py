"""Properties of a group that seldom change: its template, its options, its price. They are cached."""

from collections.abc import Iterable
from random import Random
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from nodewright.spec import Clock, CloudBusy, GroupOptions, NodeTemplate, Price, ProviderError, ProviderUnavailable
from nodewright.spec.cache import ResultCache, attempt, unwrap
from nodewright_externalgrpc.channel import Channel
from nodewright_externalgrpc.convert import price_request, read_node, read_options, write_options
from nodewright_externalgrpc.errors import NotOffered
from nodewright_externalgrpc.wire import GROUP_ANNOTATION, messages

T = TypeVar("T")

_HOUR = 3600.0


class Trait(NamedTuple):
    """Each field is a value, or the error of reading it. ``options`` are the results for two different defaults."""

    template: NodeTemplate | ProviderError
    options: tuple[GroupOptions, GroupOptions] | ProviderError
    price: Price | ProviderError


class Traits:
    """Traits of all groups. While the server is unavailable the known traits stay."""

    def __init__(self, channel: Channel, clock: Clock, random: Random, seconds: float) -> None:
        self._channel = channel
        self._clock = clock
        self._cache: ResultCache[str, Trait] = ResultCache(clock, random, seconds)

    def load_missing(self, group_ids: Iterable[str]) -> None:
        """Read the groups whose traits are missing or expired."""
        names = list(group_ids)
        self._cache.load_missing(names, self._read)
        self._cache.keep_only(names)

    def template(self, group_id: str) -> NodeTemplate:
        """Return the template; raise the ProviderError of reading it."""
        return unwrap(self._cache.get(group_id).template)

    def options(self, group_id: str, defaults: GroupOptions) -> GroupOptions:
        """Return the group's options.

        A field that the server returned alike for two different defaults is the group's own. A field that followed the
        defaults is not.
        """
        one, other = unwrap(self._cache.get(group_id).options)
        names = [field.name for field in msgspec.structs.fields(GroupOptions)]
        own = {name: getattr(one, name) for name in names if getattr(one, name) == getattr(other, name)}
        return replace(defaults, **own)

    def price(self, group_id: str) -> Price:
        """Return the price; raise the ProviderError of reading it."""
        return unwrap(self._cache.get(group_id).price)

    def lacks(self, group_id: str) -> tuple[str, ...]:
        """Return the calls that the server does not offer for this group."""
        try:
            trait = self._cache.get(group_id)
        except (KeyError, ProviderError):
            return ()
        named = zip(("NodeGroupTemplateNodeInfo", "NodeGroupGetOptions", "PricingNodePrice"), trait, strict=True)
        return tuple(name for name, value in named if isinstance(value, NotOffered))

    def _read(self, group_id: str) -> Trait:
        template = _value(attempt(lambda: self._read_template(group_id)))
        own = template if isinstance(template, NodeTemplate) else None
        return Trait(
            template=template,
            options=_value(attempt(lambda: (self._read_options(group_id, _ONE), self._read_options(group_id, _OTHER)))),
            price=_value(attempt(lambda: self._read_price(group_id, own))),
        )

    def _read_template(self, group_id: str) -> NodeTemplate:
        answer = self._channel.read("NodeGroupTemplateNodeInfo", id=group_id)
        return read_node(answer.nodeBytes or answer.oldNode)

    def _read_options(self, group_id: str, defaults: GroupOptions) -> GroupOptions:
        answer = self._channel.read("NodeGroupGetOptions", id=group_id, defaults=write_options(defaults))
        if not answer.HasField("nodeGroupAutoscalingOptions"):
            return defaults
        return read_options(answer.nodeGroupAutoscalingOptions, defaults)

    def _read_price(self, group_id: str, template: NodeTemplate | None) -> Price:
        told = template or NodeTemplate(allocatable={})
        node = messages.ExternalGrpcNode(name=f"template-of-{group_id}", labels=told.labels)
        node.annotations.update({**told.annotations, GROUP_ANNOTATION: group_id})
        now = self._clock.now()
        per_hour: float = self._channel.read("PricingNodePrice", **price_request(node, now, now + _HOUR)).price
        return Price(per_hour=per_hour, source=f"PricingNodePrice of {self._channel.address}", as_of=now)


def _defaults(number: float, threshold: float, *, flag: bool) -> GroupOptions:
    """Return options with one value for every field of a type, to see which fields a server copies."""
    found: dict[str, Any] = {}
    for field in msgspec.structs.fields(GroupOptions):
        seconds_or_share = threshold if field.name.endswith("threshold") else number
        found[field.name] = flag if isinstance(field.default, bool) else seconds_or_share
    return GroupOptions(**found)


_ONE = _defaults(1001.0, 0.25, flag=False)
_OTHER = _defaults(2002.0, 0.75, flag=True)


def _value(answer: T | ProviderError) -> T | ProviderError:
    """Return the answer; raise an error that passes by itself, so that the whole trait is read again soon."""
    if isinstance(answer, ProviderUnavailable | CloudBusy):
        raise answer
    return answer
