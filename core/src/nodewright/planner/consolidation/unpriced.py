"""Find the nodes whose price is not known although their group has one."""

from nodewright.clusterstate.state import ClusterState
from nodewright.model.node import INSTANCE_TYPE_LABEL


def find_unpriced(state: ClusterState) -> dict[str, str]:
    """Return why the price of nodes is not known although their group has one.

    A group's price is that of its next node. It says nothing of a node of another machine type.
    """
    # The provider's template: the one that is planned with may be made from a node of another type.
    stated = {ref: group.seen.template for ref, group in state.groups.items()}
    labels = {ref: template.metadata.labels for ref, template in stated.items() if template is not None}
    types = {ref: held[INSTANCE_TYPE_LABEL] for ref, held in labels.items() if held.get(INSTANCE_TYPE_LABEL)}
    found = dict[str, str]()
    for node in state.observation.snapshot.live_nodes() if types else ():
        ref, own = state.group_of_node.get(node.name), node.metadata.labels.get(INSTANCE_TYPE_LABEL)
        usual = types.get(ref) if ref is not None else None
        if own and usual and own != usual:
            found[node.name] = f"the price of a {own} is not known: that of group {ref} is of a {usual}"
    return found
