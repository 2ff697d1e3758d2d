"""The groups to scale: ``--nodes`` and ``--node-group-auto-discovery``, in cluster-autoscaler's syntax."""

import re
from collections.abc import Iterable
from typing import Any

import msgspec

from nodewright.spec import ConfigError, NodeGroupFlag, parse_node_group_flag, printable
from nodewright_gce.refs import Ref, parse_group_url

_FLAG = "--node-group-auto-discovery"
_DISCOVERER = "mig"
_KEYS = ("namePrefix", "min", "max")
_NUMBER = re.compile(r"[-+]?[0-9]{1,18}")


class Named(msgspec.Struct, frozen=True, kw_only=True):
    """An explicit group with its limits."""

    ref: Ref
    min_size: int
    max_size: int


class Discovery(msgspec.Struct, frozen=True, kw_only=True):
    """Groups whose name begins with ``prefix``, a regular expression, and is longer than it."""

    prefix: str
    min_size: int
    max_size: int

    @property
    def name_regexp(self) -> str:
        return f"^{self.prefix}.+"

    def fits(self, name: str) -> bool:
        return re.search(self.name_regexp, name) is not None


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """``named``: explicit groups by id. If several discoveries match a group, the first one applies."""

    named: dict[str, Named] = {}
    discoveries: tuple[Discovery, ...] = ()

    def limits(self, ref: Ref) -> tuple[int, int] | None:
        """Return minimum and maximum; None: the group is not selected."""
        if ref.group_id in self.named:
            named = self.named[ref.group_id]
            return named.min_size, named.max_size
        if ref.place.is_regional:  # as in CA, only zonal groups are discovered
            return None
        for one in self.discoveries:
            if one.fits(ref.name):
                return max(0, one.min_size), one.max_size
        return None


def select(nodes: Iterable[str], discoveries: Iterable[str]) -> Selection:
    """Return the selection; raise ConfigError that names the flag. A group named twice keeps its first limits."""
    named: dict[str, Named] = {}
    for text in nodes:
        try:
            spec = parse_node_group_flag(text)
            one = _name(spec)
        except ConfigError as error:
            raise ConfigError(f"--nodes: {error}") from None
        named.setdefault(one.ref.group_id, one)
    return Selection(named=named, discoveries=tuple(parse_discovery(text) for text in discoveries))


def _name(spec: NodeGroupFlag) -> Named:
    return Named(ref=parse_group_url(spec.name), min_size=spec.min_size, max_size=spec.max_size)


def parse_discovery(text: str) -> Discovery:
    """Parse ``mig:namePrefix=…,min=…,max=…``; raise ConfigError. A minimum below 0 counts as 0."""
    shown = printable(text)
    discoverer, colon, rest = text.partition(":")
    if not colon or ":" in rest:
        raise ConfigError(f"{_FLAG}: '{shown}' is not of the form mig:namePrefix=…,min=…,max=…")
    if discoverer != _DISCOVERER:
        raise ConfigError(f"{_FLAG}: '{shown}': gce discovers by 'mig', not by '{printable(discoverer)}'")
    said: dict[str, str] = {}
    for part in rest.split(","):
        key, equals, value = part.partition("=")
        if not equals or "=" in value:
            raise ConfigError(f"{_FLAG}: '{shown}': '{printable(part)}' is not of the form key=value")
        if key not in _KEYS:
            raise ConfigError(f"{_FLAG}: '{shown}': there is no key '{printable(key)}', only {', '.join(_KEYS)}")
        said[key] = value
    return _checked(said, shown)


def _checked(said: dict[str, str], shown: str) -> Discovery:
    for key in ("min", "max"):
        if not _NUMBER.fullmatch(said.get(key, "0")):
            raise ConfigError(f"{_FLAG}: '{shown}': {key} '{printable(said[key])}' is not a whole number")
    found = Discovery(
        prefix=said.get("namePrefix", ""), min_size=int(said.get("min", 0)), max_size=int(said.get("max", 0))
    )
    complaints: dict[str, Any] = {
        "names no prefix": not found.prefix,
        "the minimum is greater than the maximum": found.min_size > found.max_size,
        "max must be at least 1": found.max_size < 1,
        "namePrefix is not a regular expression": not _compiles(found.name_regexp),
    }
    for complaint, holds in complaints.items():
        if holds:
            raise ConfigError(f"{_FLAG}: '{shown}': {complaint}")
    return found


def _compiles(pattern: str) -> bool:
    try:
        re.compile(pattern)
    except re.error:
        return False
    return True
