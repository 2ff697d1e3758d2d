"""What the SDK says of the API: which requests there are, of which types they and their answers are.

Routes come from the SDK's own transports, types from the signatures of its clients. A request with an unknown path,
parameter or member, and an answer with an unknown member, a wrong type or a word that its enum lacks, are findings.
"""

import importlib
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple, get_args, get_type_hints

from google.cloud import compute_v1
from google.protobuf import json_format

Raw = dict[str, Any]
_SERVICES = {
    "autoscalers": "Autoscalers",
    "instance_group_managers": "InstanceGroupManagers",
    "instance_group_manager_resize_requests": "InstanceGroupManagerResizeRequests",
    "instance_templates": "InstanceTemplates",
    "instances": "Instances",
    "machine_types": "MachineTypes",
    "region_instance_group_managers": "RegionInstanceGroupManagers",
    "region_instance_templates": "RegionInstanceTemplates",
    "region_operations": "RegionOperations",
    "regions": "Regions",
    "zone_operations": "ZoneOperations",
}
_VARIABLE = re.compile(r"\{(\w+)\}")


class BadExchange(Exception):
    """A request or an answer that is not of the API."""


class Route(NamedTuple):
    """One operation of the API; ``name`` is like ``instanceGroupManagers.list``."""

    name: str
    verb: str
    path: re.Pattern[str]
    body: str
    request: Any
    answer: Any


class Call(NamedTuple):
    """A request that is of the API; ``asked`` is all of it by the API's names."""

    route: Route
    asked: Raw


def read_request(verb: str, path: str, query: Mapping[str, str], body: Raw | None) -> Call:
    """Raises BadExchange."""
    for route in _routes():
        found = route.path.fullmatch(path) if route.verb == verb else None
        if found is not None:
            asked: Raw = {_camel(name): value for name, value in found.groupdict().items()}
            asked |= {name: _plain(value) for name, value in query.items() if not name.startswith("$")}
            if route.body:
                asked[_camel(route.body)] = body or {}
            elif body:
                raise BadExchange(f"{route.name} takes no body")
            _parse(asked, route.request, f"request of {route.name}")
            return Call(route, asked)
    raise BadExchange(f"there is no operation {verb} {path}")


def check_answer(route: Route, answer: Raw) -> None:
    """Raises BadExchange."""
    what = f"answer of {route.name}"
    message = _parse(answer, route.answer, what)
    strange = next(_strange_words(message), "")
    if strange:
        raise BadExchange(f"{what}: {strange}")


@cache
def _routes() -> tuple[Route, ...]:
    return tuple(route for package, service in _SERVICES.items() for route in _routes_of(package, service))


def _routes_of(package: str, service: str) -> Iterator[Route]:
    base = importlib.import_module(f"google.cloud.compute_v1.services.{package}.transports.rest_base")
    client = getattr(compute_v1, f"{service}Client")
    for name, member in vars(getattr(base, f"_Base{service}RestTransport")).items():
        method = re.sub(r"(?<!^)(?=[A-Z])", "_", name.removeprefix("_Base")).lower()
        call = getattr(client, f"{method}_unary", getattr(client, method, None))
        if not name.startswith("_Base") or call is None or not hasattr(member, "_get_http_options"):
            continue
        hints = get_type_hints(call)
        request = next(one for one in get_args(hints["request"]) if one not in (dict, type(None)))
        for option in member._get_http_options():
            pattern = _VARIABLE.sub(r"(?P<\1>[^/]+)", option["uri"])
            yield Route(
                name=f"{_camel(package)}.{_camel(method)}",
                verb=option["method"].upper(),
                path=re.compile(pattern),
                body=option.get("body", ""),
                request=request,
                answer=_answer_type(hints["return"]),
            )


def _answer_type(kind: Any) -> Any:
    """A pager holds the message of one page."""
    if hasattr(kind, "pb"):
        return kind
    return get_type_hints(kind.__init__)["response"]


def _parse(raw: Raw, kind: Any, what: str) -> Any:
    message = kind.pb(kind())
    try:
        return json_format.ParseDict(raw, message, ignore_unknown_fields=False)
    except json_format.ParseError as error:
        raise BadExchange(f"{what}: {error}") from error


def _strange_words(message: Any) -> Iterator[str]:
    """Texts that stand for an enum, as most of this API's enums do, and are not of it."""
    for field, value in message.ListFields():
        name = "".join(map(str.capitalize, field.name.split("_")))
        if isinstance(value, str) and name in message.DESCRIPTOR.enum_types_by_name:
            enum = getattr(getattr(compute_v1, message.DESCRIPTOR.name), name)
            # A word that two enums of a message share is told in the second one's text only: protobuf allows no other way.
            if value not in enum.__members__ and value not in (enum.__doc__ or "").split():
                yield f"{value} is no {name}"
        if field.message_type is not None and not field.message_type.GetOptions().map_entry:
            for inner in value if _is_list(value) else (value,):
                yield from _strange_words(inner)


def _is_list(value: Any) -> bool:
    return not hasattr(value, "DESCRIPTOR")


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(map(str.capitalize, rest))


def _plain(text: str) -> str | bool:
    return {"true": True, "false": False}.get(text, text)
