"""Carries out ``nodewright doctor``: check the providers' permissions and prices, and find other writers of their groups."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import msgspec
from rich.console import Console

from nodewright.adapters.clocks import BootClock, SystemClock
from nodewright.adapters.config_files import PricesFile
from nodewright.adapters.kube.api import ApiError, Request
from nodewright.adapters.provider import ProviderClient
from nodewright.adapters.server_time import ServerTime
from nodewright.cli.connect import Connector
from nodewright.cli.saved_state import Choice, Place
from nodewright.cli.screen import count, make_console, make_table, safe, write_json
from nodewright.clusterstate.learned_templates import describe, find_differences
from nodewright.clusterstate.memory import LearnedTemplate
from nodewright.model.capability import Capability
from nodewright.model.errors import ConfigError, ProviderError
from nodewright.model.group import GroupRef, NodeGroup, Price, make_template_node
from nodewright.model.limits import parse_gpu_limits
from nodewright.model.settings import Settings
from nodewright.observe.pricing import OLD_SECONDS, Pricing
from nodewright.snapshot.observation import GroupSeen
from nodewright.spec.diagnosis import ApiCalls, Finding, FindingLevel

_BY_PRICE = frozenset(("price", "least-cost"))


def find_price_findings(settings: Settings, clients: Sequence[ProviderClient], now: float) -> dict[str, list[Finding]]:
    """Return the findings by provider. They are warnings if --expander names one that chooses by price.

    Without --expander they are warnings if some groups have a price and others none, which keeps all from the cheapest mix.

    Raise ConfigError for a bad file of prices.
    """
    file = PricesFile(lambda: settings.scale_up)
    file.check()
    listed = {client.name: _read(client) for client in clients}
    seen = {held.ref: held for groups in listed.values() for held in groups or ()}
    priced = Pricing().price(seen, file.read())
    level = FindingLevel.WARNING if _do_prices_matter(settings, priced) else FindingLevel.OK
    found = {
        client.name: list(_findings(level, [held for ref, held in priced.items() if ref.provider == client.name], now))
        for client in clients
    }
    unknown = file.read().find_unknown(seen) if None not in listed.values() else ""
    if unknown and clients:
        found[clients[0].name].append(_finding(FindingLevel.WARNING, unknown))
    return found


def _do_prices_matter(settings: Settings, groups: Mapping[GroupRef, GroupSeen]) -> bool:
    if settings.scale_up.expander:
        return not _BY_PRICE.isdisjoint(settings.scale_up.expander.split(","))
    return settings.policy.mixes_groups and len({held.price is None for held in groups.values()}) == 2


def _read(client: ProviderClient) -> list[GroupSeen] | None:
    """Return the groups as far as they can be read; None if they cannot be listed, which other findings report."""
    try:
        groups = client.node_groups()
    except ProviderError:
        return None
    return [_seen(client, group) for group in groups]


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
    """Yield one finding for each message; a finding about several groups does not name them."""
    concerned: dict[str, list[str]] = {}
    for held in groups:
        concerned.setdefault(_message(held, now), []).append(held.ref.group_id)
    for message, names in concerned.items():
        if message and len(names) == 1:
            yield _finding(level, message, names[0])
        elif message:
            yield _finding(level, f"{len(names)} groups: {message}")


def _finding(level: FindingLevel, message: str, group_id: str = "") -> Finding:
    return Finding(
        level=level,
        subject="price",
        message=message,
        group_id=group_id,
        capability=Capability.PRICING,
        remedy="see docs/prices.md",
    )


def _message(held: GroupSeen, now: float) -> str:
    """Return a remark about a group's price; empty: there is none."""
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


ALL_WELL, WARNED, BROKEN = 0, 3, 4
TEMPLATES_SCHEMA = 1
# Seconds to wait for the API server. Doctor reports nothing about one that does not respond.
_CLUSTER_SECONDS = 5.0
_STYLES = {FindingLevel.OK: "green", FindingLevel.WARNING: "yellow", FindingLevel.PROBLEM: "red"}
_WORST_FIRST = (FindingLevel.PROBLEM, FindingLevel.WARNING, FindingLevel.OK)


class Examined(msgspec.Struct, frozen=True, kw_only=True):
    """One provider; ``examines`` says whether its plugin has a diagnosis at all."""

    provider: str
    examines: bool
    findings: tuple[Finding, ...]
    policy: str = ""
    api_calls: tuple[ApiCalls, ...] = ()


def run_doctor(settings: Settings, output: str, *, policy_only: bool, templates_only: bool, state: Path | None) -> int:
    """Examine and print what the options ask for; return the exit code. Raise ConfigError for options that do not go together."""
    if state is not None and not templates_only:
        raise ConfigError("--state: only --templates reads a saved state")
    if templates_only:
        kubeconfig, namespace = settings.cluster.kubeconfig, settings.cluster.namespace
        place = Choice(state, kubeconfig, namespace, is_asked_for=True).open()
        return _examine_templates(place, output)
    if not settings.providers:
        raise ConfigError("--cloud-provider: doctor needs a provider to examine, here or in --config")
    clients = Connector(clock=SystemClock()).connect_all(settings.providers)
    if policy_only:
        for client in clients:
            click.echo(client.minimal_policy() or f"provider {client.name} names no minimal permissions")
        return ALL_WELL
    known = (*_flags_without_effect(settings, clients), *_clocks_apart(settings))
    examined = [examine(client, known) for client in clients]
    examined = _with_prices(examined, find_price_findings(settings, clients, SystemClock().now()))
    if output == "json":
        write_json(as_json(examined))
    else:
        _print(make_console(), examined)
    return exit_code(examined)


def _examine_templates(place: Place, output: str) -> int:
    """Show how real nodes differ from the templates, by group; return the exit code."""
    if place.path is not None and not place.path.exists():
        raise ConfigError(f"--state: {place.path}: there is no saved state")
    learned = sorted(place.state.peek().learned.items())
    if output == "json":
        groups = [_template_json(ref, held) for ref, held in learned]
        write_json({"schema": TEMPLATES_SCHEMA, "groups": groups})
    else:
        table = make_table("Templates of node groups", "group", "what real nodes showed")
        for ref, held in learned:
            for line in describe(held):
                table.add_row(safe(ref), safe(line))
        console = make_console()
        console.print(safe(f"{count(len(learned), 'template')} known from {place.name}."), soft_wrap=True)
        if table.row_count:
            console.print(table)
    return WARNED if any(any(find_differences(held)) for _, held in learned) else ALL_WELL


def _template_json(ref: GroupRef, held: LearnedTemplate) -> dict[str, Any]:
    return {
        "group": str(ref),
        "differences": [one._asdict() for one in find_differences(held)],
        "startup_taints": list(held.startup_taints),
        "device_seconds": held.device_seconds,
        "static_pods": held.static_pods,
        "daemon_extra": held.daemon_extra,
        "nodes": [one.name for one in held.nodes],
    }


def examine(client: ProviderClient, known: Iterable[Finding]) -> Examined:
    """Read the cloud once and return what the provider finds, after the findings in ``known``. A refusal is a finding too."""
    findings = list(known)
    try:
        client.refresh()
        findings += (*_switched_off(client), *_no_groups(client), *_unlisted(client))
    except ProviderError as error:
        findings.append(_problem("reading the cloud", error))
    try:
        found = client.diagnose()
    except ProviderError as error:
        found = (_problem("diagnosis", error),)
    return Examined(
        provider=client.name,
        examines=found is not None,
        findings=_unique((*findings, *(found or ()))),
        policy=client.minimal_policy() or "",
        api_calls=client.api_calls() or (),
    )


def _with_prices(examined: Sequence[Examined], found: Mapping[str, Sequence[Finding]]) -> list[Examined]:
    """Return what was found with the findings about prices, which need all providers."""
    return [msgspec.structs.replace(one, findings=_unique((*one.findings, *found[one.provider]))) for one in examined]


def as_json(examined: Iterable[Examined]) -> dict[str, Any]:
    """Return the document of ``--output json``."""
    return {"providers": msgspec.to_builtins(list(examined))}


def exit_code(examined: Iterable[Examined]) -> int:
    """Return the exit code of the worst finding."""
    levels = {finding.level for provider in examined for finding in provider.findings}
    if FindingLevel.PROBLEM in levels:
        return BROKEN
    return WARNED if FindingLevel.WARNING in levels else ALL_WELL


def _flags_without_effect(settings: Settings, clients: Sequence[ProviderClient]) -> tuple[Finding, ...]:
    """Return warnings about flags that need something which no configured provider can do."""
    return (*_without_autoprovisioning(settings, clients), *_unknown_gpu_types(settings, clients))


def _without_autoprovisioning(settings: Settings, clients: Sequence[ProviderClient]) -> tuple[Finding, ...]:
    makes = Capability.AUTOPROVISIONING
    if not settings.autoprovisioning.node_autoprovisioning_enabled or any(client.supports(makes) for client in clients):
        return ()
    flag = "--node-autoprovisioning-enabled"
    message = "it is on, but no provider can create node groups: it has no effect"
    remedy = "switch it off, or configure autoprovisioning in the options of a provider that supports it"
    return (Finding(level=FindingLevel.WARNING, subject=flag, message=message, remedy=remedy, capability=makes),)


def _unknown_gpu_types(settings: Settings, clients: Sequence[ProviderClient]) -> tuple[Finding, ...]:
    """Return a warning for each GPU type that has a limit and that no provider lists: the limit counts no node."""
    wanted = parse_gpu_limits(settings.limits.gpu_total)
    try:
        listed = {name for client in clients for name in client.gpu_types() or ()}
    except ProviderError:
        return ()  # reading this provider is reported as a problem of its own
    return tuple(
        Finding(
            level=FindingLevel.WARNING,
            subject="--gpu-total",
            message=f"no provider lists the GPU type {kind}: the limit counts no node",
            remedy=f"check the spelling; known: {', '.join(sorted(listed)) or 'none'}",
            capability=Capability.GPU,
        )
        for kind in wanted
        if kind not in listed
    )


def _clocks_apart(settings: Settings) -> tuple[Finding, ...]:
    """Return a warning if this machine's clock differs from the API server's; none if no API server is reached."""
    # The client of the API server is slow to import; --policy does without.
    from nodewright.adapters.kube.connection import connect  # noqa: PLC0415 - as above

    cluster, time = settings.cluster, ServerTime(SystemClock(), BootClock().now)
    try:
        api = connect(
            kubeconfig=cluster.kubeconfig, server=cluster.kubernetes, user_agent=cluster.user_agent, time=time
        )
    except ConfigError:
        return ()
    with suppress(ApiError):  # a refusal has a date too
        api.send(Request(method="GET", path="/version", timeout=_CLUSTER_SECONDS))
    problem = time.problem()
    remedy = "see what sets this machine's clock, and what changes responses on their way from the API server"
    warning = Finding(level=FindingLevel.WARNING, subject="the clock", message=problem, remedy=remedy)
    return (warning,) if problem else ()


def _switched_off(client: ProviderClient) -> list[Finding]:
    """Return the capabilities that are switched off for a group, with the provider's reason."""
    return [
        Finding(
            level=FindingLevel.WARNING,
            subject=capability.value,
            message=reason,
            group_id=group.id,
            capability=capability,
        )
        for group in client.node_groups()
        for capability, reason in sorted(group.switched_off.items())
    ]


def _no_groups(client: ProviderClient) -> Iterator[Finding]:
    """Yield a warning if the provider has no node group: then nothing could be examined that belongs to a group."""
    if not client.node_groups():
        yield Finding(
            level=FindingLevel.WARNING,
            subject="node groups",
            message="there is none: no permission was tried on a group, and nothing can be scaled",
            remedy="name groups (--nodes), have them discovered (--node-group-auto-discovery), or check the provider's options",
        )


def _unlisted(client: ProviderClient) -> Iterator[Finding]:
    """Yield a warning for each group of --nodes that the provider does not list: nothing scales it."""
    client.node_groups()
    for name in client.unlisted:
        yield Finding(
            level=FindingLevel.WARNING,
            subject="--nodes",
            message=f"provider {client.name} lists no group {name}, nor another with its limits: it is not scaled",
            remedy="check the name, and whether the group exists in the cloud",
        )


def _problem(subject: str, error: ProviderError) -> Finding:
    return Finding(
        level=FindingLevel.PROBLEM, subject=subject, message=f"{error.code}: {error}", group_id=error.group_id
    )


def _unique(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return each finding once, the worst first, otherwise in the order found."""
    once = dict.fromkeys(findings)
    return tuple(sorted(once, key=lambda finding: _WORST_FIRST.index(finding.level)))


def _print(console: Console, examined: Iterable[Examined]) -> None:
    for provider in examined:
        table = make_table(f"Provider {provider.provider}", "", "group", "what", "finding", "what to do")
        for finding in provider.findings:
            level = safe(finding.level.value, _STYLES[finding.level])
            cells = (finding.group_id, finding.subject, finding.message, finding.remedy)
            table.add_row(level, *(safe(cell) for cell in cells))
        if provider.findings:
            console.print(table)
        if not provider.examines:
            console.print(safe(f"The plugin of {provider.provider} does not examine itself."), soft_wrap=True)
        if provider.policy:
            console.print(safe("Minimal permissions:"), soft_wrap=True)
            click.echo(provider.policy)
        calls = sum(made.calls for made in provider.api_calls)
        console.print(safe(f"Doctor made {count(calls, 'call')} to the cloud's API."), soft_wrap=True)
