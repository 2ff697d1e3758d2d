"""ProvisioningRequest objects, which request capacity for sets of pods, and their ProvisioningClasses.

Names are those of CA's and Kueue's API. A ProvisioningClass says who may use it, and its limits.
"""

from collections.abc import Mapping
from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta

from nodewright.model.cluster import PodTemplateSpec
from nodewright.model.meta import Condition, Int64, Kube, LabelSelector, Object, find_condition, with_condition

API_GROUP = "autoscaling.x-k8s.io"
CHECK_CAPACITY = "check-capacity.autoscaling.x-k8s.io"
BEST_EFFORT_ATOMIC = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"
# The names of seed 004, for the same classes.
SEED_CHECK_CAPACITY = "check-capacity.kubernetes.io"
SEED_ATOMIC = "atomic-scale-up.kubernetes.io"

REQUEST_ANNOTATION = "autoscaling.x-k8s.io/consume-provisioning-request"
CLASS_ANNOTATION = "autoscaling.x-k8s.io/provisioning-class-name"
OLD_REQUEST_ANNOTATION = "cluster-autoscaler.kubernetes.io/consume-provisioning-request"
OLD_CLASS_ANNOTATION = "cluster-autoscaler.kubernetes.io/provisioning-class-name"

ACCEPTED = "Accepted"
PROVISIONED = "Provisioned"
CAPACITY_AVAILABLE = "CapacityAvailable"
FAILED = "Failed"
BOOKING_EXPIRED = "BookingExpired"
CAPACITY_REVOKED = "CapacityRevoked"
# With one of these a request is over for good.
TERMINAL = (FAILED, BOOKING_EXPIRED, CAPACITY_REVOKED)

NO_RETRY = "noRetry"
PROCESSOR_INSTANCE = "processorInstance"
VALID_UNTIL_SECONDS = "ValidUntilSeconds"

# Keys of provisioningClassDetails of a request whose class is a ProvisioningClass: the class that provisions, and the
# number of nodes requested for it.
PROVISIONER_DETAIL, NODES_DETAIL = "provisioner", "nodes"

# Condition reasons that nodewright reads back: machines were requested; all pods of the request were created.
UNDER_WAY = "Provisioning"
CONSUMED = "CapacityBookingConsumed"


class TemplateReference(Kube, frozen=True, kw_only=True):
    name: str = ""


class PodSet(Kube, frozen=True, kw_only=True):
    """``count`` pods of one PodTemplate in the namespace of the request."""

    pod_template_ref: TemplateReference = TemplateReference()
    count: Annotated[int, Meta(ge=0, le=2**31 - 1)] = 0


class ProvisioningRequestSpec(Kube, frozen=True, kw_only=True):
    pod_sets: tuple[PodSet, ...] = ()
    provisioning_class_name: str = ""
    parameters: dict[str, str] = {}


class ProvisioningRequestStatus(Kube, frozen=True, kw_only=True):
    conditions: tuple[Condition, ...] = ()
    provisioning_class_details: dict[str, str] = {}


class ProvisioningRequest(Object, frozen=True, kw_only=True):
    """A request for capacity for all of its pods together."""

    spec: ProvisioningRequestSpec = ProvisioningRequestSpec()
    status: ProvisioningRequestStatus = ProvisioningRequestStatus()

    @property
    def id(self) -> str:
        """Return the uid or, without one, ``namespace/name``. A later object of the same name has another uid."""
        return self.metadata.uid or self.key

    @property
    def pod_count(self) -> int:
        return sum(pod_set.count for pod_set in self.spec.pod_sets)

    def condition(self, kind: str) -> Condition | None:
        return find_condition(self.status.conditions, kind)

    def has(self, kind: str) -> bool:
        """Return whether the condition exists and is True."""
        held = self.condition(kind)
        return held is not None and held.is_true

    def with_condition(self, fresh: Condition) -> "ProvisioningRequest":
        """Return the request with ``fresh`` added, or in place of the condition of the same type."""
        conditions = with_condition(self.status.conditions, fresh)
        return msgspec.structs.replace(self, status=msgspec.structs.replace(self.status, conditions=conditions))

    @property
    def own_details(self) -> dict[str, str]:
        """Return those details of the class that nodewright writes."""
        details = self.status.provisioning_class_details
        return {name: details[name] for name in (PROVISIONER_DETAIL, NODES_DETAIL) if name in details}

    def with_details(self, **fresh: str) -> "ProvisioningRequest":
        """Return the request with these details added, or in place of those of the same name."""
        details = {**self.status.provisioning_class_details, **fresh}
        return msgspec.structs.replace(
            self, status=msgspec.structs.replace(self.status, provisioning_class_details=details)
        )


class Retry(msgspec.Struct, frozen=True, kw_only=True):
    """A request for which no capacity was found at the time ``at`` (seconds since the epoch).

    It is tried again ``wait`` seconds later.
    """

    at: float
    wait: float


class RequestClass(NamedTuple):
    """The class of the core or of a provider that provisions a request, and the parameters."""

    class_name: str
    parameters: Mapping[str, str]


class PodTemplate(Object, frozen=True, kw_only=True):
    """The template of the pods of a set."""

    template: PodTemplateSpec = PodTemplateSpec()


class ClassLimits(Kube, frozen=True, kw_only=True):
    """The limits of all open requests of one namespace together; None: no limit."""

    pods: Int64 | None = None
    nodes: Int64 | None = None


class ProvisioningClassSpec(Kube, frozen=True, kw_only=True):
    """``provisioner`` is the class of the core or of a provider that provisions; empty: the object's own name.

    ``parameters`` apply to every request of the class. ``namespace_selector`` selects the namespaces that may use the
    class; None: all.
    """

    provisioner: str = ""
    parameters: dict[str, str] = {}
    namespace_selector: LabelSelector | None = None
    limits: ClassLimits = ClassLimits()


class ProvisioningClass(Object, frozen=True, kw_only=True):
    """One class that requests may name."""

    spec: ProvisioningClassSpec = ProvisioningClassSpec()

    @property
    def provisioner(self) -> str:
        return self.spec.provisioner or self.name
