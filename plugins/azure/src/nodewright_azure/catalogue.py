"""What machines the scale sets start: sizes by location, listed once for all sets and cached."""

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from random import Random

from nodewright.spec import Clock, NodeTemplate, ProviderError
from nodewright.spec.cache import ResultCache, attempt
from nodewright.spec.gpus import with_gpus
from nodewright_azure.api import Api
from nodewright_azure.errors import bucket_of_family
from nodewright_azure.gpu_models import gpu_model
from nodewright_azure.options import Options
from nodewright_azure.shapes import ResourceSku, ScaleSet
from nodewright_azure.template import Machine, make_template

_MACHINES = "virtualMachines"
_PROMO = "_promo"
_ARCHITECTURES = {"x64": "amd64", "arm64": "arm64"}


class Catalogue:
    """Makes templates. ``load_missing`` reads from Azure what is missing or expired; ``template`` reads nothing."""

    def __init__(self, api: Api, options: Options, clock: Clock, random: Random) -> None:
        self._api = api
        self._options = options
        self._skus: ResultCache[str, Mapping[str, ResourceSku]] = ResultCache(clock, random, options.sku_interval)
        self._own = {
            name.lower(): Machine(
                cpus=row.cpu, memory_bytes=row.memory_mib << 20, gpus=row.gpu, architecture=row.architecture
            )
            for name, row in options.instance_types.items()
        }

    def load_missing(self, sets: Iterable[ScaleSet]) -> None:
        """List the sizes of each location with a set whose size the options do not describe. Raise nothing."""
        if self._options.use_static_instance_list:
            return
        asked = (one.region for one in sets if one.region and self._own_machine(one.size) is None)
        self._skus.load_missing(asked, self._list)

    def template(self, scale_set: ScaleSet, zone: str = "") -> NodeTemplate:
        """Return the template, in ``zone`` or the set's first one; raise ProviderError that says what is wrong with the set."""
        machine = self._own_machine(scale_set.size) or self._told_machine(scale_set)
        template = make_template(scale_set, machine, zone=zone, predict_labels=self._options.predict_labels)
        return with_gpus(template, gpu_model(scale_set.size)) if self._options.dra_gpus else template

    def buckets(self, scale_set: ScaleSet) -> frozenset[str]:
        """Return the quota of cores on which the machines of the set draw; none if it is not known, or for spot machines."""
        sku = attempt(lambda: self._sku(scale_set))
        family = sku.family if isinstance(sku, ResourceSku) and not (scale_set.is_spot or scale_set.is_mixed) else ""
        return frozenset(filter(None, (bucket_of_family(family),)))

    def restriction(self, scale_set: ScaleSet) -> str:
        """Return why the subscription may not use this size in the location; "": it may, or it is not known."""
        sku = attempt(lambda: self._sku(scale_set))
        if isinstance(sku, ProviderError):
            return ""
        whole = (one.reason_code or "not available" for one in sku.restrictions if one.type == "Location")
        return next(whole, "")

    def _list(self, location: str) -> Mapping[str, ResourceSku]:
        return {sku.name.lower(): sku for sku in self._api.skus(location) if sku.resource_type == _MACHINES}

    def _own_machine(self, size: str) -> Machine | None:
        """Return the options' row. As in CA's table, a promotional size is like the regular one."""
        return self._own.get(size.lower()) or self._own.get(size.lower().removesuffix(_PROMO))

    def _told_machine(self, scale_set: ScaleSet) -> Machine:
        if not scale_set.size or not scale_set.location:
            return Machine(cpus=0, memory_bytes=0)  # make_template raises and names what is missing
        found = _read(self._sku(scale_set))
        if found is None:
            raise self._unknown(scale_set)
        return found

    def _sku(self, scale_set: ScaleSet) -> ResourceSku:
        location = scale_set.region
        if self._options.use_static_instance_list or not location:
            raise self._unknown(scale_set)
        skus: Mapping[str, ResourceSku] = self._skus.get(location)
        size = scale_set.size.lower()
        found = skus.get(size) or skus.get(size.removesuffix(_PROMO))  # a promotional size is like the regular one
        if found is None:
            raise self._unknown(scale_set)
        return found

    def _unknown(self, scale_set: ScaleSet) -> ProviderError:
        said = f"{scale_set.name}: {scale_set.location} has no known size {scale_set.size}"
        return ProviderError(f"{said}; describe it in providers.azure.options.instance_types", code="unknownSku")


def _read(sku: ResourceSku) -> Machine | None:
    """Return the machine; None if a value is missing or not a number. Unlike in CA, fractions of GiB count."""
    told = {one.name: one.value for one in sku.capabilities}
    try:
        cpus, memory, gpus = _numbers((told["vCPUs"], told["MemoryGB"], told.get("GPUs", "0")))
        architecture = _ARCHITECTURES[told["CpuArchitectureType"].lower()]
    except (KeyError, ValueError):
        return None
    return Machine(cpus=int(cpus), memory_bytes=int(memory * 2**30), gpus=int(gpus), architecture=architecture)


def _numbers(texts: Sequence[str]) -> list[Fraction]:
    return [Fraction(text) for text in texts]
