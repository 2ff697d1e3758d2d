"""Kind ``gce-template``: what a group's next node looks like, and the group's options.

CA's amounts may be below zero (a small disk less what is reserved of it); the contract knows no such amounts, and
they are zero here.
"""

from collections.abc import Mapping
from typing import Any

from gce_answers import AnsweredApi, make_provider
from nodewright.spec import ProviderError
from templates import compare_options, compare_template, make_options


def check(case: Mapping[str, Any]) -> list[str]:
    given, expected = case["input"], case["expected"]
    api = AnsweredApi(given)
    provider = make_provider(api, f"0:10:{api.ref.group_id}")
    provider.refresh(frozenset())
    options = provider.group_options(api.ref.group_id, make_options(given["defaults"]))
    differences = compare_options(options, expected["options"])
    try:
        template = provider.template_node(api.ref.group_id)
    except ProviderError as error:
        return differences if "error" in expected else [*differences, f"no template: {error}"]
    if "node" not in expected:
        return [*differences, f"expected {expected['error']}, got a template"]
    node = expected["node"]
    if template.annotations != node["annotations"]:
        differences.append(f"annotations: expected {node['annotations']}, got {template.annotations}")
    amounts = {kind: _from_zero(node[kind]) for kind in ("capacity", "allocatable")}
    return [*differences, *compare_template(template, {**node, **amounts})]


def _from_zero(amounts: Mapping[str, str]) -> dict[str, str]:
    return {resource: "0" if text.startswith("-") else text for resource, text in amounts.items()}
