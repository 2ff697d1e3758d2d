"""Find moves that pay: nodes whose pods cost less elsewhere (docs/consolidation.md)."""

from nodewright.planner.consolidation.find_moves import find_moves

__all__ = ["find_moves"]
