"""Kind ``azure-instances``: what each machine of a scale set is doing, and which have failed.

CA lists failed machines as being created, with an error; here they are failures and no instances.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from azure_answers import AnsweredApi, make_provider
from nodewright.spec import ErrorClass, InstanceState, ProviderError
from nodewright_azure.provider import AzureProvider
from nodewright_azure.shapes import Machine, ScaleSet, ScaleSetProperties, ScaleSetSku

_CLASSES = {"OutOfResources": ErrorClass.OUT_OF_RESOURCES, "Other": ErrorClass.OTHER}
_PREFIX = "/subscriptions/s/resourceGroups/rg/providers/Microsoft.Compute/virtualMachineScaleSets/ss"


def check(case: Mapping[str, Any]) -> list[str]:
    given, expected = case["input"], case["expected"]
    provider = _replay(given)
    try:
        there = [(one.id, one.state) for one in provider.instances("ss")]
    except ProviderError as error:
        return [] if "error" in expected else [f"refused: {error}"]
    if "error" in expected:
        return [f"expected the error {expected['error']}, got {there}"]
    failed = {(one.instance_id, one.error_class, one.code) for one in provider.failed_instances("ss")}
    wanted = {
        "instances": [_state(one) for one in expected["instances"] if not _error(one)],
        "failed": {_failure(one) for one in expected["instances"] if _error(one)},
    }
    got: dict[str, object] = {"instances": there, "failed": failed}
    return [f"{key}: expected {wanted[key]}, got {got[key]}" for key in wanted if wanted[key] != got[key]]


def _replay(given: Mapping[str, Any]) -> AzureProvider:
    """The listing before, if the case tells of one, and that of now."""
    api = AnsweredApi(given)
    properties = ScaleSetProperties(orchestration_mode=given.get("orchestrationMode"), provisioning_state="Succeeded")
    now, before = api.listed, given.get("previousVirtualMachineScaleSetVMs")
    count = max(len(now), len(given.get("virtualMachines", [])), 1)
    api.sets = [ScaleSet(id=_PREFIX, name="ss", sku=ScaleSetSku(capacity=count), properties=properties)]
    config = given["config"]
    fast = config.get("enableFastDeleteOnFailedProvisioning", False)
    detailed = config.get("enableDetailedCSEMessage", False)
    provider = make_provider(api, "0:10:ss", detect_failures=fast, detect_extension_failures=detailed)
    if before is not None:
        api.listed = msgspec.convert(before, list[Machine])
        provider.refresh(frozenset({"ss"}))
    api.listed = now
    provider.refresh(frozenset({"ss"}))
    return provider


def _error(one: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = (one["status"] or {}).get("error") or {}
    return found


def _state(one: Mapping[str, Any]) -> tuple[str, InstanceState]:
    """A machine of which nothing is said is taken to run."""
    return one["providerId"], InstanceState((one["status"] or {"state": "running"})["state"])


def _failure(one: Mapping[str, Any]) -> tuple[str, ErrorClass, str]:
    return one["providerId"], _CLASSES[_error(one)["class"]], _error(one)["code"]
