"""Groups that are created on demand, like a named group (the model), and deleted when they are empty.

A new group uses the model's launch template and subnets, with another instance type. It carries the model's tags, the
cluster's tag, which the minimal policy requires, the tags by which groups are discovered, and the mark. A group without
the mark is never deleted.
"""

from collections.abc import Iterator, Sequence

import msgspec

from nodewright.spec import Finding, FindingLevel, MachineType, NewNodeGroup, Price, ProviderError, ProviderUnavailable
from nodewright.spec.cache import attempt
from nodewright_aws.api import Api
from nodewright_aws.catalogue import Catalogue, launch_template_of
from nodewright_aws.discovery import Selection
from nodewright_aws.fleet import Fleet
from nodewright_aws.options import Making, Options
from nodewright_aws.prices import Prices
from nodewright_aws.shapes import Group, InstanceTypeInfo, NewGroup, Tag, TemplateSpec
from nodewright_aws.tags import MARK, OWNED, cluster_tag, label_tag, machine_type_of, mark_of, taint_tag
from nodewright_aws.template import Machine, make_template

# Tags that AWS and EKS write themselves, and the mark: they concern the model only.
_RESERVED = ("aws:", "eks:", MARK)
_EXISTS = "AlreadyExists"


class Maker:
    """Creates and deletes groups. There are machine types only while the model exists."""

    def __init__(
        self,
        api: Api,
        fleet: Fleet,
        catalogue: Catalogue,
        prices: Prices,
        options: Options,
        selection: Selection,
    ) -> None:
        self._api = api
        self._fleet = fleet
        self._catalogue = catalogue
        self._prices = prices
        self._options = options
        self._found_by = selection.tags or {}

    def machine_types(self) -> Sequence[MachineType]:
        """Return one machine type for each named instance type that AWS knows."""
        making = self._options.autoprovisioning
        if making is None:
            return ()
        model = attempt(self._model)
        return tuple(self._machine_types(making, model)) if isinstance(model, Group) else ()

    def create(self, spec: NewNodeGroup) -> None:
        """Create the group unless it exists; raise ProviderError if it was not created for this machine type."""
        if self._take(spec):
            return
        try:
            self._api.create_group(self._planned(spec))
        except ProviderError as error:
            if error.code != _EXISTS:
                raise
        if not self._take(spec):
            raise ProviderUnavailable(f"{spec.group_id} was created and is not listed yet")

    def delete(self, name: str) -> bool:
        """Delete a group with the mark, no instances and a desired capacity of 0; return whether it was deleted."""
        group = self._fleet.reread(name)
        if not machine_type_of(group.tags, self._options.cluster) or group.desired_capacity or group.instances:
            return False
        self._api.delete_group(name)
        self._fleet.forget(name)
        return True

    def problems(self) -> Iterator[Finding]:
        """Yield what prevents groups from being created; nothing before the first listing."""
        making = self._options.autoprovisioning
        if making is None or not self._fleet.was_read:
            return
        model = attempt(self._model)
        answers = [model] if isinstance(model, ProviderError) else map(self._kind, making.instance_types)
        for answer in answers:
            if isinstance(answer, ProviderError):
                remedy = "see autoprovisioning in the README of nodewright-aws"
                level = FindingLevel.PROBLEM
                yield Finding(level=level, subject="autoprovisioning", message=str(answer), remedy=remedy)

    def _kind(self, instance_type: str) -> InstanceTypeInfo | ProviderError:
        return attempt(lambda: self._catalogue.kind(instance_type))

    def _machine_types(self, making: Making, model: Group) -> Iterator[MachineType]:
        like, region = msgspec.structs.replace(model, tags=self._tags(model)), self._api.region()
        prefix = making.prefix or f"nap-{self._options.cluster}-"
        for name in making.instance_types:
            kind = self._kind(name)
            if isinstance(kind, ProviderError):
                continue
            price = attempt(lambda name=name: self._prices.of_type(name))  # type: ignore[misc]  # mypy cannot type a lambda with a default
            yield MachineType(
                name=name,
                template=make_template(like, Machine(kind=kind), None, region, self._options.eks_nodes),
                price=price if isinstance(price, Price) else None,
                id_prefix=prefix,
                takes_labels=making.labels_from_tags,
            )

    def _model(self) -> Group:
        """Return the model; raise ProviderError if it does not exist or has no launch template."""
        making = self._options.autoprovisioning
        assert making is not None
        model = self._catalogue.model(making.like)
        _launch(model)
        return model

    def _planned(self, spec: NewNodeGroup) -> NewGroup:
        model = self._model()
        mark = Tag(key=mark_of(self._options.cluster), value=spec.machine_type)
        labels = (label_tag(key, value) for key, value in sorted(spec.labels.items()))
        tags = (*self._tags(model), mark, *labels, *map(taint_tag, spec.taints))
        return NewGroup(
            name=spec.group_id,
            max_size=spec.max_size,
            launch_template=_launch(model),
            instance_type=spec.machine_type,
            subnets=model.vpc_zone_identifier,
            availability_zones=model.availability_zones,
            tags=tuple({tag.key: tag for tag in tags}.values()),
        )

    def _tags(self, model: Group) -> tuple[Tag, ...]:
        """Return the model's tags, the cluster's tag, and those by which the new group is discovered."""
        tags = {tag.key: tag for tag in model.tags if not tag.key.startswith(_RESERVED)}
        owner = cluster_tag(self._options.cluster)
        tags[owner] = Tag(key=owner, value=OWNED)
        for key, value in self._found_by.items():
            if value or key not in tags:
                tags[key] = Tag(key=key, value=value)
        return tuple(tags.values())

    def _take(self, spec: NewNodeGroup) -> bool:
        """Return whether the group exists; if it does, add it to the fleet.

        Raise ProviderError if AWS is deleting it, or if it was not created for this machine type.
        """
        found = self._api.groups_named([spec.group_id], urgent=True)
        if not found:
            return False
        if found[0].is_going:
            raise ProviderError(f"AWS is still deleting a group {spec.group_id}", code="groupIsGoing")
        if machine_type_of(found[0].tags, self._options.cluster) != spec.machine_type:
            raise ProviderError(
                f"there is a group {spec.group_id} that nodewright did not create for this machine type",
                code="groupExists",
            )
        self._fleet.take(found[0])
        return True


def _launch(model: Group) -> TemplateSpec:
    found = launch_template_of(model)
    if found is None:
        raise ProviderError(
            f"group {model.name} has no launch template: no groups can be created like it", code="noLaunchTemplate"
        )
    return found
