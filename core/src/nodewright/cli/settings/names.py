"""Every name that a setting has outside: the tree's flags, the short form of one provider, and CA's other flags."""

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from nodewright.cli.settings.ca_flags import CA_FLAGS
from nodewright.cli.settings.values import Setting
from nodewright.model.process_settings import ProviderSettings
from nodewright.model.settings import Settings
from nodewright.model.settings_base import Section

PREFIX = "NODEWRIGHT_"
CONFIG_VARIABLE = "NODEWRIGHT_CONFIG"


class Given(NamedTuple):
    """A value as somebody wrote it, and where: ``--expander`` or ``config.yaml: expander``."""

    origin: str
    value: Any
    read: Callable[[Any, Setting], Any]


Layer = dict[str, Given]


def list_settings(section: str, owner: type[msgspec.Struct]) -> list[Setting]:
    return [
        Setting(section, field.name, field.encode_name, field.type, field.default)
        for field in msgspec.structs.fields(owner)
    ]


SECTIONS: dict[str, msgspec.structs.FieldInfo] = {
    field.encode_name: field
    for field in msgspec.structs.fields(Settings)
    if isinstance(field.type, type) and issubclass(field.type, Section)
}
SETTINGS = {setting.flag: setting for field in SECTIONS.values() for setting in list_settings(field.name, field.type)}
PROVIDER_FIELDS = {setting.flag: setting for setting in list_settings("providers", ProviderSettings)}
SHORT_FORM = {
    "cloud-provider": Setting("", "cloud_provider", "cloud-provider", str, ""),
    "nodes": PROVIDER_FIELDS["nodes"],
    "node-group-auto-discovery": PROVIDER_FIELDS["node-group-auto-discovery"],
}
KNOWN = SETTINGS | SHORT_FORM | {name: flag.setting for name, flag in CA_FLAGS.items()}
