"""What another autoscaler does, beside what we would do: ``nodewright run --shadow``."""

from nodewright.adapters.shadow.compare import Comparison, Shadow, Verdict

__all__ = ["Comparison", "Shadow", "Verdict"]
