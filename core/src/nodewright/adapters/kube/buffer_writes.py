"""The status of CapacityBuffers on a real API server."""

from typing import Any

from nodewright.adapters.kube.api import Api
from nodewright.adapters.kube.status_writes import condition_manifest, patch_status
from nodewright.model.capacity_buffer import KIND, CapacityBuffer


class BufferWrites:
    """The part of ClusterWrites that is about buffers."""

    _api: Api

    def write_buffer_status(self, buffer: CapacityBuffer) -> None:
        """See ClusterWrites. A buffer that came after one of its name is left alone: its uid is another.

        What the status does not say any more is taken away, whoever wrote it.
        """
        meta, status = buffer.metadata, buffer.status
        reference = status.pod_template_ref
        fields: dict[str, Any] = {
            "podTemplateRef": {"name": reference.name} if reference is not None else None,
            "replicas": status.replicas,
            "podTemplateGeneration": status.pod_template_generation,
            "provisioningStrategy": status.provisioning_strategy,
            "conditions": [condition_manifest(one) for one in status.conditions],
        }
        body = {"metadata": {"uid": meta.uid}, "status": fields}
        patch_status(self._api, KIND, meta, body, is_apply=False)
