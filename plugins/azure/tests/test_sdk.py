"""The SDK's edges: credentials, clouds, secrets, time limits, and what is imported when."""

import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from azurecloud import Authority, AzureCloud
from azurecloud.arm_route import Refused
from azurecloud.cloud import CLIENT, SECRET, TENANT
from mishaps import Mishap
from nodewright.spec import AccessDenied, ConfigError, ProviderContext, ProviderError, ProviderUnavailable, Throttled
from nodewright.testkit import FakeClock
from nodewright.testkit.contract import CallSettings
from nodewright_azure.account import load_account
from nodewright_azure.errors import Refusal, refusal
from nodewright_azure.options import Method, Options, load_options
from nodewright_azure.provider import AzureProvider
from nodewright_azure.session import Session
from repeats import requests_of
from secrecy import shown

Attach = Callable[..., Any]
_PLACE = {"subscription_id": "s", "resource_group": "g"}


def test_choosing_the_plugin_imports_no_sdk() -> None:
    program = (
        "import sys\n"
        "from nodewright.spec import ProviderContext\n"
        "from nodewright.testkit import FakeClock\n"
        "from nodewright_azure.provider import AzureProvider\n"
        "options = {'subscription_id': 's', 'resource_group': 'g', 'credential': 'chain'}\n"
        "context = ProviderContext(clock=FakeClock(), options=options, node_group_specs=('0:1:a',))\n"
        "AzureProvider(context).provider_info()\n"
        "print(sorted({name.partition('.')[0] for name in sys.modules} & {'azure', 'msal', 'requests'}))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_wrong_secret_is_one_clear_error_and_a_right_one_needs_no_restart(cloud: AzureCloud, attach: Attach) -> None:
    name = cloud.add_set(capacity=1)
    stage = attach(f"0:10:{name}", read=False)
    cloud.accepts_logins = False
    with pytest.raises(AccessDenied, match=r"virtualMachineScaleSets\.list: .*AADSTS7000215") as refused:
        stage.client.refresh()
    assert "the README of nodewright-azure lists where credentials come from" in str(refused.value)
    assert "\n" not in str(refused.value)
    assert cloud.calls["list"] == 0
    cloud.accepts_logins = True
    stage.later(5)
    assert stage.client.target_size(name) == 1


def test_the_service_principal_logs_in_with_its_secret(cloud: AzureCloud, attach: Attach) -> None:
    attach(f"0:10:{cloud.add_set()}")
    [login] = cloud.logins
    assert (login["client_id"], login["client_secret"], login["grant_type"]) == (CLIENT, SECRET, "client_credentials")
    assert login["scope"].startswith("https%3A%2F%2Flocalhost")


def test_workload_identity_and_certificates_log_in_with_assertions(
    cloud: AzureCloud, attach: Attach, authority: Authority, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text("federated-token")
    name = cloud.add_set(capacity=1)
    attach(f"0:10:{name}", credential="workload_identity", token_file=str(token))
    assert cloud.logins[-1]["client_assertion"] == "federated-token"
    attach(f"0:10:{name}", credential="certificate", certificate_path=str(authority.principal))
    assert cloud.logins[-1]["client_assertion"].count(".") == 2, "no signed token"
    assert not [login for login in cloud.logins if "client_secret" in login]


def test_managed_identity_is_made_without_a_secret(cloud: AzureCloud) -> None:
    options = load_options(_context({**cloud.options, "credential": "managed_identity"}))
    account = load_account(options, {"ARM_USER_ASSIGNED_IDENTITY_ID": "mine"})
    assert (account.method, account.client_id) == (Method.MANAGED_IDENTITY, CLIENT)
    assert "ComputeManagementClient" in repr(Session(account, options).compute())


@pytest.mark.parametrize(
    ("environ", "method", "client"),
    [
        ({"ARM_USE_WORKLOAD_IDENTITY_EXTENSION": "true", "AZURE_FEDERATED_TOKEN_FILE": "/t"}, "workload_identity", "c"),
        ({"ARM_USE_MANAGED_IDENTITY_EXTENSION": "true"}, "managed_identity", ""),
        (
            {"ARM_USE_MANAGED_IDENTITY_EXTENSION": "true", "ARM_USER_ASSIGNED_IDENTITY_ID": "u"},
            "managed_identity",
            "u",
        ),
        ({"ARM_CLIENT_SECRET": "x"}, "client_secret", "c"),
        ({"ARM_CLIENT_CERT_PATH": "/c.pem"}, "certificate", "c"),
        ({}, "chain", "c"),
    ],
)
def test_the_environment_of_cluster_autoscaler_decides(environ: dict[str, str], method: str, client: str) -> None:
    everywhere = {"ARM_TENANT_ID": "t", "ARM_CLIENT_ID": "c", "ARM_SUBSCRIPTION_ID": "s", "ARM_RESOURCE_GROUP": "g"}
    account = load_account(Options(), {**everywhere, **environ})
    assert (account.method, account.client_id, account.tenant_id) == (method, client, "t")
    assert (account.subscription_id, account.resource_group) == ("s", "g")


def test_azure_json_is_weaker_than_environment_and_options(tmp_path: Path) -> None:
    file = tmp_path / "azure.json"
    told = {
        "cloud": "AzureUSGovernmentCloud",
        "tenantId": "t",
        "subscriptionId": "s",
        "resourceGroup": "g",
        "aadClientId": "c",
        "aadClientSecret": "hidden",
        "vmType": "vmss",
    }
    file.write_text(json.dumps(told))
    options = load_options(_context({"cloud_config": str(file), "resource_group": "mine"}))
    account = load_account(options, {"ARM_TENANT_ID": "stronger"})
    assert (account.cloud, account.tenant_id, account.subscription_id) == ("AZURE_US_GOVERNMENT", "stronger", "s")
    assert (account.resource_group, account.method) == ("mine", Method.CLIENT_SECRET)
    assert account.client_secret.reveal() == "hidden"
    assert "hidden" not in repr(account) + str(account)
    file.write_text('{"aadClientSecret": ["hidden"]}')
    with pytest.raises(ConfigError, match=r"is not azure\.json") as refused:
        load_account(options, {})
    assert "hidden" not in str(refused.value)


def test_the_names_in_azure_json_ignore_case_as_in_go(tmp_path: Path) -> None:
    file = tmp_path / "azure.json"
    told = {"TenantID": "t", "subscriptionID": "s", "resourcegroup": "g", "resourceGroup": "exact", "AADClientID": "c"}
    file.write_text(json.dumps({**told, "useManagedIdentityExtension": True, "userAssignedIdentityId": "i"}))
    account = load_account(load_options(_context({"cloud_config": str(file)})), {})
    assert (account.tenant_id, account.subscription_id, account.resource_group) == ("t", "s", "exact")
    assert (account.method, account.client_id) == (Method.MANAGED_IDENTITY, "i")


@pytest.mark.parametrize(
    ("cloud_name", "host", "login"),
    [
        ("AzurePublicCloud", "management.azure.com", "login.microsoftonline.com"),
        ("AzureUSGovernmentCloud", "management.usgovcloudapi.net", "login.microsoftonline.us"),
        ("AzureChinaCloud", "management.chinacloudapi.cn", "login.chinacloudapi.cn"),
    ],
)
def test_sovereign_clouds_have_their_own_addresses(cloud_name: str, host: str, login: str) -> None:
    options = load_options(_context({**_PLACE, "cloud": cloud_name, "tenant_id": "t", "client_id": "c"}))
    client = Session(load_account(options, os.environ), options).compute()
    assert host in client._config.base_url
    assert host.partition(".")[2] in client._config.credential_scopes[0]
    assert login in client._config.credential._authority


def test_a_server_that_is_not_trusted_is_not_told_the_token(cloud: AzureCloud, attach: Attach) -> None:
    stage = attach("0:10:a", read=False, ca_bundle="")
    with pytest.raises((AccessDenied, ProviderUnavailable), match="CERTIFICATE_VERIFY_FAILED"):
        stage.client.refresh()
    assert cloud.calls.total() == 0


def test_an_endpoint_that_does_not_answer_is_named(attach: Attach) -> None:
    stage = attach("0:10:a", read=False, arm_endpoint="https://localhost:9", connect_timeout=1)
    said = r"virtualMachineScaleSets\.list in resource group Nodes of subscription sub: ServiceRequestError"
    with pytest.raises(ProviderUnavailable, match=said):
        stage.client.refresh()


def test_a_call_that_is_never_answered_ends_at_its_time_limit(cloud: AzureCloud, attach: Attach) -> None:
    stage = attach(f"0:10:{cloud.add_set(capacity=1)}", refresh_interval=0, read_timeout=0.5)
    for _ in range(4):
        cloud.stall_once("list")
    with pytest.raises(ProviderUnavailable, match=r"virtualMachineScaleSets\.list .*Timeout"):
        stage.client.refresh()


def test_no_secret_shows(cloud: AzureCloud, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    name = cloud.add_set(capacity=1)
    context = ProviderContext(clock=FakeClock(), options=cloud.options, node_group_specs=(f"0:1:{name}",))
    provider = AzureProvider(context)
    cloud.accepts_logins = False
    with pytest.raises(AccessDenied) as refused:
        provider.refresh(frozenset())
    cloud.accepts_logins = True
    provider.refresh(frozenset())
    said = shown(provider, refused.value) + caplog.text
    assert TENANT in said
    assert SECRET not in said


@pytest.mark.parametrize(
    "mishap",
    [
        Refused(429, "TooManyRequests", "slowly").answer,
        Refused(500, "InternalServerError", "oops").answer,
        Mishap.LOST,
    ],
)
def test_only_the_core_repeats_calls(cloud: AzureCloud, attach: Attach, mishap: Any) -> None:
    """The SDK sends each once: its own repetitions would multiply with the core's."""
    client = attach(f"0:10:{cloud.add_set(capacity=1)}", refresh_interval=0).client
    assert requests_of(cloud, "list", mishap, client.refresh) == CallSettings().read_attempts


def test_only_the_core_repeats_writes(cloud: AzureCloud, attach: Attach) -> None:
    name = cloud.add_set(capacity=1)
    broken = Refused(500, "InternalServerError", "oops").answer
    client = attach(f"0:10:{name}", refresh_interval=0).client
    sent = requests_of(cloud, "update", broken, lambda: client.increase_size(name, 1, 2))
    assert sent == 1 + CallSettings().write_repeats


def test_the_sdk_says_nothing_beside_us_and_aks_stays_out(cloud: AzureCloud) -> None:
    """Its own line about a login that failed would stand on stderr before ours; AKS is imported where pools are served."""
    program = (
        "import sys\n"
        "from nodewright.spec import ProviderContext\n"
        "from nodewright.testkit import FakeClock\n"
        "from nodewright_azure.provider import AzureProvider\n"
        f"context = ProviderContext(clock=FakeClock(), options={cloud.options!r}, node_group_specs=('0:1:a',))\n"
        "try:\n"
        "    AzureProvider(context).refresh(frozenset())\n"
        "except Exception as error:\n"
        "    print(type(error).__name__)\n"
        "print(sorted(name for name in sys.modules if name.startswith('azure.mgmt.') and name.count('.') == 2))\n"
    )
    cloud.accepts_logins = False
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("AccessDenied\n['azure.mgmt.compute', 'azure.mgmt.core']\n", "")


def test_words_of_azure_are_kept_short() -> None:
    assert len(str(refusal("update", Refusal(400, "InvalidParameter", "x" * 10_000)))) == 500


def test_labels_that_do_not_tell_groups_apart(attach: Attach) -> None:
    client = attach("0:10:a").client
    assert "kubernetes.azure.com/node-image-version" in client.ignored_labels()
    assert client.same_group_labels() == ("agentpool", "kubernetes.azure.com/agentpool")


def _context(options: dict[str, Any]) -> ProviderContext:
    return ProviderContext(clock=FakeClock(), options=options)


def test_a_throttled_set_is_left_alone_and_others_are_not(cloud: AzureCloud, attach: Attach) -> None:
    """Azure lengthens the wait with each call that it refuses."""
    first, second = cloud.add_set(capacity=1), cloud.add_set(capacity=1)
    stage = attach(f"0:10:{first}", f"0:10:{second}")
    cloud.throttle("machines", 150.0)
    for _ in range(14):
        stage.later(10, first)
    assert cloud.refused == {"machines": 1}
    stage.later(0, second)
    assert cloud.refused == {"machines": 2}
    stage.later(11, first, second)
    assert cloud.refused == {"machines": 2}
    assert [len(stage.client.instances(name)) for name in (first, second)] == [1, 1]


def test_a_throttled_subscription_is_left_alone_altogether(cloud: AzureCloud, attach: Attach) -> None:
    name = cloud.add_set(capacity=1)
    stage = attach(f"0:10:{name}")
    cloud.refuse_once("update", "SubscriptionRequestsThrottled", "slow down", 429, retry_after="300")
    with pytest.raises(Throttled):
        stage.client.increase_size(name, 1, 2)
    before = sum(cloud.calls.values())
    for _ in range(3):
        with pytest.raises(ProviderError, match=r"Azure wants no such call for another"):
            stage.later(70, name)
    assert sum(cloud.calls.values()) == before
    stage.later(90, name)
    assert stage.client.increase_size(name, 1, 2) == 1
