"""The provider contract as a suite of checks. Every plugin runs it in its tests."""

from nodewright.adapters.provider import CallSettings
from nodewright.testkit.client import Client
from nodewright.testkit.contract import (
    atomic,
    decreases,
    deletions,
    diagnosis,
    failures,
    increases,
    interruptions,
    overlaps,
    provisioning,
    races,
    reads,
    values,
)
from nodewright.testkit.contract.certificate import PromiseVerdict, Verdict, certify
from nodewright.testkit.contract.live import LiveWorld, MemoryWorld
from nodewright.testkit.contract.promises import Promise
from nodewright.testkit.contract.registry import CHECKS, BrokenPromise, Check
from nodewright.testkit.contract.suite import (
    ContractOutcome,
    ContractResult,
    ProviderContract,
    run_check,
    run_contract,
)
from nodewright.testkit.contract.world import CannotSteer, ContractWorld, Touch, connect

CHECK_MODULES = (
    reads,
    increases,
    decreases,
    deletions,
    failures,
    races,
    overlaps,
    atomic,
    values,
    provisioning,
    interruptions,
    diagnosis,
)

__all__ = [
    "CHECKS",
    "CHECK_MODULES",
    "BrokenPromise",
    "CallSettings",
    "CannotSteer",
    "Check",
    "Client",
    "ContractOutcome",
    "ContractResult",
    "ContractWorld",
    "LiveWorld",
    "MemoryWorld",
    "Promise",
    "PromiseVerdict",
    "ProviderContract",
    "Touch",
    "Verdict",
    "certify",
    "connect",
    "run_check",
    "run_contract",
]
