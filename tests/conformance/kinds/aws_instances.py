"""Kind ``aws-instances``: what is listed of a group, and which of its unfilled capacity has failed.

CA shows unfilled capacity as placeholder instances; here it is the difference of target and instances, and one
failure with a count. CA knows no lifecycle states; here they are told, so states are not compared.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from aws_answers import LONG_AFTER, AnsweredApi, make_provider
from nodewright.spec import ErrorClass
from nodewright_aws.provider import AwsProvider

_PLACEHOLDER = "/i-placeholder-"
_ALL_GROUPS = "asg:tag=any"


def check(case: Mapping[str, Any]) -> list[str]:
    given, expected = case["input"], case["expected"]
    name = given["autoScalingGroup"]["AutoScalingGroupName"]
    provider = _replay(given, name)
    failed = [one for one in expected["instances"] if (one["status"] or {}).get("error")]
    wanted = {
        "instances": [one["providerId"] for one in expected["instances"] if _PLACEHOLDER not in one["providerId"]],
        "failed": len(failed),
        "targetSize": expected["targetSize"],
    }
    failures = provider.failed_instances(name)
    got = {
        "instances": [one.id for one in provider.instances(name)],
        "failed": sum(one.count for one in failures if one.error_class == ErrorClass.OUT_OF_RESOURCES),
        "targetSize": provider.target_size(name),
    }
    return [f"{key}: expected {wanted[key]}, got {got[key]}" for key in wanted if wanted[key] != got[key]]


def _replay(given: Mapping[str, Any], name: str) -> AwsProvider:
    """The size was changed by the plugin itself when the case says so, long before the last refresh."""
    api = AnsweredApi(given)
    provider = make_provider(api, discoveries=[_ALL_GROUPS])
    whole, wrote = api.group, given.get("lastSizeChange")
    if wrote is not None and whole.unfilled:
        api.now = datetime.fromisoformat(wrote).timestamp()
        api.group = msgspec.structs.replace(whole, desired_capacity=len(whole.living))
        provider.refresh(frozenset())
        provider.increase_size(name, len(whole.living), whole.desired_capacity)
    api.now, api.group = LONG_AFTER, whole
    provider.refresh(frozenset())
    return provider
