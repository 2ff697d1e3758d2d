"""The parsers of texts that users and Compute Engine write, beside the grammars that they are documented to have."""

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from nodewright.spec import ConfigError, ProviderError
from nodewright.spec.cache import attempt
from nodewright_gce.discovery import parse_discovery
from nodewright_gce.kube_env import loose_pairs, parse_kube_env, parse_pairs
from nodewright_gce.refs import Ref, parse_group_url, parse_instance_url, parse_template_url
from nodewright_gce.template import is_custom, parse_custom

_NAMES = st.from_regex(r"[a-z][-a-z0-9]{0,20}[a-z0-9]", fullmatch=True)
_ZONES = st.from_regex(r"[a-z]{2,8}-[a-z]{4,9}[1-9]-[a-f]", fullmatch=True)
_WORDS = st.text(st.characters(codec="ascii", categories=("L", "N"), include_characters="-._/:@ "), max_size=12)


@given(_NAMES, _ZONES, _NAMES)
def test_a_group_is_named_by_its_url(project: str, zone: str, name: str) -> None:
    ref = Ref(project, zone, name)
    assert parse_group_url(ref.group_id) == ref
    elsewhere = ref.group_id.replace("www.googleapis.com", "compute.private.example")
    assert parse_group_url(elsewhere) == ref


@given(st.text())
def test_any_other_text_is_refused_in_one_sentence(text: str) -> None:
    for parse in (parse_group_url, parse_discovery):
        with pytest.raises(ConfigError) as raised:
            parse(text)
        assert "\n" not in str(raised.value).replace(text, "")


@given(st.text())
def test_urls_of_the_api_never_crash(text: str) -> None:
    parse_instance_url(text)
    parse_template_url(text, "proj")


@given(_NAMES, st.integers(0, 99), st.integers(0, 900))
def test_a_discovery_is_read_in_any_order(prefix: str, low: int, more: int) -> None:
    high = max(1, low + more)
    parts = [f"namePrefix={prefix}", f"min={low}", f"max={high}"]
    found = {repr(parse_discovery(f"mig:{','.join(order)}")) for order in (parts, parts[::-1])}
    assert len(found) == 1
    one = parse_discovery(f"mig:{','.join(parts)}")
    assert (one.prefix, one.min_size, one.max_size) == (prefix, low, high)
    assert one.fits(f"{prefix}x")
    assert not one.fits(prefix)


@given(st.dictionaries(_WORDS, st.text(st.characters(exclude_characters=","), max_size=12), max_size=5))
def test_pairs_are_read_back(pairs: dict[str, str]) -> None:
    text = ",".join(f"{key}={value}" for key, value in pairs.items())
    assert parse_pairs(text, "labels") == pairs
    assert loose_pairs(text) == pairs


@given(
    st.dictionaries(
        st.sampled_from(["node_labels", "node_taints", "kube_reserved", "os", "os_distribution", "arch", "unknown"]),
        st.text(st.characters(codec="ascii", categories=("L", "N"), include_characters="=,.:/-"), max_size=20),
    )
)
def test_variables_of_kube_env_are_read_back(variables: dict[str, str]) -> None:
    text = ";".join(f"{name}={value}" for name, value in variables.items())
    env = parse_kube_env(yaml.safe_dump({"AUTOSCALER_ENV_VARS": text, "KUBELET_KEY": "c2VjcmV0"}))
    assert env.variables == {name: value for name, value in variables.items() if name != "unknown"}
    assert not env.is_truncated


@given(st.text())
def test_a_kube_env_is_read_or_refused_without_its_text(text: str) -> None:
    said = ""
    try:
        parse_kube_env(f"SECRET: hunter2\n{text}")
    except ValueError as error:
        said = str(error)
    assert "hunter2" not in said
    assert said == "" or said.startswith("its kube-env is not ")


@pytest.mark.parametrize("null", ["~", "null", "Null", "NULL", ""])
def test_null_is_an_empty_text(null: str) -> None:
    """As Go reads it into a map of strings; a quoted one is a text."""
    env = parse_kube_env(f"AUTOSCALER_ENV_VARS: {null}\nNODE_LABELS: {null}\nNODE_TAINTS: '{null}'\n")
    assert (env.variables, env.is_truncated) == ({}, False)
    assert (env.old_labels, env.old_taints) == ("", null)


@given(
    st.sampled_from(["", "n1-", "n2-", "n2d-", "e2-", "c3-"]), st.integers(1, 224), st.integers(1, 10**6), st.booleans()
)
def test_custom_machine_types_are_in_their_names(family: str, cpus: int, memory: int, extended: bool) -> None:
    name = f"{family}custom-{cpus}-{memory}{'-ext' if extended else ''}"
    assert is_custom(name)
    machine = parse_custom(name)
    assert (machine.guest_cpus, machine.memory_mb) == (cpus, memory)


@given(st.text(max_size=20))
def test_any_other_custom_name_is_an_error(text: str) -> None:
    name = f"custom-{text}"
    found = attempt(lambda: parse_custom(name))
    if isinstance(found, ProviderError):
        assert found.code == "unknownType"
    else:
        assert name.startswith(f"custom-{found.guest_cpus}-") or name.removeprefix("custom-")[:1] in "+-0"
