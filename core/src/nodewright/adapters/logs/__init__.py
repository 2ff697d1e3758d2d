"""Structured logs: one JSON object a line."""

from nodewright.adapters.logs.json_log import WARNING, JsonLog, Lasting, LoggedEvents

__all__ = ["WARNING", "JsonLog", "Lasting", "LoggedEvents"]
