"""Run nodewright's engine against a simulated cluster on virtual time, and report what happened.

The daemon does not need this distribution. It adds the commands ``nodewright simulate`` and ``nodewright demo``.
"""
