"""The options of provider azure. Unknown keys are refused."""

from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta

from nodewright.spec import ConfigError, ProviderContext, decode_options
from nodewright.spec.options import Seconds, decode_seconds

Positive = Annotated[int, Meta(ge=1)]
PerHour = Annotated[float, Meta(ge=0, le=1e6)]
SOURCE = "options of provider azure"


class Method(StrEnum):
    """Where credentials come from. ``auto``: as the other settings say, otherwise the SDK's own chain."""

    AUTO = "auto"
    CHAIN = "chain"
    WORKLOAD_IDENTITY = "workload_identity"
    MANAGED_IDENTITY = "managed_identity"
    CLIENT_SECRET = "client_secret"  # noqa: S105 - the name of a method, not a secret
    CERTIFICATE = "certificate"
    CLI = "cli"


class StaticSku(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One row of the table ``instance_types``."""

    cpu: Positive
    memory_mib: Positive
    gpu: Annotated[int, Meta(ge=0)] = 0
    architecture: str = "amd64"


class Options(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``providers.azure.options``; the README explains each of them."""

    subscription_id: str = ""
    resource_group: str = ""
    cloud_config: str = ""
    cloud: str = ""
    credential: Method = Method.AUTO
    tenant_id: str = ""
    client_id: str = ""
    certificate_path: str = ""
    token_file: str = ""
    arm_endpoint: str = ""
    arm_audience: str = ""
    authority_host: str = ""
    disconnected: bool = False
    ca_bundle: str = ""
    connect_timeout: Seconds = Seconds(5)
    read_timeout: Seconds = Seconds(20)
    parallel_calls: Annotated[int, Meta(ge=1, le=64)] = 8
    api_calls_per_minute: Positive = 1200
    refresh_interval: Seconds = Seconds(60)
    machines_interval: Seconds = Seconds(300)
    sku_interval: Seconds = Seconds(21600)
    detect_failures: bool = True
    detect_extension_failures: bool = False
    force_delete: bool = False
    predict_labels: bool = True
    instance_types: dict[str, StaticSku] = {}
    use_static_instance_list: bool = False
    dra_gpus: bool = False
    prices_per_hour: dict[str, PerHour] = {}
    refresh_prices: bool = True
    retail_prices_endpoint: str = "https://prices.azure.com"
    price_list_interval: Seconds = Seconds(86400)
    vm_pools: bool = False
    cluster: str = ""
    cluster_resource_group: str = ""
    location: str = ""

    @property
    def watches_failures(self) -> bool:
        """Whether failed creations are reported at all."""
        return self.detect_failures or self.detect_extension_failures


def load_options(context: ProviderContext) -> Options:
    """Return the checked options; raise ConfigError that names the key."""
    options = decode_options(context.options, Options, SOURCE, decode_seconds)
    if options.use_static_instance_list and not options.instance_types:
        raise ConfigError(f"{SOURCE}: use_static_instance_list needs rows in instance_types")
    if options.arm_endpoint and not options.arm_endpoint.startswith("https://"):
        raise ConfigError(f"{SOURCE}: arm_endpoint: must be an https:// URL: the SDK sends tokens to no other")
    if not options.retail_prices_endpoint.startswith("https://"):
        raise ConfigError(f"{SOURCE}: retail_prices_endpoint: must be an https:// URL")
    return options
