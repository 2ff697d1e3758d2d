"""What machines the groups start: instance templates and machine types, read once for all groups that share them.

An error that concerns one group (a deleted template, an unknown machine type) is cached for that group; reading its
template raises it.
"""

from collections.abc import Mapping
from random import Random

from nodewright.spec import Clock, NodeTemplate, ProviderError
from nodewright.spec.cache import ResultCache, attempt
from nodewright.spec.gpus import with_gpus
from nodewright_gce.api import Api
from nodewright_gce.gpu_models import gpu_model
from nodewright_gce.kube_env import Template
from nodewright_gce.options import Options
from nodewright_gce.refs import Place, Ref, TemplateRef, parse_template_url
from nodewright_gce.shapes import MachineType, Manager
from nodewright_gce.template import is_custom, make_template, parse_custom

TypeKey = tuple[Place, str]


class Catalogue:
    """Makes templates. ``load_missing`` reads from Compute Engine what is missing or old; ``template`` reads nothing."""

    def __init__(self, api: Api, options: Options, clock: Clock, random: Random) -> None:
        self._api = api
        self._options = options
        self._templates: ResultCache[TemplateRef, Template] = ResultCache(clock, random, options.template_interval)
        self._types: ResultCache[TypeKey, MachineType] = ResultCache(clock, random, options.template_interval)
        self._own = {
            name: MachineType(name=name, guest_cpus=row.cpu, memory_mb=row.memory_mib)
            for name, row in options.machine_types.items()
        }

    def load_missing(self, groups: Mapping[Ref, Manager]) -> None:
        """Read what is missing or expired. Raise nothing: an error is cached for the groups that it concerns."""
        at_once = self._options.parallel_calls
        templates = {template_of(ref, manager) for ref, manager in groups.items()}
        used = sorted(ref for ref in templates if ref is not None)
        self._templates.load_missing(used, self._api.template, at_once)
        kinds = {self._type_key(ref, manager) for ref, manager in groups.items()}
        keys = sorted(key for key in kinds if key is not None)
        self._types.load_missing(keys, lambda key: self._api.machine_type(*key), at_once)
        self._templates.keep_only(used)

    def template(self, ref: Ref, manager: Manager, zone: str) -> NodeTemplate:
        """Return the template in a zone; raise ProviderError that says what is wrong with the group."""
        raw = self.raw_template(ref, manager)
        template = make_template(ref._replace(zone=zone), raw, self._machine(ref, manager))
        return (
            with_gpus(template, gpu_model([one.kind for one in raw.accelerators or ()]))
            if self._options.dra_gpus
            else template
        )

    def raw_template(self, ref: Ref, manager: Manager) -> Template:
        """Return the instance template; raise ProviderError if it cannot be read."""
        key = template_of(ref, manager)
        if key is None:
            raise ProviderError(f"group {ref.name} in {ref.zone} has no instance template", code="noTemplate")
        return self._templates.get(key)

    def _machine(self, ref: Ref, manager: Manager) -> MachineType:
        name = self.raw_template(ref, manager).machine_type
        if name in self._own:
            return self._own[name]
        return parse_custom(name) if is_custom(name) else self._types.get((_type_place(ref, manager), name))

    def _type_key(self, ref: Ref, manager: Manager) -> TypeKey | None:
        """Return the machine type to read; None: nothing has to be read."""
        found = attempt(lambda: self.raw_template(ref, manager))
        if isinstance(found, ProviderError) or found.machine_type in self._own or is_custom(found.machine_type):
            return None
        return _type_place(ref, manager), found.machine_type


def template_of(ref: Ref, manager: Manager) -> TemplateRef | None:
    """Return the instance template of the group's next machine; None: the group has none."""
    url = manager.template_url
    return parse_template_url(url, ref.project) if url else None


def _type_place(ref: Ref, manager: Manager) -> Place:
    """Return the zone in which the machine type is read: one of them for a regional group."""
    return ref.place._replace(zone=manager.zones[0]) if ref.place.is_regional and manager.zones else ref.place
