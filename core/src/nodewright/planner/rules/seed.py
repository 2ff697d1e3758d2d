"""Correct sizes by the rule of the first design document (--size-correction=seed)."""

from nodewright.clusterstate.state import ClusterState
from nodewright.model.action import DecreaseTargetSize
from nodewright.model.settings import CorrectionSettings
from nodewright.planner.rules.corrections import SIZES_FIXED, Corrections
from nodewright.planner.rules.nodewright import correct_promptly


def correct_as_seed(state: ClusterState, settings: CorrectionSettings) -> Corrections:
    """Withdraw last; end the loop after a corrected target."""
    corrections = correct_promptly(state, settings)
    fixed = any(isinstance(action, DecreaseTargetSize) for action in corrections.actions)
    return Corrections(actions=corrections.actions, state=state, cut_short=SIZES_FIXED if fixed else "")
