"""Credentials and the SDK's clients, made at the first call.

Only this module, ``sdk``, ``aks`` and ``calls`` import the SDK.
"""

import logging
import threading
from collections.abc import Callable
from typing import Any

from nodewright.spec import AccessDenied
from nodewright.spec.exchanges import Exchanges, tap_session
from nodewright_azure.account import Account
from nodewright_azure.errors import NO_CREDENTIALS
from nodewright_azure.options import Method, Options

_AUTHORITIES = {
    "AZURE_PUBLIC_CLOUD": "AZURE_PUBLIC_CLOUD",
    "AZURE_US_GOVERNMENT": "AZURE_GOVERNMENT",
    "AZURE_CHINA_CLOUD": "AZURE_CHINA",
}
_PRICES = "prices"


class Session:
    """The SDK's clients, each made when it is first needed. Their calls have time limits and are sent once."""

    def __init__(self, account: Account, options: Options, exchanges: Exchanges | None = None) -> None:
        self._account = account
        self._exchanges = exchanges
        self._options = options
        self._lock = threading.Lock()
        self._credential: Any = None
        self._opened: dict[str, Any] = {}

    def compute(self) -> Any:
        """Return the client of Azure Compute; raise AccessDenied if credentials cannot be made."""
        from azure.mgmt.compute import ComputeManagementClient  # noqa: PLC0415 - the SDK is heavy, see the first line

        return self._open(ComputeManagementClient)

    def aks(self) -> Any:
        """Return the client of AKS; raise AccessDenied if credentials cannot be made."""
        from azure.mgmt.containerservice import ContainerServiceClient  # noqa: PLC0415 - as above

        return self._open(ContainerServiceClient)

    def prices(self) -> Any:
        """Return a client of the public price list. It sends no credentials."""
        from azure.core import PipelineClient  # noqa: PLC0415 - the SDK is heavy, see the first line
        from azure.core.pipeline.policies import UserAgentPolicy  # noqa: PLC0415 - as above

        with self._lock:
            if _PRICES not in self._opened:
                endpoint, policies = self._options.retail_prices_endpoint, [UserAgentPolicy("nodewright")]
                self._opened[_PRICES] = PipelineClient(
                    endpoint, policies=policies, **_transport(self._options), **self._tapped()
                )
            return self._opened[_PRICES]

    def _open(self, kind: Callable[..., Any]) -> Any:
        with self._lock:
            if kind.__name__ not in self._opened:
                where = {**_endpoint(self._account, self._options), **_transport(self._options), **self._tapped()}
                subscription = self._account.subscription_id
                self._opened[kind.__name__] = kind(self._login(), subscription, user_agent="nodewright", **where)
            return self._opened[kind.__name__]

    def _tapped(self) -> dict[str, Any]:
        """Return a transport whose requests pass through the recording; nothing if none is made."""
        if self._exchanges is None:
            return {}
        from azure.core.exceptions import ServiceRequestError  # noqa: PLC0415 - the SDK is heavy, see the first line
        from azure.core.pipeline.transport import RequestsTransport  # noqa: PLC0415 - as above

        transport = RequestsTransport(**_transport(self._options))
        transport.open()
        tap_session(transport.session, self._exchanges, ServiceRequestError)
        return {"transport": transport}

    def _login(self) -> Any:
        if self._exchanges is not None and self._exchanges.replays:
            return _NoCredential()
        if self._credential is None:
            # Errors are raised, and the core reports them once. Without a handler Python would print the SDK's log lines too.
            logging.getLogger("azure").addHandler(logging.NullHandler())
            try:
                self._credential = _make_credential(self._account, self._options)
            except (ValueError, OSError) as error:
                raise AccessDenied(
                    f"credentials ({self._account.method}) cannot be made: {error}", code=NO_CREDENTIALS
                ) from error
        return self._credential


class _NoCredential:
    """Returns a dummy token, for a replay, which sends no requests."""

    def get_token(self, *_: str, **__: Any) -> Any:
        from azure.core.credentials import AccessToken  # noqa: PLC0415 - the SDK is heavy, see the module's first line

        return AccessToken("none", 2**31)


def _endpoint(account: Account, options: Options) -> dict[str, Any]:
    from azure.core import AzureClouds  # noqa: PLC0415 - the SDK is heavy, see the module's first line

    where: dict[str, Any] = {"cloud_setting": AzureClouds[account.cloud]}
    if options.arm_endpoint:
        audience = options.arm_audience or options.arm_endpoint
        where |= {"base_url": options.arm_endpoint, "credential_scopes": [f"{audience.rstrip('/')}/.default"]}
    return where


def _transport(options: Options) -> dict[str, Any]:
    """Return the transport settings, without retries: the core repeats reads and settles writes itself."""
    settings: dict[str, Any] = {
        "retry_total": 0,
        "connection_timeout": options.connect_timeout,
        "read_timeout": options.read_timeout,
    }
    if options.ca_bundle:
        settings["connection_verify"] = options.ca_bundle
    return settings


def _make_credential(account: Account, options: Options) -> Any:
    import azure.identity as identity  # noqa: PLC0415, PLR0402 - the SDK is heavy, see the module's first line

    authority = options.authority_host or getattr(identity.AzureAuthorityHosts, _AUTHORITIES[account.cloud])
    shared: dict[str, Any] = {"authority": authority, **_transport(options)}
    if options.disconnected:
        shared["disable_instance_discovery"] = True
    who = {"tenant_id": account.tenant_id, "client_id": account.client_id}
    match account.method:
        case Method.CLIENT_SECRET:
            return identity.ClientSecretCredential(client_secret=account.client_secret.reveal(), **who, **shared)
        case Method.CERTIFICATE:
            password = account.certificate_password.reveal() or None
            return identity.CertificateCredential(
                certificate_path=account.certificate_path, password=password, **who, **shared
            )
        case Method.WORKLOAD_IDENTITY:
            return identity.WorkloadIdentityCredential(token_file_path=account.token_file, **who, **shared)
        case Method.MANAGED_IDENTITY:
            return identity.ManagedIdentityCredential(client_id=account.client_id or None, **_transport(options))
        case Method.CLI:
            return identity.AzureCliCredential(process_timeout=int(options.read_timeout))
        case _:
            return identity.DefaultAzureCredential(exclude_interactive_browser_credential=True, **shared)
