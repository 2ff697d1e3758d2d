"""The state that a daemon keeps in its cluster."""

from nodewright.adapters.kube.config_maps import ConfigMaps
from nodewright.adapters.kube.connection import connect
from nodewright.adapters.kube.store import PAUSE_NAME, ConfigMapStore, read_pause_text


def open_cluster_state(kubeconfig: str, namespace: str) -> tuple[ConfigMapStore, str]:
    """And what people call it. Found as ``run`` finds it; raises ConfigError for a kubeconfig that leads nowhere."""
    connection = connect(kubeconfig=kubeconfig)
    maps = ConfigMaps(connection, namespace)

    def read_pause() -> str | None:
        held = maps.read(PAUSE_NAME)
        return read_pause_text(held.data) if held is not None else None

    return ConfigMapStore(maps, read_pause), f"namespace {namespace} of {connection.server}"
