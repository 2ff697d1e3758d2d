"""Buffers of spare capacity (behaviour/up.md §6.1): the API's words, as CA and Karpenter use them."""

import msgspec

from nodewright.model.condition import Condition, find_condition, with_condition
from nodewright.model.meta import Int64, Kube, Object
from nodewright.model.provisioning_request import TemplateReference

KIND = "CapacityBuffer"
ACTIVE_CAPACITY = "buffer.x-k8s.io/active-capacity"

READY = "ReadyForProvisioning"
PROVISIONING = "Provisioning"
LIMITED = "LimitedByQuotas"

# As it was written: whoever installs the CustomResourceDefinition without its validation lets anything through.
Figure = int | float | str


class ScalableReference(Kube, frozen=True, kw_only=True):
    """Something with replicas in the namespace of the buffer."""

    api_group: str = ""
    kind: str = ""
    name: str = ""


class CapacityBufferSpec(Kube, frozen=True, kw_only=True):
    """``limits`` are amounts by resource, as they were written."""

    provisioning_strategy: str | None = None
    pod_template_ref: TemplateReference | None = None
    scalable_ref: ScalableReference | None = None
    replicas: Figure | None = None
    percentage: Figure | None = None
    limits: dict[str, Figure] | None = None


class CapacityBufferStatus(Kube, frozen=True, kw_only=True):
    """What the controller made of the spec."""

    pod_template_ref: TemplateReference | None = None
    replicas: Int64 | None = None
    pod_template_generation: Int64 | None = None
    provisioning_strategy: str | None = None
    conditions: tuple[Condition, ...] = ()

    def condition(self, kind: str) -> Condition | None:
        return find_condition(self.conditions, kind)

    def has(self, kind: str) -> bool:
        """Is the condition there and True?"""
        held = self.condition(kind)
        return held is not None and held.is_true

    def with_condition(self, fresh: Condition) -> "CapacityBufferStatus":
        return msgspec.structs.replace(self, conditions=with_condition(self.conditions, fresh))


class CapacityBuffer(Object, frozen=True, kw_only=True):
    """One wish for room that pods which come find free at once."""

    spec: CapacityBufferSpec = CapacityBufferSpec()
    status: CapacityBufferStatus = CapacityBufferStatus()

    @property
    def id(self) -> str:
        """What tells it from one of the same name that comes later."""
        return self.metadata.uid or self.key
