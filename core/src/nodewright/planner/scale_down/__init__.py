"""Scale-down planning, in the steps of cluster-autoscaler (docs/adr/0009-scale-down.md)."""

from nodewright.planner.scale_down.planner import forget_unneeded, plan_scale_down

__all__ = ["forget_unneeded", "plan_scale_down"]
