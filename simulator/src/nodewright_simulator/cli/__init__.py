"""The commands ``nodewright simulate`` and ``nodewright demo``, found through the entry points ``nodewright.commands``."""
