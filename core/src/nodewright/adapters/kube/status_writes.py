"""Writing the status of objects that nodewright serves."""

from typing import Any

import msgspec

from nodewright.adapters.kube.api import MERGE_PATCH, Api, Request
from nodewright.adapters.kube.resources import object_path
from nodewright.model.condition import Condition
from nodewright.model.meta import ObjectMeta
from nodewright.model.objects import KINDS

APPLY_PATCH = "application/apply-patch+yaml"
# By this name the API server remembers which fields are ours; CA and Kueue know that of CA.
FIELD_MANAGER = "cluster-autoscaler"


def patch_status(api: Api, kind: str, meta: ObjectMeta, body: dict[str, Any], *, is_apply: bool) -> None:
    """Send a merge patch, or apply what the body says beside what others have applied; raises ApiError."""
    query = {"fieldManager": FIELD_MANAGER}
    if is_apply:
        known = KINDS[kind]
        body = {"apiVersion": f"{known.api_group}/{known.version}", "kind": kind, **body}
        query["force"] = "true"
    api.send(
        Request(
            method="PATCH",
            path=f"{object_path(kind, meta)}/status",
            query=query,
            body=msgspec.json.encode(body),
            content_type=APPLY_PATCH if is_apply else MERGE_PATCH,
        )
    )


def condition_manifest(condition: Condition) -> dict[str, Any]:
    """As the API wants it: every text is there, a generation only where it is known."""
    found: dict[str, Any] = msgspec.to_builtins(condition)
    if not condition.observed_generation:
        del found["observedGeneration"]
    return found
