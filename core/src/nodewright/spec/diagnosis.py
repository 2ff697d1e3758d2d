"""DIAGNOSIS: what an operator wants to know before trusting a provider with a cluster, and what it costs in API calls.

``nodewright doctor`` asks these hooks. ``diagnose`` is the one read that talks to the cloud by itself, and it never
changes anything there.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Protocol

from nodewright.model.capability import Capability
from nodewright.model.group import Value
from nodewright.spec.markers import hookspec


class FindingLevel(StrEnum):
    """How bad it is: ``problem`` keeps something from working, ``warning`` can do harm later."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


class Finding(Value, frozen=True, kw_only=True):
    """One thing that was looked at, and how it is.

    ``subject`` is what was looked at in the cloud's own words (a permission, a setting). ``capability`` is what
    does not hold, or holds in part, because of it; ``group_id`` is empty for what concerns the whole account.
    ``remedy`` says what to do, in one sentence.
    """

    level: FindingLevel
    subject: str
    message: str
    remedy: str = ""
    group_id: str = ""
    capability: Capability | None = None


class ApiCalls(Value, frozen=True, kw_only=True):
    """Calls of one operation of the cloud's API with one result (``ok`` or the cloud's error code) since the start."""

    operation: str
    result: str
    calls: int
    seconds: float


class DiagnosisHooks(Protocol):
    """DIAGNOSIS: the provider examines its own permissions and surroundings, and counts its calls."""

    @hookspec(firstresult=True)
    def diagnose(self) -> Sequence[Finding]:
        """Everything that was looked at, good or bad, as of the groups of the last ``refresh``.

        Probes the permission behind each capability without changing anything, and tells of other writers of the
        groups' sizes. What cannot be found out is a warning that says so.
        """

    @hookspec(firstresult=True)
    def minimal_policy(self) -> str:
        """The smallest set of permissions for this configuration, ready to be pasted into the cloud; no I/O."""

    @hookspec(firstresult=True)
    def api_calls(self) -> Sequence[ApiCalls]:
        """Every call to the cloud's API since the start, by operation and result; no I/O."""
