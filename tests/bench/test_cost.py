"""The comparison of prices: cases by hand, wrong placements that the check refuses, files that cannot be used."""

import gzip
import json
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from case_report import WrongAnswer
from cost import CASES, checked, main, measure, sums
from cost_cases import Case, read_cases
from cost_check import Bought, Row
from nodewright.cli.settings.load import load_settings

PAGE = Path(__file__).parents[2] / "docs" / "cost.md"
SMALL = {"cpu": "4", "memory": "8Gi", "pods": "10"}
LARGE = {"cpu": "16", "memory": "64Gi", "pods": "100"}


def machine_type(name: str, price: float, zones: str = "a", **changes: Any) -> dict[str, Any]:
    offers = [{"zone": f"zone-{zone}", "price": price} for zone in zones]
    return {"name": name, "allocatable": SMALL, "labels": {"size": name}, "offers": offers, **changes}


def workload(name: str, pending: int, cpu: str = "1", **changes: Any) -> dict[str, Any]:
    return {"name": name, "requests": {"cpu": cpu, "memory": "1Gi"}, "pending": pending, **changes}


def make(*workloads: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """A case of these workloads; small machines cost 1, large ones, four times as large, 3.5."""
    types = [machine_type("small", 1.0), machine_type("large", 3.5, allocatable=LARGE)]
    answer = {"karpenter": {"price": 2.0}, "lp_bound": 1.0}
    return {"name": "hand", "family": "hands", "types": types, "workloads": workloads, **answer, **changes}


def play(case: dict[str, Any], expander: str = "least-nodes") -> Row:
    settings = load_settings({"expander": expander, "scale-down-enabled": "false"}, {})
    return measure(msgspec.convert(case, Case), settings)


def test_a_row_tells_every_placement() -> None:
    n0 = {"name": "n0", "type": "small", "zone": "zone-a"}
    row = play(make(workload("old", 0, "3", placed={"n0": 1}), workload("web", 16, "1"), nodes=[n0]), "least-nodes")
    assert row["seconds"] >= 0
    assert row | {"seconds": 0.0} == {
        "name": "hand",
        "family": "hands",
        "pods": 16,
        "price": 3.5,
        "karpenter": 2.0,
        "bound": 1.0,
        "unplaced": 0,
        "loops": 1,
        "seconds": 0.0,
        "nodes": [{"type": "large", "zone": "zone-a", "pods": {"web": 15}}],
        "existing": {"n0": {"web": 1}},
    }


def test_it_goes_on_loop_after_loop_until_no_pod_is_pending() -> None:
    row = play(make(*(workload(size, 3, "3", selector={"size": size}) for size in ("small", "large"))))
    assert (row["loops"], row["price"], row["unplaced"]) == (2, 3 * 1.0 + 3.5, 0)


def test_pods_go_where_they_were_planned() -> None:
    """Dealt to both machines in turn, the pods with the most memory would leave no room for the one with the most CPU."""
    pods = workload("a", 2, "2"), workload("b", 1, "2400m", requests={"cpu": "2400m", "memory": "64Mi"})
    row = play(make(*pods, types=[machine_type("small", 1.0)]))
    assert (row["price"], row["loops"]) == (2.0, 1)
    assert [node["pods"] for node in row["nodes"]] == [{"a": 2}, {"b": 1}]


def test_no_machine_of_a_plan_stays_empty() -> None:
    """Pods that find no place open nodes, which others fill: an estimate of the others alone needs fewer."""
    case = next(case for case in read_cases([CASES]) if case.name == "p-shared-060")
    row = measure(case, load_settings({"expander": "least-nodes", "scale-down-enabled": "false"}, {}))
    assert all(node["pods"] for node in row["nodes"])


def test_what_fits_nowhere_is_left() -> None:
    row = play(make(workload("web", 2), workload("giant", 3, "17")))
    assert (row["price"], row["unplaced"]) == (1.0, 3)


def test_a_type_has_a_most() -> None:
    row = play(make(workload("web", 40), types=[machine_type("small", 1.0)], maxima={"small": 3}))
    assert (len(row["nodes"]), row["unplaced"]) == (3, 40 - 3 * 4)


def test_pods_are_spread_over_every_zone_where_something_is_sold() -> None:
    types = [machine_type("small", 1.0, "abc")]
    row = play(make(workload("web", 6, spread=["zone"]), workload("other", 3), types=types))
    counts = dict.fromkeys(("zone-a", "zone-b", "zone-c"), 0)
    for node in row["nodes"]:
        counts[node["zone"]] += node["pods"].get("web", 0)
    assert counts == dict.fromkeys(counts, 2)


@pytest.mark.parametrize("demand", [{"anti_hostname": True}, {"spread": ["hostname"]}])
def test_pods_are_kept_apart(demand: dict[str, Any]) -> None:
    row = play(make(workload("web", 3, "100m", **demand), workload("other", 6, "100m")))
    assert [node["pods"]["web"] for node in row["nodes"]] == [1, 1, 1]


def test_the_same_case_ends_the_same_way() -> None:
    case = make(*(workload(f"w{k}", 7, f"{300 + 370 * k}m", spread=["hostname"], max_skew=3) for k in range(4)))
    first, second = (play(case, "random") for _ in range(2))
    assert first | {"seconds": 0.0} == second | {"seconds": 0.0}


PRICES = {"small": 1.0, "large": 3.5}
SOLD = [machine_type("small", 1.0, "ab"), machine_type("large", 3.5, allocatable=LARGE)]
N0 = {"name": "n0", "type": "small", "zone": "zone-a"}


def bought(kind: str, zone: str, **pods: int) -> Bought:
    return {"type": kind, "zone": f"zone-{zone}", "pods": pods}


def end(case: dict[str, Any], *nodes: Bought, existing: dict[str, dict[str, int]] | None = None, **changes: Any) -> Row:
    """A row that says what it must but for ``changes``."""
    placed = sum(sum(pods.values()) for pods in [*(node["pods"] for node in nodes), *(existing or {}).values()])
    row: dict[str, Any] = {
        "name": "hand",
        "family": "hands",
        "karpenter": 2.0,
        "bound": 1.0,
        "loops": 1,
        "seconds": 0.0,
    }
    pods = sum(one["pending"] for one in case["workloads"])
    row |= {"pods": pods, "unplaced": pods - placed, "price": sum(PRICES[node["type"]] for node in nodes)}
    return cast("Row", row | {"nodes": list(nodes), "existing": existing or {}} | changes)


WEB, ZONES = make(workload("web", 2), types=SOLD, nodes=[N0]), make(workload("web", 4, spread=["zone"]), types=SOLD)
APART, HOSTS = (
    make(workload("web", 2, **demand), types=SOLD) for demand in ({"anti_hostname": True}, {"spread": ["hostname"]})
)
PICKY = make(workload("web", 2, selector={"size": "small", "topology.kubernetes.io/zone": "zone-b"}), types=SOLD)
FULL = make(workload("web", 2), workload("old", 0, "3", placed={"n0": 1}), types=SOLD, nodes=[N0])
SCARCE = make(workload("web", 2), types=SOLD, maxima={"large": 0})
RIGHT = [
    (WEB, end(WEB, bought("large", "a", web=2))),
    (WEB, end(WEB, existing={"n0": {"web": 2}})),
    (ZONES, end(ZONES, bought("small", "a", web=2), bought("small", "b", web=1))),
    (APART, end(APART, bought("small", "a", web=1), bought("small", "a", web=1))),
    (HOSTS, end(HOSTS, bought("small", "a", web=1), bought("small", "a", web=1))),
    (PICKY, end(PICKY, bought("small", "b", web=2))),
    (FULL, end(FULL, existing={"n0": {"web": 1}})),
    (SCARCE, end(SCARCE, bought("small", "a", web=2))),
]
WRONG = [
    (WEB, end(WEB, bought("large", "a", web=3), unplaced=-1), "3 pods of web were placed, and 2 were pending"),
    (WEB, end(WEB, bought("large", "a", web=1), unplaced=0), "1 pods were placed and 0 were not, of 2"),
    (WEB, end(WEB, bought("large", "a", wob=1)), "1 pods of wob were placed, and 0 were pending"),
    (WEB, end(WEB, existing={"n9": {}}), "there was no node n9"),
    (WEB, end(WEB, bought("large", "a", web=2), price=3.0), "the nodes cost 3.5, not 3.0"),
    (WEB, end(WEB, bought("large", "b", web=2), price=0.0), "large is not sold in zone-b"),
    (ZONES, end(ZONES, bought("small", "a", web=2)), "2 pods of web are in zone-a, too many more than in another zone"),
    (APART, end(APART, bought("small", "a", web=2)), "node bought 0 has 2 pods of web, which repel each other"),
    (HOSTS, end(HOSTS, bought("small", "a", web=2)), "node bought 0 has 2 pods of web, with a maximum skew of 1"),
    (PICKY, end(PICKY, bought("small", "a", web=2)), "node bought 0 does not match the selector of web"),
    (FULL, end(FULL, existing={"n0": {"web": 2}}), "node n0 is overcommitted in cpu"),
    (SCARCE, end(SCARCE, bought("large", "a", web=2)), "there are 1 nodes of large, and may be 0"),
]


@pytest.mark.parametrize(("case", "row"), RIGHT)
def test_a_right_placement_passes(case: dict[str, Any], row: Row) -> None:
    assert checked(msgspec.convert(case, Case), row) is row


@pytest.mark.parametrize(("case", "row", "said"), WRONG)
def test_a_wrong_placement_is_refused(case: dict[str, Any], row: Row, said: str) -> None:
    with pytest.raises(WrongAnswer) as refused:
        checked(msgspec.convert(case, Case), row)
    assert str(refused.value) == f"hand: {said} (1 faults in all)."


WORKLOAD = workload("web", 1)
BAD_CASES: dict[str, tuple[object, str]] = {
    "no object": ([], "Expected `object`, got `array`"),
    "no family": ({k: v for k, v in make().items() if k != "family"}, "missing required field `family`"),
    "negative price": (make(types=[machine_type("small", -1.0)]), "Expected `float` >= 0.0"),
    "two prices": (make(types=[machine_type("small", 1.0, "aa")]), "type 'small' has two prices in zone 'zone-a'"),
    "two types": (make(types=[machine_type("small", 1.0)] * 2), "two types have the name 'small'"),
    "no pods": (make(types=[machine_type("s", 1.0, allocatable={})]), "type 's' does not say how much cpu"),
    "quantity": (make({**WORKLOAD, "requests": {"cpu": "one", "memory": "1"}}), "'one' is not a quantity"),
    "negative": (make({**WORKLOAD, "requests": {"cpu": "-1", "memory": "1"}}), "has a negative amount of cpu"),
    "half a pod": (make({**WORKLOAD, "pending": 0.5}), "Expected `int`, got `float`"),
    "spread": (make({**WORKLOAD, "spread": ["rack"]}), "Invalid enum value 'rack'"),
    "unknown type": (make(nodes=[{"name": "n", "type": "x", "zone": "z"}]), "node 'n' is of an unknown type 'x'"),
    "unknown node": (make({**WORKLOAD, "placed": {"n": 1}}), "workload 'web' has pods on an unknown node 'n'"),
    "unknown most": (make(maxima={"x": 1}), "maxima names an unknown type 'x'"),
    "most of zones": (make(types=[machine_type("s", 1.0, "ab")], maxima={"s": 1}), "is sold in several zones"),
}


@pytest.mark.parametrize("bad", BAD_CASES)
def test_a_bad_case_is_one_sentence(bad: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content, said = BAD_CASES[bad]
    path = tmp_path / "cases.jsonl"
    path.write_text(f"{json.dumps(make())}\n{json.dumps(content)}\n")
    assert main([str(path)]) == 2
    written = capsys.readouterr().err
    assert written.startswith(f"{path}, line 2: ")
    assert said in written
    assert written.count("\n") == 1


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "No such file or directory."),
        (b"", "there is no case in it."),
        (b"{", "line 1: Input data was truncated."),
        (b'{"lp_bound": 1e999}', "line 1: "),
        (b"\x1f\x8bno", "it is not a whole gzip file."),
        (gzip.compress(b"{}" * 999, mtime=0)[:-9], "it is not a whole gzip file."),
    ],
)
def test_a_bad_file_is_one_sentence(
    content: bytes | None, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "cases.jsonl.gz"
    if content is not None:
        path.write_bytes(content)
    assert main([str(path)]) == 2
    written = capsys.readouterr().err
    assert written.startswith(str(path))
    assert said in written
    assert written.count("\n") == 1


def test_two_cases_have_two_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "cases.jsonl"
    path.write_text(json.dumps(make()))
    assert main([str(path), str(path)]) == 2
    assert capsys.readouterr().err == "There are two cases of the name 'hand'.\n"


def test_an_unknown_expander_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--expander", "cheapest"]) == 2
    assert "there is no expander 'cheapest'" in capsys.readouterr().err


def test_every_case_in_the_repository_can_be_read() -> None:
    cases = read_cases([CASES])
    assert (len(cases), len({case.family for case in cases})) == (75, 11)
    assert all(0 < case.lp_bound <= case.karpenter.price * 1.0001 for case in cases)


def test_small_cases_of_karpenter_leave_no_pod(capsys: pytest.CaptureFixture[str]) -> None:
    """As JSON: rows whose every placement the check has seen."""
    assert main(["--up-to", "35", "--output", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert len(rows) > 10
    assert {row["unplaced"] for row in rows} == {0}


def test_the_table_has_sums_of_families(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "cases.jsonl.gz"
    cases = [make(workload("web", 4), name=name, family=name[0]) for name in ("a1", "a2", "b1")]
    path.write_bytes(gzip.compress("\n".join(map(json.dumps, cases)).encode()))
    assert main([str(path)]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["a", "2", "2.00", "4.00", "2.00", "1.000", "0.500", "0"] in lines
    assert ["all", "3", "3.00", "6.00", "3.00", "1.000", "0.500", "0"] in lines


def test_a_bound_of_nothing_has_no_ratio() -> None:
    row = play(make(workload("web", 1), lp_bound=0.0))
    assert sums([row])[0][5] == ""


def test_the_page_is_about_these_cases() -> None:
    """Bounds and Karpenter's prices are those of the cases, and each column ends with its sum."""
    cases = read_cases([CASES])
    table = [line.strip("| ").split(" | ") for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    heads = next(line for line in table if line[0] == "family")
    families = dict.fromkeys(case.family for case in cases)
    lines = table[table.index(heads) + 1 :][: len(families) + 1]
    assert [line[0] for line in lines] == [*families, "all"]
    for line in lines:
        held = [case for case in cases if line[0] in (case.family, "all")]
        bound, karpenter = sum(case.lp_bound for case in held), sum(case.karpenter.price for case in held)
        assert line[1:4] == [str(len(held)), f"{bound:,.2f}", f"{karpenter:,.2f}"]
    for column in range(4, len(heads)):
        prices = [float(line[column].replace(",", "")) for line in lines]
        assert sum(prices[:-1]) == pytest.approx(prices[-1], abs=0.1)
