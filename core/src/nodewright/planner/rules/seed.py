"""Correct sizes by the rule of the first design document (--size-correction=seed)."""

from nodewright.clusterstate.state import ClusterState
from nodewright.model.action import DecreaseTargetSize
from nodewright.model.settings import Settings
from nodewright.planner.rules.corrections import SIZES_FIXED, Restored
from nodewright.planner.rules.nodewright import restore_promptly


def restore_as_seed(state: ClusterState, settings: Settings) -> Restored:
    """Withdraws last; a corrected target ends the loop (seed 000)."""
    restored = restore_promptly(state, settings)
    fixed = any(isinstance(action, DecreaseTargetSize) for action in restored.actions)
    return Restored(actions=restored.actions, state=state, cut_short=SIZES_FIXED if fixed else "")
