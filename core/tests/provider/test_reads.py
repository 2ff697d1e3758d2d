"""Reads are repeated after temporary errors, checked, measured, and absent if not supported."""

import math
import re
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from nodewright.adapters.provider import InlineRunner, ProviderClient, checks, connect_provider
from nodewright.adapters.provider.checks import failures, group_options, verdict
from nodewright.cli.connect import find_misspelt
from nodewright.model.errors import (
    BadAnswer,
    ContractViolation,
    NodeGroupNotFound,
    ProviderError,
    ProviderUnavailable,
    Throttled,
)
from nodewright.model.group import GroupRef
from nodewright.spec import (
    Capability,
    ErrorClass,
    FailedInstance,
    GroupOptions,
    Instance,
    MachineType,
    NodeGroup,
    Price,
    ProvisioningVerdict,
    hookimpl,
)
from nodewright.testkit import build_group, build_template


def failing(error: Exception) -> Callable[[], Any]:
    def act() -> Any:
        raise error

    return act


def test_a_throttled_read_waits_as_long_as_the_cloud_asks(client: ProviderClient, scripted: Any, clock: Any) -> None:
    scripted.script["target_size"] = [failing(Throttled(retry_after=7)), failing(Throttled(retry_after=9))]
    assert client.target_size("g") == 2
    assert clock.now() == 16
    assert client.stats()["target_size"].calls == 3
    assert client.stats()["target_size"].errors == 2


def test_retries_end(client: ProviderClient, scripted: Any, clock: Any) -> None:
    scripted.script["target_size"] = [failing(ProviderUnavailable("down"))] * 99
    with pytest.raises(ProviderUnavailable, match="down"):
        client.target_size("g")
    assert len(scripted.calls) == 4
    assert clock.now() == 1 + 2 + 4


def test_no_wait_goes_past_the_deadline(client: ProviderClient, scripted: Any, clock: Any) -> None:
    scripted.script["target_size"] = [failing(Throttled(retry_after=3600))]
    with pytest.raises(Throttled):
        client.target_size("g")
    assert clock.now() == 0


def test_a_hanging_read_ends_at_its_deadline_and_is_not_retried(
    client: ProviderClient, scripted: Any, clock: Any
) -> None:
    scripted.script["instances"] = [lambda: clock.sleep(1e9)]
    with pytest.raises(ProviderUnavailable, match="did not answer instances") as caught:
        client.instances("g")
    assert clock.now() == client.deadline_seconds
    assert (caught.value.provider, caught.value.group_id) == ("scripted", "g")
    assert client.stats()["instances"].seconds == client.deadline_seconds


HALF = "half \ud83d of it"


def test_what_a_cloud_says_can_be_saved_and_sent(client: ProviderClient, scripted: Any) -> None:
    """JSON may hold half a character: it would end the loop when its message is logged, told and remembered."""
    scripted.script["target_size"] = [failing(ProviderError(HALF, code=HALF)), failing(KeyError(HALF))]
    for _ in range(2):
        with pytest.raises(ProviderError) as caught:
            client.target_size("g")
        msgspec.json.encode([str(caught.value), caught.value.code])
    [failure] = failures([FailedInstance(failure_id="f", error_class=ErrorClass.OTHER, code=HALF, message=HALF)])
    assert (failure.code, failure.message) == ("half ? of it", "half ? of it")
    scripted.script["instances"] = [lambda: [Instance(id=HALF)]]
    with pytest.raises(BadAnswer, match="not a text"):
        client.instances("g")


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("POST https://me:hunter2@cloud/api failed", "POST https://***@cloud/api failed"),
        (
            "GET /v1?a=1&access_token=abc&X-Amz-Signature=de:ad&n=2",
            "GET /v1?a=1&access_token=***&X-Amz-Signature=***&n=2",
        ),
        ("/blob?sv=1&sig=a%2Fb client_secret='x'", "/blob?sv=1&sig=*** client_secret='***'"),
        ("header Authorization: Bearer abc.def, retry", "header Authorization: Bearer ***, retry"),
        ("{'authorization': 'bearer abc'}", "{'authorization': 'bearer ***'}"),
        ('{"password": "hunter2", "zone": "a"}', '{"password": "***", "zone": "a"}'),
        ("ExpiredToken: the security token is expired", "ExpiredToken: the security token is expired"),
        ("no token is left; sign in at https://cloud/login", "no token is left; sign in at https://cloud/login"),
        ("zone=a signals=3 https://a/b@c", "zone=a signals=3 https://a/b@c"),
    ],
)
def test_no_secret_leaves_with_an_error(client: ProviderClient, scripted: Any, said: str, told: str) -> None:
    """It goes into the log, into events and into the status ConfigMap."""
    scripted.script["target_size"] = [failing(ProviderError(said)), failing(OSError(said))]
    for whole in (told, f"scripted raised OSError in target_size: {told}"):
        with pytest.raises(ProviderError) as caught:
            client.target_size("g")
        assert str(caught.value) == whole
    [failure] = failures([FailedInstance(failure_id="f", error_class=ErrorClass.OTHER, code="C", message=said)])
    assert failure.message == told


def test_a_foreign_error_is_translated_with_its_cause(client: ProviderClient, scripted: Any) -> None:
    scripted.script["target_size"] = [failing(KeyError("desired"))]
    with pytest.raises(ProviderError, match="scripted raised KeyError in target_size") as caught:
        client.target_size("g")
    assert isinstance(caught.value.__cause__, KeyError)
    assert caught.value.group_id == "g"


@pytest.mark.parametrize(
    ("hook", "answer", "words"),
    [
        ("target_size", None, "answered None"),
        ("target_size", True, "True, not a whole number"),
        ("target_size", -1, "-1, a negative number"),
        ("target_size", "2", "'2', not a whole number"),
        ("instances", [Instance(id="x"), Instance(id="x")], "the instance id x twice"),
        ("instances", [Instance(id="")], "not a non-empty string"),
        ("instances", ["x"], "'x', not an Instance"),
        ("instances", "x", "not a sequence of Instance"),
        ("node_groups", [build_group("a"), build_group("a")], "the group id a twice"),
        ("node_groups", [NodeGroup(id="a", min_size=3, max_size=2)], "minimum 3 above maximum 2"),
        ("template_node", replace(build_template(), allocatable={}), "a template without cpu"),
        ("template_node", "x" * 500, "..., not a NodeTemplate"),
    ],
)
def test_answers_that_break_the_contract_are_refused(
    client: ProviderClient, scripted: Any, hook: str, answer: Any, words: str
) -> None:
    scripted.script[hook] = [lambda: answer]
    arguments = () if hook == "node_groups" else ("g",)
    with pytest.raises(BadAnswer) as caught:
        getattr(client, hook)(*arguments)
    assert words in str(caught.value)
    assert f"plugin scripted: hook {hook}" in str(caught.value)
    assert isinstance(caught.value, ContractViolation)
    assert len(str(caught.value)) < 250


def test_what_is_not_supported_is_not_nothing(client: ProviderClient) -> None:
    defaults = GroupOptions(max_node_provision_seconds=5)
    assert client.failed_instances("g") is None
    assert client.node_price("g") is None
    assert client.gpu_label() is None
    assert client.group_options("g", defaults) == defaults
    with pytest.raises(ProviderError, match="does not support atomic_resize") as caught:
        client.atomic_increase_size("g", 2, 3)
    assert caught.value.code == "notSupported"


def test_group_options_are_plain_numbers_whatever_a_plugin_counts_in() -> None:
    class Minutes(float):
        pass

    found = group_options(GroupOptions(max_node_provision_seconds=Minutes(720)))
    assert type(found.max_node_provision_seconds) is float
    assert found.max_node_provision_seconds == 720


GOOD = Price(per_hour=1, source="a list", currency="EUR", as_of=5)


def test_a_price_is_kept_as_it_was_stated() -> None:
    assert checks.price(GOOD) == GOOD
    assert type(checks.price(GOOD).per_hour) is float


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (0.5, "0.5, not a Price"),
        (replace(GOOD, per_hour=-0.1), "a price of -0.1, not a finite number of at least 0"),
        (replace(GOOD, per_hour=math.inf), "a price of inf, not a finite number"),
        (replace(GOOD, per_hour=math.nan), "a price of nan, not a finite number"),
        (replace(GOOD, per_hour="1"), "a price of '1', not a number"),
        (replace(GOOD, per_hour=True), "a price of True, not a number"),
        (replace(GOOD, currency="dollars"), "a price in 'dollars', not a currency's code such as USD"),
        (replace(GOOD, as_of=math.inf), "a price as of inf, not a moment"),
        (replace(GOOD, source=""), "'', not a non-empty string"),
    ],
)
def test_a_price_that_makes_no_sense_is_refused(bad: Any, words: str) -> None:
    with pytest.raises(checks.Unfit, match=re.escape(words)):
        checks.price(bad)
    with pytest.raises(checks.Unfit, match=re.escape(words)):
        checks.machine_types([MachineType(name="m", template=build_template(), price=bad)])


def test_a_capability_can_be_switched_off_for_one_group(scripted: Any, clock: Any) -> None:
    class WithFailures(type(scripted)):  # type: ignore[misc]  # the fixture's class has no other name here
        @hookimpl
        def failed_instances(self, group_id: str) -> Any:
            return [] if group_id else None

    plugin = WithFailures()
    fast = Capability.FAST_FAILURE_DETECTION
    plugin.info = replace(plugin.info, capabilities=frozenset({fast}))
    client = connect_provider("scripted", plugin, clock=clock, runner=InlineRunner(clock))
    assert client.failed_instances("g") == ()
    group = NodeGroup(id="g", min_size=0, max_size=9, switched_off={fast: "no permission"})
    plugin.script["node_groups"] = [lambda: [group]]
    client.node_groups()
    assert client.failed_instances("g") is None
    assert client.failed_instances("other") == ()
    assert client.capabilities(group) == frozenset()


@pytest.mark.parametrize(
    "fields", [{"scope": ["zone"]}, {"error_class": "bad"}, {"code": None}, {"message": 7}, {"instance_id": 5}]
)
def test_failures_with_values_of_another_kind_are_refused(scripted: Any, clock: Any, fields: dict[str, Any]) -> None:
    class WithFailures(type(scripted)):  # type: ignore[misc]
        @hookimpl
        def failed_instances(self, group_id: str) -> Any:
            return [FailedInstance(failure_id=group_id, **fields)]

    plugin = WithFailures()
    plugin.info = replace(plugin.info, capabilities=frozenset({Capability.FAST_FAILURE_DETECTION}))
    client = connect_provider("scripted", plugin, clock=clock, runner=InlineRunner(clock))
    with pytest.raises(BadAnswer, match="failed_instances"):
        client.failed_instances("g")


def test_a_provider_may_ignore_the_case_of_ids(scripted: Any, clock: Any) -> None:
    scripted.info = replace(scripted.info, ignores_id_case=True)
    scripted.ids = ["VM-1", "vm-1"]
    client = connect_provider("scripted", scripted, clock=clock, runner=InlineRunner(clock))
    with pytest.raises(BadAnswer, match="vm-1 twice"):
        client.instances("g")


@pytest.mark.parametrize("reason", ["", "too large", "9lives", "so-"])
def test_a_verdict_must_fit_a_condition(reason: str) -> None:
    fits = ProvisioningVerdict(accepted=True, reason="In_Progress2")
    assert verdict(fits) is fits
    with pytest.raises(ValueError, match=r"reason|empty"):
        verdict(replace(fits, reason=reason))


class Lowered(str):
    """The id of a group, which counts how often it is lowered."""

    __slots__ = ("times",)

    def __init__(self, _: str) -> None:
        self.times = 0

    def lower(self) -> str:
        self.times += 1
        return super().lower()


def test_ids_are_compared_with_nodes_flags_once_per_listing(client: ProviderClient, scripted: Any) -> None:
    ids = [Lowered("Workers"), Lowered("https://cloud.example/zones/a/groups/POOL"), Lowered("c")]
    scripted.script["node_groups"] = [lambda: [NodeGroup(id=one, min_size=0, max_size=9) for one in ids]]
    client.demand_limits(("0:9:workers", "0:9:pool", "0:9:c", "0:8:gone", "0:7:gone-too"))
    client.node_groups()
    assert client.unlisted == ("gone", "gone-too")
    assert max(one.times for one in ids) == 1
    assert client.named == {"workers": (ids[0],), "pool": (ids[1],), "c": ("c",), "gone": (), "gone-too": ()}


@pytest.mark.parametrize("misspelt", ["gg", "xg", "g-1", "g/1"])
def test_a_name_with_something_more_is_another_name(client: ProviderClient, misspelt: str) -> None:
    client.demand_limits((f"0:8:{misspelt}",))
    client.node_groups()
    assert client.unlisted == (misspelt,)


def test_a_group_that_is_listed_for_the_flag_alone_does_not_exist(client: ProviderClient, scripted: Any) -> None:
    client.demand_limits(("0:9:g",))
    scripted.script["target_size"] = [failing(NodeGroupNotFound("no pool g in west-1"))]
    assert [*find_misspelt([client], ())] == ["--nodes: provider scripted has no group g: no pool g in west-1"]


def test_a_group_that_existed_once_may_be_gone(client: ProviderClient, scripted: Any) -> None:
    client.demand_limits(("0:9:g", "0:8:Zone/Lost"))
    g, lost = (GroupRef("scripted", one) for one in ("g", "zone/lost"))
    scripted.script["target_size"] = [failing(NodeGroupNotFound("no pool g"))]
    assert [*find_misspelt([client], {g, lost})] == []
    for by_id in ("lost", "//cloud/zone/lost"):
        assert [*find_misspelt([client], {GroupRef("scripted", by_id)})] == []
    for other in (g, GroupRef("other", "zone/lost"), GroupRef("scripted", "ost"), GroupRef("scripted", "ozone/lost")):
        [said] = find_misspelt([client], {other})
        assert said.endswith("lists no group Zone/Lost, nor another with its limits; it lists g")


@pytest.mark.parametrize("hook", ["refresh", "node_groups", "target_size"])
def test_of_a_cloud_that_cannot_be_read_at_a_start_nothing_is_said(
    client: ProviderClient, scripted: Any, hook: str
) -> None:
    client.demand_limits(("0:9:g",))
    scripted.script[hook] = [failing(ProviderUnavailable("down"))] * 99
    assert [*find_misspelt([client], ())] == []


def test_the_names_whose_groups_are_known(client: ProviderClient) -> None:
    """A group that is listed for the flag alone may not exist; one with the limits of the flag may have another id."""
    client.demand_limits(("0:9:g", "0:8:lost"))
    client.node_groups()
    assert client.names_of({"g"}) == {"g"}
    assert client.names_of(()) == frozenset()
    client.demand_limits(("0:9:alias",))
    client.node_groups()
    assert client.names_of(()) == {"alias"}
