"""Which node belongs to which group, and in what state each is (behaviour/up.md §2.2, §2.3)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from nodewright.model.group import GroupRef, InstanceState
from nodewright.model.node import Node
from nodewright.model.settings import Settings
from nodewright.registry.readiness import is_ready
from nodewright.registry.state import Readiness
from nodewright.snapshot.observation import GroupSeen, ProviderSeen


@dataclass
class Membership:
    """Nodes of each group, and the ids that its instances go by, compared as the provider says."""

    nodes: dict[GroupRef, list[Node]] = field(default_factory=dict)
    group_of_node: dict[str, GroupRef] = field(default_factory=dict)
    registered: set[tuple[GroupRef, str]] = field(default_factory=set)


def find_members(
    nodes: Iterable[Node], groups: Mapping[GroupRef, GroupSeen], providers: Mapping[str, ProviderSeen]
) -> Membership:
    """Match nodes to instances by providerID."""
    owners: dict[str, GroupRef] = {}
    folded: dict[str, GroupRef] = {}
    for ref, group in groups.items():
        ignores_case = ref.provider in providers and providers[ref.provider].ignores_id_case
        for instance in group.instances or ():
            (folded if ignores_case else owners)[instance.id.lower() if ignores_case else instance.id] = ref
    found = Membership()
    for node in nodes:
        provider_id = node.spec.provider_id
        owner = owners.get(provider_id) or folded.get(provider_id.lower())
        if owner is not None and provider_id:
            found.nodes.setdefault(owner, []).append(node)
            found.group_of_node[node.name] = owner
            found.registered.add((owner, provider_id if provider_id in owners else provider_id.lower()))
    return found


def sort_readiness(
    group: GroupSeen, members: Membership, since: Mapping[tuple[GroupRef, str], float], settings: Settings, now: float
) -> Readiness:
    """Every node and every instance without a node in exactly one class."""
    classes: dict[str, list[str]] = {
        name: [] for name in ("ready", "unready", "not_started", "unregistered", "long_unregistered")
    }
    for node in members.nodes.get(group.ref, ()):
        classes[_class_of(node, group, settings, now)].append(node.name)
    patience = group.options.max_node_provision_seconds
    for instance_id in unregistered_ids(group, members):
        late = since.get((group.ref, instance_id), now) + patience < now
        classes["long_unregistered" if late else "unregistered"].append(instance_id)
    return Readiness(**{name: tuple(names) for name, names in classes.items()})


def unregistered_ids(group: GroupSeen, members: Membership) -> list[str]:
    """Instances that should become nodes and have not: neither failed nor on their way out."""
    failed = {failure.instance_id for failure in group.failed or ()}
    return [
        instance.id
        for instance in group.instances or ()
        if instance.state != InstanceState.DELETING
        and instance.id not in failed
        and (group.ref, instance.id) not in members.registered
        and (group.ref, instance.id.lower()) not in members.registered
    ]


def _class_of(node: Node, group: GroupSeen, settings: Settings, now: float) -> str:
    if is_ready(node, settings.templates):
        return "ready"
    created = node.metadata.creation_timestamp
    age_limit = group.options.max_node_startup_seconds
    return "not_started" if created is not None and created.timestamp() + age_limit > now else "unready"
