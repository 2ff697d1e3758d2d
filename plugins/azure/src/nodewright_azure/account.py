"""Cloud, subscription, resource group and credentials, from options, environment and ``azure.json``.

Options have precedence over CA's environment variables, and these over the file of Azure's cloud provider. Secrets come
only from the environment or the file, and appear in no text.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from nodewright.spec import ConfigError
from nodewright.spec.exchanges import Exchanges
from nodewright_azure.options import SOURCE, Method, Options

CLOUDS = {
    "azurepubliccloud": "AZURE_PUBLIC_CLOUD",
    "azurecloud": "AZURE_PUBLIC_CLOUD",
    "azureusgovernmentcloud": "AZURE_US_GOVERNMENT",
    "azureusgovernment": "AZURE_US_GOVERNMENT",
    "azurechinacloud": "AZURE_CHINA_CLOUD",
}
_TRUE = ("1", "t", "T", "TRUE", "true", "True")
_VM_POOLS = "AZURE_ENABLE_VMS_AGENT_POOLS"
# Picks the option, else the first set variable (names separated by blanks), else the value of the file.
_Pick = Callable[[str, str, str], str]


class Secret:
    """A text that is not shown when its object is printed or logged."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return "Secret(…)" if self._text else "Secret()"

    def __bool__(self) -> bool:
        return bool(self._text)

    def reveal(self) -> str:
        """Return the text."""
        return self._text


class Cluster(msgspec.Struct, frozen=True, kw_only=True):
    """The AKS cluster whose VM pools are served. ``resource_group`` is that of the cluster, not of its nodes."""

    name: str
    resource_group: str
    location: str


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """``cloud`` is the SDK's name; ``method`` is never ``auto``; ``cluster`` is None if VM pools are not served."""

    cloud: str
    subscription_id: str
    resource_group: str
    method: Method
    tenant_id: str
    client_id: str
    client_secret: Secret
    certificate_path: str
    certificate_password: Secret
    token_file: str
    cluster: Cluster | None = None


class CloudConfig(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """``azure.json``; its other members are ignored."""

    cloud: str = ""
    tenant_id: str = ""
    subscription_id: str = ""
    resource_group: str = ""
    aad_client_id: str = ""
    aad_client_secret: str = ""
    aad_client_cert_path: str = ""
    aad_client_cert_password: str = ""
    use_managed_identity_extension: bool = False
    user_assigned_identity_id: str = msgspec.field(default="", name="userAssignedIdentityID")
    use_federated_workload_identity_extension: bool = False
    use_workload_identity_extension: bool = False
    aad_federated_token_file: str = ""
    enable_vms_agent_pool: bool = msgspec.field(default=False, name="enableVMsAgentPool")
    cluster_name: str = ""
    cluster_resource_group: str = ""
    location: str = ""


def load_account(options: Options, environ: Mapping[str, str]) -> Account:
    """Return the account; raise ConfigError that names the key or the variable."""
    file = _read_file(options.cloud_config) if options.cloud_config else CloudConfig()

    def pick(option: str, variables: str, stored: str) -> str:
        said = (environ.get(variable, "") for variable in variables.split())
        return option or next(filter(None, said), "") or stored

    secret = Secret(pick("", "ARM_CLIENT_SECRET", file.aad_client_secret))
    certificate = pick(options.certificate_path, "ARM_CLIENT_CERT_PATH", file.aad_client_cert_path)
    method = options.credential
    if method is Method.AUTO:
        method = _method(environ, file, has_secret=bool(secret), has_certificate=bool(certificate))
    client_id = pick(options.client_id, "ARM_CLIENT_ID AZURE_CLIENT_ID", file.aad_client_id)
    if method is Method.MANAGED_IDENTITY:
        client_id = pick(options.client_id, "ARM_USER_ASSIGNED_IDENTITY_ID", file.user_assigned_identity_id)
    account = Account(
        cloud=_cloud(pick(options.cloud, "ARM_CLOUD", file.cloud)),
        subscription_id=pick(options.subscription_id, "ARM_SUBSCRIPTION_ID", file.subscription_id),
        resource_group=pick(options.resource_group, "ARM_RESOURCE_GROUP", file.resource_group),
        method=method,
        tenant_id=pick(options.tenant_id, "ARM_TENANT_ID AZURE_TENANT_ID", file.tenant_id),
        client_id=client_id,
        client_secret=secret,
        certificate_path=certificate,
        certificate_password=Secret(pick("", "ARM_CLIENT_CERT_PASSWORD", file.aad_client_cert_password)),
        token_file=pick(options.token_file, "AZURE_FEDERATED_TOKEN_FILE", file.aad_federated_token_file),
        cluster=_cluster(options, environ, file, pick),
    )
    _demand_complete(account)
    return account


def recalled_account(exchanges: Exchanges | None, load: Callable[[], Account]) -> Account:
    """Return the account; in a replay the recorded one, without its credentials."""
    if exchanges is None:
        return load()
    secrets = {"client_secret", "certificate_password"}

    def tell() -> dict[str, Any]:
        account = load()
        return {
            name: msgspec.to_builtins(getattr(account, name))
            for name in Account.__struct_fields__
            if name not in secrets
        }

    told = exchanges.fact("account", tell)
    if not exchanges.replays:
        return load()
    plain = {**told, "method": Method(told["method"]), "cluster": msgspec.convert(told["cluster"], Cluster | None)}
    return Account(**plain, client_secret=Secret(""), certificate_password=Secret(""))


def _method(environ: Mapping[str, str], file: CloudConfig, *, has_secret: bool, has_certificate: bool) -> Method:
    """Return the method in CA's order: one that is requested explicitly, otherwise by the credentials that are set."""
    federated = ("ARM_USE_WORKLOAD_IDENTITY_EXTENSION", "ARM_USE_FEDERATED_WORKLOAD_IDENTITY_EXTENSION")
    in_file = file.use_federated_workload_identity_extension or file.use_workload_identity_extension
    if in_file or any(environ.get(name) in _TRUE for name in federated):
        return Method.WORKLOAD_IDENTITY
    if file.use_managed_identity_extension or environ.get("ARM_USE_MANAGED_IDENTITY_EXTENSION") in _TRUE:
        return Method.MANAGED_IDENTITY
    if has_secret:
        return Method.CLIENT_SECRET
    return Method.CERTIFICATE if has_certificate else Method.CHAIN


def _cluster(options: Options, environ: Mapping[str, str], file: CloudConfig, pick: _Pick) -> Cluster | None:
    """Return the AKS cluster; None: VM pools are not served. Raise ConfigError if they are and it is not named."""
    if not (options.vm_pools or environ.get(_VM_POOLS) in _TRUE or file.enable_vms_agent_pool):
        return None

    def need(key: str, option: str, variable: str, stored: str) -> str:
        found = pick(option, variable, stored)
        if not found:
            raise ConfigError(f"{SOURCE}: vm_pools needs {key}, but neither it nor {variable} is set")
        return found

    in_group, in_file = options.cluster_resource_group, file.cluster_resource_group
    return Cluster(
        name=need("cluster", options.cluster, "CLUSTER_NAME", file.cluster_name),
        resource_group=need("cluster_resource_group", in_group, "ARM_CLUSTER_RESOURCE_GROUP", in_file),
        location=need("location", options.location, "LOCATION", file.location),
    )


def _demand_complete(account: Account) -> None:
    needed = {"subscription_id": "ARM_SUBSCRIPTION_ID", "resource_group": "ARM_RESOURCE_GROUP"}
    if account.method in (Method.CLIENT_SECRET, Method.CERTIFICATE, Method.WORKLOAD_IDENTITY):
        needed |= {"tenant_id": "ARM_TENANT_ID", "client_id": "ARM_CLIENT_ID"}
    if account.method is Method.CERTIFICATE:
        needed["certificate_path"] = "ARM_CLIENT_CERT_PATH"
    if account.method is Method.WORKLOAD_IDENTITY:
        needed["token_file"] = "AZURE_FEDERATED_TOKEN_FILE"  # noqa: S105 - the name of a variable
    for key, variable in needed.items():
        if not getattr(account, key):
            raise ConfigError(f"{SOURCE}: neither {key} nor {variable} is set")
    if account.method is Method.CLIENT_SECRET and not account.client_secret:
        raise ConfigError(f"{SOURCE}: credential is client_secret, but ARM_CLIENT_SECRET is not set")


def _cloud(name: str) -> str:
    found = CLOUDS.get((name or "AzurePublicCloud").lower())
    if found is None:
        known = "AzurePublicCloud, AzureUSGovernmentCloud, AzureChinaCloud"
        raise ConfigError(f"{SOURCE}: cloud: {name} is unknown; known are {known}; for another cloud set arm_endpoint")
    return found


def _by_known_names(content: Any) -> Any:
    """Return the members under the names that are known: as in Go, the case of names is ignored, an exact one counts most."""
    if not isinstance(content, dict):
        return content
    known = {field.encode_name.lower(): field.encode_name for field in msgspec.structs.fields(CloudConfig)}
    return {known.get(name.lower(), name): value for name, value in content.items()} | {
        name: content[name] for name in known.values() if name in content
    }


def _read_file(path: str) -> CloudConfig:
    try:
        content: Any = msgspec.json.decode(Path(path).read_bytes())
        return msgspec.convert(_by_known_names(content), CloudConfig)
    except OSError as error:
        raise ConfigError(f"{SOURCE}: cloud_config: {path} cannot be read: {error.strerror}") from error
    except msgspec.DecodeError as error:
        # The message has the path and the type only: the values may be secrets.
        raise ConfigError(f"{SOURCE}: cloud_config: {path} is not azure.json: {error}") from error
