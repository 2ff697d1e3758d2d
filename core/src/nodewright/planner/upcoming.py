"""Machines on their way, in the picture before they are nodes (behaviour/up.md §1.2 step 22)."""

from collections.abc import Mapping

from nodewright.estimator.binpacking import Template
from nodewright.model.group import GroupRef
from nodewright.planner.template import place_daemons
from nodewright.registry.state import ClusterState
from nodewright.snapshot.snapshot import Snapshot


def add_upcoming(snapshot: Snapshot, state: ClusterState, templates: Mapping[GroupRef, Template]) -> int:
    """Add a copy of the template for every upcoming machine; answers how many.

    A node that has registered but not started is one of the upcoming machines, so the node itself leaves the
    picture: each machine counts once, by its ready-looking copy.
    """
    added = 0
    for ref, group in state.groups.items():
        template = templates.get(ref)
        if group.upcoming <= 0 or template is None:
            continue
        for name in group.readiness.not_started:
            snapshot.remove_node(snapshot.row(name))
        rows = snapshot.add_copies(template.node, group.upcoming)
        place_daemons(snapshot, template, range(rows.start, rows.stop))
        added += group.upcoming
    return added
