"""What whole nodes would cost at least on the openb trace, beside the bound of node_bound.py, which buys parts of nodes.

``whole_nodes.py [--moments N]``: 100 times as fast, each pod runs from its creation for its lifetime. At N moments, the
middles of equal spans, a mixed-integer programme finds the cheapest whole nodes, over which pods may be cut and moved at
no cost. No autoscaler could be cheaper at these moments, even if it knew all pods and nodes came and went at once.
"""

import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import vstack

from node_bound import Amounts, Moment, NodeBound, Programme, Shape, moments
from nodewright_simulator.openb import Trace, load_openb

_highs: Any = import_module("highspy")
FOLDER = Path(__file__).parents[1] / "tests" / "data" / "openb"
COMPRESSION = 100.0
# The solver stops at this relative gap; what it proves until then is the bound.
_GAP = 1e-3


def price_of_whole_nodes(programme: Programme, shapes: int) -> float:
    """Return a lower bound, within 0.1 %, of the programme's cost if its first ``shapes`` variables are whole numbers."""
    solver: Any = _highs.Highs()
    solver.silent()
    solver.setOptionValue("threads", 1)
    solver.setOptionValue("mip_rel_gap", _GAP)
    rows = vstack([programme.used, programme.placed])
    lower = np.concatenate([np.full(programme.used.shape[0], -np.inf), programme.running])
    upper = np.concatenate([np.zeros(programme.used.shape[0]), programme.running])
    none = np.zeros(0)
    solver.addRows(len(lower), lower, upper, 0, np.zeros(len(lower), np.int32), none.astype(np.int32), none)
    columns, count = rows.tocsc(), len(programme.prices)
    starts, indices = columns.indptr[:-1].astype(np.int32), columns.indices.astype(np.int32)
    solver.addCols(count, programme.prices, np.zeros(count), programme.most, columns.nnz, starts, indices, columns.data)
    whole = np.array([_highs.HighsVarType.kInteger] * shapes)
    solver.changeColsIntegrality(shapes, np.arange(shapes, dtype=np.int32), whole)
    solver.run()
    return float(solver.getInfo().mip_dual_bound)


def at_middles(history: Sequence[Moment], end: float, count: int) -> list[Mapping[Amounts, float]]:
    """Return what runs in the middle of each of ``count`` equal spans."""
    starts = np.array([moment.at for moment in history])
    width = (end - history[0].at) / count
    places = np.searchsorted(starts, history[0].at + (np.arange(count) + 0.5) * width, side="right") - 1
    return [history[place].running for place in places.tolist()]


def measure(trace: Trace, count: int) -> tuple[float, float]:
    """Return the cost of parts of nodes and of whole nodes over the trace, in USD by assumed list prices."""
    changes = [
        (pod.created + after, (pod.cpu_milli, pod.memory_mib, pod.gpus), change)
        for pod in trace.pods
        for after, change in ((0.0, 1), (pod.lifetime, -1))
    ]
    end = max(at for at, _, _ in changes)
    shapes = [Shape((s.cpu_milli, s.memory_mib, s.gpus), most, s.price_per_hour) for s, most in trace.shapes.items()]
    bound, history = NodeBound(shapes), list(moments(changes))
    running = [each for each in at_middles(history, end, count) if each]
    hours = (end - history[0].at) / 3600 / count
    whole = sum(price_of_whole_nodes(bound.programme(each), len(shapes)) for each in running)
    return hours * sum(bound.nodes(each) for each in running), hours * whole


def main(words: Sequence[str]) -> int:
    parser = ArgumentParser(prog="whole_nodes.py", description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--moments", type=int, default=200, metavar="N", help="default: 200, some minutes")
    given = parser.parse_args(words)
    trace = load_openb(FOLDER).compressed(arrivals=COMPRESSION, lifetimes=COMPRESSION)
    parts, whole = measure(trace, given.moments)
    print(f"parts of nodes: USD {parts:.1f}; whole nodes: USD {whole:.1f}, {whole / parts:.3f} times as much")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
