"""Cases of pending pods, types of machines and prices: how they are read, and what is wrong with a file of them.

The schema is that of tests/data/karpenter/README.md. Fields that nothing here needs are ignored.
"""

import gzip
import math
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from nodewright.model.printable import printable
from nodewright.model.quantity import Quantity

Name = Annotated[str, Meta(min_length=1)]
Count = Annotated[int, Meta(ge=0)]
Price = Annotated[float, Meta(ge=0)]
Amounts = dict[str, str]


class WrongFile(Exception):
    """A file of cases cannot be used; the text is one sentence."""


class Offer(msgspec.Struct, frozen=True):
    """A zone in which a type is sold, and its price in USD an hour."""

    zone: Name
    price: Price


class MachineType(msgspec.Struct, frozen=True):
    name: Name
    allocatable: Amounts
    offers: tuple[Offer, ...]
    labels: dict[str, str] = {}


class ExistingNode(msgspec.Struct, frozen=True):
    name: Name
    type: str
    zone: Name


class Workload(msgspec.Struct, frozen=True):
    """Equal pods: ``pending`` ones, and those ``placed`` on existing nodes, by node. ``requests`` are those of one pod."""

    name: Name
    requests: Amounts
    pending: Count = 0
    placed: dict[str, Count] = {}
    selector: dict[str, str] = {}
    anti_hostname: bool = False
    spread: tuple[Literal["zone", "hostname"], ...] = ()
    max_skew: Annotated[int, Meta(ge=1)] = 1
    priority: int | None = None


class KarpenterAnswer(msgspec.Struct, frozen=True):
    price: Price


class Case(msgspec.Struct, frozen=True):
    """``maxima`` are the most nodes of a type, existing ones included; ``lp_bound`` is the least price per hour."""

    name: Name
    family: Name
    types: tuple[MachineType, ...]
    workloads: tuple[Workload, ...]
    karpenter: KarpenterAnswer
    lp_bound: Price
    nodes: tuple[ExistingNode, ...] = ()
    maxima: dict[str, Count] = {}

    @property
    def pods(self) -> int:
        return sum(workload.pending for workload in self.workloads)


def read_cases(paths: Iterable[Path]) -> list[Case]:
    """Return the cases of files of JSON lines, which may be compressed by gzip. Raise WrongFile."""
    cases: list[Case] = []
    for path in paths:
        cases += [_read_case(line, where) for where, line in read_lines(path)]
    repeated = _repeated(case.name for case in cases)
    if repeated:
        raise WrongFile(f"There are two cases of the name '{printable(repeated)}'.")
    return cases


def read_lines(path: Path) -> list[tuple[str, bytes]]:
    """Return each line of a file that may be compressed by gzip, with a text that says where it is. Raise WrongFile."""
    lines = [
        (f"{path}, line {number}", line) for number, line in enumerate(_read(path).splitlines(), 1) if line.strip()
    ]
    if not lines:
        raise WrongFile(f"{path}: there is no case in it.")
    return lines


def _read(path: Path) -> bytes:
    try:
        content = path.read_bytes()
        return gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content
    except OSError as error:
        reason = error.strerror or "it is not a whole gzip file"
        raise WrongFile(f"{path}: {reason}.") from error
    except (EOFError, zlib.error) as error:
        raise WrongFile(f"{path}: it is not a whole gzip file.") from error


def _read_case(line: bytes, where: str) -> Case:
    try:
        case = msgspec.json.decode(line, type=Case)
    except msgspec.DecodeError as error:
        raise WrongFile(f"{where}: {printable(str(error))}.") from error
    problem = next(_problems(case), "")
    if problem:
        raise WrongFile(f"{where}: {printable(problem)}.")
    return case


def _problems(case: Case) -> Iterator[str]:
    """Yield what does not fit together in a case."""
    for what, names in (("types", case.types), ("nodes", case.nodes), ("workloads", case.workloads)):
        repeated = _repeated(one.name for one in names)
        if repeated:
            yield f"two {what} have the name '{repeated}'"
    prices = (case.lp_bound, case.karpenter.price, *(offer.price for one in case.types for offer in one.offers))
    if not all(map(math.isfinite, prices)):
        yield "a price is not a finite number"
    yield from _reference_problems(case)
    for one in case.types:
        yield from _amount_problems(one.allocatable, f"type '{one.name}'", ("cpu", "memory", "pods"))
        zone = _repeated(offer.zone for offer in one.offers)
        if zone:
            yield f"type '{one.name}' has two prices in zone '{zone}'"
    for workload in case.workloads:
        yield from _amount_problems(workload.requests, f"workload '{workload.name}'", ("cpu", "memory"))


def _reference_problems(case: Case) -> Iterator[str]:
    types, nodes = {one.name: one for one in case.types}, {node.name for node in case.nodes}
    for node in case.nodes:
        if node.type not in types:
            yield f"node '{node.name}' is of an unknown type '{node.type}'"
    for workload in case.workloads:
        for name in workload.placed.keys() - nodes:
            yield f"workload '{workload.name}' has pods on an unknown node '{name}'"
    for name in case.maxima:
        if name not in types:
            yield f"maxima names an unknown type '{name}'"
        elif len(types[name].offers) > 1:
            yield f"type '{name}' has a maximum and is sold in several zones, and how to divide it is not told"


def _amount_problems(amounts: Mapping[str, str], whose: str, needed: Iterable[str]) -> Iterator[str]:
    for name in needed:
        if name not in amounts:
            yield f"{whose} does not say how much {name}"
    for name, text in amounts.items():
        try:
            if Quantity.of(text).nano < 0:
                yield f"{whose} has a negative amount of {name}"
        except ValueError as error:
            yield f"{whose}, {name}: {error}"


def _repeated(names: Iterable[str]) -> str:
    """Return the first name that is there twice; empty: none is."""
    counts: Counter[Any] = Counter(names)
    return next((name for name, count in counts.items() if count > 1), "")
