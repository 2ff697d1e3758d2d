"""The status of requests for capacity on a real API server."""

from collections.abc import Sequence
from typing import Any

import msgspec

from nodewright.adapters.kube.api import MERGE_PATCH, Api, ApiError, Request
from nodewright.adapters.kube.resources import Resource
from nodewright.model.condition import Condition
from nodewright.model.provisioning_request import (
    ACCEPTED,
    API_GROUP,
    BOOKING_EXPIRED,
    CAPACITY_AVAILABLE,
    CAPACITY_REVOKED,
    FAILED,
    PROVISIONED,
    ProvisioningRequest,
)

APPLY_PATCH = "application/apply-patch+yaml"
# By this name the API server remembers which conditions are ours; CA and Kueue know that of CA.
FIELD_MANAGER = "cluster-autoscaler"
_OURS = frozenset({ACCEPTED, PROVISIONED, CAPACITY_AVAILABLE, FAILED, BOOKING_EXPIRED, CAPACITY_REVOKED})


class RequestWrites:
    """The part of ClusterWrites that is about requests."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._requests: Resource[ProvisioningRequest] = Resource("ProvisioningRequest")

    def write_conditions(
        self,
        request: ProvisioningRequest,
        conditions: Sequence[Condition],  # noqa: ARG002 - what an applier leaves out is taken away, so that all of ours go
        *,
        is_apply: bool,
    ) -> None:
        """See ClusterWrites. A request that came after one of its name is left alone: its uid is another."""
        meta = request.metadata
        held = request.status.conditions
        listed = [condition_manifest(one) for one in held if not is_apply or one.type in _OURS]
        identity: dict[str, Any] = {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid}
        body: dict[str, Any] = {"metadata": identity, "status": {"conditions": listed}}
        if is_apply and request.own_details:
            body["status"]["provisioningClassDetails"] = request.own_details
        query = {"fieldManager": FIELD_MANAGER}
        if is_apply:
            body |= {"apiVersion": f"{API_GROUP}/v1", "kind": "ProvisioningRequest"}
            query["force"] = "true"
        self._api.send(
            Request(
                method="PATCH",
                path=f"{self._path(request)}/status",
                query=query,
                body=msgspec.json.encode(body),
                content_type=APPLY_PATCH if is_apply else MERGE_PATCH,
            )
        )

    def delete_request(self, request: ProvisioningRequest) -> None:
        """See ClusterWrites."""
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": request.metadata.uid}}
        body = msgspec.json.encode(options)
        try:
            self._api.send(Request(method="DELETE", path=self._path(request), body=body))
        except ApiError as error:
            if not (error.is_missing or error.is_conflict):
                raise

    def _path(self, request: ProvisioningRequest) -> str:
        meta = request.metadata
        head, _, plural = self._requests.path.rpartition("/")
        return f"{head}/namespaces/{meta.namespace}/{plural}/{meta.name}"


def condition_manifest(condition: Condition) -> dict[str, Any]:
    """As the API wants it: every text is there, a generation only where it is known."""
    found: dict[str, Any] = msgspec.to_builtins(condition)
    if not condition.observed_generation:
        del found["observedGeneration"]
    return found
