"""``nodewright run``: the daemon."""

import signal
import sys
import threading
from queue import SimpleQueue

import click

from nodewright.cli.daemon.app import DaemonApp
from nodewright.cli.daemon.build import DaemonOptions, build_daemon
from nodewright.cli.settings.checks import check_daemon
from nodewright.cli.settings.flags import SettingsCommand, SettingsSource, source_options

LOOP_FAILED, LEADERSHIP_LOST = 3, 4


@click.command("run", cls=SettingsCommand, lists_settings=True)
@click.option(
    "--dry-run", is_flag=True, help="Look and plan, and write nothing anywhere: no cloud, no object, no lease."
)
@click.option(
    "--shadow",
    is_flag=True,
    help="Beside a running cluster-autoscaler: write nothing, and tell what it does that we would not, and why.",
)
@click.option("--once", is_flag=True, help="One loop and what it begins, then end.")
@click.option("--seed", type=int, help="Chance of the random expander. Default: a new one each time.")
@source_options
def command(source: SettingsSource, dry_run: bool, shadow: bool, once: bool, seed: int | None) -> int:
    """Scale the node groups of the cluster that --kubeconfig names, or of the one around this pod, until told to stop.

    What it does and why is told in JSON on stderr, in metrics, in events and in the status ConfigMap. SIGTERM, SIGINT
    and SIGHUP let the action at hand finish, then release the lease.

    Exit codes: 0 stopped as asked, or with --once the loop was run; 2 bad input or a plugin that cannot be used;
    3 with --once, the loop could not be run; 4 another process leads by now.
    """
    loaded = source.load()
    check_daemon(loaded.settings)
    options = DaemonOptions(dry_run=dry_run, shadow=shadow, once=once, seed=seed)
    engine = build_daemon(source, loaded.settings, options, sys.stderr.buffer)
    for note in loaded.idle:
        engine.log.say(note, level="warning")
    threading.excepthook = engine.log.thread_ended
    _stop_when_told(engine)
    with engine:
        report = engine.run()
    if engine.lost_leadership:
        return LEADERSHIP_LOST
    return LOOP_FAILED if once and (report is None or report.problem) else 0


def _stop_when_told(engine: DaemonApp) -> None:
    """Stop the engine on SIGTERM, SIGINT and SIGHUP, from a thread of its own.

    A signal handler must not take a lock that the main thread may hold; ``SimpleQueue.put`` takes none.
    """
    told: SimpleQueue[int] = SimpleQueue()

    def obey() -> None:
        told.get()
        engine.stop()

    threading.Thread(target=obey, name="signals", daemon=True).start()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda number, _: told.put(number))
