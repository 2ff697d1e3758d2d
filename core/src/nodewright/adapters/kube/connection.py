"""The connection to a real API server: it sends and receives bytes, with credentials that may change during use.

The official client's typed models, which cost seconds and hundreds of MiB on a large cluster, are not used.
"""

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import UTC
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

import urllib3
from kubernetes import config as official
from kubernetes.client import Configuration
from kubernetes.client.rest import RESTClientObject
from kubernetes.config.config_exception import ConfigException
from kubernetes.config.incluster_config import InClusterConfigLoader
from kubernetes.config.kube_config import KUBE_CONFIG_DEFAULT_LOCATION, KubeConfigMerger
from urllib3.exceptions import HTTPError
from yaml import YAMLError

from nodewright.adapters.kube.api import ApiError, Lines, Request, read_status
from nodewright.adapters.server_time import ServerTime
from nodewright.model.errors import ConfigError
from nodewright.model.printable import printable

_BEARER = "BearerToken"
# What the client raises where a kubeconfig is YAML, but of another shape than it expects.
_WRONG_SHAPE = (ValueError, TypeError, KeyError, AttributeError, IndexError)

# The client has types, but not for these.
_load_kubeconfig: Callable[..., None] = official.load_kube_config
_make_pod_loader: Callable[..., Any] = InClusterConfigLoader
_merge_kubeconfigs: Callable[[str], Any] = KubeConfigMerger


class PodEnvironment(NamedTuple):
    """A pod's access to its cluster: a folder with ``token`` and ``ca.crt``, and the API server's address."""

    folder: Path
    environ: Mapping[str, str]


THIS_POD = PodEnvironment(Path("/var/run/secrets/kubernetes.io/serviceaccount"), os.environ)


class TokenFile:
    """A token file that is rotated: it is read for every call.

    While the file holds no valid token, the last valid one is used.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._last = ""

    def read(self) -> str:
        """Return the token; empty if the file never held a valid one."""
        try:
            found = self._path.read_text(encoding="ascii").strip()
        except (OSError, ValueError):
            found = ""
        if found and found.isprintable():
            self._last = found
        return self._last


class Credentials:
    """``configuration`` is the official client's, ``certificate`` the content of its file; for any number of threads."""

    def __init__(self, configuration: Configuration, token_file: TokenFile | None, certificate: bytes) -> None:
        self.configuration = configuration
        self._token_file = token_file
        self._lock = threading.Lock()
        self._certificate = certificate

    def header(self) -> str:
        """Return the Authorization header for one call; empty without a token.

        A credential plugin runs again when its token is about to expire. Raise ConfigException, OSError or ValueError.
        """
        token = self._token_file.read() if self._token_file is not None else ""
        if token:
            return f"Bearer {token}"
        with self._lock:
            settings: Mapping[str, Any] = self.configuration.auth_settings()
        return str(settings[_BEARER]["value"] or "").strip() if _BEARER in settings else ""

    def proof(self) -> tuple[str, bytes]:
        """Return the token and the client certificate, with which this process authenticates itself."""
        return self.header(), self._certificate


def load_credentials(kubeconfig: str, pod: PodEnvironment) -> Credentials:
    """Load the credentials of ``kubeconfig``; if empty, those of the pod; outside a pod, kubectl's. Raise ConfigError."""
    try:
        return _load(kubeconfig, pod)
    except (ConfigException, YAMLError, OSError, *_WRONG_SHAPE) as error:
        raise ConfigError(f"--kubeconfig: {_describe_error(kubeconfig, error)}") from None


def _load(kubeconfig: str, pod: PodEnvironment) -> Credentials:
    if kubeconfig:
        if not Path(kubeconfig).is_file():
            raise ConfigException(f"there is no file {kubeconfig}")
        return _load_user(kubeconfig)
    try:
        return load_pod(pod)
    except ConfigException as no_pod:
        try:
            return _load_user(KUBE_CONFIG_DEFAULT_LOCATION)
        except ConfigException as error:
            raise ConfigException(
                f"this process does not run in a pod ({no_pod}), and there is no kubeconfig ({error})"
            ) from None


def _new_configuration() -> Configuration:
    """Return a new configuration, without the module-wide defaults that other code may have set."""
    made: Configuration = type.__call__(Configuration)
    return made


def load_pod(pod: PodEnvironment) -> Credentials:
    configuration, token = _new_configuration(), pod.folder / "token"
    loader = _make_pod_loader(str(token), str(pod.folder / "ca.crt"), try_refresh_token=False, environ=pod.environ)
    loader.load_and_set(configuration)
    return _with_certificate(configuration, TokenFile(token))


def _with_certificate(configuration: Configuration, token_file: TokenFile | None) -> Credentials:
    """Return the credentials with their certificate. It is read now, since its file may be replaced later."""
    certificate = Path(configuration.cert_file).read_bytes() if configuration.cert_file else b""
    return Credentials(configuration, token_file, certificate)


def _load_user(kubeconfig: str) -> Credentials:
    configuration = _new_configuration()
    _load_kubeconfig(config_file=kubeconfig, client_configuration=configuration, persist_config=False)
    user = _find_user(_merge_kubeconfigs(kubeconfig).config)
    token_file = user.safe_get("tokenFile") if user is not None else None
    path = Path(user.path).parent / token_file if token_file else None
    found = _with_certificate(configuration, TokenFile(path) if path is not None else None)
    # The client only logs that a credential plugin failed. Without credentials every request would be refused as anonymous.
    if user is not None and "exec" in user and not any(found.proof()):
        raise ConfigException(f"{printable(str(user['exec']['command']))} returned no credentials")
    return found


def _find_user(config: Any) -> Any:
    """Return the entry of the current context's user; None without one."""
    context = config["contexts"].get_with_name(config["current-context"])["context"]
    name = context.safe_get("user")
    held = config["users"].get_with_name(name, safe=True) if name else None
    return held["user"] if held is not None else None


def _describe_error(kubeconfig: str, error: Exception) -> str:
    if isinstance(error, OSError):
        return f"{printable(str(error.filename))}: {error.strerror}"
    said = printable(" ".join(str(error).split()))
    return (
        said if isinstance(error, ConfigException) else f"{kubeconfig or 'the usual file'} is not a kubeconfig: {said}"
    )


# The most connections. Each kind keeps one for its watch; the others are for calls.
_POOL = 48
_CONNECT_SECONDS = 10.0
_CHUNK = 1 << 16
_LONGEST_PATIENCE = 60.0
_SCHEMES = ("https://", "http://")
_UNAUTHORIZED = 401


def connect(
    *,
    kubeconfig: str = "",
    server: str = "",
    user_agent: str = "nodewright",
    pod: PodEnvironment = THIS_POD,
    time: ServerTime | None = None,
) -> "Connection":
    """Connect to the API server of ``kubeconfig``; if empty, to the pod's; outside a pod, to that of kubectl's kubeconfig.

    ``server`` overrides only the address. ``time`` is given the date of each response. Raise ConfigError.
    """
    if server and not server.startswith(_SCHEMES):
        raise ConfigError(f"--kubernetes: {printable(server)} is not an address like https://10.0.0.1:6443")

    def load() -> Credentials:
        found = load_credentials(kubeconfig, pod)
        if server:
            found.configuration.host = server
        return found

    return Connection(load(), load, user_agent, time)


class _Session(NamedTuple):
    """Credentials, and the connections opened with them: a client certificate is sent when a connection is opened."""

    credentials: Credentials
    pool: urllib3.PoolManager


def _open_session(credentials: Credentials) -> _Session:
    configuration = credentials.configuration
    configuration.connection_pool_maxsize = _POOL
    configuration.keep_alive = True
    configuration.retries = urllib3.Retry(False)
    return _Session(credentials, RESTClientObject(configuration).pool_manager)


class Connection:
    """Implements Api; for any number of threads.

    The API server may refuse credentials that should still be valid, such as a revoked token, or one for which a plugin
    gave no expiry. Then ``load`` is called again and, if it returns other credentials, the request is sent once more.
    """

    def __init__(
        self, credentials: Credentials, load: Callable[[], Credentials], user_agent: str, time: ServerTime | None
    ) -> None:
        self._load = load
        self._time = time
        self._user_agent = user_agent
        self._lock = threading.Lock()
        self._session = _open_session(credentials)
        self.server: str = self._session.credentials.configuration.host

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
            reply.close()  # the rest of the response is not read, so the connection cannot be used again

    def _open(self, request: Request) -> urllib3.BaseHTTPResponse:
        session = self._session
        sent = _proof(session)
        reply = self._ask(session, request, sent[0])
        if reply.status != _UNAUTHORIZED:
            return reply
        try:
            renewed = self._renew(session, sent, request)
        except ApiError:
            reply.close()
            raise
        if renewed is None:
            return reply
        reply.drain_conn()
        return self._ask(renewed, request, _proof(renewed)[0])

    def _renew(self, refused: _Session, sent: tuple[str, bytes], request: Request) -> _Session | None:
        """Return the session to use instead of the one refused; None if there is no other. Raise ApiError."""
        with self._lock:
            if self._session is not refused or _proof(refused) != sent:
                return self._session  # another thread renewed it, or a file was rotated
            try:
                found = _open_session(self._load())
            except ConfigError as error:
                what = f"{request}: the credentials were refused, and there are no others"
                raise ApiError(f"{what}: {error}", status=_UNAUTHORIZED) from None
            proof = _proof(found)
            # The kubeconfig may name another cluster by now, whose credentials must not be sent to this one.
            is_here = found.credentials.configuration.host == self.server
            if not is_here or proof == sent or not any(proof):
                return None
            self._session = found
            return found

    def _ask(self, session: _Session, request: Request, token: str) -> urllib3.BaseHTTPResponse:
        query = f"?{urlencode(request.query)}" if request.query else ""
        asked = self._time.elapsed() if self._time is not None else 0.0
        try:
            reply = session.pool.request(
                request.method,
                f"{self.server}{request.path}{query}",
                body=request.body,
                headers=self._headers(request, token),
                timeout=urllib3.Timeout(connect=min(_CONNECT_SECONDS, request.timeout), read=request.timeout),
                preload_content=False,
                retries=False,
            )
        except HTTPError as error:
            raise _no_answer(request, error) from None
        if self._time is not None:
            self._time.hear(_date(reply.headers), asked)
        return reply

    def _headers(self, request: Request, token: str) -> dict[str, str]:
        headers = {"Accept": "application/json", "User-Agent": self._user_agent}
        if request.compressed:
            headers["Accept-Encoding"] = "gzip"
        if request.body is not None:
            headers["Content-Type"] = request.content_type
        if token:
            headers["Authorization"] = token
        return headers


def _proof(session: _Session) -> tuple[str, bytes]:
    try:
        return session.credentials.proof()
    except (ConfigException, OSError, ValueError) as error:
        raise ApiError(f"the credentials of the API server cannot be read: {error}") from None


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
            # Errors mean that the watch has ended by itself: it was cut or closed, or its connection is in the pool again.
            with suppress(OSError, ValueError, RuntimeError):
                shutdown()


def _check(request: Request, reply: urllib3.BaseHTTPResponse, body: bytes) -> None:
    if reply.status < 300:
        return
    raise read_status(body, str(request), reply.status, _patience(reply.headers.get("Retry-After", "0")))


def _patience(text: str) -> float:
    """Return the seconds of a Retry-After header, bounded: a webhook may ask for any number, and a drain waits for it."""
    try:
        return min(max(0.0, float(text)), _LONGEST_PATIENCE)
    except ValueError:
        return 0.0


def _date(headers: Mapping[str, str]) -> float | None:
    """Return when the API server made a response, in seconds since the epoch; None: unknown.

    A response with an ``Age`` header comes from a cache on the way. The API server made it earlier.
    """
    if "Age" in headers:
        return None
    try:
        return parsedate_to_datetime(headers.get("Date", "")).replace(tzinfo=UTC).timestamp()  # GMT, as HTTP demands
    except (ValueError, OverflowError):
        return None


def _no_answer(request: Request, error: Exception) -> ApiError:
    return ApiError(f"{request}: no answer: {' '.join(str(error).split())}")
