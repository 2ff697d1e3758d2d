"""Settings from flags, environment and file."""

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodewright.cli.settings.known_flags import SECTIONS, SETTINGS
from nodewright.cli.settings.load import EXPANDERS, load_settings, parse_expanders
from nodewright.cli.settings.values import SettingKind, write_value
from nodewright.model.errors import ConfigError
from nodewright.model.settings import LimitSettings, LoopSettings, ProviderSettings, ScaleUpSettings, Settings

Flags = Mapping[str, str | Sequence[str]]


def load(flags: Flags | None = None, env: Mapping[str, str] | None = None, text: str | None = None) -> Settings:
    return load_settings(flags or {}, env or {}, text, "conf.yaml")


def refusal(flags: Flags | None = None, env: Mapping[str, str] | None = None, text: str | None = None) -> str:
    with pytest.raises(ConfigError) as caught:
        load(flags, env, text)
    return str(caught.value)


def test_nothing_given_means_defaults() -> None:
    assert load() == load(text="") == load(text="# nothing\n") == Settings()


def test_every_setting_is_named_once_and_survives_its_own_default() -> None:
    assert len(SETTINGS) == sum(len(section.type.__struct_fields__) for section in SECTIONS.values())
    assert load({flag: write_value(setting, setting.default) for flag, setting in SETTINGS.items()}) == Settings()


def test_flag_before_variable_before_file_before_default() -> None:
    env = {"NODEWRIGHT_EXPANDER": "most-pods", "NODEWRIGHT_SCAN_INTERVAL": "20s", "HOME": "/"}
    text = "expander: random\nscan-interval: 30s\nmax-nodes-total: 7\n"
    assert load({"expander": "price"}, env, text) == Settings(
        scale_up=ScaleUpSettings(expander="price"),
        loop=LoopSettings(scan_interval=20.0),
        limits=LimitSettings(max_nodes_total=7),
    )


def test_a_file_may_use_sections_or_flags() -> None:
    sections = "scale-up:\n  expander: price\n  balancing-label: [a, b]\nloop: {scan-interval: 1m30s}\nlimits:\n"
    flat = "expander: price\nbalancing-label: a,b\nscan-interval: 90s\n"
    assert load(text=sections) == load(text=flat)


@pytest.mark.parametrize("text", ["1", "t", "T", "TRUE", "true", "True"])
def test_booleans_are_spelt_as_in_go(text: str) -> None:
    assert load({"force-ds": text}).templates.force_ds
    assert load(env={"NODEWRIGHT_FORCE_DS": text}).templates.force_ds


def test_lists_repeat_or_take_commas_and_replace_weaker_ones() -> None:
    wanted = load({"balancing-label": ("a", "b,c")})
    assert wanted.scale_up.balancing_label == ("a", "b", "c")
    assert load(env={"NODEWRIGHT_BALANCING_LABEL": "a, b c"}) == wanted
    assert load({"balancing-label": ("x",)}, text="balancing-label: [a, b]").scale_up.balancing_label == ("x",)


def test_an_empty_variable_says_nothing() -> None:
    assert load(env={"NODEWRIGHT_EXPANDER": "", "NODEWRIGHT_FORCE_DS": ""}) == Settings()


@pytest.mark.parametrize(
    "variable",
    [
        "NODEWRIGHT_CONFIG",
        "NODEWRIGHT_SERVICE_HOST",
        "NODEWRIGHT_SERVICE_PORT",
        "NODEWRIGHT_SERVICE_PORT_HTTP",
        "NODEWRIGHT_PORT",
        "NODEWRIGHT_PORT_8085_TCP",
        "NODEWRIGHT_PORT_8085_TCP_ADDR",
        "NODEWRIGHT_METRICS_SERVICE_HOST",
        "NODEWRIGHT_METRICS_PORT_80_TCP",
    ],
)
def test_variables_that_kubernetes_sets_are_no_settings(variable: str) -> None:
    assert load(env={variable: "x"}) == Settings()


def test_min_max_is_no_number_in_base_sixty() -> None:
    assert load(text="cores-total: 2:50\nmemory-total: 1:20").limits == LimitSettings(
        cores_total="2:50", memory_total="1:20"
    )


PROVIDERS = """
providers:
  fake:
    options: {groups: [{name: a}]}
    nodes: [1:10:a]
    node-group-auto-discovery: "x:tag=a,b"
    call-timeout: 5s
  other:
"""


def test_providers_by_name() -> None:
    assert load(text=PROVIDERS).providers == {
        "fake": ProviderSettings(
            options={"groups": [{"name": "a"}]},
            nodes=("1:10:a",),
            node_group_auto_discovery=("x:tag=a,b",),
            call_timeout=5.0,
        ),
        "other": ProviderSettings(),
    }


def test_the_short_form_says_one_provider() -> None:
    short = load({"cloud-provider": "fake", "nodes": ("1:10:a,b", "0:5:c"), "node-group-auto-discovery": ("t:x=a,b",)})
    assert short.providers == {
        "fake": ProviderSettings(nodes=("1:10:a,b", "0:5:c"), node_group_auto_discovery=("t:x=a,b",))
    }
    variables = {"NODEWRIGHT_CLOUD_PROVIDER": "fake", "NODEWRIGHT_NODES": "1:10:a,b 0:5:c"}
    assert load(env=variables | {"NODEWRIGHT_NODE_GROUP_AUTO_DISCOVERY": "t:x=a,b"}) == short
    text = "cloud-provider: fake\nnodes: ['1:10:a,b', 0:5:c]\nnode-group-auto-discovery: t:x=a,b"
    assert load(text=text) == short


def test_the_short_form_is_stronger_than_the_entry_and_keeps_the_rest() -> None:
    both = load({"cloud-provider": "fake", "nodes": ("2:3:z",)}, text=PROVIDERS).providers
    assert both["fake"].nodes == ("2:3:z",)
    assert both["fake"].call_timeout == 5.0
    assert "other" in both
    only = "providers: {fake: {call-timeout: 5s}}"
    assert load({"nodes": ("2:3:z",)}, text=only).providers["fake"].nodes == ("2:3:z",)


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        ({"expnder": "x"}, "there is no flag --expnder; did you mean expander?"),
        ({"expander": "pric"}, "--expander: there is no expander 'pric'; did you mean price?"),
        ({"expander": "x"}, f"--expander: there is no expander 'x'; there are {', '.join(EXPANDERS)}"),
        ({"expander": "price,"}, f"--expander: there is no expander ''; there are {', '.join(EXPANDERS)}"),
        ({"expander": "price,price"}, "--expander: the expander price is given twice"),
        ({"expander": "random,price"}, "--expander: price comes after random, which leaves nothing to choose from"),
        ({"expander": ("price", "random")}, "--expander: is given more than once"),
        ({"force-ds": "maybe"}, "--force-ds: must be true or false, not 'maybe'"),
        ({"scan-interval": "10"}, "--scan-interval: '10' is not a duration (like 10s, 1.5m or 1h30m)"),
        ({"scan-interval": "-1s"}, "--scan-interval: must not be negative"),
        ({"max-nodes-total": "x"}, "--max-nodes-total: must be a whole number, not 'x'"),
        ({"max-nodes-total": "-1"}, "--max-nodes-total: must be at least 0, not the number -1"),
        ({"max-nodes-total": "9223372036854775808"}, "--max-nodes-total: the number is too large"),
        ({"memory-difference-ratio": "1_0"}, "--memory-difference-ratio: must be a number, not '1_0'"),
        ({"memory-difference-ratio": "1.5"}, "--memory-difference-ratio: must be at most 1.0, not the number 1.5"),
        ({"memory-difference-ratio": "1e999"}, "--memory-difference-ratio: must be a finite number, not inf"),
        ({"cores-total": "5"}, "--cores-total: '5' is not of the form min:max"),
        ({"memory-total": "7:5"}, "--memory-total: '7:5': the minimum is greater than the maximum"),
        ({"gpu-total": ("t4:5",)}, "--gpu-total: 't4:5' is not of the form type:min:max"),
        ({"nodes": ("3:1:a",), "cloud-provider": "x"}, "--nodes: '3:1:a': the minimum is greater than the maximum"),
        ({"nodes": ("1:3:a",)}, "--nodes: of which provider? Give --cloud-provider"),
        (
            {"cloud-provider": "Fake"},
            "--cloud-provider: 'Fake' is not a provider's name (lower case, digits and dashes)",
        ),
        (
            {"bypassed-scheduler-names": "a,b", "allowed-scheduler-names": "b"},
            "--bypassed-scheduler-names: a is not among allowed-scheduler-names",
        ),
        (
            {"interruption-signal": ("taint:a=gone",)},
            (
                "--interruption-signal: 'taint:a=gone' is not taint:KEY=KIND or condition:TYPE=KIND; kinds are reclaim, "
                "rebalance, maintenance, unhealthy"
            ),
        ),
    ],
)
def test_a_wrong_flag_is_one_sentence(flags: Flags, sentence: str) -> None:
    assert refusal(flags) == sentence


def test_a_wrong_variable_is_one_sentence() -> None:
    assert refusal(env={"NODEWRIGHT_EXPANDR": "x"}) == (
        "there is no setting for NODEWRIGHT_EXPANDR; did you mean NODEWRIGHT_EXPANDER?"
    )
    assert refusal(env={"NODEWRIGHT_FORCE_DS": "x"}) == "NODEWRIGHT_FORCE_DS: must be true or false, not 'x'"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("expandr: price", "conf.yaml: there is no setting expandr; did you mean expander?"),
        ("scaleup: {}", "conf.yaml: there is no setting scaleup; did you mean scale-up?"),
        ("scale-up: {expandr: price}", "conf.yaml: scale-up: there is no setting expandr; did you mean expander?"),
        ("loop: {force-ds: true}", "conf.yaml: loop: there is no setting force-ds; it belongs in templates"),
        ("loop: 3", "conf.yaml: loop: must be a mapping, not the number 3"),
        ("loop: {scan-interval: 30}", "conf.yaml: loop.scan-interval: 30 lacks a unit, as in 30s"),
        ("scan-interval: true", "conf.yaml: scan-interval: must be a duration like 10m or 1h30m, not the boolean true"),
        ("scan-interval:", "conf.yaml: scan-interval: has no value"),
        ("force-ds: 3", "conf.yaml: force-ds: must be true or false, not the number 3"),
        ("max-nodes-total: '3'", "conf.yaml: max-nodes-total: must be a whole number, not '3'"),
        ("memory-difference-ratio: .nan", "conf.yaml: memory-difference-ratio: must be a finite number, not nan"),
        ("balancing-label: [a, 3]", "conf.yaml: balancing-label: [1]: must be a string, not the number 3 (quote it)"),
        (
            "scale-up: {expander: price}\nexpander: random",
            "conf.yaml: expander: given twice, also as conf.yaml: scale-up.expander",
        ),
        ("expander: price\nexpander: random", "conf.yaml line 2: the key expander is given twice"),
        ("- a", "conf.yaml: must be a mapping of settings, not a list"),
        ("a: 1\n---\nb: 1", "conf.yaml: holds 2 YAML documents, not one"),
        ("1: 2", "conf.yaml line 1: the key 1 must be a string here: quote it"),
        ("a: [", "conf.yaml line 2: did not find expected node content"),
        ("providers: [fake]", "conf.yaml: providers: must map providers' names to their settings, not be a list"),
        ("providers: {A: }", "conf.yaml: providers.A: 'A' is not a provider's name (lower case, digits and dashes)"),
        ("providers: {a: {node: []}}", "conf.yaml: providers.a: there is no setting node; did you mean nodes?"),
        (
            "providers: {a: {nodes: [3:1:g]}}",
            "conf.yaml: providers.a.nodes: '3:1:g': the minimum is greater than the maximum",
        ),
        ("providers: {a: {options: 3}}", "conf.yaml: providers.a.options: must be a mapping, not the number 3"),
        ("providers: {a: {call-timeout: 3}}", "conf.yaml: providers.a.call-timeout: 3 lacks a unit, as in 3s"),
    ],
)
def test_a_wrong_file_is_one_sentence(text: str, sentence: str) -> None:
    assert refusal(text=text) == sentence


def test_chains_of_expanders() -> None:
    assert parse_expanders("least-waste,price,random") == ("least-waste", "price", "random")


@given(st.dictionaries(st.sampled_from(sorted(SETTINGS)), st.text(max_size=12)), st.text(max_size=40))
def test_any_text_is_a_setting_or_refused(flags: dict[str, str], text: str) -> None:
    layers: list[tuple[Flags, Mapping[str, str], str | None]] = [
        (flags, {}, None),
        ({}, {"NODEWRIGHT_" + text: text}, None),
        ({}, {}, text),
    ]
    for layer in layers:
        message = ""
        try:
            assert isinstance(load(*layer), Settings)
        except ConfigError as error:
            message = str(error)
        assert not message or message.isprintable()


def test_kinds_of_settings() -> None:
    assert SETTINGS["scan-interval"].kind is SettingKind.DURATION
    assert SETTINGS["memory-difference-ratio"].kind is SettingKind.NUMBER
    assert SETTINGS["startup-taint"].kind is SettingKind.LIST


def test_a_choice_names_what_there_is() -> None:
    with pytest.raises(ConfigError, match="--size-correction: must be one of prompt, ca, seed, not 'promt'; did you"):
        load({"size-correction": "promt"})


def test_the_profile_ca_implies_its_correction() -> None:
    assert load({}).policy.rule == "prompt"
    assert load({"size-correction": "seed"}).policy.rule == "seed"
    assert load({"profile": "ca"}).policy.rule == "ca"
    assert load({"profile": "ca", "size-correction": "ca"}).policy.rule == "ca"


def test_a_provision_time_may_be_learned() -> None:
    flag = {"max-node-provision-time": "auto"}
    for failures in (load(flag).failures, load(text="max-node-provision-time: auto").failures):
        assert failures.learns_provision_time
        assert failures.ordinary_provision_seconds == 900.0
    assert load({"max-node-provision-time": "7m"}).failures.ordinary_provision_seconds == 420.0
    assert not load().failures.learns_provision_time
    assert SETTINGS["max-node-provision-time"].metavar == "DURATION|auto"


def test_what_is_neither_a_duration_nor_auto_is_refused() -> None:
    said = refusal({"max-node-provision-time": "atuo"})
    assert said == "--max-node-provision-time: 'atuo' is not a duration (like 10s, 1.5m or 1h30m) nor auto"
    assert "negative" in refusal({"max-node-provision-time": "-1s"})
    assert "'auto' is not a duration" in refusal({"scan-interval": "auto"})


def test_the_bounds_of_what_is_learned_are_in_order() -> None:
    said = refusal({"min-learned-provision-time": "1h"})
    assert said == "--min-learned-provision-time: a learned provision time cannot be at least 1h and at most 30m"


def test_the_bounds_of_a_backoff_are_in_order() -> None:
    said = refusal({"initial-node-group-backoff-duration": "1h", "max-node-group-backoff-duration": "10m"})
    assert said == "--initial-node-group-backoff-duration: a backoff cannot be at least 1h and at most 10m"


def test_what_a_profile_or_rule_switches_off_cannot_be_asked_for() -> None:
    assert (
        refusal({"profile": "ca", "size-correction": "prompt"}) == "--size-correction: --profile decides by the rule ca"
    )
    assert load({"profile": "ca", "size-correction": "ca"}).policy.rule == "ca"
    for flags in ({"size-correction": "seed"}, {"profile": "ca"}):
        (other,) = flags
        said = refusal({**flags, "probe-after-backoff": "true"})
        assert said == f"--probe-after-backoff: no group is probed under --{other}"
        assert refusal({**flags, "hedging": "on"}) == f"--hedging: no machine is bought twice under --{other}"


def test_probing_is_off_wherever_ca_decides() -> None:
    assert load().policy.probes_after_backoff
    for flags in ({"probe-after-backoff": "false"}, {"size-correction": "seed"}, {"profile": "ca"}):
        assert not load(flags).policy.probes_after_backoff


def test_hedging_is_on_where_provision_times_are_learned() -> None:
    auto = {"max-node-provision-time": "auto"}
    assert [load(flags).policy.hedges for flags in ({}, auto, {"hedging": "on"}, {**auto, "hedging": "off"})] == [
        False,
        True,
        True,
        False,
    ]
    assert not load({**auto, "size-correction": "seed"}).policy.hedges
    assert not load({**auto, "profile": "ca"}).policy.hedges


@pytest.mark.parametrize(("text", "most"), [("10%", [2, 2, 10]), ("3", [3, 3, 3]), ("0", [0, 0, 0]), ("0%", [0, 0, 0])])
def test_what_may_be_bought_twice_is_a_number_or_a_share(text: str, most: list[int]) -> None:
    failures = load({"max-hedged-nodes": text}).failures
    assert [failures.most_hedged(nodes) for nodes in (0, 29, 100)] == most
    assert "max-hedged-nodes" in refusal({"max-hedged-nodes": "10 percent"})


def test_drain_priorities_are_read_at_start() -> None:
    assert load_settings({"drain-priority-config": "1000:60,0:30"}, {}).drain.drain_priority_config == "1000:60,0:30"
    assert refusal({"drain-priority-config": "high:60"}) == (
        "--drain-priority-config: 'high:60' is not of the form priority:seconds"
    )
    assert refusal({"drain-priority-config": "0:60,0:30"}) == "--drain-priority-config: the priority 0 is given twice"


def test_how_long_evicted_pods_get_is_said_once() -> None:
    said = refusal({"drain-priority-config": "0:60", "max-graceful-termination-sec": "30"})
    assert said.startswith("--drain-priority-config: cannot be given together with --max-graceful-termination-sec")


def test_an_empty_word_among_the_choices_is_shown() -> None:
    with pytest.raises(ConfigError, match="must be one of '', debug, info"):
        load_settings({"log-level": "loud"}, {})
