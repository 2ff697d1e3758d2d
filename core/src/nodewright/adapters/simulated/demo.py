"""The scenario that ``nodewright demo`` and ``nodewright simulate TRACE`` run."""

from nodewright.adapters.simulated.scenario import Scenario, Seconds, TraceSpec

_DAY = 86_400.0


def demo_scenario() -> Scenario:
    """Half a day of a production GPU cluster in one hour: 400 pods, 27 kinds of nodes, and after a quarter of an
    hour the kind that is in most demand is sold out.
    """
    stock_out = {"instance_type": "p100-16c-120g-2gpu", "start": "15m", "end": "45m"}
    return Scenario(
        name="Rush hour on a GPU cluster, with a stock-out",
        description="400 pods of a production trace (openb) within an hour; one kind of node is sold out in between.",
        duration=Seconds(100 * 60),
        settings={"expander": "least-waste"},
        providers={"fake": {"stock_outs": [stock_out]}},
        trace=TraceSpec(rush=12),
    )


def trace_scenario(folder: str, *, compression: float = 1.0, all_at_once: bool = False) -> Scenario:
    """A whole trace, replayed until its last pod has ended."""
    return Scenario(
        name=f"trace {folder}",
        duration=Seconds(3650 * _DAY),
        stops_idle=True,
        settings={"expander": "least-waste"},
        providers={"fake": {}},
        trace=TraceSpec(folder=folder, compression=compression, all_at_once=all_at_once),
    )
