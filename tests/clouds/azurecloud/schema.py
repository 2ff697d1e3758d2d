"""Do requests and answers fit the vendor's own models? Routes, versions and types are read from Azure's SDKs.

Enumerations are open in the SDK; here a value must be one of those that it names, so that ours are never invented.
"""

import enum
import inspect
import re
import types
import typing
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any

from azure.mgmt import compute, containerservice
from azure.mgmt.compute.models import _models as compute_models
from azure.mgmt.containerservice.models import _models as aks_models

_BUILDER = re.compile(r"^def build_(\w+)_request\(.*?(?=^def |^class |\Z)", re.MULTILINE | re.DOTALL)
_URL = re.compile(r"_url = ((?:\(\s*)?(?:\"[^\"]+\"\s*)+)")
# By the module of its models: what names in their annotations mean, and where the requests are built.
_SDKS: Mapping[str, Mapping[str, Any]] = {
    made.__name__: {**vars(made), **vars(sdk.models), "_models": sdk.models}
    for sdk, made in ((compute, compute_models), (containerservice, aks_models))
}
_OPERATIONS = (
    compute.operations.VirtualMachineScaleSetsOperations,
    containerservice.operations.AgentPoolsOperations,
)


class Route(typing.NamedTuple):
    """One operation of the SDK; ``name`` as its request builder is called."""

    name: str
    method: str
    path: re.Pattern[str]
    version: str
    query: frozenset[str]


@cache
def routes() -> tuple[Route, ...]:
    return tuple(route for kind in _OPERATIONS for route in _routes(_source_beside(kind)))


def find_route(method: str, path: str) -> Route | None:
    """The operation of the SDK that sends this."""
    return next((one for one in routes() if one.method == method and one.path.fullmatch(path)), None)


def check_request(method: str, path: str, query: Mapping[str, str], body: Any, model: str) -> list[str]:
    """What the SDK would not send."""
    route = find_route(method, path)
    if route is None:
        return [f"{method} {path}: the SDK has no such operation"]
    found = [] if query.get("api-version") == route.version else [f"{route.name}: version {query.get('api-version')}"]
    # Pages are asked for by links of our own making.
    found += [f"{route.name}: query {name}" for name in query if name not in {*route.query, "$skiptoken"}]
    return found + (check_named(body, model, f"{route.name} request") if model else [])


def check_named(value: Any, model: str, path: str) -> list[str]:
    """``check`` by the name of one of the SDKs' models."""
    return check(value, next(names[model] for names in _SDKS.values() if model in names), path)


def check(value: Any, kind: Any, path: str) -> list[str]:
    """Where a decoded JSON value differs from the type that the SDK has for it."""
    if value is None:
        return [f"{path}: null"]
    origin = typing.get_origin(kind)
    if origin in (typing.Union, types.UnionType):
        return _check_union(value, typing.get_args(kind), path)
    if origin in (list, dict):
        return _check_many(value, origin, typing.get_args(kind)[-1], path)
    return _check_plain(value, kind, path) if inspect.isclass(kind) else []


def _check_many(value: Any, container: Any, inner: Any, path: str) -> list[str]:
    if not isinstance(value, container):
        return [f"{path}: no {container.__name__}"]
    members: Iterable[tuple[object, Any]] = value.items() if isinstance(value, dict) else enumerate(value)
    return [found for key, one in members for found in check(one, inner, f"{path}[{key}]")]


def _check_union(value: Any, kinds: tuple[Any, ...], path: str) -> list[str]:
    wanted = [kind for kind in kinds if kind is not type(None)]
    if any(inspect.isclass(kind) and issubclass(kind, enum.Enum) for kind in wanted):
        wanted = [kind for kind in wanted if kind is not str]
    return min((check(value, kind, path) for kind in wanted), key=len, default=[])


def _check_plain(value: Any, kind: Any, path: str) -> list[str]:
    if issubclass(kind, enum.Enum):
        return [] if value in [one.value for one in kind] else [f"{path}: {value!r} is no {kind.__name__}"]
    if kind.__module__ in _SDKS:
        if not isinstance(value, dict):
            return [f"{path}: no object"]
        fields = _fields(kind)
        unknown = [f"{path}.{key}: {kind.__name__} has no such member" for key in value if key not in fields]
        return unknown + [
            found for key, one in value.items() if key in fields for found in check(one, fields[key], f"{path}.{key}")
        ]
    wrong = kind in (bool, int, str) and (not isinstance(value, kind) or (kind is int and isinstance(value, bool)))
    return [f"{path}: {value!r} is no {kind.__name__}"] if wrong else []


@cache
def _fields(kind: Any) -> dict[str, Any]:
    """Types of a model's members by their names in JSON."""
    kind({})  # the SDK finds out about a model's members when the first one is made
    hints: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        if base.__module__ in _SDKS:
            hints |= typing.get_type_hints(base, globalns=dict(_SDKS[base.__module__]))
    members: Mapping[str, Any] = getattr(kind, "_attr_to_rest_field")  # noqa: B009 - the SDK's own book-keeping
    return {member._rest_name: hints.get(name) for name, member in members.items()}


def _source_beside(kind: Any) -> str:
    """Of the module that has it: the builders of its requests are there."""
    module = inspect.getmodule(kind)
    assert module is not None
    return inspect.getsource(module)


def _routes(source: str) -> Iterator[Route]:
    for built in _BUILDER.finditer(source):
        text = built[0]
        url, verb = _URL.search(text), re.search(r'method="(\w+)"', text)
        version = re.search(r'"api-version", "([0-9-]+)"', text)
        if url is None or verb is None or version is None:
            continue
        path = "".join(re.findall(r'"([^"]+)"', url[1]))
        pattern = re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(path))
        query = frozenset(re.findall(r'_params\["([^"]+)"\] =', text))
        yield Route(built[1], verb[1], re.compile(pattern, re.IGNORECASE), version[1], query)
