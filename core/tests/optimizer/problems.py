"""Small random problems for hypothesis."""

import numpy as np
from hypothesis import strategies as st

from nodewright.optimizer.problem import Bools, Mix, Problem

ENDLESS = 10**6


@st.composite
def problems(
    draw: st.DrawFn, most_classes: int = 3, most_kinds: int = 4, most_pods: int = 4, *, scarce: bool = False
) -> Problem:
    """Draw a problem in which every class fits some kind. Unless nodes are ``scarce``, there is room for all pods."""
    classes, kinds = draw(st.integers(1, most_classes)), draw(st.integers(1, most_kinds))
    amount = st.integers(1, 8)
    requests = np.array([[draw(amount), draw(amount), 1] for _ in range(classes)], dtype=float)
    free = np.array([[draw(amount) * 2, draw(amount) * 2, draw(st.integers(1, 6))] for _ in range(kinds)], dtype=float)
    largest = draw(st.integers(0, kinds - 1))
    free[largest] = np.maximum(free[largest], requests.max(axis=0))
    fits: Bools = np.all(requests[:, None, :] <= free[None, :, :], axis=2)
    return Problem(
        requests=requests,
        pods=[draw(st.integers(1, most_pods)) for _ in range(classes)],
        per_node=[draw(st.sampled_from((ENDLESS, ENDLESS, 1, 2))) for _ in range(classes)],
        free=free,
        prices=np.array([draw(st.integers(1, 20)) for _ in range(kinds)], dtype=float),
        rooms=[
            ENDLESS if kind == largest and not scarce else draw(st.sampled_from((ENDLESS, 0, 1, 2)))
            for kind in range(kinds)
        ],
        fits=fits,
    )


def faults(problem: Problem, mix: Mix) -> list[str]:
    """Return what is wrong with a mix."""
    found = []
    left, rooms, price = list(problem.pods), list(problem.rooms), 0.0
    for kind, pods, copies in mix.patterns:
        use = sum((count * problem.requests[one] for one, count in pods), np.zeros(problem.requests.shape[1]))
        if (use > problem.free[kind]).any():
            found.append(f"a node of kind {kind} is too full: {pods}")
        found += [f"{one} does not fit {kind}" for one, _ in pods if not problem.fits[one, kind]]
        found += [f"too many of {one} on a node" for one, count in pods if not 0 < count <= problem.per_node[one]]
        for one, count in pods:
            left[one] -= count * copies
        rooms[kind] -= copies
        price += copies * float(problem.prices[kind])
    if min(left) < 0 or tuple(left) != mix.left:
        found.append(f"pods are counted wrong: {left}, {mix.left}")
    if min(rooms) < 0:
        found.append(f"more nodes than may be bought: {rooms}")
    if abs(price - mix.price) > 1e-9 * max(1.0, price):
        found.append(f"the price is {price}, not {mix.price}")
    return found
