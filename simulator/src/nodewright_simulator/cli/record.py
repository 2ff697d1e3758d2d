"""``nodewright record``: a cluster over some time, or dumps of it, as a trace for ``simulate``."""

import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import click

from nodewright.cli.screen import count, make_console, output_option, safe, write_json

if TYPE_CHECKING:
    from nodewright.model.node import Node
    from nodewright.model.pod import Pod
    from nodewright_simulator.recorded import UnfinishedTrace
    from nodewright_simulator.recording import Anonymiser, Recording, TraceMaker


@click.command("record")
@click.argument("dumps", metavar="[DUMP|FOLDER]…", nargs=-1)
@click.option("--to", metavar="FILE.parquet", default="trace.parquet", show_default=True, help="Where the trace goes.")
@click.option("--for", "duration", metavar="DURATION", help="Record the live cluster so long. Default: until Ctrl-C.")
@click.option(
    "--kubeconfig", metavar="FILE", default="", envvar="NODEWRIGHT_KUBECONFIG", help="Names the live cluster."
)
@click.option("--group-by", metavar="LABEL", help="One node group for each value of this node label.")
@click.option(
    "--group-max",
    type=click.IntRange(0),
    metavar="N",
    help="How far each group may grow. Default: the most nodes that it had at a time.",
)
@click.option("--finish", is_flag=True, help="Make the trace from what a cut-off recording had saved.")
@click.option("--no-anonymise", is_flag=True, help="Keep the names of the cluster. Default: they are hashed.")
@output_option
def command(dumps: tuple[str, ...], to: str, duration: str | None, kubeconfig: str, output: str, **given: Any) -> None:
    """Record the pods and node groups of a cluster as a trace in one Parquet file, which nodewright simulate runs again.

    Without DUMP a live cluster is watched: the one that --kubeconfig names, else the cluster of this pod, else kubectl's default
    cluster. It reads nodes and pods, and writes nothing there. With dumps, or folders of them (as nodewright plan takes), what changed from one to
    the next is the trace. Names are replaced by hashes with a salt that is thrown away.

    A live recording is saved each minute in FILE.parquet.parts. If it is cut off, --finish makes the trace from that. A save
    that fails is told on stderr and tried again after a minute.

    Exit codes: 0 recorded; 2 bad input, or the cluster cannot be read.
    """
    from secrets import token_bytes

    from nodewright.model.duration import parse_duration
    from nodewright.model.errors import ConfigError
    from nodewright_simulator.recorded import check_pyarrow, finish_trace, save_trace
    from nodewright_simulator.recording import Anonymiser

    path, wishes = Path(to), (given["group_by"], given["group_max"])
    if dumps and duration is not None:
        raise ConfigError("--for: is for a live cluster, not for dumps")
    if given["finish"] and (dumps or duration is not None or given["no_anonymise"] or wishes != (None, None)):
        raise ConfigError("--finish: goes only with --to, since what was recorded cannot be changed")
    try:
        seconds = parse_duration(duration) if duration is not None else None
    except ValueError as error:
        raise ConfigError(f"--for: {error}") from None
    check_pyarrow()
    hides = Anonymiser(None if given["no_anonymise"] else token_bytes(16))
    if dumps:
        trace = read_dumps([Path(dump) for dump in dumps]).make_trace(hides, *wishes)
        save_trace(trace, path)
        header, pods = trace.header, len(trace.pods)
    else:
        if not given["finish"]:
            record_live(kubeconfig, seconds, path, hides, *wishes)
        header, pods = finish_trace(path)
    if output == "json":
        document = {"schema": 1, "file": str(Path(to).resolve()), "pods": pods, "seconds": header.seconds}
        groups = [{"name": group["name"], "max_size": group["max_size"]} for group in header.groups]
        write_json(document | {"anonymous": header.anonymous, "groups": groups, "left_out": header.left_out})
        return
    console = make_console()
    console.print(
        safe(
            f"{count(pods, 'pod')} in {header.seconds:,.0f} s, {count(len(header.groups), 'node group')}, "
            f"{count(len(header.daemon_sets), 'DaemonSet')}: {to}"
        ),
        soft_wrap=True,
    )
    for what, pods in header.left_out.items():
        console.print(safe(f"left out: {what} of {count(pods, 'pod')}"), soft_wrap=True)


def read_dumps(places: Sequence[Path]) -> "Recording":
    """Return the recording of dumps in order of the newest moment that each holds; raise ConfigError."""
    from nodewright.cli.dry_run.dump import newest_moment, read_dump
    from nodewright.model.errors import ConfigError
    from nodewright_simulator.recording import Recording

    paths = [path for place in places for path in (sorted(place.iterdir()) if place.is_dir() else [place])]
    dumps = []
    for path in paths:
        if path.is_dir() or path.name.startswith("."):
            continue
        try:
            objects = read_dump(path.read_bytes(), str(path))
        except OSError as error:
            raise ConfigError(f"{path}: {error.strerror}") from None
        dumps.append((newest_moment(objects), objects))
    if not dumps:
        raise ConfigError(f"{places[0]}: holds no dump")
    recording = Recording()
    for at, objects in sorted(dumps, key=lambda dump: dump[0]):
        recording.see(objects.nodes, objects.pods, at)
    return recording


_SYNC_SECONDS = 60.0
_EVERY = 1.0


def record_live(
    kubeconfig: str, seconds: float | None, path: Path, hides: "Anonymiser", group_by: str | None, most: int | None
) -> None:
    """Record the live cluster into the parts of the trace at ``path``.

    Raise ConfigError, or KubeApiError if the cluster cannot be read.
    """
    from nodewright.adapters.clocks import BootClock, SystemClock
    from nodewright.adapters.kube.connection import connect
    from nodewright.adapters.server_time import ServerTime
    from nodewright_simulator.recorded import UnfinishedTrace
    from nodewright_simulator.recording import Recording, TraceMaker

    boot = BootClock()
    wall = ServerTime(SystemClock(), boot.now)
    api = connect(kubeconfig=kubeconfig, time=wall)
    recording = Recording()

    def tell(recording: Recording) -> None:
        saver.see()
        _show(recording)

    with UnfinishedTrace(path) as target:
        saver = Saver(TraceMaker(recording, hides, group_by, most), target, boot.now)
        before = {kind: signal.signal(kind, saver.stop) for kind in (signal.SIGINT, signal.SIGTERM)}
        try:
            watch(api, boot, wall.now, boot.now() + seconds if seconds is not None else None, tell, recording)
            saver.save()
        finally:
            for kind, handler in before.items():
                signal.signal(kind, handler)


_SAVE_SECONDS = 60.0


class Saver:
    """Saves a recording when it begins and then each minute by ``now``, so that a crash loses a minute of it.

    If a save after the first one fails, the next one, a minute later, also holds what this one should. ``stop`` is a handler of signals: it raises KeyboardInterrupt, but not in the middle of a save.
    """

    def __init__(self, maker: "TraceMaker", target: "UnfinishedTrace", now: Callable[[], float]) -> None:
        self._maker, self._target, self._now = maker, target, now
        self._due = now()
        self._saves = self._saved = self._stopped = False

    def see(self) -> None:
        """Save if it is time to; raise ConfigError if the first save fails."""
        from nodewright.model.errors import ConfigError

        if self._now() >= self._due:
            try:
                self.save()
            except ConfigError as error:
                if not self._saved:
                    raise
                click.echo(f"{error}; the recording goes on, and is saved again in a minute", err=True)
        if self._stopped:
            raise KeyboardInterrupt

    def save(self) -> None:
        """Save; raise ConfigError."""
        self._saves = True
        try:
            gone = self._maker.take_gone()
            self._target.save(gone, self._maker.peek())
            self._saved = True
        finally:
            self._saves = False
            self._due = self._now() + _SAVE_SECONDS

    def stop(self, *_: object) -> None:
        self._stopped = True
        if not self._saves:
            raise KeyboardInterrupt


def watch(
    api: Any,
    clock: Any,
    now: Callable[[], float],
    deadline: float | None,
    tell: Callable[["Recording"], None] = lambda _: None,
    recording: "Recording | None" = None,
) -> "Recording":
    """Record until ``deadline`` of ``clock`` or a KeyboardInterrupt; raise KubeApiError if nothing can be listed.

    ``now`` is the time of the API server. ``tell`` is called after each look at the cluster.
    """
    from nodewright.adapters.kube.reflector import ObjectCache, Reflector
    from nodewright.adapters.kube.resources import Resource
    from nodewright_simulator.recording import Recording

    passed: deque[Pod] = deque()
    pods: ObjectCache[Pod] = ObjectCache(lambda _, pod: passed.append(pod))
    nodes: ObjectCache[Node] = ObjectCache()
    reflectors: list[Reflector[Any]] = [
        Reflector(api, Resource("Pod"), pods, clock, Random()),
        Reflector(api, Resource("Node"), nodes, clock, Random()),
    ]
    threads = [threading.Thread(target=one.run, name=f"watch-{one.resource.kind}", daemon=True) for one in reflectors]
    recording = recording or Recording()

    def look() -> None:
        came = _drain(passed)  # before the list: what is not in that then is gone
        recording.see(nodes.all(), pods.all(), now(), came)
        tell(recording)

    for thread in threads:
        thread.start()
    try:
        _wait_listed(reflectors)
        look()
        while deadline is None or clock.now() < deadline:
            clock.sleep(_EVERY if deadline is None else min(_EVERY, max(0.0, deadline - clock.now())))
            look()
    except KeyboardInterrupt:
        if recording.start is None:
            raise
        recording.see(nodes.all(), pods.all(), now(), _drain(passed))
    finally:
        for one in reflectors:
            one.stop()
    for one in reflectors:
        if one.cache.problem:
            click.echo(f"kind {one.resource.kind}: not current at the end: {one.cache.problem}", err=True)
    return recording


def _show(recording: "Recording") -> None:
    if sys.stderr.isatty():
        seconds = recording.end - (recording.start or 0.0)
        click.echo(f"\r{recording.pods:,} pods in {seconds:,.0f} s; Ctrl-C ends the recording ", nl=False, err=True)


def _wait_listed(reflectors: Iterable[Any]) -> None:
    from nodewright.model.errors import KubeApiError

    for one in reflectors:
        if not one.cache.wait_synced(_SYNC_SECONDS):
            raise KubeApiError(f"the cluster cannot be read: {one.cache.problem or 'no answer yet'}", retryable=True)


def _drain(queue: deque[Any]) -> Iterable[Any]:
    return [queue.popleft() for _ in range(len(queue))]
