"""The virtual pods of a buffer: they hold room until real ones come (behaviour/up.md §6.1)."""

from collections.abc import Iterator

from nodewright.model.capacity_buffer import KIND, CapacityBuffer
from nodewright.model.cluster import PodTemplateSpec
from nodewright.model.meta import OwnerReference
from nodewright.model.pod import Pod
from nodewright.model.provisioning_request import API_GROUP
from nodewright.planner.provisioning_requests.pods import stand_ins

_ANNOTATIONS = {"podType": "capacityBufferFakePod", "cluster-autoscaler.kubernetes.io/safe-to-evict": "true"}


def make_pods(buffer: CapacityBuffer, shape: PodTemplateSpec, count: int) -> Iterator[Pod]:
    """So many pods of that shape, in CA's names."""
    name = buffer.metadata.name
    owner = OwnerReference(api_version=f"{API_GROUP}/v1beta1", kind=KIND, name=name, uid=buffer.id, controller=True)
    ids = ((f"capacity-buffer-{name}-{number}", f"{buffer.id}-{number}") for number in range(1, count + 1))
    return stand_ins(buffer.metadata, owner, shape, _ANNOTATIONS, ids)


def is_virtual(pod: Pod) -> bool:
    """Does it only stand for a place that a buffer holds? One that runs never does, whatever it says of itself."""
    controller = pod.metadata.controller
    return controller is not None and controller.kind == KIND and not pod.spec.node_name
