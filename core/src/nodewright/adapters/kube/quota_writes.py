"""The status of CapacityQuotas on a real API server."""

from typing import Any

from nodewright.adapters.kube.api import Api
from nodewright.adapters.kube.status_writes import condition_manifest, patch_status
from nodewright.model.capacity_quota import CapacityQuota


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
        body = {"metadata": {"name": quota.name, "uid": quota.metadata.uid}, "status": fields}
        patch_status(self._api, "CapacityQuota", quota.metadata, body, is_apply=True)
