"""Settings from flags, ``NODEWRIGHT_*`` variables and a YAML file, in this order of precedence.

nodewright.model.settings has the only list of names. In a file a setting stands in its section
(``scale-up: {expander: price}``) or at the top under its flag (``expander: price``). A list replaces the
same list of a source with lower precedence. ``--cloud-provider``, ``--nodes`` and ``--node-group-auto-discovery`` mean the
same as one entry of ``providers:``, and have precedence over it.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, cast

import msgspec

from nodewright.cli.settings.checks import check_together, find_idle
from nodewright.cli.settings.known_flags import (
    CONFIG_VARIABLE,
    KNOWN,
    PREFIX,
    PROVIDER_FIELDS,
    SECTIONS,
    SETTINGS,
    SHORT_FORM,
    Given,
    Layer,
)
from nodewright.cli.settings.values import Setting, read_text, read_yaml
from nodewright.model.errors import ConfigError
from nodewright.model.limits import (
    parse_drain_priorities,
    parse_gpu_limits,
    parse_memory_limits,
    parse_min_max,
    parse_node_group_flag,
)
from nodewright.model.printable import printable, show, suggest
from nodewright.model.settings import ProviderSettings, Settings
from nodewright.model.yaml_text import load_yaml

EXPANDERS = ("least-cost", "random", "most-pods", "least-waste", "least-nodes", "price", "priority")
_CHOOSES_ONE = "random"

# Kubernetes sets these in every pod when a Service is called nodewright or nodewright-something.
_SERVICE_LINK = re.compile(r"NODEWRIGHT_(.*_)?(SERVICE_(HOST|PORT)(_.*)?|PORT(_[0-9]+_(TCP|UDP|SCTP)(_.*)?)?)")
_PROVIDER_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


class LoadedSettings(NamedTuple):
    """Settings, and by flag the values that were given and where. ``idle`` has a sentence for each without effect."""

    settings: Settings
    given: Layer
    idle: tuple[str, ...]

    @property
    def given_fields(self) -> frozenset[tuple[str, str]]:
        """Return the settings that were given, as section and field of the tree; those of providers are left out."""
        known = (SETTINGS[flag] for flag in self.given if flag in SETTINGS)
        return frozenset((setting.section, setting.field) for setting in known)


Flags = Mapping[str, str | Sequence[str]]


def load_settings(
    flags: Flags, env: Mapping[str, str], file_text: str | bytes | None = None, file_name: str = "config file"
) -> Settings:
    """Return all settings; raise ConfigError that names the place of anything unknown or malformed."""
    return load(flags, env, file_text, file_name).settings


def load(
    flags: Flags, env: Mapping[str, str], file_text: str | bytes | None = None, file_name: str = "config file"
) -> LoadedSettings:
    """Do as load_settings does, and say where each value comes from."""
    document = _read_document(file_text, file_name) if file_text is not None else {}
    given = _read_file(document, file_name) | _read_env(env) | _read_flags(flags)
    values = {flag: _read_value(KNOWN[flag], place) for flag, place in given.items()}
    providers = _read_providers(document.get("providers"), f"{file_name}: providers")
    check_together(given, values)
    settings = Settings(
        **{field.name: _make_section(field, values) for field in SECTIONS.values()},
        providers=_add_short_form(providers, given, values),
    )
    return LoadedSettings(settings, given, tuple(find_idle(given, values)))


def parse_expanders(text: str) -> tuple[str, ...]:
    """Return the chain of ``--expander``; raise ConfigError if it is wrong. An empty text stands for the default chain."""
    names = tuple(text.split(",")) if text else ()
    for position, name in enumerate(names):
        if name not in EXPANDERS:
            known = suggest(name, EXPANDERS) or f"; there are {', '.join(EXPANDERS)}"
            raise ConfigError(f"there is no expander '{printable(name)}'{known}")
        if name in names[:position]:
            raise ConfigError(f"the expander {name} is given twice")
        if _CHOOSES_ONE in names[:position]:
            raise ConfigError(f"{name} comes after {_CHOOSES_ONE}, which leaves nothing to choose from")
    return names


def parse_provider_name(text: str) -> str:
    if not _PROVIDER_NAME.fullmatch(text):
        raise ConfigError(f"'{printable(text)}' is not a provider's name (lower case, digits and dashes)")
    return text


def _parse_node_groups(texts: Iterable[str]) -> None:
    for text in texts:
        parse_node_group_flag(text)


_CHECKS: dict[str, Callable[[Any], object]] = {
    "expander": parse_expanders,
    "cores-total": parse_min_max,
    "memory-total": parse_memory_limits,
    "gpu-total": parse_gpu_limits,
    "drain-priority-config": parse_drain_priorities,
    "nodes": _parse_node_groups,
    "cloud-provider": parse_provider_name,
}


def _read_value(setting: Setting, given: Given) -> Any:
    """Return the value in its setting's type, checked."""
    try:
        value = given.read(given.value, setting)
        _CHECKS.get(setting.flag, lambda _: None)(value)
    except (ValueError, ConfigError) as error:
        raise ConfigError(f"{given.origin}: {error}") from None
    return value


def _read_flags(flags: Flags) -> Layer:
    for flag in flags:
        if flag not in KNOWN:
            raise ConfigError(f"there is no flag --{printable(flag)}{suggest(flag, KNOWN)}")
    return {flag: Given(f"--{flag}", value, read_text) for flag, value in flags.items()}


def _read_env(env: Mapping[str, str]) -> Layer:
    from nodewright.adapters.provider.recording import RECORD_VARIABLE  # noqa: PLC0415 - help must not wait for it

    variables = {PREFIX + flag.upper().replace("-", "_"): flag for flag in KNOWN}
    layer: Layer = {}
    for variable, text in env.items():
        if variable in variables:
            if text:  # a chart's empty value says nothing
                layer[variables[variable]] = Given(variable, text, read_text)
        elif not variable.startswith(PREFIX) or variable in (CONFIG_VARIABLE, RECORD_VARIABLE):
            continue
        elif not _SERVICE_LINK.fullmatch(variable):
            raise ConfigError(f"there is no setting for {printable(variable)}{suggest(variable, variables)}")
    return layer


def _read_document(text: str | bytes, name: str) -> dict[str, Any]:
    documents = [document for document in load_yaml(text, name, string_keys=True) if document is not None]
    if not documents:
        return {}
    if len(documents) > 1:
        raise ConfigError(f"{name}: holds {len(documents)} YAML documents, not one")
    if not isinstance(documents[0], dict):
        raise ConfigError(f"{name}: must be a mapping of settings, not {show(documents[0])}")
    return cast("dict[str, Any]", documents[0])


def _read_file(document: dict[str, Any], name: str) -> Layer:
    layer: Layer = {}
    for key, value in document.items():
        if key in SECTIONS:
            found = _read_section(key, value, f"{name}: {key}")
        elif key in KNOWN:
            found = {key: Given(f"{name}: {key}", value, read_yaml)}
        elif key == "providers":
            continue
        else:
            near = suggest(key, [*KNOWN, *SECTIONS, "providers"])
            raise ConfigError(f"{name}: there is no setting {printable(key)}{near}")
        twice = next((flag for flag in found if flag in layer), None)
        if twice:
            raise ConfigError(f"{found[twice].origin}: given twice, also as {layer[twice].origin}")
        layer |= found
    return layer


def _read_section(section: str, value: object, origin: str) -> Layer:
    owned = [flag for flag, setting in SETTINGS.items() if setting.section == SECTIONS[section].name]
    return {key: Given(f"{origin}.{key}", part, read_yaml) for key, part in _known_items(value, owned, origin).items()}


def _known_items(value: object, known: Sequence[str], origin: str) -> dict[str, Any]:
    """Return ``value`` if it is a mapping that has known keys only."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ConfigError(f"{origin}: must be a mapping, not {show(value)}")
    for key in value:
        if key not in known:
            near = f"; it belongs in {_home(key)}" if key in SETTINGS else suggest(key, known)
            raise ConfigError(f"{origin}: there is no setting {printable(key)}{near}")
    return value


def _home(flag: str) -> str:
    return next(key for key, field in SECTIONS.items() if field.name == SETTINGS[flag].section)


def _make_section(section: msgspec.structs.FieldInfo, values: Mapping[str, Any]) -> Any:
    own = {
        setting.field: values[flag]
        for flag, setting in SETTINGS.items()
        if setting.section == section.name and flag in values
    }
    return section.type(**own)


def _read_providers(value: object, origin: str) -> dict[str, ProviderSettings]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ConfigError(f"{origin}: must map providers' names to their settings, not be {show(value)}")
    return {name: _read_provider(name, part, f"{origin}.{printable(name)}") for name, part in value.items()}


def _read_provider(name: str, value: object, origin: str) -> ProviderSettings:
    try:
        parse_provider_name(name)
    except ConfigError as error:
        raise ConfigError(f"{origin}: {error}") from None
    items = _known_items(value, list(PROVIDER_FIELDS), origin)
    return ProviderSettings(
        **{
            PROVIDER_FIELDS[key].field: _read_value(PROVIDER_FIELDS[key], Given(f"{origin}.{key}", part, read_yaml))
            for key, part in items.items()
        }
    )


def _add_short_form(
    providers: dict[str, ProviderSettings], given: Layer, values: Mapping[str, Any]
) -> dict[str, ProviderSettings]:
    """Return ``providers``, with the flags of the short form put into one of them."""
    groups = {SHORT_FORM[flag].field: values[flag] for flag in SHORT_FORM if flag in values}
    name = groups.pop("cloud_provider", None)
    if name is None and groups:
        if len(providers) != 1:
            first = next(flag for flag in SHORT_FORM if flag in values)
            raise ConfigError(f"{given[first].origin}: of which provider? Give --cloud-provider")
        name = next(iter(providers))
    if name is None:
        return providers
    return providers | {name: msgspec.structs.replace(providers.get(name, ProviderSettings()), **groups)}
