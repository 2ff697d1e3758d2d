"""What machines the groups start: launch data, instance types and EKS node groups, read in bulk and cached.

An error that concerns one group (a deleted launch template, an unknown type) is cached for that group; reading its
template raises it.
"""

from collections.abc import Iterable, Sequence
from random import Random

import msgspec

from nodewright.spec import Clock, NodeTemplate, ProviderError
from nodewright.spec.cache import ResultCache, attempt, copy_error
from nodewright.spec.gpus import with_gpus
from nodewright_aws.api import Api
from nodewright_aws.bundled_types import bundled_type
from nodewright_aws.gpu_models import gpu_model
from nodewright_aws.options import Options
from nodewright_aws.shapes import (
    EksNodegroup,
    Gpu,
    GpuInfo,
    Group,
    InstanceRequirements,
    InstanceTypeInfo,
    LaunchConfiguration,
    LaunchTemplateData,
    MemoryInfo,
    Override,
    ProcessorInfo,
    Raw,
    TemplateSpec,
    VCpuInfo,
)
from nodewright_aws.template import Machine, make_template, managed_by

_UNKNOWN = "unknownType"


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """The instance types that a group starts, and the requirements of a policy that names no type.

    ``is_spot``: the launch template or configuration asks for spot machines; a policy decides for itself. ``reserved_in``:
    the capacity reservation in which alone they start; "": none.
    """

    type_name: str
    others: tuple[str, ...] = ()
    is_spot: bool = False
    reserved_in: str = ""
    requirements: InstanceRequirements | None = None

    @property
    def type_names(self) -> tuple[str, ...]:
        return (self.type_name, *self.others)


class Catalogue:
    """Makes templates. ``load_missing`` reads from AWS what is missing or expired; ``template`` reads nothing."""

    def __init__(self, api: Api, options: Options, clock: Clock, random: Random) -> None:
        self._api = api
        self._options = options
        self._launches: ResultCache[str, Launch] = ResultCache(clock, random, options.template_interval)
        self._templates: ResultCache[TemplateSpec, LaunchTemplateData] = ResultCache(
            clock, random, options.template_interval
        )
        self._types: ResultCache[str, InstanceTypeInfo] = ResultCache(clock, random, options.template_interval)
        self._models: ResultCache[str, Group] = ResultCache(clock, random, options.template_interval)
        self._nodegroups: ResultCache[tuple[str, str], EksNodegroup] = ResultCache(
            clock, random, options.nodegroup_interval
        )
        self._own_types = {
            name: _static_type(name, row.cpu, row.memory_mib, row.gpu, row.architecture)
            for name, row in options.instance_types.items()
        }

    def load_missing(self, groups: Sequence[Group]) -> None:
        """Read what is missing or expired. Raise nothing: an error is cached for the groups that it concerns."""
        at_once = self._options.parallel_calls
        known = {group.name: group for group in groups}
        stale = [known[name] for name in self._launches.missing(known)]
        specs = [spec for spec in map(launch_template_of, stale) if spec is not None]
        self._templates.load_missing(specs, self._api.launch_template, at_once)
        configured = attempt(lambda: self._configured(stale))
        self._launches.load_missing(
            [group.name for group in stale], lambda name: self._launch(known[name], configured), at_once
        )
        managed = filter(None, map(managed_by, groups))
        self._nodegroups.load_missing(managed, lambda key: self._api.nodegroup(*key), at_once)
        self._load_types(known)
        self._launches.keep_only(known)

    def load_model(self, name: str, instance_types: Sequence[str]) -> None:
        """Read the group that others are created like, and the instance types for created groups."""
        self._models.load_missing([name], self._read_model)
        self._load_kinds(instance_types)

    def model(self, name: str) -> Group:
        """Return the model; raise ProviderError if it does not exist."""
        return self._models.get(name)

    def kind(self, name: str) -> InstanceTypeInfo:
        """Return the instance type: the option's row, or as AWS describes it; where it does not, from the bundled table.

        Raise ProviderError if AWS does not have the type in the region, or no table has it.
        """
        own = self._own_types.get(name)
        if own is not None:
            return own
        found = attempt(lambda: self._types.get(name))
        if not isinstance(found, ProviderError):
            return found
        bundled = bundled_type(name) if found.code != _UNKNOWN or self._options.use_static_instance_list else None
        if bundled is None:
            raise copy_error(found)
        return bundled

    def template(self, group: Group, zone: str = "") -> NodeTemplate:
        """Return the template, in ``zone`` or the group's first one; raise ProviderError that says what is wrong with the group."""
        launch = self._launches.get(group.name)
        machine = Machine(kind=self.kind(launch.type_name), requirements=launch.requirements)
        nodegroup, region = self._nodegroup(group), self._api.region()
        template = make_template(group, machine, nodegroup, region, self._options.eks_nodes, zone)
        return with_gpus(template, gpu_model(launch.type_name)) if self._options.dra_gpus else template

    def launch(self, group_name: str) -> Launch:
        """Return what the group starts; raise ProviderError if it is not known."""
        return self._launches.get(group_name)

    def _nodegroup(self, group: Group) -> EksNodegroup | None:
        """Return the EKS node group; None if there is none or EKS refuses: then only the tags count."""
        key = managed_by(group)
        if key is None:
            return None
        found = attempt(lambda: self._nodegroups.get(key))
        return None if isinstance(found, ProviderError) else found

    def _load_types(self, known: Iterable[str]) -> None:
        found = [attempt(lambda name=name: self._launches.get(name)) for name in known]  # type: ignore[misc]  # mypy cannot type a lambda with a default
        self._load_kinds(launch.type_name for launch in found if isinstance(launch, Launch))

    def _read_model(self, name: str) -> Group:
        found = self._api.groups_named([name])
        if not found:
            raise ProviderError(f"there is no group {name}: no groups can be created like it", code="noModel")
        return found[0]

    def _load_kinds(self, names: Iterable[str]) -> None:
        wanted = self._types.missing(name for name in names if name not in self._own_types)
        if not wanted:
            return
        told = attempt(lambda: self._describe_types(wanted))
        for name in wanted:
            self._types.store(name, told if isinstance(told, ProviderError) else told.get(name, self._unknown(name)))

    def _describe_types(self, names: Sequence[str]) -> dict[str, InstanceTypeInfo]:
        if self._options.use_static_instance_list:
            return {}
        return {found.instance_type: found for found in self._api.instance_types(names)}

    def _unknown(self, name: str) -> ProviderError:
        return ProviderError(f"{self._api.region()} has no known instance type {name}", code=_UNKNOWN)

    def _configured(self, groups: Iterable[Group]) -> dict[str, LaunchConfiguration]:
        """Return the launch configurations, read in bulk."""
        names = sorted({group.launch_configuration_name for group in groups if group.launch_configuration_name})
        found = self._api.launch_configurations(names) if names else ()
        return {one.launch_configuration_name: one for one in found}

    def made_from(self, group: Group) -> str:
        """Return what new machines of the group are made from, in the words of ``GroupInstance.made_from``; empty: it is not known.

        A version such as $Latest is the one that was read last. It is not known any more once a machine has a later one.
        """
        if group.launch_configuration_name:
            return f"launch configuration {group.launch_configuration_name}"
        spec, policy = launch_template_of(group), group.mixed_instances_policy
        overrides = policy.launch_template.overrides if policy is not None and group.launch_template is None else ()
        if spec is None or any(one.launch_template_specification for one in overrides):
            return ""
        if spec.version and spec.version.isdecimal():
            return spec.made_from(spec.version)
        data = attempt(lambda: self._templates.get(spec))
        if isinstance(data, ProviderError) or not data.version:
            return ""
        versions = (one.launch_template.version or "" for one in group.instances if one.launch_template is not None)
        is_old = any(version.isdecimal() and int(version) > data.version for version in versions)
        return "" if is_old else spec.made_from(str(data.version))

    def _launch(self, group: Group, configured: dict[str, LaunchConfiguration] | ProviderError) -> Launch:
        """Return what the group starts. As in CA a launch configuration is preferred to a template, that to a policy."""
        if group.launch_configuration_name:
            if isinstance(configured, ProviderError):
                raise configured
            found = configured.get(group.launch_configuration_name)
            source = f"launch configuration {group.launch_configuration_name}"
            if found is None:
                return _demand_type(group, "", source)
            return _demand_type(group, found.instance_type, source, is_spot=bool(found.spot_price))
        spec = launch_template_of(group)
        if spec is None:
            raise ProviderError(
                f"group {group.name} has neither launch template nor launch configuration", code="noLaunch"
            )
        policy = group.mixed_instances_policy if group.launch_template is None else None
        if policy is not None:
            return self._launch_of_policy(group, spec, policy.launch_template.overrides)
        return self._launch_of_template(group, spec)

    def _launch_of_policy(self, group: Group, spec: TemplateSpec, overrides: Sequence[Override]) -> Launch:
        types = [override.instance_type for override in overrides if override.instance_type]
        needs = overrides[0].instance_requirements if len(overrides) == 1 else None
        if types and needs is not None:
            raise ProviderError(f"group {group.name}: overrides name both types and requirements", code="bothOverrides")
        if types:
            return Launch(type_name=types[0], others=tuple(dict.fromkeys(types[1:])))
        if needs is None and not overrides:
            needs = self._templates.get(spec).instance_requirements
        if needs is None:
            return self._launch_of_template(group, spec)
        return Launch(
            type_name=self._type_meeting(group, spec, needs), requirements=msgspec.convert(needs, InstanceRequirements)
        )

    def _launch_of_template(self, group: Group, spec: TemplateSpec) -> Launch:
        data = self._templates.get(spec)
        if data.instance_requirements is not None and not data.instance_type:
            return Launch(type_name=self._type_meeting(group, spec, data.instance_requirements))
        is_spot = data.instance_market_options.market_type == "spot"
        found = _demand_type(group, data.instance_type or "", f"launch template {spec.named}", is_spot=is_spot)
        return msgspec.structs.replace(found, reserved_in=data.reserved_in)

    def _type_meeting(self, group: Group, spec: TemplateSpec, needs: Raw) -> str:
        image_id = self._templates.get(spec).image_id
        if not image_id:
            raise ProviderError(f"group {group.name}: launch template {spec.named} names no image", code="noImage")
        found = self._api.types_meeting(needs, self._api.image(image_id))
        if not found:
            raise ProviderError(f"group {group.name}: no instance type meets its requirements", code="noType")
        return found[0]


def launch_template_of(group: Group) -> TemplateSpec | None:
    """Return the launch template of the group or of its policy; None: it has neither."""
    if group.launch_template is not None:
        return group.launch_template
    policy = group.mixed_instances_policy
    return policy.launch_template.launch_template_specification if policy is not None else None


def _demand_type(group: Group, name: str, source: str, *, is_spot: bool = False) -> Launch:
    if not name:
        raise ProviderError(f"group {group.name}: {source} names no instance type", code="noType")
    return Launch(type_name=name, is_spot=is_spot)


def _static_type(name: str, cpu: int, memory_mib: int, gpus: int, architecture: str) -> InstanceTypeInfo:
    return InstanceTypeInfo(
        instance_type=name,
        v_cpu_info=VCpuInfo(default_v_cpus=cpu),
        memory_info=MemoryInfo(size_in_mib=memory_mib),
        processor_info=ProcessorInfo(supported_architectures=(architecture,)),
        gpu_info=GpuInfo(gpus=(Gpu(count=gpus),)),
    )
