"""The tree of errors. An error stops a step; an expected refusal is a value, not an error.

NodewrightError
├ ConfigError · PluginError{PluginNotFound, ContractViolation}   stop at start, name the key or hook
├ KubeApiError(retryable)                                        skip this loop
├ ProviderError(provider, group_id, code)                        event, backoff of that group
│  ├ Shortage{OutOfCapacity, QuotaExceeded}(scope)               event, backoff of the groups that share the scope
│  ├ CloudBusy{Throttled, OperationInProgress}(retry_after)      repeated, then deferred: no backoff
│  └ TargetChanged, AccessDenied, NodeGroupNotFound,
│    ProviderUnavailable{OutcomeUnknown}, BadAnswer (also a ContractViolation)
└ InvariantError                                                 a bug: stop loudly
"""

from nodewright.model.group import FailureScope


class NodewrightError(Exception):
    """Base of everything that nodewright raises on purpose."""


class ConfigError(NodewrightError):
    """Settings or input are wrong; the message names the file, key, object or flag."""


class PluginError(NodewrightError):
    """A provider plugin cannot be used."""


class PluginNotFound(PluginError):
    """No installed package, or more than one, offers a provider of that name."""


class ContractViolation(PluginError):
    """A plugin broke the provider contract; the message names the hook."""


class KubeApiError(NodewrightError):
    """The Kubernetes API refused or failed."""

    def __init__(self, message: str, *, retryable: bool) -> None:
        super().__init__(message)
        self.retryable = retryable


class InvariantError(NodewrightError):
    """nodewright contradicted itself: always a bug."""


class ProviderError(NodewrightError):
    """A cloud refused or failed. Plugins raise it; the core fills in ``provider`` and ``group_id`` where absent."""

    code = "providerError"

    def __init__(self, message: str = "", *, provider: str = "", group_id: str = "", code: str = "") -> None:
        super().__init__(message or type(self).__name__)
        self.provider = provider
        self.group_id = group_id
        self.code = code or type(self).code


class Shortage(ProviderError):
    """The cloud cannot provide these machines now. Raise ``OutOfCapacity`` or ``QuotaExceeded``.

    ``scope`` says how far the shortage reaches: only to the group, unless the cloud names more. ``bucket`` as in
    FailedInstance.
    """

    def __init__(
        self,
        message: str = "",
        *,
        scope: FailureScope = FailureScope.GROUP,
        bucket: str = "",
        provider: str = "",
        group_id: str = "",
        code: str = "",
    ) -> None:
        super().__init__(message, provider=provider, group_id=group_id, code=code)
        self.scope = scope
        self.bucket = bucket


class OutOfCapacity(Shortage):
    """The cloud has no machines of that kind now."""

    code = "outOfResources"


class QuotaExceeded(Shortage):
    """A quota of the account is used up. The operator must raise it."""

    code = "quotaExceeded"


class TargetChanged(ProviderError):
    """The group's target is not what the caller expected, because another writer changed it."""

    code = "targetChanged"

    def __init__(self, message: str = "", *, actual: int, provider: str = "", group_id: str = "") -> None:
        super().__init__(message or f"the target size is {actual} by now", provider=provider, group_id=group_id)
        self.actual = actual


class CloudBusy(ProviderError):
    """The cloud is busy: it changed nothing, and the group is in order. Raise ``Throttled`` or ``OperationInProgress``.

    ``retry_after`` is in seconds. Pass None if the cloud does not give a time; it stands for 1 second.
    """

    def __init__(
        self,
        message: str = "",
        *,
        retry_after: float | None = 1.0,
        provider: str = "",
        group_id: str = "",
        code: str = "",
    ) -> None:
        super().__init__(message, provider=provider, group_id=group_id, code=code)
        self.retry_after = 1.0 if retry_after is None else float(retry_after)


class Throttled(CloudBusy):
    """The cloud asks for fewer calls."""

    code = "throttled"


class OperationInProgress(CloudBusy):
    """Another operation locks the group, or another writer was faster. The same call may succeed soon."""

    code = "operationInProgress"


class AccessDenied(ProviderError):
    """Credentials are missing or lack a permission."""

    code = "accessDenied"


class NodeGroupNotFound(ProviderError):
    """The provider knows no group of that id."""

    code = "nodeGroupNotFound"


class ProviderUnavailable(ProviderError):
    """The cloud did not answer, or not in time."""

    code = "unavailable"


class OutcomeUnknown(ProviderUnavailable):
    """A write did not return and the read after it failed. The next observation shows whether it had an effect."""

    code = "outcomeUnknown"


class BadAnswer(ProviderError, ContractViolation):
    """A hook returned a value that the contract forbids. As with every ProviderError, only its group is affected."""

    code = "contractViolation"
