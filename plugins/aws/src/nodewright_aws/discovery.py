"""The groups to scale: ``--nodes`` and ``--node-group-auto-discovery``, in cluster-autoscaler's syntax."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from nodewright.spec import ConfigError, NodeGroupFlag, parse_node_group_flag, printable

_FLAG = "--node-group-auto-discovery"
_DISCOVERER = "asg"
_KEY = "tag"


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """``named``: explicit groups by name with limits. ``tags``: a group must carry all of them; None: no discovery.

    As in cluster-autoscaler, the tags of several flags are merged: a group must carry all of them.
    """

    named: dict[str, NodeGroupFlag] = {}
    tags: dict[str, str] | None = None


def select(nodes: Iterable[str], discoveries: Iterable[str]) -> Selection:
    """Return the selection; raise ConfigError that names the flag. A group named twice keeps its first limits."""
    named: dict[str, NodeGroupFlag] = {}
    for text in nodes:
        try:
            spec = parse_node_group_flag(text)
        except ConfigError as error:
            raise ConfigError(f"--nodes: {error}") from None
        named.setdefault(spec.name, spec)
    specs = [parse_discovery(text) for text in discoveries]
    tags = {key: value for spec in specs for key, value in spec.items()} if specs else None
    return Selection(named=named, tags=tags)


def make_filters(tags: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the tags as filters for DescribeAutoScalingGroups: AWS returns groups that match all of them."""
    return [
        {"Name": f"tag:{key}", "Values": [value]} if value else {"Name": "tag-key", "Values": [key]}
        for key, value in tags.items()
    ]


def parse_discovery(text: str) -> dict[str, str]:
    """Return the tags in ``asg:tag=key[=value],…``; an empty value matches any. Raise ConfigError."""
    shown = printable(text)
    discoverer, colon, rest = text.partition(":")
    if not colon:
        raise ConfigError(f"{_FLAG}: '{shown}' is not of the form asg:tag=key[=value],…")
    if discoverer != _DISCOVERER:
        raise ConfigError(f"{_FLAG}: '{shown}': aws discovers by 'asg', not by '{printable(discoverer)}'")
    key, equals, value = rest.partition("=")
    if not equals:
        raise ConfigError(f"{_FLAG}: '{shown}' lacks tag=…")
    if key != _KEY:
        raise ConfigError(f"{_FLAG}: '{shown}': there is no key '{printable(key)}', only tag")
    if not value:
        raise ConfigError(f"{_FLAG}: '{shown}' names no tag")
    tags: dict[str, str] = {}
    for part in value.split(","):
        name, _, wanted = part.partition("=")
        tags[name] = wanted
    return tags
