"""The parsers of texts that users and Azure write, beside the grammars that they are documented to have."""

from hypothesis import given
from hypothesis import strategies as st

from nodewright.spec import ConfigError, Quantity
from nodewright_azure.agent_pools import split_name
from nodewright_azure.discovery import Limits, Selection, parse_discovery
from nodewright_azure.machines import find_failure
from nodewright_azure.shapes import Machine, Status
from nodewright_azure.tags import labels_of, resources_of, taints_of

_PREFIX = "k8s.io_cluster-autoscaler_node-template_"
_KEYS = st.from_regex(r"([a-z][a-z0-9.-]{0,10}/)?[A-Za-z0-9][-_.A-Za-z0-9]{0,10}", fullmatch=True)
_VALUES = st.from_regex(r"[A-Za-z0-9]([-_.A-Za-z0-9]{0,10}[A-Za-z0-9])?", fullmatch=True)
_TAGS = st.dictionaries(_VALUES.filter(lambda name: name not in ("min", "max")), _VALUES, min_size=1, max_size=4)


def _encoded(key: str) -> str:
    """As users write a key in the name of a tag, where slashes are forbidden."""
    return key.replace("_", "~2").replace("/", "_")


@given(st.dictionaries(_KEYS, _VALUES, max_size=4))
def test_labels_are_read_back_from_the_names_of_tags(labels: dict[str, str]) -> None:
    assert labels_of({f"{_PREFIX}label_{_encoded(key)}": value for key, value in labels.items()}) == labels


@given(st.dictionaries(_KEYS, st.tuples(_VALUES, st.sampled_from(["NoSchedule", "NoExecute", "PreferNoSchedule"]))))
def test_taints_are_read_back(taints: dict[str, tuple[str, str]]) -> None:
    told = {f"{_PREFIX}taint_{_encoded(key)}": ":".join(parts) for key, parts in taints.items()}
    assert {one.key: (one.value, one.effect) for one in taints_of(told)} == taints


@given(st.text(), st.text())
def test_any_tag_is_read_or_ignored(name: str, value: str) -> None:
    for part in ("label_", "taint_", "resources_", ""):
        told = {f"{_PREFIX}{part}{name}": value}
        assert "" not in labels_of(told)
        taints_of(told)
        assert all(isinstance(one, Quantity) for one in resources_of(told).values())


@given(_TAGS, st.integers(0, 999), st.integers(0, 999))
def test_a_discovery_selects_the_sets_that_carry_its_tags(tags: dict[str, str], one: int, other: int) -> None:
    low, high = sorted((one, other))
    pairs = [f"{key}={value}" for key, value in tags.items()]
    found = parse_discovery(f"label:{','.join([*pairs, f'min={low}', f'max={high}'])}")
    selection = Selection(discoveries=(found,))
    assert selection.limits({**tags, "more": "x"}) == Limits(min_size=low, max_size=high)
    assert selection.limits({key: f"{value}x" for key, value in tags.items()}) is None
    assert selection.limits({**tags, "min": "0"}) == Limits(min_size=0, max_size=high)


@given(st.text())
def test_any_other_discovery_is_refused_in_one_sentence(text: str) -> None:
    for flag in (text, f"label:{text}"):
        said = _refusal(flag)
        assert said == "" or said.startswith("--node-group-auto-discovery: ")
        assert "\n" not in said


@given(st.text(), st.text())
def test_a_vm_pool_has_one_slash(pool: str, size: str) -> None:
    found = split_name(f"{pool}/{size}")
    assert found is None or f"{found[0]}/{found[1]}" == f"{pool}/{size}"
    if pool and size and "/" not in pool + size:
        assert found == (pool, size)


@given(_VALUES, _VALUES, st.integers(0, 999))
def test_a_provider_id_ignores_the_case_of_the_resource_group_alone(group: str, name: str, number: int) -> None:
    place = "/providers/Microsoft.Compute/virtualMachineScaleSets/"
    machine = Machine(id=f"/subscriptions/S/resourceGroups/{group}{place}{name}/virtualMachines/{number}")
    expected = f"azure:///subscriptions/S/resourceGroups/{group.lower()}{place}{name}/virtualMachines/{number}"
    assert machine.provider_id == expected
    assert machine.number == str(number)


@given(st.text())
def test_a_reason_follows_the_state(code: str) -> None:
    found = find_failure([Status(code=f"ProvisioningState/failed/{code}")])
    assert (found.code if found is not None else "") == code
    assert find_failure([Status(code=code or None)]) is None or code.lower().startswith("provisioningstate/failed/")


def _refusal(flag: str) -> str:
    """Return why a flag is refused; "": it is not."""
    try:
        parse_discovery(flag)
    except ConfigError as error:
        return str(error)
    return ""
