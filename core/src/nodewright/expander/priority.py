"""The priority expander: prefers groups by the priorities in the ConfigMap ``cluster-autoscaler-priority-expander``."""

from collections.abc import Sequence

import re2

from nodewright.expander.option import Option
from nodewright.model.errors import ConfigError
from nodewright.model.yaml_text import load_yaml

CONFIG_MAP, CONFIG_KEY = "cluster-autoscaler-priority-expander", "priorities"
_QUIET = re2.Options()
_QUIET.log_errors = False


def parse_priorities(text: str) -> dict[int, list[str]]:
    """Parse the ConfigMap's ``priorities``: number → regular expressions (RE2, as in CA) that match group ids.

    Raise ConfigError if the text is invalid.
    """
    documents = load_yaml(text, CONFIG_MAP)
    table = documents[0] if documents else {}
    if not isinstance(table, dict):
        raise ConfigError(f"{CONFIG_MAP}: priorities must map numbers to lists of regular expressions")
    for number, patterns in table.items():
        if not isinstance(number, int) or not isinstance(patterns, list):
            raise ConfigError(f"{CONFIG_MAP}: priority {number} must be a number with a list of regular expressions")
        for pattern in patterns:
            _compiled(str(pattern))
    return {number: [str(pattern) for pattern in patterns] for number, patterns in table.items()}


def priority_problem(text: str | None) -> str:
    """Return one sentence that says why the list cannot be used; empty if it can.

    Without a usable list all groups have the same priority.
    """
    if text is None:
        return f"there is no ConfigMap {CONFIG_MAP}: the priority expander prefers no group"
    try:
        parse_priorities(text)
    except ConfigError as error:
        return f"{error}: the priority expander prefers no group"
    return ""


def highest_priority(options: Sequence[Option], priorities: dict[int, list[str]]) -> list[Option]:
    """Return the options whose groups match the highest priority; all options if no group matches any."""
    wanted: list[Option] = []
    highest = -1
    for option in options:
        priority = _priority(option.group.group_id, priorities)
        if priority is None or priority < highest:
            continue
        if priority > highest:
            highest, wanted = priority, []
        wanted.append(option)
    return wanted or list(options)


def _priority(group_id: str, priorities: dict[int, list[str]]) -> int | None:
    matching = (n for n, patterns in priorities.items() if any(_compiled(p).search(group_id) for p in patterns))
    return max(matching, default=None)


def _compiled(pattern: str) -> "re2._Regexp":
    try:
        return re2.compile(pattern, options=_QUIET)
    except re2.error as error:
        raise ConfigError(f"{CONFIG_MAP}: {pattern!r} is not a valid regular expression") from error
