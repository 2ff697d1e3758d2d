"""Structured logs: one JSON object a line."""

from nodewright.adapters.logs.json_log import ConditionLog, JsonLog, LoggedEvents

__all__ = ["ConditionLog", "JsonLog", "LoggedEvents"]
