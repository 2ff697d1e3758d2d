"""The scale sets to use: ``--nodes`` and ``--node-group-auto-discovery``, in cluster-autoscaler's syntax."""

import re
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from nodewright.spec import ConfigError, NodeGroupFlag, parse_node_group_flag, printable

_FLAG = "--node-group-auto-discovery"
_DISCOVERER = "label"
_MIN, _MAX = "min", "max"
_SIZE = re.compile(r"\+?[0-9]{1,9}")


class Discovery(msgspec.Struct, frozen=True, kw_only=True):
    """One flag: tags that a set must have, and sizes for sets without tags for them."""

    selector: dict[str, str]
    min_size: int | None = None
    max_size: int | None = None


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Minimum and maximum of a group."""

    min_size: int
    max_size: int


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """``named``: explicit groups by name in lower case, with their limits. A set must match all ``discoveries``."""

    named: dict[str, NodeGroupFlag] = {}
    discoveries: tuple[Discovery, ...] = ()

    def limits(self, tags: Mapping[str, str | None] | None) -> Limits | str | None:
        """Return the limits of a set with these tags; None: the set is not selected; a text: why its limits cannot be used."""
        if not tags or not self.discoveries or not all(_fits(one, tags) for one in self.discoveries):
            return None
        lowest = max((one.min_size for one in self.discoveries if one.min_size is not None), default=None)
        highest = min((one.max_size for one in self.discoveries if one.max_size is not None), default=None)
        min_size, max_size = _size(tags, _MIN, lowest), _size(tags, _MAX, highest)
        for key, size in ((_MIN, min_size), (_MAX, max_size)):
            if size is None:
                return _unsized(key, tags)
        assert min_size is not None
        assert max_size is not None
        if min_size > max_size:
            return f"its minimum {min_size} is above its maximum {max_size}"
        return Limits(min_size=min_size, max_size=max_size)


def select(nodes: Iterable[str], discoveries: Iterable[str]) -> Selection:
    """Return the selection; raise ConfigError that names the flag. Case is ignored; the last of equal names counts."""
    named: dict[str, NodeGroupFlag] = {}
    for text in nodes:
        try:
            spec = parse_node_group_flag(text)
        except ConfigError as error:
            raise ConfigError(f"--nodes: {error}") from None
        _refuse_policy(spec.name)
        named[spec.name.lower()] = spec
    return Selection(named=named, discoveries=tuple(parse_discovery(text) for text in discoveries))


def _refuse_policy(name: str) -> None:
    """Raise ConfigError for ``min:max:policy:name``, the flag of AKS's own autoscaler. No name of a set has a colon."""
    policy, colon, _ = name.partition(":")
    if colon and policy.lower() in ("delete", "deallocate"):
        raise ConfigError(
            f"--nodes: '{printable(name)}': machines are always deleted, never deallocated; leave {printable(policy)} out"
        )


def parse_discovery(text: str) -> Discovery:
    """Parse ``label:tag=value,…[,min=n][,max=n]``; raise ConfigError. The last of equal keys counts."""
    shown = printable(text)
    parts = text.split(":")
    if len(parts) != 2:
        raise ConfigError(f"{_FLAG}: '{shown}' is not of the form label:tag=value,…")
    if parts[0] != _DISCOVERER:
        raise ConfigError(f"{_FLAG}: '{shown}': azure discovers by 'label', not by '{printable(parts[0])}'")
    pairs = _pairs(parts[1].split(","), shown)
    sizes = {key: _number(pairs.pop(key)) for key in (_MIN, _MAX) if key in pairs}
    for key, size in sizes.items():
        if size is None:
            raise ConfigError(f"{_FLAG}: '{shown}': {key} is not a whole number from 0 up")
    found = Discovery(selector=pairs, min_size=sizes.get(_MIN), max_size=sizes.get(_MAX))
    if found.min_size is not None and found.max_size is not None and found.min_size > found.max_size:
        raise ConfigError(f"{_FLAG}: '{shown}': the minimum is greater than the maximum")
    return found


def _pairs(parts: Sequence[str], shown: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for part in parts:
        key, equals, value = part.partition("=")
        if not equals or "=" in value:
            raise ConfigError(f"{_FLAG}: '{shown}': '{printable(part)}' is not of the form tag=value")
        if not key or not value:
            raise ConfigError(f"{_FLAG}: '{shown}': '{printable(part)}' lacks a tag or a value")
        pairs[key] = value
    return pairs


def _fits(one: Discovery, tags: Mapping[str, str | None]) -> bool:
    return bool(one.selector) and all(tags.get(key) == value for key, value in one.selector.items())


def _size(tags: Mapping[str, str | None], key: str, otherwise: int | None) -> int | None:
    """Return the size in the set's own tag, or else that of the flags; None: it is not a size."""
    text = tags.get(key)
    return otherwise if text is None else _number(text)


def _unsized(key: str, tags: Mapping[str, str | None]) -> str:
    text = tags.get(key)
    if text is not None:
        return f"its tag {key}={printable(text)} is not a number of machines"
    return f"it has no tag {key}, and {_FLAG} sets no {key}"


def _number(text: str) -> int | None:
    return int(text) if _SIZE.fullmatch(text) else None
