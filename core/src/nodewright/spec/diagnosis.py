"""DIAGNOSIS: permissions, settings and API calls that an operator checks before using a provider in a cluster.

``nodewright doctor`` calls these hooks. ``diagnose`` is the only read hook besides ``refresh`` that calls the cloud. It
never changes anything in the cloud.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Protocol

from nodewright.model.capability import Capability
from nodewright.model.group import Value
from nodewright.spec.markers import hookspec


class FindingLevel(StrEnum):
    """Severity of a finding. ``problem``: something does not work. ``warning``: something may fail later."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


class Finding(Value, frozen=True, kw_only=True):
    """One check of the diagnosis and its result.

    ``subject`` is the permission or setting that was checked, in the cloud's own words. ``message`` says what was
    found. ``remedy`` is one sentence for the operator: what to do. ``capability`` is the capability that does not work,
    or works only in part, because of the finding. ``group_id`` is empty if the finding concerns the whole account.
    """

    level: FindingLevel
    subject: str
    message: str
    remedy: str = ""
    group_id: str = ""
    capability: Capability | None = None


class ApiCalls(Value, frozen=True, kw_only=True):
    """Calls of one operation of the cloud's API with one result, counted since the process started.

    ``result`` is ``ok`` or the cloud's error code; ``seconds`` is the sum of the durations.
    """

    operation: str
    result: str
    calls: int
    seconds: float


class DiagnosisHooks(Protocol):
    """DIAGNOSIS: the provider checks its own permissions and configuration, and counts its API calls."""

    @hookspec(firstresult=True)
    def diagnose(self) -> Sequence[Finding]:
        """Check everything that the provider needs, and return all findings, also the good ones.

        Check the permissions behind each capability for the groups of the last ``refresh``, without changing anything
        in the cloud. Report other controllers that change the groups' sizes. Return a warning for a check that could
        not be carried out.
        """

    @hookspec(firstresult=True)
    def minimal_policy(self) -> str:
        """Return the smallest set of permissions for this configuration, in the cloud's own format; no I/O."""

    @hookspec(firstresult=True)
    def api_calls(self) -> Sequence[ApiCalls]:
        """Return the counts of all calls to the cloud's API since the process started, by operation and result; no I/O."""
