"""What the parameters of requests, and of classes, must be."""

import math
from collections.abc import Mapping

from nodewright.model.duration import parse_duration
from nodewright.model.provisioning_request import NO_RETRY, VALID_UNTIL_SECONDS


def find_bad_parameter(parameters: Mapping[str, str]) -> str:
    """Which of them cannot be read, and what it must be; empty: none."""
    if parameters.get(NO_RETRY, "false") not in ("true", "false"):
        return f"parameter {NO_RETRY} must be true or false"
    try:
        read_seconds(parameters.get(VALID_UNTIL_SECONDS, "1"))
    except ValueError:
        return f"parameter {VALID_UNTIL_SECONDS} must be a number of seconds above 0, or a duration like 2h"
    return ""


def read_seconds(text: str) -> float:
    """A number of seconds, or a duration like ``2h``; raises ValueError."""
    seconds = float(text) if text.strip().replace(".", "", 1).isdigit() else parse_duration(text)
    if not 0 < seconds < math.inf:
        raise ValueError("must be longer than nothing")
    return seconds
