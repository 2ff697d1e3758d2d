"""The options of provider externalgrpc. The names are those of cluster-autoscaler's --cloud-config."""

from typing import Annotated

import msgspec
from msgspec import Meta

from nodewright.spec import ConfigError, ProviderContext, decode_options
from nodewright.spec.options import Seconds, decode_seconds

SOURCE = "options of provider externalgrpc"


class Options(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``providers.externalgrpc.options``. ``cert``, ``key`` and ``cacert`` are paths of PEM files."""

    address: str
    cert: str = ""
    key: str = ""
    cacert: str = ""
    insecure: bool = False
    grpc_timeout: Seconds = Seconds(5)
    detect_failures: bool = True
    gpu_resources: tuple[str, ...] = ()
    template_interval: Seconds = Seconds(600)
    calls_per_minute: Annotated[int, Meta(ge=1)] = 60_000
    parallel_calls: Annotated[int, Meta(ge=1, le=64)] = 8


def load_options(context: ProviderContext) -> Options:
    """Return the checked options; raise ConfigError that names the key."""
    if context.node_group_specs or context.auto_discovery_specs:
        raise ConfigError(
            "--nodes, --node-group-auto-discovery: not used here: the externalgrpc server lists its groups itself"
        )
    found = decode_options(context.options, Options, SOURCE, decode_seconds)
    host, _, port = found.address.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ConfigError(f"{SOURCE}: address: '{found.address}' is not HOST:PORT")
    if found.grpc_timeout <= 0:
        raise ConfigError(f"{SOURCE}: grpc_timeout: must be more than 0")
    return found
