"""Questions of the kind "what if" on the page: the last loop's cluster is planned once as it is and once as it would be."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from msgspec.structs import replace

from nodewright.adapters.web import Query
from nodewright.cli.bundle import describe_groups, with_group
from nodewright.cli.console.last_loop import LastLoop
from nodewright.cli.console.views import BAD, WaitingRow, find_waiting
from nodewright.cli.cost_view import DifferenceRow, find_difference
from nodewright.cli.dry_run.dump import identify, plan_objects
from nodewright.cli.dry_run.dump_groups import PROVIDER
from nodewright.cli.dry_run.dump_options import DumpSource
from nodewright.cli.dry_run.what_if import Scaling, WhatIf
from nodewright.model.duration import format_duration, format_moment
from nodewright.model.errors import ConfigError, NodewrightError
from nodewright.model.meta import Object
from nodewright.model.objects import KINDS, ClusterObjects

# The longest NAMESPACE/NAME is 317 characters long.
_LONGEST_GROUP, _LONGEST_WORKLOAD, _MOST_REPLICAS = 500, 317, 1000
# No loop runs while a question is planned: larger clusters are left to ``plan`` on another machine, and after each
# question the loops have at least so many times its time for themselves.
_MOST_NODES, _MOST_PODS = 1000, 20_000
_REST = 4.0


class Answer(NamedTuple):
    """The difference between the two plans, and the pods that the second does not help."""

    rows: tuple[DifferenceRow, ...]
    unhelped: tuple[WaitingRow, ...]


class WhatIfs:
    """Answers questions, one at a time; call it only within ``look`` of the debug server. ``time`` returns seconds."""

    def __init__(self, find_objects: Callable[[str], Iterable[Object]], time: Callable[[], float]) -> None:
        self._find_objects = find_objects
        self._time = time
        self._free_at = 0.0
        # The last answer with its loop and question: a page that is loaded again does not plan again.
        self._last: tuple[tuple[str, WhatIf], Answer] | None = None

    def answer(self, last: LastLoop, what: WhatIf) -> Answer:
        """Plan both clusters; raise ConfigError for a question that cannot be answered, or not now."""
        key = (last.report.loop, what)
        if self._last is not None and self._last[0] == key:
            return self._last[1]
        begun = self._time()
        if begun < self._free_at:
            left = format_duration(max(1, round(self._free_at - begun)))
            raise ConfigError(f"the loops have precedence after the last question: ask again in {left}")
        try:
            found = _plan(last, self._read(last), what)
        except NodewrightError as error:
            raise ConfigError(str(error).removeprefix("--")) from None
        finally:
            ended = self._time()
            self._free_at = ended + _REST * (ended - begun)
        self._last = (key, found)
        return found

    def _read(self, last: LastLoop) -> ClusterObjects:
        held: dict[str, Any] = {kind.field: tuple(self._find_objects(kind.name)) for kind in KINDS.values()}
        nodes, pods = len(held["nodes"]), len(held["pods"])
        if nodes > _MOST_NODES or pods > _MOST_PODS:
            raise ConfigError(
                f"this cluster has {nodes:,} nodes and {pods:,} pods; with over {_MOST_NODES:,} or {_MOST_PODS:,} a question "
                "would hold up the loops: ask nodewright bundle for a file, and nodewright plan what if"
            )
        groups = last.state.group_of_node
        return replace(
            ClusterObjects(**held), nodes=tuple(identify(with_group(node, groups)) for node in held["nodes"])
        )


def _plan(last: LastLoop, objects: ClusterObjects, what: WhatIf) -> Answer:
    dumped = DumpSource(
        dump="",
        groups=None,
        group_by=None,
        group_max=0,
        now=format_moment(last.report.started),
        seed=0,
        entries=describe_groups(last.state.groups.values()),
    )
    settings = replace(last.settings, providers={})
    now, _ = plan_objects(settings, dumped, objects)
    then, _ = plan_objects(settings, dumped, objects, what)
    rows = (row._replace(what=row.what.replace(f" {PROVIDER}/", " ", 1)) for row in find_difference(now, then))
    return Answer(tuple(rows), tuple(row for row in find_waiting(then) if row.tone == BAD))


def read_question(query: Query) -> WhatIf | None:
    """Return the question in a query, None without one; raise ConfigError for a value that is too long or wrong."""
    group, workload, replicas = (query.get(key, "").strip() for key in ("add", "workload", "replicas"))
    for name, value, most in (("group", group, _LONGEST_GROUP), ("workload", workload, _LONGEST_WORKLOAD)):
        if len(value) > most:
            raise ConfigError(f"{name}: is longer than {most} characters")
    scaling = None
    if workload:
        if not (replicas.isascii() and replicas.isdecimal() and len(replicas) < 5 and int(replicas) <= _MOST_REPLICAS):
            raise ConfigError(f"pods: give how many the workload is to have, from 0 to {_MOST_REPLICAS:,}")
        scaling = Scaling(workload if "/" in workload else f"default/{workload}", int(replicas))
    what = WhatIf(groups=(group,) if group else (), scaling=scaling)
    return what or None
