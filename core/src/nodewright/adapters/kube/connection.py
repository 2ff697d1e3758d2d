"""The connection to a real API server: where it is, who we are, and bytes to and fro.

Configuration, credentials (service account tokens that rotate, exec plugins, client certificates) and TLS are the
official client's; its typed models, which cost seconds and hundreds of MiB on a large cluster, are not used.
"""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import urllib3
from kubernetes import config as official
from kubernetes.client import Configuration
from kubernetes.client.rest import RESTClientObject
from kubernetes.config.config_exception import ConfigException
from urllib3.exceptions import HTTPError
from yaml import YAMLError

from nodewright.adapters.kube.api import ApiError, Lines, Request, read_status
from nodewright.model.complaint import printable
from nodewright.model.errors import ConfigError

# Every kind keeps one connection for its watch; the others are for calls.
_POOL = 48
_CONNECT_SECONDS = 10.0
_CHUNK = 1 << 16
_LONGEST_PATIENCE = 60.0
_BEARER = "BearerToken"
_SCHEMES = ("https://", "http://")
# What the client raises where a kubeconfig is YAML, but of another shape than it expects.
_WRONG_SHAPE = (ValueError, TypeError, KeyError, AttributeError, IndexError)


def connect(*, kubeconfig: str = "", server: str = "", user_agent: str = "nodewright") -> "Connection":
    """The API server that ``kubeconfig`` names; without it the cluster around this pod, else kubectl's own choice.

    ``server`` overrides the address alone. Raises ConfigError.
    """
    # The constructor, past a module-wide default that some other code may have set.
    configuration: Configuration = type.__call__(Configuration)
    try:
        _load(configuration, kubeconfig)
    except (ConfigException, YAMLError, OSError, *_WRONG_SHAPE) as error:
        raise ConfigError(f"--kubeconfig: {_complaint(kubeconfig, error)}") from None
    if server and not server.startswith(_SCHEMES):
        raise ConfigError(f"--kubernetes: {printable(server)} is no address like https://10.0.0.1:6443")
    if server:
        configuration.host = server
    configuration.connection_pool_maxsize = _POOL
    configuration.keep_alive = True
    configuration.retries = urllib3.Retry(False)
    return Connection(configuration, user_agent)


# The client has types, but not for these two.
_load_in_cluster: Callable[..., None] = official.load_incluster_config
_load_kubeconfig: Callable[..., None] = official.load_kube_config


def _load(configuration: Configuration, kubeconfig: str) -> None:
    if kubeconfig:
        if not Path(kubeconfig).is_file():
            raise ConfigException(f"there is no file {kubeconfig}")
        _load_kubeconfig(config_file=kubeconfig, client_configuration=configuration, persist_config=False)
        return
    try:
        _load_in_cluster(client_configuration=configuration)
    except ConfigException as no_pod:
        try:
            _load_kubeconfig(client_configuration=configuration, persist_config=False)
        except ConfigException as error:
            raise ConfigException(f"no cluster around this pod ({no_pod}), and no kubeconfig ({error})") from None


def _complaint(kubeconfig: str, error: Exception) -> str:
    said = printable(" ".join(str(error).split()))
    return said if isinstance(error, ConfigException) else f"{kubeconfig or 'the usual file'} is no kubeconfig: {said}"


class Connection:
    """Implements Api; for any number of threads."""

    def __init__(self, configuration: Configuration, user_agent: str) -> None:
        self.server: str = configuration.host
        self._configuration = configuration
        self._user_agent = user_agent
        self._pool = RESTClientObject(configuration).pool_manager
        self._lock = threading.Lock()

    def send(self, request: Request) -> bytes:
        reply = self._open(request)
        try:
            body = bytes(reply.data)
        except HTTPError as error:
            raise _no_answer(request, error) from None
        finally:
            reply.release_conn()
        _check(request, reply, body)
        return body

    def follow(self, request: Request) -> AbstractContextManager[Lines]:
        return self._follow(request)

    @contextmanager
    def _follow(self, request: Request) -> Iterator[Lines]:
        reply = self._open(request)
        try:
            if reply.status != 200:
                _check(request, reply, bytes(reply.data))
            yield _Stream(request, reply)
        finally:
            reply.close()  # the rest of a watch is never read: the connection cannot be used again

    def _open(self, request: Request) -> urllib3.BaseHTTPResponse:
        query = f"?{urlencode(request.query)}" if request.query else ""
        try:
            return self._pool.request(
                request.method,
                f"{self.server}{request.path}{query}",
                body=request.body,
                headers=self._headers(request),
                timeout=urllib3.Timeout(connect=min(_CONNECT_SECONDS, request.timeout), read=request.timeout),
                preload_content=False,
                retries=False,
            )
        except HTTPError as error:
            raise _no_answer(request, error) from None

    def _headers(self, request: Request) -> dict[str, str]:
        headers = {"Accept": "application/json", "User-Agent": self._user_agent}
        if request.compressed:
            headers["Accept-Encoding"] = "gzip"
        if request.body is not None:
            headers["Content-Type"] = request.content_type
        token = self._token()
        if token:
            headers["Authorization"] = token
        return headers

    def _token(self) -> str:
        """Asked anew for every call: the client refreshes what is about to expire."""
        try:
            with self._lock:
                settings: Mapping[str, Any] = self._configuration.auth_settings()
        except (ConfigException, OSError, ValueError) as error:
            raise ApiError(f"the credentials of the API server cannot be read: {error}") from None
        return str(settings[_BEARER]["value"] or "") if _BEARER in settings else ""


class _Stream:
    """Implements Lines."""

    def __init__(self, request: Request, reply: urllib3.BaseHTTPResponse) -> None:
        self._request = request
        self._reply = reply

    def __iter__(self) -> Iterator[bytes]:
        rest = b""
        try:
            for chunk in self._reply.stream(_CHUNK):
                *lines, rest = (rest + chunk).split(b"\n")
                yield from (line for line in lines if line)
        except HTTPError as error:
            raise _no_answer(self._request, error) from None

    def abandon(self) -> None:
        shutdown = getattr(self._reply, "shutdown", None)
        if shutdown is not None:
            shutdown()


def _check(request: Request, reply: urllib3.BaseHTTPResponse, body: bytes) -> None:
    if reply.status < 300:
        return
    raise read_status(body, str(request), reply.status, _patience(reply.headers.get("Retry-After", "0")))


def _patience(text: str) -> float:
    """A webhook may ask for any number of seconds, and a node that is being drained waits for it."""
    try:
        return min(max(0.0, float(text)), _LONGEST_PATIENCE)
    except ValueError:
        return 0.0


def _no_answer(request: Request, error: Exception) -> ApiError:
    return ApiError(f"{request}: no answer: {' '.join(str(error).split())}")
