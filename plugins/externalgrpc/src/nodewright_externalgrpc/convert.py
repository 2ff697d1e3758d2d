"""Converts values of the contract to messages of the protocol, and back. Input from a server is checked."""

from typing import Any

from google.protobuf.message import DecodeError
from msgspec.structs import replace

from nodewright.spec import GroupOptions, NodeTemplate, ProviderError, Quantity, Taint
from nodewright_externalgrpc.wire import GROUP_ANNOTATION, messages, nodes

_NANOS = 1_000_000_000
# Our option, the protocol's field, and the field of the older generation.
_DURATIONS = (
    ("scale_down_unneeded_seconds", "scaleDownUnneededDuration", "oldUnneeded"),
    ("scale_down_unready_seconds", "scaleDownUnreadyDuration", "oldUnready"),
    ("max_node_provision_seconds", "MaxNodeProvisionDuration", "oldProvision"),
    ("max_node_startup_seconds", "maxNodeStartupDuration", ""),
)
_PLAIN = (
    ("scale_down_utilization_threshold", "scaleDownUtilizationThreshold"),
    ("scale_down_gpu_utilization_threshold", "scaleDownGpuUtilizationThreshold"),
    ("zero_or_max_node_scaling", "zeroOrMaxNodeScaling"),
    ("ignore_daemonsets_utilization", "ignoreDaemonSetsUtilization"),
    ("allow_non_atomic_scale_up_to_max", "allowNonAtomicScaleUpToMax"),
)


def write_node(group_id: str, template: NodeTemplate) -> bytes:
    """Return the template as a serialized Node, in the form that cluster-autoscaler reads."""
    node = nodes.Node()
    node.metadata.name = f"template-of-{group_id}"
    node.metadata.labels.update(template.labels)
    node.metadata.annotations.update(template.annotations)
    node.metadata.annotations[GROUP_ANNOTATION] = group_id
    for taint in template.taints:
        node.spec.taints.add(key=taint.key, value=taint.value, effect=taint.effect)
    for amounts, own in (
        (template.allocatable, node.status.allocatable),
        (template.capacity or template.allocatable, node.status.capacity),
    ):
        for name, amount in amounts.items():
            own[name].string = str(amount)
    node.status.conditions.add(type="Ready", status="True")
    content: bytes = node.SerializeToString()
    return content


def read_node(content: bytes) -> NodeTemplate:
    """Return the template in a serialized Node; raise ProviderError if the bytes are not a Node."""
    try:
        node = nodes.Node.FromString(content)
        allocatable = {name: Quantity.of(amount.string) for name, amount in node.status.allocatable.items()}
        capacity = {name: Quantity.of(amount.string) for name, amount in node.status.capacity.items()}
    except (DecodeError, ValueError) as error:
        raise ProviderError(f"the template is not a Node: {error}", code="badTemplate") from error
    taints = tuple(Taint(key=taint.key, value=taint.value, effect=taint.effect) for taint in node.spec.taints)
    return NodeTemplate(
        allocatable=allocatable or capacity,
        capacity=capacity,
        labels=dict(node.metadata.labels),
        annotations=dict(node.metadata.annotations),
        taints=taints,
    )


def write_options(options: GroupOptions) -> Any:
    """Return the options as a message, in the fields of both generations of the protocol."""
    written = messages.NodeGroupAutoscalingOptions(**{field: getattr(options, own) for own, field in _PLAIN})
    for own, field, old in _DURATIONS:
        nanos = round(getattr(options, own) * _NANOS)
        getattr(written, field).FromNanoseconds(nanos)
        if old:
            getattr(written, old).duration = nanos
    return written


def read_options(message: Any, defaults: GroupOptions) -> GroupOptions:
    """Return the options in the message. A duration that neither generation's field has is taken from the defaults."""
    found: dict[str, Any] = {own: getattr(message, field) for own, field in _PLAIN}
    for own, field, old in _DURATIONS:
        if message.HasField(field):
            found[own] = getattr(message, field).ToNanoseconds() / _NANOS
        elif old and message.HasField(old):
            found[own] = getattr(message, old).duration / _NANOS
    return replace(defaults, **found)


def price_request(node: Any, start: float, end: float) -> dict[str, Any]:
    """Return the fields of PricingNodePriceRequest, for both generations of the protocol."""
    request = messages.PricingNodePriceRequest()
    for moment, names in ((start, ("oldStart", "startTimestamp")), (end, ("oldEnd", "endTimestamp"))):
        for name in names:
            getattr(request, name).FromNanoseconds(round(moment * _NANOS))
    fields = ("oldStart", "oldEnd", "startTimestamp", "endTimestamp")
    return {"node": node, **{name: getattr(request, name) for name in fields}}


def read_span(request: Any) -> tuple[float, float]:
    """Return start and end of a price request of either generation, in epoch seconds."""
    is_new = request.HasField("startTimestamp") or request.HasField("endTimestamp")
    names = ("startTimestamp", "endTimestamp") if is_new else ("oldStart", "oldEnd")
    start, end = (getattr(request, name).ToNanoseconds() / _NANOS for name in names)
    return start, end
