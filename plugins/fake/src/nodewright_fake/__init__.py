"""The fake provider: a cloud that exists in memory, for tests, demos and simulations."""

from nodewright_fake.cloud import FakeCloud
from nodewright_fake.delays import Delay, fixed
from nodewright_fake.faults import Crash, Fault, Hang, InProgress, Partial, Refuse, Slow, Throttle, WrongSize
from nodewright_fake.options import CloudOptions, Failure, GroupConfig, Lateness, Quota, StockOut, load_options
from nodewright_fake.provider import FakeProvider

__all__ = [
    "CloudOptions",
    "Crash",
    "Delay",
    "Failure",
    "FakeCloud",
    "FakeProvider",
    "Fault",
    "GroupConfig",
    "Hang",
    "InProgress",
    "Lateness",
    "Partial",
    "Quota",
    "Refuse",
    "Slow",
    "StockOut",
    "Throttle",
    "WrongSize",
    "fixed",
    "load_options",
]
