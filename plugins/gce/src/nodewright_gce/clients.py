"""The clients of google-cloud-compute, and their credentials.

This is the only module that imports the SDK, and it does so only at the first call. Credentials come from the SDK's own
chain (``GOOGLE_APPLICATION_CREDENTIALS``, gcloud's own file, workload identity, the metadata server). The SDK renews
them, and this plugin never sees them.
"""

import os
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

from nodewright.spec import AccessDenied, ProviderError, ProviderUnavailable
from nodewright.spec.exchanges import Exchanges, tap_session
from nodewright.spec.meter import read_retry_after
from nodewright_gce.errors import refusal
from nodewright_gce.kube_env import trim_templates
from nodewright_gce.options import Options
from nodewright_gce.shapes import Raw

_SCOPES = ("https://www.googleapis.com/auth/compute", "https://www.googleapis.com/auth/cloud-platform.read-only")
_RESOURCE_MANAGER = "https://cloudresourcemanager.googleapis.com"
_METADATA = "metadata.google.internal"


class _Method(NamedTuple):
    """The client and the method of the SDK for an operation of the API."""

    client: str
    method: str


_METHODS: Mapping[str, _Method] = {
    "autoscalers.list": _Method("AutoscalersClient", "list"),
    "instanceGroupManagers.list": _Method("InstanceGroupManagersClient", "list"),
    "instanceGroupManagers.get": _Method("InstanceGroupManagersClient", "get"),
    "instanceGroupManagers.listManagedInstances": _Method("InstanceGroupManagersClient", "list_managed_instances"),
    "instanceGroupManagers.listErrors": _Method("InstanceGroupManagersClient", "list_errors"),
    "instanceGroupManagers.createInstances": _Method("InstanceGroupManagersClient", "create_instances_unary"),
    "instanceGroupManagers.deleteInstances": _Method("InstanceGroupManagersClient", "delete_instances_unary"),
    "instanceGroupManagerResizeRequests.insert": _Method("InstanceGroupManagerResizeRequestsClient", "insert_unary"),
    "instanceGroupManagerResizeRequests.get": _Method("InstanceGroupManagerResizeRequestsClient", "get"),
    "instanceGroupManagerResizeRequests.list": _Method("InstanceGroupManagerResizeRequestsClient", "list"),
    "instanceGroupManagerResizeRequests.cancel": _Method("InstanceGroupManagerResizeRequestsClient", "cancel_unary"),
    "instances.list": _Method("InstancesClient", "list"),
    "instanceTemplates.get": _Method("InstanceTemplatesClient", "get"),
    "machineTypes.get": _Method("MachineTypesClient", "get"),
    "regionInstanceGroupManagers.list": _Method("RegionInstanceGroupManagersClient", "list"),
    "regionInstanceGroupManagers.get": _Method("RegionInstanceGroupManagersClient", "get"),
    "regionInstanceGroupManagers.listManagedInstances": _Method(
        "RegionInstanceGroupManagersClient", "list_managed_instances"
    ),
    "regionInstanceGroupManagers.listErrors": _Method("RegionInstanceGroupManagersClient", "list_errors"),
    "regionInstanceGroupManagers.createInstances": _Method(
        "RegionInstanceGroupManagersClient", "create_instances_unary"
    ),
    "regionInstanceGroupManagers.deleteInstances": _Method(
        "RegionInstanceGroupManagersClient", "delete_instances_unary"
    ),
    "regionInstanceTemplates.get": _Method("RegionInstanceTemplatesClient", "get"),
    "regionOperations.wait": _Method("RegionOperationsClient", "wait"),
    "regions.get": _Method("RegionsClient", "get"),
    "zoneOperations.list": _Method("ZoneOperationsClient", "list"),
    "zoneOperations.wait": _Method("ZoneOperationsClient", "wait"),
}


class Clients:
    """One identity, with a client for each service that is used. Thread-safe."""

    def __init__(self, options: Options, exchanges: Exchanges | None = None) -> None:
        self._options = options
        self._exchanges = exchanges
        self._lock = threading.RLock()
        self._credentials: Any = None
        self._project = options.project
        self._made: dict[str, Any] = {}

    def __repr__(self) -> str:
        return f"Clients(project={self._project!r})"

    def call(self, operation: str, asked: Mapping[str, Any], **how: Any) -> Raw:
        """Make one call and return the response in the API's JSON: one page of a list."""
        client, method = self._client(_METHODS[operation].client), _METHODS[operation].method
        timeout = self._options.call_timeout

        def send() -> Raw:
            answer = getattr(client, method)(request=dict(asked), retry=None, timeout=timeout, **how)
            return _as_json(answer)

        return self._translated(operation, send)

    def project(self) -> str:
        """Return the project: of the options, else of the credentials, else of this machine."""
        self._identity()
        if not self._project:
            self._project = self._fact("project", lambda: self._metadata("project/project-id", "project"))
        return self._project

    def own_zone(self) -> str:
        """Return the zone of the machine on which this runs."""
        return self._fact("zone", lambda: self._metadata("instance/zone", "zones").rpartition("/")[2])

    def granted(self, project: str, permissions: Sequence[str]) -> Collection[str]:
        """Return which permissions we have, from the resource manager; the SDK for Compute Engine lacks this call."""
        host = self._options.endpoints.get("resource_manager", _RESOURCE_MANAGER)
        url = f"{host}/v3/projects/{project}:testIamPermissions"

        def send() -> Raw:
            from google.auth.transport.requests import AuthorizedSession  # noqa: PLC0415 - the SDK is heavy

            with AuthorizedSession(self._identity()) as session:
                self._tap(session)
                answer = session.post(url, json={"permissions": list(permissions)}, timeout=self._options.call_timeout)
            if answer.status_code != 200:
                raise refusal("projects.testIamPermissions", answer.status_code, "", answer.text)
            found: Raw = answer.json()
            return found

        return frozenset(self._translated("projects.testIamPermissions", send).get("permissions", ()))

    def _translated(self, operation: str, send: Callable[[], Raw]) -> Raw:
        """Make the call and translate every error of the SDK to nodewright's tree."""
        import requests  # noqa: PLC0415 - the SDK is heavy, see the module's first lines
        from google.api_core import exceptions as api_errors  # noqa: PLC0415 - as above
        from google.auth import exceptions as auth_errors  # noqa: PLC0415 - as above

        try:
            return send()
        except api_errors.GoogleAPICallError as error:
            raise _refusal(operation, error) from error
        except auth_errors.TransportError as error:
            raise ProviderUnavailable(f"{operation}: no access token: {_first_line(error)}") from error
        except auth_errors.GoogleAuthError as error:
            if getattr(error, "retryable", False):
                raise ProviderUnavailable(f"{operation}: no access token: {_first_line(error)}") from error
            raise AccessDenied(f"{operation}: {_first_line(error)}") from error
        except (requests.exceptions.RequestException, ValueError) as error:
            raise ProviderUnavailable(f"{operation}: {type(error).__name__}: {_first_line(error)}") from error

    def _client(self, name: str) -> Any:
        with self._lock:
            if name not in self._made:
                self._made[name] = self._build(name)
            return self._made[name]

    def _build(self, name: str) -> Any:
        from google.api_core.client_options import ClientOptions  # noqa: PLC0415 - the SDK is heavy
        from google.cloud import compute_v1  # noqa: PLC0415 - as above

        endpoint = self._options.endpoints.get("compute")
        settings = ClientOptions(api_endpoint=endpoint) if endpoint else None
        client = getattr(compute_v1, name)(credentials=self._identity(), client_options=settings)
        self._tap(client.transport._session)
        return client

    def _tap(self, session: Any) -> None:
        if self._exchanges is not None:
            from requests.exceptions import ConnectionError  # noqa: A004, PLC0415 - the SDK is heavy

            tap_session(session, self._exchanges, ConnectionError, trim_templates)

    def _fact(self, name: str, find: Callable[[], str]) -> str:
        return self._exchanges.fact(name, find) if self._exchanges is not None else find()

    def _identity(self) -> Any:
        with self._lock:
            if self._credentials is None:
                self._credentials = self._find_credentials()
            return self._credentials

    def _find_credentials(self) -> Any:
        import google.auth  # noqa: PLC0415 - the SDK is heavy, see the module's first lines
        from google.auth.exceptions import GoogleAuthError  # noqa: PLC0415 - as above

        if self._exchanges is not None and self._exchanges.replays:
            from google.auth.credentials import AnonymousCredentials  # noqa: PLC0415 - the SDK is heavy

            self._project = self._fact("project", lambda: self._project)
            return AnonymousCredentials()  # type: ignore[no-untyped-call]  # the SDK has no types
        try:
            found, project = google.auth.default(scopes=_SCOPES)
        except (GoogleAuthError, OSError, ValueError) as error:
            hint = "the README of nodewright-gce lists where they come from"
            raise AccessDenied(f"no credentials: {_first_line(error)}; {hint}") from error
        self._project = self._project or project or ""
        if self._exchanges is not None and self._project:
            self._exchanges.fact("project", lambda: self._project)
        return found

    def _metadata(self, path: str, option: str) -> str:
        """Return a value of the machine's metadata server; raise ProviderError that names the missing option."""
        import requests  # noqa: PLC0415 - the SDK is heavy, see the module's first lines

        host = os.environ.get("GCE_METADATA_HOST", _METADATA)
        try:
            answer = requests.get(
                f"http://{host}/computeMetadata/v1/{path}", headers={"Metadata-Flavor": "Google"}, timeout=5
            )
            answer.raise_for_status()
        except requests.exceptions.RequestException as error:
            raise ProviderError(
                f"no {option}: set providers.gce.options.{option}; the metadata server does not return it either",
                code="noPlace",
            ) from error
        return answer.text.strip()


def _as_json(answer: Any) -> Raw:
    """Return a message of the SDK, or the first page of a pager, in the API's JSON."""
    from google.protobuf.json_format import MessageToDict  # noqa: PLC0415 - the SDK is heavy

    message = getattr(answer, "_response", answer)
    found: Raw = MessageToDict(type(message).pb(message))
    return found


def _refusal(operation: str, error: Any) -> ProviderError:
    details = error.errors[0] if error.errors else {}
    reason = details.get("reason", "") if isinstance(details, dict) else ""
    headers = error.response.headers if error.response is not None else {}
    return refusal(operation, int(error.code or 0), reason, error.message or "", read_retry_after(headers))


def _first_line(error: BaseException) -> str:
    """Return the first line of the error: errors of credentials are pages long."""
    return (str(error) or type(error).__name__).splitlines()[0][:300]
