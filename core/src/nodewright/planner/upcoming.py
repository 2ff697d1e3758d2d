"""Machines on their way, in the picture before they are nodes (behaviour/up.md §1.2 step 22)."""

from collections.abc import Mapping

from nodewright.clusterstate.state import ClusterState
from nodewright.estimator.binpacking import Template
from nodewright.model.group import GroupRef
from nodewright.planner.template import place_daemons
from nodewright.snapshot.snapshot import Snapshot


def add_upcoming(
    snapshot: Snapshot, state: ClusterState, templates: Mapping[GroupRef, Template]
) -> dict[GroupRef, range]:
    """Add a copy of the template for every upcoming machine; return the rows of each group's.

    A node that has registered but not started is one of the upcoming machines, so the node itself leaves the
    picture: each machine counts once, by its ready-looking copy.
    """
    added: dict[GroupRef, range] = {}
    for ref, group in state.groups.items():
        template = templates.get(ref)
        if group.upcoming <= 0 or template is None:
            continue
        for name in group.readiness.not_started:
            snapshot.remove_node(snapshot.row(name))
        rows = snapshot.add_copies(template.node, group.upcoming)
        added[ref] = range(rows.start, rows.stop)
        place_daemons(snapshot, template, added[ref])
    return added
