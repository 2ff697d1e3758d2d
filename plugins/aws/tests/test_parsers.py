"""The parsers of texts that users and AWS write, beside the grammars that they are documented to have."""

import json
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from nodewright.spec import ConfigError, Quantity
from nodewright_aws.buckets import vcpu_limit
from nodewright_aws.bundled_types import bundled_type
from nodewright_aws.discovery import make_filters, parse_discovery
from nodewright_aws.errors import classify_launch
from nodewright_aws.shapes import Activity, Tag
from nodewright_aws.tags import label_tag, labels_of, resources_of, taint_tag, taints_of

_KEYS = st.from_regex(r"([a-z][a-z0-9.-]{0,10}/)?[A-Za-z0-9][-_.A-Za-z0-9]{0,10}", fullmatch=True)
_VALUES = st.from_regex(r"[A-Za-z0-9]([-_.A-Za-z0-9]{0,10}[A-Za-z0-9])?", fullmatch=True)
_PREFIX = "k8s.io/cluster-autoscaler/node-template/"


@given(st.dictionaries(_KEYS, st.one_of(st.just(""), _VALUES), min_size=1, max_size=5))
def test_a_discovery_is_read_back(tags: dict[str, str]) -> None:
    text = ",".join(f"{key}={value}" if value else key for key, value in tags.items())
    assert parse_discovery(f"asg:tag={text}") == tags
    assert len(make_filters(tags)) == len(tags)


@given(st.text())
def test_any_other_discovery_is_refused_in_one_sentence(text: str) -> None:
    for flag in (text, f"asg:{text}"):
        said = _refusal(flag)
        assert said == "" or said.startswith("--node-group-auto-discovery: ")
        assert "\n" not in said


@given(st.dictionaries(_KEYS, _VALUES, max_size=4))
def test_labels_and_taints_are_read_back_from_tags(pairs: dict[str, str]) -> None:
    assert labels_of([label_tag(key, value) for key, value in pairs.items()]) == pairs
    taints = taints_of(Tag(key=f"{_PREFIX}taint/{key}", value=f"{value}:NoExecute") for key, value in pairs.items())
    assert {one.key: one.value for one in taints} == pairs
    assert taints_of([taint_tag(one) for one in taints]) == taints


@given(st.text(), st.text())
def test_any_tag_is_read_or_ignored(name: str, value: str) -> None:
    for part in ("label/", "taint/", "resources/", ""):
        tag = Tag(key=f"{_PREFIX}{part}{name}", value=value)
        assert "" not in labels_of([tag])
        taints_of([tag])
        assert all(isinstance(one, Quantity) for one in resources_of({tag.key: value}).values())


@given(st.text())
def test_details_of_an_activity_never_crash(details: str) -> None:
    """AWS documents no schema for them."""
    for text in (details, json.dumps(details), json.dumps({"Availability Zone": details})):
        one = Activity(activity_id="a", status_code="Failed", start_time=datetime.fromtimestamp(0, UTC), details=text)
        assert one.zone in ("", details) or text == details


@given(st.text())
def test_any_message_of_a_failed_launch_has_a_class(message: str) -> None:
    assert classify_launch(message)[2]


@given(st.text(max_size=20))
def test_any_name_of_an_instance_type_is_known_or_not(name: str) -> None:
    vcpu_limit(name)
    found = bundled_type(name)
    assert found is None or found.instance_type == name


def _refusal(flag: str) -> str:
    """Return why a flag is refused; "": it is not."""
    try:
        parse_discovery(flag)
    except ConfigError as error:
        return str(error)
    return ""
