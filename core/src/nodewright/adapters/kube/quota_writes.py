"""The status of CapacityQuotas on a real API server."""

from typing import Any

import msgspec

from nodewright.adapters.kube.api import Api, Request
from nodewright.adapters.kube.request_writes import APPLY_PATCH, FIELD_MANAGER, condition_manifest
from nodewright.adapters.kube.resources import Resource
from nodewright.model.capacity_quota import CapacityQuota
from nodewright.model.objects import KINDS

_KIND = KINDS["CapacityQuota"]


class QuotaWrites:
    """The part of ClusterWrites that is about quotas."""

    _api: Api

    def write_quota_status(self, quota: CapacityQuota) -> None:
        """See ClusterWrites. A quota that came after one of its name is left alone: its uid is another."""
        status = quota.status
        fields: dict[str, Any] = {
            "conditions": [condition_manifest(one) for one in status.conditions],
            "observedGeneration": status.observed_generation,
        }
        if status.used is not None:
            fields["used"] = {"resources": status.used.resources}
        body = {
            "apiVersion": f"{_KIND.api_group}/{_KIND.version}",
            "kind": _KIND.name,
            "metadata": {"name": quota.name, "uid": quota.metadata.uid},
            "status": fields,
        }
        path = f"{Resource(_KIND.name).path}/{quota.name}/status"
        query = {"fieldManager": FIELD_MANAGER, "force": "true"}
        encoded = msgspec.json.encode(body)
        self._api.send(Request(method="PATCH", path=path, query=query, body=encoded, content_type=APPLY_PATCH))
