"""The provider contract as a suite of checks. Every plugin runs it in its tests."""

from nodewright.adapters.provider import CallSettings
from nodewright.testkit.client import Client
from nodewright.testkit.contract import (
    atomic,
    concurrency,
    deadlines,
    deletions,
    failures,
    nodes,
    optional_hooks,
    reads,
    refusals,
    resizes,
    restarts,
    values,
)
from nodewright.testkit.contract.live import AGREE_SECONDS, LeakedMachines, LiveWorld, MemoryWorld
from nodewright.testkit.contract.promises import Level, Promise
from nodewright.testkit.contract.registry import CHECKS, BrokenPromise, Check
from nodewright.testkit.contract.suite import (
    ContractOutcome,
    ContractResult,
    PromiseVerdict,
    ProviderContract,
    Verdict,
    certify,
    reached,
    run_check,
    run_contract,
)
from nodewright.testkit.contract.world import (
    CONTROLS,
    CannotHappen,
    CannotSteer,
    ContractWorld,
    Touch,
    Trouble,
    connect,
    undeclared_controls,
)

CHECK_MODULES = (
    reads,
    resizes,
    deletions,
    failures,
    refusals,
    restarts,
    deadlines,
    nodes,
    concurrency,
    atomic,
    values,
    optional_hooks,
)

__all__ = [
    "AGREE_SECONDS",
    "CHECKS",
    "CHECK_MODULES",
    "CONTROLS",
    "BrokenPromise",
    "CallSettings",
    "CannotHappen",
    "CannotSteer",
    "Check",
    "Client",
    "ContractOutcome",
    "ContractResult",
    "ContractWorld",
    "LeakedMachines",
    "Level",
    "LiveWorld",
    "MemoryWorld",
    "Promise",
    "PromiseVerdict",
    "ProviderContract",
    "Touch",
    "Trouble",
    "Verdict",
    "certify",
    "connect",
    "reached",
    "run_check",
    "run_contract",
    "undeclared_controls",
]
