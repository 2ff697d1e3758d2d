"""ProvisioningRequests, their classes and the templates of their pods."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from nodewright.model.objects import ClusterObjects
from nodewright.model.provisioning_class import ProvisioningClass
from nodewright.model.provisioning_request import PodTemplate, ProvisioningRequest


@dataclass(frozen=True, kw_only=True)
class Provisioning:
    """``requests`` in the order of the list call, ``templates`` by ``namespace/name``, ``classes`` of requests."""

    requests: tuple[ProvisioningRequest, ...] = ()
    templates: Mapping[str, PodTemplate] = field(default_factory=dict)
    classes: tuple[ProvisioningClass, ...] = ()

    @staticmethod
    def of(objects: ClusterObjects) -> "Provisioning":
        return Provisioning(
            requests=objects.provisioning_requests,
            templates={one.key: one for one in objects.pod_templates},
            classes=objects.provisioning_classes,
        )
