"""Kind ``aws-template``: what a group's next node looks like, and the group's options."""

from collections.abc import Mapping
from typing import Any

from aws_answers import AnsweredApi, make_provider
from nodewright.spec import ProviderError
from templates import compare_options, compare_template, make_options

_ALL_GROUPS = "asg:tag=any"


def check(case: Mapping[str, Any]) -> list[str]:
    given, expected = case["input"], case["expected"]
    name = given["autoScalingGroup"]["AutoScalingGroupName"]
    provider = make_provider(AnsweredApi(given), discoveries=[_ALL_GROUPS])
    provider.refresh(frozenset())
    differences = []
    if "options" in expected:
        options = provider.group_options(name, make_options(given["defaults"]))
        differences = compare_options(options, expected["options"])
    try:
        template = provider.template_node(name)
    except ProviderError as error:
        return differences if "error" in expected else [*differences, f"no template: {error}"]
    if "node" not in expected:
        return [*differences, f"expected {expected.get('error', 'a crash')}, got a template"]
    return [*differences, *compare_template(template, expected["node"])]
