"""Which runs a sweep has, how variants are compared, and that interrupted sweeps go on."""

import re
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest

from nodewright.model.errors import ConfigError
from nodewright_simulator.cli.sweep import command
from nodewright_simulator.result import SimulationResult
from nodewright_simulator.sweep.carry_out import Kept, Outcome, Store
from nodewright_simulator.sweep.compare import Gate, Row, compare, find_front
from nodewright_simulator.sweep.figures import FIGURES, Number, in_words
from nodewright_simulator.sweep.sweep_file import SweepPlan, load_sweep
from nodewright_simulator.sweep.sweep_page import SweepResult, write_sweep_page
from nodewright_simulator.sweep.tables import read_lines, write_lines

EXAMPLE = Path(__file__).parents[2] / "docs/examples/sweep/expanders.yaml"
EMPTY = "{name: s, duration: 1m, providers: {fake: {}}}"
EVIL = "</script><img src=x onerror=alert(1)>"


def plan(folder: Path, text: str, scenario: str = EMPTY) -> SweepPlan:
    (folder / "s.yaml").write_text(scenario)
    (folder / "sweep.yaml").write_text(text)
    return load_sweep(folder / "sweep.yaml")


def row(variant: str, seed: int, cost: float | None, *, scenario: str = "s", evictions: float = 0) -> Row:
    figures = {**dict.fromkeys(FIGURES, 1.0), "cost": cost, "evictions": evictions}
    name = f"{variant}-{scenario}-{seed}"
    return Row(
        id=name, sweep="x", variant=variant, scenario=scenario, seed=seed, version="0", settings={}, figures=figures,
        report=f"runs/{seed}.html",
    )  # fmt: skip


def test_the_example_has_every_combination() -> None:
    found = load_sweep(EXAMPLE)
    assert len(found.runs) == 16
    assert len({run.id for run in found.runs}) == 16
    assert found.variants[0] == "least-cost scale-down-unneeded-time=2m"
    assert [run.seed for run in found.runs if run.scenario == "sold out"][:3] == [1, 2, 1]
    assert {run.inputs.duration for run in found.runs if run.scenario == "sold out"} == {1200.0}


def test_the_id_is_of_the_inputs_and_not_of_names(tmp_path: Path) -> None:
    [first] = plan(tmp_path, "scenarios: [s.yaml]").runs
    [named] = plan(tmp_path, "{name: other, scenarios: [{path: s.yaml, name: t}], variants: {v: {}}}").runs
    assert named.id == first.id
    changes = (
        "{scenarios: [s.yaml], seeds: [7]}",
        "{scenarios: [s.yaml], settings: {expander: random}}",
        "{scenarios: [{path: s.yaml, ends_at: 30s}]}",
    )
    assert len({first.id, *(plan(tmp_path, text).runs[0].id for text in changes)}) == 4
    [other] = plan(tmp_path, "scenarios: [s.yaml]", EMPTY.replace("fake: {}", "fake: {groups: []}")).runs
    assert other.id != first.id


def test_the_tables_of_a_trace_belong_to_the_id(tmp_path: Path) -> None:
    folder = tmp_path / "trace"
    folder.mkdir()
    (folder / "nodes.csv").write_text("cpu_milli,memory_mib,gpu,model\n")
    (folder / "pods.csv").write_text("a\n")
    [before] = plan(tmp_path, "scenarios: [trace]").runs
    (folder / "pods.csv").write_text("b\n")
    [after] = plan(tmp_path, "scenarios: [trace]").runs
    assert before.id != after.id


@pytest.mark.parametrize("flag", ["prices", "disruption-config"])
def test_a_file_that_a_setting_of_a_variant_names_belongs_to_the_id(tmp_path: Path, flag: str) -> None:
    (file := tmp_path / "named.yaml").write_text("{}")
    text = f"{{scenarios: [s.yaml], variants: {{plain: {{}}, changed: {{{flag}: {file}}}}}}}"
    plain, before = (run.id for run in plan(tmp_path, text).runs)
    file.write_text("{} # changed")
    still, after = (run.id for run in plan(tmp_path, text).runs)
    assert (still, len({plain, before, after})) == (plain, 3)


def test_files_of_one_name_of_two_providers_both_belong_to_the_id(tmp_path: Path) -> None:
    files = [tmp_path / name / "groups.yaml" for name in ("a", "b")]
    for file in files:
        file.parent.mkdir()
        file.write_text("groups: []")
    both = f"{{fake: {{file: {files[0]}}}, other: {{file: {files[1]}}}}}"
    found = []
    for changed in (None, *files):
        if changed is not None:
            changed.write_text(f"groups: [] # changed {changed.parent.name}")
        found.append(plan(tmp_path, "scenarios: [s.yaml]", EMPTY.replace("{fake: {}}", both)).runs[0].id)
    assert len(set(found)) == 3


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{scenarios: []}", "scenarios: at least one is needed"),
        ("{scenarios: [s.yaml], seeds: []}", "seeds: at least one is needed"),
        ("{scenarios: [s.yaml, s.yaml]}", "scenarios: two are called s: give one a name"),
        ("{scenarios: [s.yaml], grid: {expander: []}}", "grid: expander has no values"),
        ("{scenarios: [s.yaml], variants: {a: {expander: price}}, grid: {expander: [random]}}", "variant a and by the grid"),
        ("{scenarios: [s.yaml], variants: {a: {}}, baseline: b}", "baseline: there is no variant b"),
        ("{scenarios: [s.yaml], settings: {expandr: price}}", "did you mean expander?"),
        ("{scenarios: [s.yaml], seed: 3}", "did you mean seeds?"),
        ("{scenarios: [{path: s.yaml, all_at_once: true}]}", "are for traces"),
        ("{scenarios: [none.yaml]}", "cannot be read"),
        ("[]", "a sweep is one mapping"),
    ],
)  # fmt: skip
def test_a_wrong_file_is_one_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(sentence)):
        plan(tmp_path, text)


def test_differences_are_of_pairs_with_an_interval_over_seeds() -> None:
    base = [row("a", seed, 100.0 + 10 * seed) for seed in range(6)]
    other = [row("b", seed, 103.0 + 10 * seed + seed % 2) for seed in range(6)]
    found = compare(other, {new.id: old for new, old in zip(other, base, strict=True)}, "cost")
    assert found is not None
    assert (found.pairs, found.change) == (6, 3.5)
    assert found.low is not None
    assert found.high is not None
    assert 3.0 <= found.low < 3.5 < found.high <= 4.0
    assert found.is_clear


def test_many_seeds_are_drawn_in_pieces() -> None:
    base, other = (
        [row(variant, seed, float(seed % cut)) for seed in range(1500)] for variant, cut in (("a", 5), ("b", 7))
    )
    partners = {new.id: old for new, old in zip(other, base, strict=True)}
    tracemalloc.start()
    try:
        found = compare(other, partners, "cost")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 40_000_000  # 4,000 draws of all seeds at once take 96 MB
    assert found is not None
    assert found.low is not None
    assert found.high is not None
    assert found.low < found.change < found.high


def test_one_seed_gives_no_interval_and_an_unknown_cost_no_difference() -> None:
    base, other = row("a", 1, 10.0), row("b", 1, 11.0)
    found = compare([other], {other.id: base}, "cost")
    assert found is not None
    assert (found.low, found.is_clear) == (None, False)
    assert found.relative == pytest.approx(0.1)
    assert compare([other], {other.id: row("a", 1, None)}, "cost") is None
    assert compare([other], {}, "cost") is None


def test_the_front_is_what_no_other_beats() -> None:
    points = {"cheap": (1.0, 9.0, 0.0), "fast": (5.0, 1.0, 0.0), "beaten": (5.0, 2.0, 0.0), "twin": (5.0, 1.0, 0.0)}
    assert find_front(points) == {"cheap", "fast", "twin"}


@pytest.mark.parametrize(
    ("text", "is_broken"),
    [
        ("cost > +2%", True),
        ("cost > 6%", False),
        ("cost > +4", True),
        ("cost > +5", False),
        ("cost > 104", True),
        ("cost < 104", False),
        ("cost < -1%", False),
        ("evictions > +0", False),
    ],
)
def test_gates(text: str, is_broken: bool) -> None:
    base, other = row("a", 1, 100.0), row("b", 1, 105.0)
    said = Gate.read(text).judge([other], {other.id: base})
    assert (said is not None) == is_broken
    assert said is None or said.startswith(f"b: {text}: ")


def test_a_gate_from_nothing_to_something_is_broken() -> None:
    base, other = row("a", 1, 1.0), row("b", 1, 1.0, evictions=3)
    assert Gate.read("evictions > +10%").judge([other], {other.id: base}) is not None


@pytest.mark.parametrize("text", ["costs > 1", "cost >= 1", "cost > much", "> 1", "cost > +2 %%"])
def test_a_wrong_gate_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="--fail-if"):
        Gate.read(text)


def test_a_gate_about_an_unknown_figure_is_refused() -> None:
    other = row("b", 1, None)
    for text in ("cost > 1", "cost > +1%"):
        with pytest.raises(ConfigError, match="is not known"):
            Gate.read(text).judge([other], {})


def test_a_torn_result_counts_as_absent(tmp_path: Path) -> None:
    [run] = plan(tmp_path, "scenarios: [s.yaml]").runs
    store = Store(tmp_path / "results")
    store.make_folder()
    figures: dict[str, Number] = dict.fromkeys(FIGURES, 1.0)
    assert store.find(run, with_report=False) is None
    kept = store.keep(Outcome(id=run.id, version="0", figures=figures))
    assert store.find(run, with_report=False) == kept == Kept(id=run.id, figures=figures, report="")
    assert store.find(run, with_report=True) is None
    (tmp_path / "results/runs" / f"{run.id}.json").write_text('{"id":')
    assert store.find(run, with_report=False) is None


def test_lines_are_read_back_and_older_ones_lack_figures(tmp_path: Path) -> None:
    one = row("a", 1, 2.0)
    (tmp_path / "sweep.jsonl").write_bytes(write_lines([one]).replace(b'"evictions":0,', b""))
    assert read_lines(tmp_path) == [replace_figure(one, "evictions", None)]
    (tmp_path / "sweep.jsonl").write_text("{}\n")
    with pytest.raises(ConfigError, match="line 1"):
        read_lines(tmp_path)


def replace_figure(one: Row, name: str, value: float | None) -> Row:
    return Row(**{key: getattr(one, key) for key in Row.__struct_fields__} | {"figures": one.figures | {name: value}})


def test_the_page_links_each_run_and_reads_no_markup() -> None:
    rows = [row(variant, seed, 5.0 + seed, scenario=EVIL) for variant in ("a", EVIL) for seed in (1, 2)]
    partners = {one.id: rows[number % 2] for number, one in enumerate(rows)}
    page = write_sweep_page(
        SweepResult(name=EVIL, rows=rows, variants=("a", EVIL), scenarios=(EVIL,), baseline="a", partners=partners)
    )
    assert len(re.findall(r'<a href="runs/1.html"><circle', page)) == 2
    assert "<img" not in page
    assert page.count("<script>") == 1


def test_a_page_without_costs_shows_node_hours() -> None:
    rows = [row("a", 1, None)]
    page = write_sweep_page(
        SweepResult(
            name="x", rows=rows, variants=("a",), scenarios=("s",), baseline="a", partners={rows[0].id: rows[0]}
        )
    )
    assert "p99 wait over node-hours" in page


def test_figures_of_a_run(run: SimulationResult) -> None:
    found = {name: figure.read(replace(run, cost=None)) for name, figure in FIGURES.items()}
    assert (found["cost"], found["pods_started"], found["failed_scale_ups"], found["violations"]) == (None, 3, 1, 1)
    assert [in_words("cost", 1.5), in_words("p99_wait", 70.0), in_words("cost", None)] == ["$1.50", "70 s", "-"]


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        (("--baseline", "defualt"), "is neither a variant of the sweep nor a folder of results; did you mean default?"),
        (("--fail-if", "cost"), "--fail-if cost: is not of the form"),
        (("--fail-if", "cost > +2%"), "--fail-if cost > +2%: the sweep has only its baseline: give --baseline FOLDER"),
        (("--scheduler", "tcp://127.0.0.1:1x"), "--scheduler tcp://127.0.0.1:1x: is not of the form"),
        (("--scheduler", "foo"), "--scheduler foo: is not of the form tcp://HOST:PORT"),
    ],
)  # fmt: skip
def test_wrong_flags_are_refused(tmp_path: Path, more: tuple[str, ...], sentence: str) -> None:
    plan(tmp_path, "{scenarios: [s.yaml], variants: {default: {}}}")
    words = [str(tmp_path / "sweep.yaml"), "--results", str(tmp_path / "results"), *more]
    with pytest.raises(ConfigError, match=re.escape(sentence)):
        command.main(words, standalone_mode=False)
    assert not list(tmp_path.glob("results/runs/*"))


def test_a_sweep_with_one_variant_is_judged(tmp_path: Path) -> None:
    [run] = plan(tmp_path, "{scenarios: [s.yaml], variants: {default: {}}}").runs
    results = tmp_path / "results"
    store = Store(results)
    store.make_folder()
    store.keep(Outcome(id=run.id, version="0", figures=dict.fromkeys(FIGURES, 0.0)))  # so nothing is run
    words = [str(tmp_path / "sweep.yaml"), "--results", str(results), "--no-reports", "--fail-if", "cost < 1"]
    assert command.main(words, standalone_mode=False) == 3
