"""The role that the chart gives nodewright, bound to a user of the control plane, and what that user asked for."""

import json
from collections.abc import Mapping
from copy import deepcopy
from typing import Any, NamedTuple

from tests.e2e.control_plane import ControlPlane
from tests.e2e.helm import render, render_mode

_RBAC = "/apis/rbac.authorization.k8s.io/v1"
_PLURALS = {"ClusterRole": "clusterroles", "ClusterRoleBinding": "clusterrolebindings"}
_NAMESPACED = {"Role": "roles", "RoleBinding": "rolebindings"}
_REFUSED = 403


class Right(NamedTuple):
    """One verb on one resource; ``name`` only where the role names objects."""

    group: str
    resource: str
    verb: str
    name: str = ""


class Asked(NamedTuple):
    right: Right
    status: int


# The users that have the chart's roles, and in which mode of it; the last one is asked for more than it may.
MODES = {"nodewright": "run", "dry-run": "shadow", "onlooker": "shadow"}

# Of the chart, where they are not its defaults.
Settings = Mapping[str, Any] | None


def read_roles(user: str, settings: Settings = None, name: str = "") -> list[dict[str, Any]]:
    """Roles of the user and their bindings, under its name or ``name``."""
    wanted, mode = (*_PLURALS, *_NAMESPACED), MODES[user]
    rendered = render({"mode": mode, "settings": settings}) if settings else render_mode(mode)
    found = [deepcopy(document) for document in rendered if document["kind"] in wanted]
    for document in found:
        document["metadata"]["name"] = name or user
        if "roleRef" in document:
            document["roleRef"]["name"] = name or user
    return found


def path_of(document: Mapping[str, Any]) -> str:
    """Where roles and bindings of its kind are."""
    kind = document["kind"]
    if kind in _PLURALS:
        return f"{_RBAC}/{_PLURALS[kind]}"
    return f"{_RBAC}/namespaces/{document['metadata']['namespace']}/{_NAMESPACED[kind]}"


def bind_role(plane: ControlPlane, user: str = "nodewright", settings: Settings = None) -> None:
    """``user`` may do what the chart lets its service account do, and nothing else that it might before."""
    for document in read_roles(user, settings):
        if "subjects" in document:
            document["subjects"] = [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}]
        plane.request(f"{path_of(document)}/{document['metadata']['name']}", method="PUT", body=document)


def granted(user: str = "nodewright", settings: Settings = None) -> set[Right]:
    """All rights of the user's role; the names of the objects that a rule names are joined by commas."""
    return {
        Right(group, resource, verb, ",".join(rule.get("resourceNames", ())))
        for document in read_roles(user, settings)
        for rule in document.get("rules", ())
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def read_asked(plane: ControlPlane, user: str = "nodewright") -> list[Asked]:
    """Everything that the user has asked for so far."""
    found = []
    for line in (plane.folder / "audit.jsonl").read_text().splitlines():
        entry = json.loads(line)
        about = entry.get("objectRef")
        if about is None or entry["user"]["username"] != user:
            continue
        resource = about["resource"] + (f"/{about['subresource']}" if "subresource" in about else "")
        right = Right(about.get("apiGroup", ""), resource, entry["verb"], about.get("name", ""))
        found.append(Asked(right, entry.get("responseStatus", {}).get("code", 0)))
    return found


def is_used(right: Right, asked: list[Asked]) -> bool:
    return any(covers(right, one.right) for one in asked)


def find_refused(asked: list[Asked], given: set[Right]) -> list[Right]:
    """What was refused and is not ``given``: an API server that has just been started refuses what it allows later."""
    refused = [one.right for one in asked if one.status == _REFUSED]
    return [right for right in refused if not any(covers(held, right) for held in given)]


def covers(held: Right, asked: Right) -> bool:
    """Does one right of a role allow what was asked for?"""
    names = held.name.split(",") if held.name else None
    return held[:3] == asked[:3] and (names is None or asked.name in names)
