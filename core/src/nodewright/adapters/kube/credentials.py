"""Where the API server is and who we are to it: the pod around us and its service account, or what a kubeconfig says.

Exec plugins, client certificates and TLS are the official client's. Files that hold a token are not: it reads that of a
pod again only after a minute and the ``tokenFile`` of a kubeconfig never, though somebody rotates both.
"""

import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from kubernetes import config as official
from kubernetes.client import Configuration
from kubernetes.config.config_exception import ConfigException
from kubernetes.config.incluster_config import InClusterConfigLoader
from kubernetes.config.kube_config import KUBE_CONFIG_DEFAULT_LOCATION, KubeConfigMerger
from yaml import YAMLError

from nodewright.model.errors import ConfigError
from nodewright.model.printable import printable

_BEARER = "BearerToken"
# What the client raises where a kubeconfig is YAML, but of another shape than it expects.
_WRONG_SHAPE = (ValueError, TypeError, KeyError, AttributeError, IndexError)

# The client has types, but not for these.
_load_kubeconfig: Callable[..., None] = official.load_kube_config
_make_pod_loader: Callable[..., Any] = InClusterConfigLoader
_merge_kubeconfigs: Callable[[str], Any] = KubeConfigMerger


class Pod(NamedTuple):
    """What a pod is told of its cluster: a folder with ``token`` and ``ca.crt``, and the API server's address."""

    folder: Path
    environ: Mapping[str, str]


THIS_POD = Pod(Path("/var/run/secrets/kubernetes.io/serviceaccount"), os.environ)


class TokenFile:
    """A token that somebody rotates, so that it is read for every call. While there is none in the file, or what is no
    token, the last one holds.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._last = ""

    def read(self) -> str:
        """Empty if there never was one."""
        try:
            found = self._path.read_text(encoding="ascii").strip()
        except (OSError, ValueError):
            found = ""
        if found and found.isprintable():
            self._last = found
        return self._last


class Credentials:
    """``configuration`` is the official client's; for any number of threads."""

    def __init__(self, configuration: Configuration, token_file: TokenFile | None) -> None:
        self.configuration = configuration
        self._token_file = token_file
        self._lock = threading.Lock()
        # The file may be another one by the time that somebody compares.
        self._certificate = Path(configuration.cert_file).read_bytes() if configuration.cert_file else b""

    def header(self) -> str:
        """Of the token, asked for every call: the client runs a plugin again when its token is about to expire. Empty
        for who has none; raises ConfigException, OSError and ValueError.
        """
        token = self._token_file.read() if self._token_file is not None else ""
        if token:
            return f"Bearer {token}"
        with self._lock:
            settings: Mapping[str, Any] = self.configuration.auth_settings()
        return str(settings[_BEARER]["value"] or "").strip() if _BEARER in settings else ""

    def proof(self) -> tuple[str, bytes]:
        """All that says who we are: the token and the certificate."""
        return self.header(), self._certificate


def load_credentials(kubeconfig: str, pod: Pod) -> Credentials:
    """What ``kubeconfig`` says; without it the cluster around ``pod``, else kubectl's own choice. Raises ConfigError."""
    try:
        return _load(kubeconfig, pod)
    except (ConfigException, YAMLError, OSError, *_WRONG_SHAPE) as error:
        raise ConfigError(f"--kubeconfig: {_complaint(kubeconfig, error)}") from None


def _load(kubeconfig: str, pod: Pod) -> Credentials:
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
            raise ConfigException(f"no cluster around this pod ({no_pod}), and no kubeconfig ({error})") from None


def _new_configuration() -> Configuration:
    """By the constructor, past a module-wide default that some other code may have set."""
    made: Configuration = type.__call__(Configuration)
    return made


def load_pod(pod: Pod) -> Credentials:
    configuration, token = _new_configuration(), pod.folder / "token"
    loader = _make_pod_loader(str(token), str(pod.folder / "ca.crt"), try_refresh_token=False, environ=pod.environ)
    loader.load_and_set(configuration)
    return Credentials(configuration, TokenFile(token))


def _load_user(kubeconfig: str) -> Credentials:
    configuration = _new_configuration()
    _load_kubeconfig(config_file=kubeconfig, client_configuration=configuration, persist_config=False)
    user = _find_user(_merge_kubeconfigs(kubeconfig).config)
    token_file = user.safe_get("tokenFile") if user is not None else None
    path = Path(user.path).parent / token_file if token_file else None
    found = Credentials(configuration, TokenFile(path) if path is not None else None)
    # The client only logs that a plugin failed. Without it we would be taken for anonymous, and refused for good.
    if user is not None and "exec" in user and not any(found.proof()):
        raise ConfigException(f"{printable(str(user['exec']['command']))} gave no credentials")
    return found


def _find_user(config: Any) -> Any:
    """The node of the current context's user; None without one."""
    context = config["contexts"].get_with_name(config["current-context"])["context"]
    name = context.safe_get("user")
    held = config["users"].get_with_name(name, safe=True) if name else None
    return held["user"] if held is not None else None


def _complaint(kubeconfig: str, error: Exception) -> str:
    if isinstance(error, OSError):
        return f"{printable(str(error.filename))}: {error.strerror}"
    said = printable(" ".join(str(error).split()))
    return said if isinstance(error, ConfigException) else f"{kubeconfig or 'the usual file'} is no kubeconfig: {said}"
