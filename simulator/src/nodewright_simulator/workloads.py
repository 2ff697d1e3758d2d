"""Pods of scenarios and traces as Kubernetes objects."""

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from nodewright.model.capacity_buffer import CapacityBuffer, CapacityBufferSpec, ScalableReference
from nodewright.model.cluster import DaemonSet, DaemonSetSpec, PodTemplateSpec
from nodewright.model.gang import GangPolicy, PodGroupSpec, SchedulingPodGroup, SchedulingPolicy
from nodewright.model.meta import LabelSelector, ObjectMeta, Resources
from nodewright.model.node import HOSTNAME_LABEL
from nodewright.model.pod import (
    Affinity,
    Container,
    EmptyDir,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodSpec,
    PodStatus,
    ResourceRequirements,
    SchedulingGroup,
    Toleration,
    TopologySpreadConstraint,
    Volume,
)
from nodewright.model.provisioning_request import (
    PodSet,
    ProvisioningRequest,
    ProvisioningRequestSpec,
    TemplateReference,
)
from nodewright.model.provisioning_request import PodTemplate as RequestTemplate
from nodewright.model.quantity import Quantity
from nodewright_simulator.api_server import BudgetRule
from nodewright_simulator.controllers import named, owned
from nodewright_simulator.openb import GPU_RESOURCE, TracePod
from nodewright_simulator.scenario import (
    BudgetSpec,
    DeploymentSpec,
    PodShape,
    RequestSpec,
    SpareSpec,
    Workload,
    amounts_of,
)

_NAMESPACE = "default"
_APP = "app"
_SCHEDULER = "default-scheduler"


def pod_of(name: str, template: PodShape) -> Pod:
    """Return a pod of the workload ``name``, without a name and owner of its own yet."""
    labels = {_APP: name, **template.labels}
    selector = LabelSelector(match_labels={_APP: name})
    spread = tuple(
        TopologySpreadConstraint(
            max_skew=spec.max_skew,
            topology_key=spec.key,
            when_unsatisfiable=spec.when_unsatisfiable,
            label_selector=selector,
        )
        for spec in template.spread
    )
    requests = {resource: Quantity.of(amount) for resource, amount in amounts_of(template).items()}
    tolerations = tuple(
        Toleration(key=spec.key, operator=spec.operator, value=spec.value, effect=spec.effect)
        for spec in template.tolerations
    )
    spec = PodSpec(
        scheduler_name=_SCHEDULER,
        containers=(Container(name="main", resources=ResourceRequirements(requests=requests)),),
        node_selector=template.node_selector or None,
        affinity=_apart(selector) if template.apart else None,
        tolerations=tolerations,
        topology_spread_constraints=spread,
        priority=template.priority,
        termination_grace_period_seconds=int(template.grace),
        volumes=(Volume(name="scratch", empty_dir=EmptyDir()),) if template.local_storage else (),
    )
    meta = ObjectMeta(namespace=template.namespace, labels=labels, annotations=template.annotations)
    return Pod(metadata=meta, spec=spec, status=PodStatus(phase="Pending"))


def gang_pod(pod: Pod, name: str) -> Pod:
    """Return the pod as a member of the PodGroup ``name`` of its namespace."""
    return replace(pod, spec=replace(pod.spec, scheduling_group=SchedulingGroup(pod_group_name=name)))


def pod_group(name: str, namespace: str, min_count: int) -> SchedulingPodGroup:
    """Return the PodGroup of which at least ``min_count`` pods start together."""
    spec = PodGroupSpec(scheduling_policy=SchedulingPolicy(gang=GangPolicy(min_count=min_count)))
    return SchedulingPodGroup(metadata=ObjectMeta(name=name, namespace=namespace), spec=spec)


def engine_pod(template: PodShape) -> Pod:
    """Return the pod in which the engine runs; by default of a Deployment in kube-system."""
    namespace = "kube-system" if template.namespace == _NAMESPACE else template.namespace
    return pod_of("nodewright", replace(template, namespace=namespace))


def job_pod(name: str, template: PodShape) -> Pod:
    """Return a pod of the job ``name``."""
    return owned(pod_of(name, template), "Job", name)


def daemon_set(spec: Workload) -> DaemonSet:
    """Return a DaemonSet of that pod."""
    pod = pod_of(spec.name, spec.pod)
    meta = ObjectMeta(name=spec.name, namespace=spec.pod.namespace, uid=f"DaemonSet/{spec.name}")
    template = PodTemplateSpec(
        metadata=ObjectMeta(labels=pod.metadata.labels, annotations=pod.metadata.annotations), spec=pod.spec
    )
    return DaemonSet(metadata=meta, spec=DaemonSetSpec(template=template))


def request_objects(spec: RequestSpec) -> tuple[ProvisioningRequest, tuple[RequestTemplate, ...]]:
    """Return the request, and a PodTemplate for each of its sets."""
    templates, sets = [], []
    for number, pod_set in enumerate(spec.pod_sets):
        pod = pod_of(spec.name, replace(pod_set.pod, namespace=spec.namespace))
        name = f"{spec.name}-{number}"
        meta = ObjectMeta(name=name, namespace=spec.namespace)
        own = ObjectMeta(labels=pod.metadata.labels, annotations=pod.metadata.annotations)
        templates.append(RequestTemplate(metadata=meta, template=PodTemplateSpec(metadata=own, spec=pod.spec)))
        sets.append(PodSet(pod_template_ref=TemplateReference(name=name), count=pod_set.count))
    request = ProvisioningRequest(
        metadata=ObjectMeta(name=spec.name, namespace=spec.namespace),
        spec=ProvisioningRequestSpec(
            pod_sets=tuple(sets), provisioning_class_name=spec.class_name, parameters=spec.parameters
        ),
    )
    return request, tuple(templates)


def buffer_objects(
    spec: SpareSpec, deployments: Iterable[DeploymentSpec]
) -> tuple[CapacityBuffer, RequestTemplate | None]:
    """Return the buffer, in the namespace of its pods, and its PodTemplate if it has one."""
    namespaces = {deployment.name: deployment.pod.namespace for deployment in deployments}
    namespace = spec.pod.namespace if spec.pod is not None else namespaces[spec.deployment or ""]
    meta = ObjectMeta(name=spec.name, namespace=namespace)
    wanted = CapacityBufferSpec(replicas=spec.replicas, percentage=spec.percentage, limits=spec.limits)
    if spec.pod is None:
        reference = ScalableReference(api_group="apps", kind="Deployment", name=spec.deployment or "")
        return CapacityBuffer(metadata=meta, spec=replace(wanted, scalable_ref=reference)), None
    pod = pod_of(spec.name, spec.pod)
    own = ObjectMeta(labels=pod.metadata.labels, annotations=pod.metadata.annotations)
    template = RequestTemplate(metadata=meta, template=PodTemplateSpec(metadata=own, spec=pod.spec))
    wanted = replace(wanted, pod_template_ref=TemplateReference(name=spec.name))
    return CapacityBuffer(metadata=meta, spec=wanted), template


def budget_rule(spec: BudgetSpec, workloads: Iterable[Workload]) -> BudgetRule:
    """Return the budget; that of a workload is in its namespace."""
    namespaces = {workload.name: workload.pod.namespace for workload in workloads}
    return BudgetRule(
        name=spec.name,
        namespace=namespaces[spec.workload] if spec.workload is not None else spec.namespace,
        selector=LabelSelector(match_labels={_APP: spec.workload} if spec.workload is not None else spec.labels),
        min_available=spec.min_available,
        max_unavailable=spec.max_unavailable,
    )


def trace_pods(pods: Iterable[TracePod]) -> Iterator[Pod]:
    """Yield the pods of a trace; pods with equal requests belong to one job."""
    quantities: dict[tuple[int, int, int], Resources] = {}
    for pod in pods:
        key = (pod.cpu_milli, pod.memory_mib, pod.gpus)
        if key not in quantities:
            quantities[key] = _requests(pod)
        resources = ResourceRequirements(requests=quantities[key])
        spec = PodSpec(scheduler_name=_SCHEDULER, containers=(Container(name="main", resources=resources),))
        meta = ObjectMeta(namespace=_NAMESPACE, labels={_APP: "openb"})
        made = Pod(metadata=meta, spec=spec, status=PodStatus(phase="Pending"))
        yield named(owned(made, "Job", "-".join(map(str, key))), pod.name, pod.created)


def _requests(pod: TracePod) -> Resources:
    requests = {"cpu": Quantity.of(f"{pod.cpu_milli}m"), "memory": Quantity.of(f"{pod.memory_mib}Mi")}
    return {**requests, GPU_RESOURCE: Quantity.of(pod.gpus)} if pod.gpus else requests


def _apart(selector: LabelSelector) -> Affinity:
    term = PodAffinityTerm(topology_key=HOSTNAME_LABEL, label_selector=selector)
    return Affinity(pod_anti_affinity=PodAffinity(required=(term,)))
