"""CapacityBuffers, and the objects that determine their sizes."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from nodewright.model.capacity_buffer import CapacityBuffer
from nodewright.model.cluster import Deployment, ResourceQuota
from nodewright.model.objects import ClusterObjects
from nodewright.model.provisioning_request import PodTemplate


@dataclass(frozen=True, kw_only=True)
class Buffers:
    """``buffers`` in the order in which they were listed, ``templates`` and ``deployments`` by ``namespace/name``."""

    buffers: tuple[CapacityBuffer, ...] = ()
    templates: Mapping[str, PodTemplate] = field(default_factory=dict)
    deployments: Mapping[str, Deployment] = field(default_factory=dict)
    quotas: tuple[ResourceQuota, ...] = ()

    @staticmethod
    def of(objects: ClusterObjects) -> "Buffers":
        return Buffers(
            buffers=objects.capacity_buffers,
            templates={one.key: one for one in objects.pod_templates},
            deployments={one.key: one for one in objects.deployments},
            quotas=objects.resource_quotas,
        )
