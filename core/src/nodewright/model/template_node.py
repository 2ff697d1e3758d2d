"""Make a node from a provider's template of its next machine."""

from nodewright.model.group import GroupRef, NodeTemplate
from nodewright.model.meta import ObjectMeta
from nodewright.model.node import HOSTNAME_LABEL, Node, NodeCondition, NodeSpec, NodeStatus

# Label key → the deprecated key with the same value, which pods may still select by.
_DEPRECATED = {
    "node.kubernetes.io/instance-type": "beta.kubernetes.io/instance-type",
    "topology.kubernetes.io/zone": "failure-domain.beta.kubernetes.io/zone",
    "topology.kubernetes.io/region": "failure-domain.beta.kubernetes.io/region",
}


def make_template_node(ref: GroupRef, template: NodeTemplate) -> Node:
    """Return a ready, empty node named ``template-node-for-<group>``."""
    name = f"template-node-for-{ref.group_id}"
    copies = {old: template.labels[new] for new, old in _DEPRECATED.items() if new in template.labels}
    labels = {**copies, **template.labels, HOSTNAME_LABEL: name}
    return Node(
        metadata=ObjectMeta(name=name, labels=labels, annotations=dict(template.annotations)),
        spec=NodeSpec(taints=template.taints),
        status=NodeStatus(
            capacity=template.capacity or template.allocatable,
            allocatable=template.allocatable,
            conditions=(NodeCondition(type="Ready", status="True"),),
        ),
    )
