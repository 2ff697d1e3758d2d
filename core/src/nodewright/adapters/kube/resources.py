"""The paths of each kind on the API server, and the conversion of its responses to the model's values."""

from collections.abc import Iterator
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Raw

from nodewright.adapters.kube.api import Api, ApiError, Query, Request
from nodewright.model.decode import BROKEN, decode_amount, decode_object
from nodewright.model.devices import DEVICE_API_GROUP
from nodewright.model.errors import ConfigError
from nodewright.model.meta import Object, ObjectMeta
from nodewright.model.objects import KINDS, POD_GROUP_KINDS
from nodewright.model.provisioning_request import API_GROUP
from nodewright.model.sharing import Sharing

T = TypeVar("T", bound=Object)

PAGE = 500
_LIST_SECONDS = 60.0

_LIMITING_KINDS = frozenset({"CapacityQuota", "ProvisioningClass"})
_PLURALS = {
    "PodDisruptionBudget": "poddisruptionbudgets",
    "StorageClass": "storageclasses",
    "CSIStorageCapacity": "csistoragecapacities",
    "DeviceClass": "deviceclasses",
    "PriorityClass": "priorityclasses",
    "ProvisioningClass": "provisioningclasses",
    "CoschedulingPodGroup": "podgroups",
    "VolcanoPodGroup": "podgroups",
}


class Resource(Generic[T]):
    """One kind at its path on the API server: all of it, or the objects of ``namespace`` and ``query``. For one thread."""

    def __init__(self, kind: str, *, namespace: str = "", query: Query | None = None) -> None:
        known = KINDS[kind]
        self.kind = kind
        self.plural = _plural(kind)
        self.path = collection_path(known.api_group, self.plural, namespace, known.version)
        self.query = dict(query or {})
        # Whether a cluster may lack the kind: it comes with a CustomResourceDefinition, or with a newer Kubernetes.
        self.may_be_absent = known.api_group in (API_GROUP, DEVICE_API_GROUP) or kind in POD_GROUP_KINDS
        # Whether the role may lack the kind: an older ClusterRole does not name it. Kinds that limit purchases are needed:
        # without them too much would be bought.
        is_newer = kind in ("VolumeAttachment", "CSIStorageCapacity")
        self.may_be_forbidden = is_newer or (self.may_be_absent and kind not in _LIMITING_KINDS)
        self.api_group = known.api_group
        self._type: type[Any] = known.type
        self._object: msgspec.json.Decoder[Any] = msgspec.json.Decoder(known.type, dec_hook=decode_amount)
        self._share: Any = Sharing().pod if kind == "Pod" else _as_it_is
        self._page: msgspec.json.Decoder[Any] = msgspec.json.Decoder(_page_type(known.type), dec_hook=decode_amount)

    def __str__(self) -> str:
        return self.plural

    def decode_page(self, raw: bytes) -> "ListPage[T]":
        """Decode one page of a list; raise ApiError if it is not a list, or if an object in it cannot be read."""
        try:
            found = self._page.decode(raw)
        except BROKEN:
            return self._decode_one_by_one(raw)
        items = tuple(map(self._share, found.items or ()))
        return ListPage(items, found.metadata.resource_version, found.metadata.continue_)

    def decode(self, raw: bytes | Raw) -> T:
        """Decode one object; raise ApiError if it cannot be read."""
        try:
            decoded: T = self._object.decode(raw)
        except BROKEN:
            decoded = self._decode_with_reason(raw)
        shared: T = self._share(decoded)
        return shared

    def _decode_one_by_one(self, raw: bytes) -> "ListPage[T]":
        try:
            found = msgspec.json.decode(raw, type=_RawPage)
        except BROKEN as error:
            raise ApiError(f"the list of {self} cannot be read: {error}") from None
        items = tuple(self.decode(item) for item in found.items or ())
        return ListPage(items, found.metadata.resource_version, found.metadata.continue_)

    def _decode_with_reason(self, raw: bytes | Raw) -> T:
        try:
            decoded: T = decode_object(self._type, raw, f"the API server's {self}")
        except ConfigError as error:
            raise ApiError(str(error)) from None
        return decoded


class ListPage(Generic[T]):
    """One page of a list; ``rest`` is the continue token for the next page, empty on the last one."""

    def __init__(self, items: tuple[T, ...], version: str, rest: str) -> None:
        self.items = items
        self.version = version
        self.rest = rest


def read_pages(api: Api, resource: Resource[T], limit: int = PAGE) -> Iterator[ListPage[T]]:
    """Yield the pages of one list, of ``limit`` objects each (0: all at once). Raise ApiError."""
    query = {**resource.query, **({"limit": str(limit)} if limit else {})}
    while True:
        request = Request(method="GET", path=resource.path, query=dict(query), timeout=_LIST_SECONDS, compressed=True)
        page = resource.decode_page(api.send(request))
        yield page
        if not page.rest:
            return
        query["continue"] = page.rest


class ListMeta(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class _RawPage(msgspec.Struct, frozen=True, kw_only=True):
    items: tuple[Raw, ...] | None = ()
    metadata: ListMeta = ListMeta()


def object_path(kind: str, meta: ObjectMeta) -> str:
    """Return the path of one object on the API server."""
    known = KINDS[kind]
    return f"{collection_path(known.api_group, _plural(kind), meta.namespace, known.version)}/{meta.name}"


def collection_path(api_group: str, plural: str, namespace: str = "", version: str = "v1") -> str:
    root = f"/apis/{api_group}/{version}" if api_group else f"/api/{version}"
    return f"{root}/namespaces/{namespace}/{plural}" if namespace else f"{root}/{plural}"


def _plural(kind: str) -> str:
    return _PLURALS.get(kind, f"{kind.lower()}s")


def _as_it_is(held: Any) -> Any:
    return held


def _page_type(item: type[Any]) -> type[Any]:
    items: Any = tuple.__class_getitem__((item, ...)) | None
    fields = [("items", items, ()), ("metadata", ListMeta, ListMeta())]
    return msgspec.defstruct(f"{item.__name__}Page", fields, frozen=True)
