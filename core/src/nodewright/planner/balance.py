"""Spreading new nodes over similar groups (behaviour/up.md §4.7, seed 002)."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass
class Share:
    """A group's size while nodes are dealt out."""

    current: int
    new: int
    maximum: int


def balance_sizes(sizes: Sequence[tuple[int, int]], wanted: int) -> list[int]:
    """New sizes for groups given as (current, maximum), after ``wanted`` nodes went to the smallest first.

    The lowest are raised level by level; a full group steps aside. Ties go in the order given. Groups at
    or above their maximum do not grow; what does not fit anywhere is left over. Raises ValueError without groups.
    """
    if not sizes:
        raise ValueError("no groups to balance")
    shares = [Share(current, current, maximum) for current, maximum in sizes]
    open_shares = [share for share in shares if share.current != share.maximum]
    wanted = min(wanted, sum(max(0, share.maximum - share.current) for share in open_shares))
    _deal(sorted(open_shares, key=lambda share: share.current), wanted)
    return [share.new for share in shares]


def _deal(line: list[Share], wanted: int) -> None:
    """Walk along the groups of equal, smallest size; full ones are swapped out at the front (CA's walk)."""
    first = at = 0
    while wanted > 0:
        share = line[at]
        if share.new < share.maximum:
            share.new += 1
            wanted -= 1
        else:
            line[first], line[at] = line[at], line[first]
            first += 1
        onward = at < len(line) - 1 and line[at].new > line[at + 1].new
        at = at + 1 if onward else first
