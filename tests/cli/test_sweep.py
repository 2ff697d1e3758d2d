"""``sweep`` as installed: files, comparison, gates, and a Dask cluster that loses a worker."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

Finished = subprocess.CompletedProcess[str]
Command = Callable[..., Finished]

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "docs/examples/sweep/expanders.yaml"
SMALL = f"""
scenarios: [{{path: {ROOT}/docs/examples/simulate/stock-out.yaml, ends_at: 11m}}]
seeds: 2
variants: {{price: {{expander: price}}, most-pods: {{expander: most-pods}}}}
"""


def test_a_sweep_writes_its_files_goes_on_and_can_be_a_gate(command: Command, tmp_path: Path) -> None:
    file, results = tmp_path / "small.yaml", tmp_path / "results"
    file.write_text(SMALL)
    words = ("sweep", file, "--results", results, "--jobs", 1, "--output", "json")
    first = command(*words)
    assert (first.returncode, first.stderr) == (0, "")
    document = json.loads(first.stdout)
    assert (document["runs"], document["carried_out"], document["baseline"]) == (4, 4, "price")
    lines = (results / "sweep.jsonl").read_bytes()
    rows = [json.loads(line) for line in lines.splitlines()]
    assert [(row["variant"], row["seed"]) for row in rows] == [
        ("price", 1), ("price", 2), ("most-pods", 1), ("most-pods", 2),
    ]  # fmt: skip
    for row in rows:
        assert row["figures"]["cost"] > 0
        assert "Decisions" in (results / row["report"]).read_text()
        assert f'href="{row["report"]}"' in (results / "index.html").read_text()
    assert read_parquet(results)["cost"] == [row["figures"]["cost"] for row in rows]
    assert read_parquet(results)["set.expander"] == ["price", "price", "most-pods", "most-pods"]

    (results / "runs" / f"{rows[1]['id']}.json").unlink()  # as if the sweep had been interrupted
    again = command(*words, "--baseline", results, "--fail-if", "cost > +2%", "--fail-if", "machines > 1")
    document = json.loads(again.stdout)
    assert (again.returncode, document["carried_out"]) == (3, 1)
    assert [said.partition(": it is ")[0] for said in document["broken"]] == [
        "price: machines > 1", "most-pods: machines > 1",
    ]  # fmt: skip
    assert (results / "sweep.jsonl").read_bytes() == lines


def read_parquet(results: Path) -> dict[str, list[Any]]:
    parquet = pytest.importorskip("pyarrow.parquet")
    found: dict[str, list[Any]] = parquet.read_table(results / "sweep.parquet").to_pydict()
    return found


@contextmanager
def started(module: str, said: str, *words: str) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """A process of Dask, once it has said these words; with it the rest of that line."""
    command = [sys.executable, "-m", f"distributed.cli.{module}", "--host", "127.0.0.1", "--no-dashboard", *words]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
        assert process.stderr is not None
        try:
            line = next((line for line in process.stderr if said in line), "")
            assert line, f"{module} ended before it said {said}"
            yield process, line.partition(said)[2].strip()
        finally:
            process.send_signal(signal.SIGKILL)


@pytest.mark.slow
def test_a_dask_cluster_that_loses_a_worker_loses_no_run(tmp_path: Path) -> None:
    """The sweep of docs/sweep.md on a scheduler and two workers, one of which is killed after the first result."""
    pytest.importorskip("distributed")
    results = tmp_path / "results"
    with ExitStack() as stack:
        _, address = stack.enter_context(started("dask_scheduler", "Scheduler at:", "--port", "0"))
        worker_words = (address, "--no-nanny", "--nthreads", "1", "--local-directory", str(tmp_path))
        workers = [stack.enter_context(started("dask_worker", "Registered to:", *worker_words)) for _ in range(2)]
        words = [sys.executable, "-m", "nodewright", "sweep", str(EXAMPLE), "--results", str(results), "-o", "json"]
        words += ["--no-reports", "--scheduler", address]
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as sweep:
            while sweep.poll() is None and not list(results.glob("runs/*.json")):
                with suppress(subprocess.TimeoutExpired):
                    sweep.wait(0.1)
            workers[0][0].send_signal(signal.SIGKILL)
            out, err = sweep.communicate(timeout=600)
    assert sweep.returncode == 0, err  # distributed may warn on stderr
    document = json.loads(out)
    assert (document["runs"], document["carried_out"]) == (16, 16)
    rows = [json.loads(line) for line in (results / "sweep.jsonl").read_text().splitlines()]
    assert len({row["id"] for row in rows}) == len(rows) == 16
    assert len(list(results.glob("runs/*.json"))) == 16
    assert all(row["figures"]["pods_started"] > 0 for row in rows)
