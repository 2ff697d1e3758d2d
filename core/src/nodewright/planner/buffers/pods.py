"""The virtual pods of a buffer: they hold room until real ones come (behaviour/up.md §6.1)."""

from collections.abc import Iterator

from nodewright.model.capacity_buffer import KIND, CapacityBuffer
from nodewright.model.cluster import PodTemplateSpec
from nodewright.model.meta import ObjectMeta, OwnerReference
from nodewright.model.pod import Pod
from nodewright.model.provisioning_request import API_GROUP
from nodewright.planner.provisioning.pods import defaulted

_ANNOTATIONS = {"podType": "capacityBufferFakePod", "cluster-autoscaler.kubernetes.io/safe-to-evict": "true"}


def make_pods(buffer: CapacityBuffer, shape: PodTemplateSpec, count: int) -> Iterator[Pod]:
    """So many pods of that shape, in CA's names. All parts but the names are the same objects: pods are grouped by them."""
    meta, own = buffer.metadata, shape.metadata
    owners = (
        OwnerReference(api_version=f"{API_GROUP}/v1beta1", kind=KIND, name=meta.name, uid=buffer.id, controller=True),
    )
    spec, annotations = defaulted(shape.spec), own.annotations | _ANNOTATIONS
    for number in range(1, count + 1):
        yield Pod(
            metadata=ObjectMeta(
                name=f"capacity-buffer-{meta.name}-{number}",
                namespace=meta.namespace,
                uid=f"{buffer.id}-{number}",
                labels=own.labels,
                annotations=annotations,
                owner_references=owners,
                creation_timestamp=meta.creation_timestamp,
            ),
            spec=spec,
        )


def is_virtual(pod: Pod) -> bool:
    """Does it only stand for a place that a buffer holds? One that runs never does, whatever it says of itself."""
    controller = pod.metadata.controller
    return controller is not None and controller.kind == KIND and not pod.spec.node_name
