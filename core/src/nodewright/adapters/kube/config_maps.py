"""ConfigMaps that nodewright itself writes. Each write names the version that it replaces."""

from typing import Any

import msgspec

from nodewright.adapters.kube.api import Api, ApiError, Request, find, read_answer
from nodewright.adapters.kube.resources import collection_path


class StoredMap(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A ConfigMap; ``version`` is empty for one that does not exist yet.

    Labels and annotations may belong to other programs: a writer keeps those that it has read.
    """

    data: dict[str, str] = {}
    binary_data: dict[str, bytes] = {}
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    uid: str = ""
    version: str = ""


class _RawMetadata(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    resource_version: str = ""
    uid: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class _RawConfigMap(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    metadata: _RawMetadata = _RawMetadata()
    data: dict[str, str] | None = None
    binary_data: dict[str, bytes] | None = None


class ConfigMaps:
    """The ConfigMaps of one namespace; every method raises ApiError."""

    def __init__(self, api: Api, namespace: str) -> None:
        self.namespace = namespace
        self._api = api
        self._path = collection_path("", "configmaps", namespace)

    def read(self, name: str) -> StoredMap | None:
        """Return the ConfigMap; None if it does not exist."""
        raw = find(self._api, f"{self._path}/{name}")
        return _decode(raw) if raw is not None else None

    def write(self, name: str, content: StoredMap) -> StoredMap:
        """Create it, or replace the version that ``content`` names. Raise a conflict if another writer was faster."""
        marks = {"labels": content.labels, "annotations": content.annotations}
        metadata: dict[str, Any] = {"name": name, "namespace": self.namespace, **marks}
        if content.version:
            metadata["resourceVersion"] = content.version
        body: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": metadata,
            "data": content.data,
            "binaryData": content.binary_data,
        }
        method, path = ("PUT", f"{self._path}/{name}") if content.version else ("POST", self._path)
        return _decode(self._api.send(Request(method=method, path=path, body=msgspec.json.encode(body))))

    def delete(self, name: str) -> None:
        """Delete the ConfigMap, if it exists."""
        try:
            self._api.send(Request(method="DELETE", path=f"{self._path}/{name}"))
        except ApiError as error:
            if not error.is_missing:
                raise


def _decode(raw: bytes) -> StoredMap:
    found = read_answer(raw, _RawConfigMap, "ConfigMap")
    meta = found.metadata
    return StoredMap(
        data=found.data or {},
        binary_data=found.binary_data or {},
        labels=meta.labels or {},
        annotations=meta.annotations or {},
        uid=meta.uid,
        version=meta.resource_version,
    )
