"""``nodewright run``: the daemon."""

import signal
import sys
import threading
from queue import SimpleQueue
from typing import TYPE_CHECKING

import click

from nodewright.cli.settings.checks import check_daemon
from nodewright.cli.settings.flags import SettingsCommand, SettingsSource, source_options

if TYPE_CHECKING:
    from nodewright.cli.daemon.app import DaemonApp

LOOP_FAILED, LEADERSHIP_LOST = 3, 4


@click.command("run", cls=SettingsCommand, lists_settings=True)
@click.option("--dry-run", is_flag=True, help="Read and plan, but write nothing: no cloud, no object, no lease.")
@click.option(
    "--shadow",
    is_flag=True,
    help="Run beside a cluster-autoscaler: write nothing, and report where nodewright decides differently, and why.",
)
@click.option("--once", is_flag=True, help="Run one loop, finish what it begins, then exit.")
@click.option("--seed", type=int, help="Random seed of the random expander. Default: a new seed at each start.")
@source_options
def command(source: SettingsSource, dry_run: bool, shadow: bool, once: bool, seed: int | None) -> int:
    """Scale the node groups of the cluster that --kubeconfig names, or of the cluster of this pod, until a signal comes.

    The daemon reports its decisions and their reasons on stderr (as JSON unless that is a terminal), in metrics, in events
    and in the status ConfigMap. After SIGTERM, SIGINT or SIGHUP it finishes the present action, releases the lease and exits.

    Exit codes: 0 stopped by a signal, or with --once the loop succeeded; 2 bad input or an unusable plugin;
    3 with --once, the loop failed; 4 another process has become the leader.
    """
    from nodewright.cli.daemon.build import DaemonOptions, build_daemon

    loaded = source.load()
    check_daemon(loaded.settings)
    options = DaemonOptions(dry_run=dry_run, shadow=shadow, once=once, seed=seed)
    engine = build_daemon(source, loaded.settings, options, sys.stderr.buffer)
    for note in loaded.idle:
        engine.log.say(note, level="warning")
    prepare(engine)
    with engine:
        report = engine.run()
    if engine.lost_leadership:
        return LEADERSHIP_LOST
    return LOOP_FAILED if once and (report is None or report.problem) else 0


def prepare(engine: "DaemonApp") -> None:
    """Take over what this process logs and the signals that end it."""
    engine.log.take_libraries()
    threading.excepthook = engine.log.thread_ended
    _stop_when_told(engine)


def _stop_when_told(engine: "DaemonApp") -> None:
    """Stop the engine on SIGTERM, SIGINT and SIGHUP, from a thread of its own.

    A signal handler must not take a lock that the main thread may hold; ``SimpleQueue.put`` takes none.
    """
    signals: SimpleQueue[int] = SimpleQueue()

    def obey() -> None:
        signals.get()
        engine.stop()

    threading.Thread(target=obey, name="signals", daemon=True).start()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda number, _: signals.put(number))
