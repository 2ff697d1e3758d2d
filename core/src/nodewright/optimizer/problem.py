"""The problem of the cheapest nodes: classes of pods with counts, kinds of nodes with prices, and a mix that solves it."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]
Bools = NDArray[np.bool_]
IsOver = Callable[[], bool]


@dataclass(frozen=True, kw_only=True, eq=False)
class Problem:
    """``C`` classes of pods, ``K`` kinds of nodes, ``R`` resources (the number of pods is one of them).

    ``requests`` (C × R): what a pod asks for. ``pods`` (C): how many there are. ``per_node`` (C): how many of them one
    node may take at most. ``free`` (K × R): what an empty node offers. ``prices`` (K): of a node, in USD an hour.
    ``rooms`` (K): how many nodes may be bought at most. ``fits`` (C × K): whether an empty node takes a pod.
    """

    requests: Floats
    pods: list[int]
    per_node: list[int]
    free: Floats
    prices: Floats
    rooms: list[int]
    fits: Bools

    def __post_init__(self) -> None:
        classes, resources = self.requests.shape
        kinds = len(self.prices)
        shapes = (len(self.pods), len(self.per_node), self.free.shape, len(self.rooms), self.fits.shape)
        if shapes != (classes, classes, (kinds, resources), kinds, (classes, kinds)):
            raise ValueError(f"shapes differ: {classes} classes, {kinds} kinds, {resources} resources, {shapes}")

    @cached_property
    def is_endless(self) -> list[bool]:
        """Return for each kind whether its nodes suffice for all pods that fit it, even if no two classes share one."""
        offered = np.where(self.free > 0, self.free, 1.0)
        share = np.max(self.requests[:, None, :] / offered[None, :, :], axis=2, initial=0.0)
        together = np.minimum(np.floor(1.0 / np.maximum(share, 1e-9)), np.array(self.per_node, dtype=float)[:, None])
        needed = np.ceil(np.array(self.pods, dtype=float)[:, None] / np.maximum(1.0, together))
        endless: list[bool] = (np.array(self.rooms) >= np.where(self.fits, needed, 0.0).sum(axis=0)).tolist()
        return endless

    @cached_property
    def times(self) -> Floats:
        """Return how many nodes of the second kind offer as much as one of the first (K × K); infinity: some class does not fit."""
        free, fits = self.free, self.fits
        offered = np.where(free > 0, free, 1.0)
        found = np.zeros((len(free), len(free)))
        for resource in range(free.shape[1]):
            ratio = free[:, None, resource] / offered[None, :, resource]
            lacks = (free[:, None, resource] > 0) & (free[None, :, resource] <= 0)
            np.maximum(found, np.where(lacks, math.inf, ratio), out=found)
        takes_all = fits.T.astype(np.float32) @ (~fits).astype(np.float32) == 0
        found[~takes_all] = math.inf
        return found


class Pattern(NamedTuple):
    """``copies`` nodes of one kind, each with the same number of pods of each class: ``pods`` is sorted pairs (class, count)."""

    kind: int
    pods: tuple[tuple[int, int], ...]
    copies: int


@dataclass(frozen=True)
class Mix:
    """The nodes to buy, and the number of pods of each class that find no place on them. ``price`` is in USD an hour.

    ``is_cut``: time was up before each kind of improvement had been tried once.
    """

    patterns: tuple[Pattern, ...]
    left: tuple[int, ...]
    price: float
    is_cut: bool = False
