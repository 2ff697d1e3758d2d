"""The status of requests for capacity on a real API server."""

from collections.abc import Sequence
from typing import Any

import msgspec

from nodewright.adapters.kube.api import Api, ApiError, Request
from nodewright.adapters.kube.resources import object_path
from nodewright.adapters.kube.status_writes import condition_manifest, patch_status
from nodewright.model.condition import Condition
from nodewright.model.provisioning_request import (
    ACCEPTED,
    BOOKING_EXPIRED,
    CAPACITY_AVAILABLE,
    CAPACITY_REVOKED,
    FAILED,
    PROVISIONED,
    ProvisioningRequest,
)

_KIND = "ProvisioningRequest"
_OURS = frozenset({ACCEPTED, PROVISIONED, CAPACITY_AVAILABLE, FAILED, BOOKING_EXPIRED, CAPACITY_REVOKED})


class RequestWrites:
    """The part of ClusterWrites that is about requests."""

    def __init__(self, api: Api) -> None:
        self._api = api

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
        patch_status(self._api, _KIND, meta, body, is_apply=is_apply)

    def delete_request(self, request: ProvisioningRequest) -> None:
        """See ClusterWrites."""
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": request.metadata.uid}}
        body = msgspec.json.encode(options)
        try:
            self._api.send(Request(method="DELETE", path=object_path(_KIND, request.metadata), body=body))
        except ApiError as error:
            if not (error.is_missing or error.is_conflict):
                raise
