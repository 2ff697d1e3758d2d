"""Structured logs: one JSON object a line."""

from nodewright.adapters.logs.json_log import JsonLog, LoggedEvents

__all__ = ["JsonLog", "LoggedEvents"]
