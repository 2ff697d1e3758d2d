"""``simulate`` and ``demo`` as installed: results, reports, wrong scenarios."""

import html
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Finished = subprocess.CompletedProcess[str]
Command = Callable[..., Finished]

ROOT = Path(__file__).parents[2]
SCENARIO = ROOT / "docs/examples/simulate/stock-out.yaml"


def assert_refused(ended: Finished, *sentences: str) -> None:
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith("nodewright: ")
    assert ended.stderr.count("\n") == 1
    for sentence in sentences:
        assert sentence in ended.stderr


def test_the_stock_out_is_seen_in_the_next_loop_and_another_group_grows(command: Command) -> None:
    ended = command("simulate", SCENARIO)
    assert (ended.returncode, ended.stderr) == (0, "")
    said = " ".join(ended.stdout.split())
    assert "00:10:00 asked fake/zone-b 2 → 6, for 8 pods" in said
    assert "00:10:10 failed seen 10 s after the call: Failed adding 4 nodes to group fake/zone-b" in said
    assert "00:10:10 instead fake/zone-a 0 → 4, for 8 pods" in said
    assert "12 started, 12 run at the end, 0 wait" in said


def test_json_has_the_totals(command: Command) -> None:
    document = json.loads(command("simulate", SCENARIO, "--output", "json").stdout)
    assert document["pods"] == {"started": 12, "pending": 0, "running": 12}
    assert document["failures"]["ScaleUpFailed"] == 1
    assert [(g["group"], g["peak"], g["asked"], g["failed"]) for g in document["groups"]] == [
        ("fake/zone-a", 4, 4, 0),
        ("fake/zone-b", 2, 6, 4),
    ]
    assert document["report"] is None
    assert document["violations"] == []


def test_the_same_seed_gives_the_same_result_and_every_tick_changes_no_outcome(command: Command) -> None:
    once, again, ticking = (
        json.loads(command("simulate", SCENARIO, "-o", "json", *more).stdout) for more in ((), (), ("--every-tick",))
    )
    assert once == again
    assert ticking["loops"] > once["loops"]
    assert ticking["groups"] == once["groups"]
    assert ticking["waiting_seconds"] == once["waiting_seconds"]


SOLD_OUT = """
name: sold out
duration: 4h
providers:
  fake:
    groups: [{name: a, zone: a, max_size: 10, cpu: 4, memory: 16Gi}]
    stock_outs: [{zone: a, start: 0s}]
deployments: [{name: web, replicas: 8, pod: {cpu: 1500m, memory: 2Gi}}]
"""


def test_pods_that_still_wait_at_the_end_count_with_their_wait_so_far(command: Command, tmp_path: Path) -> None:
    scenario, page = tmp_path / "sold-out.yaml", tmp_path / "sold-out.html"
    scenario.write_text(SOLD_OUT, encoding="utf-8")
    document = json.loads(command("simulate", scenario, "-o", "json").stdout)
    assert document["pods"] == {"started": 0, "pending": 8, "running": 0}
    assert document["waiting_seconds"]["p50"] == document["waiting_seconds"]["longest"] == 4 * 3600
    assert document["still_waiting"] == {"pods": 8, "p50": 4 * 3600, "longest": 4 * 3600}
    said = " ".join(command("simulate", scenario, "--report", page).stdout.split())
    assert "waiting p50 4.0 h, p90 4.0 h, p95 4.0 h, p99 4.0 h, longest 4.0 h" in said
    assert "still waiting 8 pods at the end, longest 4.0 h so far" in said
    assert "8 pods still wait, longest 4h so far" in page.read_text(encoding="utf-8")


def test_settings_are_stronger_than_the_scenario(command: Command) -> None:
    document = json.loads(command("simulate", SCENARIO, "-o", "json", "--set", "max-nodes-total=3").stdout)
    assert sum(group["last"] for group in document["groups"]) == 3
    assert document["pods"]["pending"] > 0


def test_a_trace_can_be_compressed(command: Command, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    trace.mkdir()
    (trace / "nodes.csv").write_text("sn,cpu_milli,memory_mib,gpu,model\n" + "n,4000,16384,0,\n" * 3)
    columns = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase"
    rows = [f"p{n},1000,1024,0,0,,LS,Running,{n * 600},{n * 600 + 3000},{n * 600}" for n in range(20)]
    header = f"{columns},creation_time,deletion_time,scheduled_time"
    (trace / "pods.csv").write_text("\n".join([header, *rows]) + "\n")
    plain, compressed = (
        json.loads(command("simulate", trace, "-o", "json", "--set", "scale-down-enabled=false", *more).stdout)
        for more in ((), ("--compress", 10))
    )
    assert plain["pods"]["started"] == compressed["pods"]["started"] == 20
    assert plain["end"] > 5 * compressed["end"]


@pytest.mark.parametrize(
    ("change", "sentences"),
    [
        (("duration:", "duraton:"), ["unknown key duraton", "did you mean duration?"]),
        (("30m", "soon"), ["duration"]),
        (("max_size: 10", "min_size: 11, max_size: 10"), ["group zone-a: min_size 11 is above max_size 10"]),
        (("stock_outs:", "stock_out:"), ["unknown key stock_out", "did you mean stock_outs?"]),
        (("fake:", "nimbus:"), ["no installed package offers the provider nimbus"]),
        (("expander: price", "expander: cheap"), ["expander", "there is no expander 'cheap'"]),
        (("expander: price", "expandr: price"), ["there is no setting expandr; did you mean expander?"]),
        (("deployment: web", "deployment: webb"), ["no deployment is called webb; did you mean web?"]),
        (("cpu: 1500m", "cpu: lots"), ["web", "cpu", "'lots' is not a quantity"]),
        (("do: scale", "do: explode"), ["timeline"]),
    ],
)
def test_wrong_scenarios(command: Command, tmp_path: Path, change: tuple[str, str], sentences: list[str]) -> None:
    scenario = tmp_path / "scenario.yaml"
    scenario.write_text(SCENARIO.read_text().replace(*change))
    assert_refused(command("simulate", scenario), *sentences)


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (["nowhere.yaml"], "nowhere.yaml: cannot be read: No such file or directory"),
        (["."], ".: a trace is a folder with nodes.csv and pods.csv"),
        ([SCENARIO, "--compress", "3"], "--compress: is for traces"),
        ([SCENARIO, "--all-at-once"], "--all-at-once: is for traces"),
        ([SCENARIO, "--compress", "0"], "'--compress'"),
        ([SCENARIO, "--set", "expander"], "--set expander: is not of the form flag=value"),
        ([SCENARIO, "--set", "expander=cheap"], "there is no expander 'cheap'"),
        ([SCENARIO, "--set", "scan-interval=10"], "10 lacks a unit, as in 10s"),
        ([SCENARIO, "--report", "/proc/none/report.html"], "--report: /proc/none/report.html: No such file"),
    ],
)
def test_wrong_flags(command: Command, args: list[object], sentence: str) -> None:
    assert_refused(command("simulate", *args), sentence)


def test_markup_in_names_is_text(command: Command, tmp_path: Path) -> None:
    scenario = tmp_path / "scenario.yaml"
    evil = '"[red]x[/red]\\u001b[31m</script><script>alert(1)</script>"'
    scenario.write_text(SCENARIO.read_text().replace("two zones, one sold out", evil))
    report = tmp_path / "report.html"
    ended = command("simulate", scenario, "--report", report)
    assert ended.returncode == 0
    assert r"[red]x[/red]\x1b[31m</script>" in ended.stdout
    assert "\x1b" not in ended.stdout
    page = report.read_text()
    assert "<script>alert(1)" not in page
    assert "&lt;script&gt;alert(1)" in page


def test_record_then_simulate_with_prices(command: Command, tmp_path: Path) -> None:
    prices, trace = tmp_path / "prices.yaml", tmp_path / "own.parquet"
    prices.write_text("prices: [{type: standard-4, per_hour: 2.0}]")
    dump = ROOT / "docs/examples/plan/dump.json"
    recorded = command("record", dump, "--to", trace, "--no-anonymise", "--output", "json")
    assert (recorded.returncode, recorded.stderr) == (0, "")
    assert json.loads(recorded.stdout)["pods"] == 13
    # Not to the end: its pods wait for 30 days.
    timed = ("--prices", prices, "--at", "2h", "--output", "json")
    document = json.loads(command("simulate", trace, *timed).stdout)
    assert document["cost_usd"] > 0
    assert document["price_sources"] == [str(prices)]
    assert_refused(command("record", dump, "--for", "1h"), "--for: is for a live cluster")
    assert_refused(command("record", tmp_path / "none.json"), "none.json: No such file")
    assert_refused(command("record", "--finish", "--to", trace), "own.parquet.parts: there is no such folder")
    assert_refused(command("record", "--finish", "--for", "1h"), "--finish: goes only with --to")
    assert_refused(command("simulate", trace, "--prices", tmp_path / "none.yaml"), "none.yaml")


def test_the_demo_writes_its_report_here(command: Command, tmp_path: Path) -> None:
    ended = command("demo", env={"COLUMNS": "96"})  # the width of the picture
    assert (ended.returncode, ended.stderr) == (0, "")
    report = tmp_path / "home" / "out" / "demo.html"
    assert ended.stdout.endswith(f"Report, to open in a browser: {report}\n")
    assert 60_000 < report.stat().st_size <= 600_000
    assert '<td class="name"></td>' not in report.read_text()  # every decision has a reason
    assert "failed" in ended.stdout
    assert "instead" in ended.stdout
    # The README's picture shows this very output; make pictures draws it anew.
    command_line, *shown, report_line = read_picture(ROOT / "docs/images/demo.svg")
    assert (command_line, report_line) == ("$makedemo", "Report,toopeninabrowser:out/demo.html")
    assert shown == ["".join(line.split()) for line in ended.stdout.splitlines()[:-1] if line.strip()]


def read_picture(path: Path) -> list[str]:
    """The lines of a picture of a terminal, from top to bottom, without spaces: rich leaves some out."""
    lines: dict[float, str] = {}
    for place, text in re.findall(r'<text [^>]* y="([0-9.]+)"[^>]*clip-path[^>]*>([^<]*)</text>', path.read_text()):
        lines[float(place)] = lines.get(float(place), "") + html.unescape(text)
    return ["".join(words.split()) for _, words in sorted(lines.items()) if words.strip()]


@pytest.mark.slow
def test_where_nothing_can_be_written_the_report_goes_to_the_temporary_folder(command: Command, tmp_path: Path) -> None:
    (tmp_path / "home" / "out").write_text("in the way")
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    ended = command("demo", env={"TMPDIR": str(temporary)})
    assert ended.returncode == 0
    [report] = temporary.glob("nodewright-*/demo.html")
    assert str(report) in ended.stdout


def test_progress_is_for_terminals_only(tmp_path: Path) -> None:
    """On a terminal, stderr shows where the simulation is; the result is on stdout."""
    leader, follower = os.openpty()
    with os.fdopen(follower, "w") as terminal:
        ended = subprocess.run(
            [sys.executable, "-m", "nodewright", "simulate", str(SCENARIO), "-o", "json"],
            stdout=subprocess.PIPE,
            stderr=terminal,
            text=True,
            check=False,
            cwd=tmp_path,
            env={**os.environ, "TERM": "xterm"},
        )
    shown = os.read(leader, 100_000).decode()
    os.close(leader)
    assert ended.returncode == 0
    assert json.loads(ended.stdout)["pods"]["started"] == 12
    assert "loop" in shown


def test_two_settings_are_compared_in_the_report(command: Command, tmp_path: Path) -> None:
    report = tmp_path / "both.html"
    words = ("--set", "expander=price", "--compare", "expander=random", "--at", "12m")
    ended = command("simulate", SCENARIO, *words, "--report", report)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "Pods: expander=price" in report.read_text()
    assert "Pods: expander=random" in report.read_text()
    assert_refused(command("simulate", SCENARIO, "--compare", "expander=random"), "--compare: needs --report")
