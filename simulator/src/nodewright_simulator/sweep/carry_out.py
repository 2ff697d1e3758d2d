"""Carry out the runs of a sweep, in processes of this machine or on a Dask cluster, and keep each result as it comes."""

import gzip
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path

import msgspec

from nodewright.model.errors import ConfigError, NodewrightError
from nodewright.model.printable import printable
from nodewright_simulator.build import BuildOptions, build_simulation
from nodewright_simulator.report import write_report
from nodewright_simulator.sweep.figures import FIGURES, Number
from nodewright_simulator.sweep.sweep_file import SweepRun

_SECONDS_TO_CONNECT = 15


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker sends back. ``report`` is a compressed page, or empty."""

    id: str
    version: str
    figures: dict[str, Number]
    report: bytes = b""


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """A result as it stands in the folder: ``report`` is the path of the page inside it, or empty."""

    id: str
    figures: dict[str, Number]
    report: str


def carry_out(run: SweepRun, *, with_report: bool) -> Outcome:
    """Simulate one run. Workers call this."""
    result = build_simulation(run.inputs, BuildOptions(folder=Path())).run()
    read = {name: figure.read(result) for name, figure in FIGURES.items()}
    figures = {name: float(value) if value is not None else None for name, value in read.items()}
    page = b""
    if with_report:
        description = f"{run.inputs.description} Variant: {run.variant}."
        page = gzip.compress(
            write_report(result, run.inputs, description=description.strip()).encode(), compresslevel=1
        )
    return Outcome(id=run.id, version=version("nodewright-simulator"), figures=figures, report=page)


class Store:
    """A folder with a file for each run that is done, so that an interrupted sweep goes on where it stopped."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def make_folder(self) -> None:
        """Make the folder if it is not there; raise ConfigError. Without it nothing is written."""
        try:
            (self.folder / "runs").mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"--results: {self.folder}: {error.strerror}") from None

    def find(self, run: SweepRun, *, with_report: bool) -> Kept | None:
        """Return the result of the same inputs from an earlier time; None if there is none, or no report where one is wanted."""
        try:
            kept = msgspec.json.decode((self.folder / "runs" / f"{run.id}.json").read_bytes(), type=Kept)
        except (OSError, msgspec.DecodeError):
            return None
        has_figures = kept.figures.keys() == FIGURES.keys()
        return kept if has_figures and (kept.report or not with_report) else None

    def keep(self, outcome: Outcome) -> Kept:
        """Write the report, then the figures: a run counts as done once its figures are there."""
        report = f"runs/{outcome.id}.html" if outcome.report else ""
        kept = Kept(id=outcome.id, figures=outcome.figures, report=report)
        if report:
            self.write(report, gzip.decompress(outcome.report))
        self.write(f"runs/{outcome.id}.json", msgspec.json.encode(kept))
        return kept

    def write(self, name: str, content: bytes) -> Path:
        """Write a file of the folder, whole or not at all; raise ConfigError."""
        path = self.folder / name
        beside = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            beside.write_bytes(content)
            beside.replace(path)
        except OSError as error:
            raise ConfigError(f"--results: {path}: {error.strerror}") from None
        return path


@contextmanager
def open_executor(scheduler: str | None, jobs: int) -> Iterator[Executor]:
    """Yield an executor: ``jobs`` processes of this machine, or the workers of the Dask scheduler at that address.

    After an error, runs that have not begun are cancelled.
    """
    if scheduler is None:
        context, quietly = (
            get_context("spawn"),
            (signal.SIGINT, signal.SIG_DFL),
        )  # Ctrl-C ends a worker without a traceback
        with ProcessPoolExecutor(jobs, mp_context=context, initializer=signal.signal, initargs=quietly) as pool:
            try:
                yield pool
            except BaseException:
                pool.shutdown(cancel_futures=True)  # those that have not begun
                raise
        return
    try:
        import distributed  # noqa: PLC0415 - an extra that only this flag needs
    except ImportError:
        raise ConfigError('--scheduler needs Dask: pip install "nodewright[sweep]"') from None
    try:
        distributed.comm.get_address_host_port(scheduler)  # Client tries a wrong address again until its time is up
    except ValueError as error:
        raise ConfigError(f"--scheduler {printable(scheduler)}: is not of the form tcp://HOST:PORT: {error}") from None
    try:
        client = distributed.Client(scheduler, timeout=_SECONDS_TO_CONNECT, set_as_default=False)
    except (OSError, ValueError) as error:
        raise ConfigError(f"--scheduler {scheduler}: cannot be reached: {error}") from None
    with client:
        try:
            yield client.get_executor(pure=False)
        except (distributed.KilledWorker, distributed.client.FutureCancelledError) as error:
            raise ConfigError(f"--scheduler {scheduler}: {error}; start the same command again to go on") from None


def carry_out_all(
    runs: Sequence[SweepRun],
    executor: Executor,
    store: Store,
    on_done: Callable[[Kept], None],
    *,
    with_report: bool,
) -> None:
    """Carry out these runs and keep each result at once; raise ConfigError if a run cannot be carried out."""
    waiting: dict[Future[Outcome], SweepRun] = {
        executor.submit(carry_out, run, with_report=with_report): run for run in runs
    }
    for future in as_completed(list(waiting)):
        run = waiting.pop(future)
        on_done(store.keep(_take(future, run)))


def _take(future: Future[Outcome], run: SweepRun) -> Outcome:
    where = f"run {run.id} ({run.variant}, {run.scenario}, seed {run.seed})"
    try:
        outcome = future.result()
    except BrokenExecutor:
        raise ConfigError(f"a worker process was ended in {where}; start the same command again to go on") from None
    except (NodewrightError, ImportError) as error:
        raise ConfigError(f"{where}: {error}") from error
    if outcome.version != version("nodewright-simulator"):
        ours = version("nodewright-simulator")
        raise ConfigError(f"{where}: the worker has nodewright-simulator {outcome.version}, and this command {ours}")
    return outcome
