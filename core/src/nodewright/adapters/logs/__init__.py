"""Structured logs: one JSON object a line."""

from nodewright.adapters.logs.json_log import JsonLog, Lasting, LoggedEvents

__all__ = ["JsonLog", "Lasting", "LoggedEvents"]
