"""The status of CapacityBuffers on a real API server."""

from typing import Any

import msgspec

from nodewright.adapters.kube.api import MERGE_PATCH, Api, Request
from nodewright.adapters.kube.request_writes import FIELD_MANAGER, condition_manifest
from nodewright.adapters.kube.resources import Resource
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
        path = f"{Resource(KIND, namespace=meta.namespace).path}/{meta.name}/status"
        query, encoded = {"fieldManager": FIELD_MANAGER}, msgspec.json.encode(body)
        self._api.send(Request(method="PATCH", path=path, query=query, body=encoded, content_type=MERGE_PATCH))
