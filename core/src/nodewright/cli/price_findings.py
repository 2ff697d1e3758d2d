"""What ``doctor`` says about prices: which groups have none, which prices are old, and what is wrong with a file of them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime

from nodewright.adapters.prices_file import PricesFile
from nodewright.adapters.provider import ProviderClient
from nodewright.model.capability import Capability
from nodewright.model.errors import ProviderError
from nodewright.model.group import GroupRef, NodeGroup, Price, make_template_node
from nodewright.model.settings import Settings
from nodewright.observe.pricing import OLD_SECONDS, Pricing
from nodewright.snapshot.observation import GroupSeen
from nodewright.spec.diagnosis import Finding, FindingLevel

_BY_PRICE = frozenset(("price", "least-cost"))


def find_price_findings(settings: Settings, clients: Sequence[ProviderClient], now: float) -> dict[str, list[Finding]]:
    """Return the findings by provider. They are warnings if --expander names one that chooses by price.

    Without --expander they are warnings if some groups have a price and others none, which keeps all from the cheapest mix.

    Raise ConfigError for a bad file of prices.
    """
    file = PricesFile(lambda: settings.scale_up)
    file.check()
    seen = {held.ref: held for client in clients for held in _read(client)}
    priced = Pricing().price(seen, file.read())
    level = FindingLevel.WARNING if _do_prices_matter(settings, priced) else FindingLevel.OK
    return {
        client.name: list(_findings(level, [held for ref, held in priced.items() if ref.provider == client.name], now))
        for client in clients
    }


def _do_prices_matter(settings: Settings, groups: Mapping[GroupRef, GroupSeen]) -> bool:
    if settings.scale_up.expander:
        return not _BY_PRICE.isdisjoint(settings.scale_up.expander.split(","))
    return settings.policy.mixes_groups and len({held.price is None for held in groups.values()}) == 2


def _read(client: ProviderClient) -> Iterator[GroupSeen]:
    """Yield the groups as far as they can be read; what cannot is reported by other findings."""
    try:
        groups = client.node_groups()
    except ProviderError:
        return
    for group in groups:
        yield _seen(client, group)


def _seen(client: ProviderClient, group: NodeGroup) -> GroupSeen:
    ref = GroupRef(client.name, group.id)
    seen = GroupSeen(ref=ref, group=group)
    try:
        template = make_template_node(ref, client.template_node(group.id))
    except ProviderError:
        return seen
    try:
        price = client.node_price(group.id)
    except ProviderError:
        price = None
    return GroupSeen(ref=ref, group=group, template=template, listed_price=price)


def _findings(level: FindingLevel, groups: Iterable[GroupSeen], now: float) -> Iterator[Finding]:
    """Yield one finding for each message; one that concerns several groups names none."""
    concerned: dict[str, list[str]] = {}
    for held in groups:
        concerned.setdefault(_message(held, now), []).append(held.ref.group_id)
    for message, names in concerned.items():
        if message:
            yield Finding(
                level=level,
                subject="price",
                message=message if len(names) == 1 else f"{len(names)} groups: {message}",
                group_id=names[0] if len(names) == 1 else "",
                capability=Capability.PRICING,
                remedy="see docs/prices.md",
            )


def _message(held: GroupSeen, now: float) -> str:
    """Return what is worth telling of a group's price; empty: nothing."""
    price = held.price
    if held.price_problem:
        return held.price_problem
    if price is None:
        return "no price is known: it is planned without one, unless --assume-prices is set"
    if price.source.startswith("assumed"):
        return f"no price is known: it is {price.source}"
    if price.as_of is not None and now - price.as_of > OLD_SECONDS:
        return f"{_age(price, now)} old: {price.source}"
    return ""


def _age(price: Price, now: float) -> str:
    assert price.as_of is not None
    day = datetime.fromtimestamp(price.as_of, UTC).date().isoformat()
    return f"{(now - price.as_of) // 86400:.0f} days (of {day})"
