"""The options of provider gce. Unknown keys are refused."""

import configparser
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from nodewright.spec import ConfigError, ProviderContext, decode_options
from nodewright.spec.options import Seconds, decode_seconds

Positive = Annotated[int, Meta(ge=1)]
PerHour = Annotated[float, Meta(ge=0, le=1e6)]
SERVICES = ("compute", "resource_manager")
_SOURCE = "options of provider gce"
_THIS_MACHINE = ("127.0.0.1", "::1", "localhost")


class Machine(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One row of the table ``machine_types``."""

    cpu: Positive
    memory_mib: Positive


class OwnPrice(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One row of the table ``prices_per_hour``: USD for a machine without its disks and accelerators."""

    regular: PerHour
    spot: PerHour | None = None


class Options(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``providers.gce.options``; the README explains each of them."""

    project: str = ""
    zones: tuple[str, ...] = ()
    region: str = ""
    cloud_config: str = ""
    endpoints: dict[str, str] = {}
    call_timeout: Seconds = Seconds(20)
    operation_timeout: Seconds = Seconds(20)
    parallel_calls: Annotated[int, Meta(ge=1, le=64)] = 8
    api_calls_per_minute: Positive = 1200
    refresh_interval: Seconds = Seconds(60)
    template_interval: Seconds = Seconds(1200)
    detect_failures: bool = True
    atomic_resize: bool = False
    atomic_run_duration: Seconds = Seconds(0)
    machine_types: dict[str, Machine] = {}
    dra_gpus: bool = False
    prices_per_hour: dict[str, OwnPrice] = {}
    preemption_interval: Seconds = Seconds(0)


def load_options(context: ProviderContext) -> Options:
    """Return the checked options; raise ConfigError that names the key."""
    options = decode_options(context.options, Options, _SOURCE, decode_seconds)
    unknown = sorted(set(options.endpoints) - set(SERVICES))
    if unknown:
        raise ConfigError(f"{_SOURCE}: endpoints: there is no service {unknown[0]}; there are {', '.join(SERVICES)}")
    bare = next((key for key, url in options.endpoints.items() if not _keeps_tokens(url)), None)
    if bare is not None:
        raise ConfigError(f"{_SOURCE}: endpoints.{bare}: must be an https:// URL: access tokens go there")
    if options.zones and options.region:
        raise ConfigError(f"{_SOURCE}: zones and region exclude each other")
    strange = next((zone for zone in options.zones if "-" not in zone), None)
    if strange is not None:
        raise ConfigError(f"{_SOURCE}: zones: '{strange}' is not a zone like us-central1-a")
    return _with_cloud_config(options) if options.cloud_config else options


def _keeps_tokens(url: str) -> bool:
    """Return whether tokens may be sent there: over TLS, or to this machine itself. The SDK reads no scheme as https."""
    parts = urlsplit(url if "://" in url else f"https://{url}")
    return parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _THIS_MACHINE)


def _with_cloud_config(options: Options) -> Options:
    """Return the options; those not set come from section Global of the file that CA's --cloud-config names."""
    source = f"{_SOURCE}: cloud_config {options.cloud_config}"
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    try:
        parser.read_string(Path(options.cloud_config).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{source}: cannot be read: {error}") from None
    except configparser.Error:
        raise ConfigError(f"{source}: is not a file of sections with key = value") from None
    said = {key: value.strip("\"' ") for key, value in parser["Global"].items()} if parser.has_section("Global") else {}
    zone = said.get("local-zone", "")
    zones = options.zones or ((zone,) if zone and not options.region else ())
    return msgspec.structs.replace(options, project=options.project or said.get("project-id", ""), zones=zones)
