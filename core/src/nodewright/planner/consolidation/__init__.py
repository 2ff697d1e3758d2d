"""Find moves that pay: nodes whose pods cost less elsewhere (docs/consolidation.md)."""

from nodewright.planner.consolidation.find_moves import FoundMoves, Proposal, find_moves

__all__ = ["FoundMoves", "Proposal", "find_moves"]
