"""CapacityBuffer objects, which keep spare capacity. Names are those of the API that CA and Karpenter use."""

import msgspec

from nodewright.model.meta import Condition, Int64, Kube, Object, find_condition, with_condition
from nodewright.model.provisioning_request import TemplateReference

KIND = "CapacityBuffer"
ACTIVE_CAPACITY = "buffer.x-k8s.io/active-capacity"

READY = "ReadyForProvisioning"
PROVISIONING = "Provisioning"
LIMITED = "LimitedByQuotas"

# The value as the user wrote it: a CustomResourceDefinition that is installed without validation accepts any value.
Figure = int | float | str


class ScalableReference(Kube, frozen=True, kw_only=True):
    """A reference to an object with replicas in the buffer's namespace."""

    api_group: str = ""
    kind: str = ""
    name: str = ""


class CapacityBufferSpec(Kube, frozen=True, kw_only=True):
    """The spec of a buffer. ``limits`` are amounts by resource, as the user wrote them."""

    provisioning_strategy: str | None = None
    pod_template_ref: TemplateReference | None = None
    scalable_ref: ScalableReference | None = None
    replicas: Figure | None = None
    percentage: Figure | None = None
    limits: dict[str, Figure] | None = None


class CapacityBufferStatus(Kube, frozen=True, kw_only=True):
    """The status that the buffer controller writes."""

    pod_template_ref: TemplateReference | None = None
    replicas: Int64 | None = None
    pod_template_generation: Int64 | None = None
    provisioning_strategy: str | None = None
    conditions: tuple[Condition, ...] = ()

    def condition(self, kind: str) -> Condition | None:
        return find_condition(self.conditions, kind)

    def has(self, kind: str) -> bool:
        """Return whether the condition exists and is True."""
        held = self.condition(kind)
        return held is not None and held.is_true

    def with_condition(self, fresh: Condition) -> "CapacityBufferStatus":
        return msgspec.structs.replace(self, conditions=with_condition(self.conditions, fresh))


class CapacityBuffer(Object, frozen=True, kw_only=True):
    """A request for spare capacity, so that new pods can start at once."""

    spec: CapacityBufferSpec = CapacityBufferSpec()
    status: CapacityBufferStatus = CapacityBufferStatus()

    @property
    def id(self) -> str:
        """Return the uid or, without one, ``namespace/name``. A later object of the same name has another uid."""
        return self.metadata.uid or self.key
