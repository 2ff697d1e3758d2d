"""Scale-down, step by step as CA takes them (docs/adr/0009-scale-down.md)."""

from nodewright.planner.scale_down.planner import forget_unneeded, plan_scale_down

__all__ = ["forget_unneeded", "plan_scale_down"]
