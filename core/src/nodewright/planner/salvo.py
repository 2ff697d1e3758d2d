"""Expansion after expansion in one loop (CA: --salvo-scale-up, behaviour/up.md §4.12)."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random

from nodewright.model.action import IncreaseSize
from nodewright.model.pod import Pod
from nodewright.planner.candidates import ScaleUpContext, with_targets
from nodewright.planner.deadline import deadline
from nodewright.planner.pending import take_fitting
from nodewright.planner.plan import ScaleUpReport
from nodewright.planner.scale_up import ScaleUp
from nodewright.planner.template import place_daemons


def plan_rounds(
    ground: ScaleUpContext, pods: Sequence[Pod], random: Random
) -> tuple[list[IncreaseSize], list[ScaleUpReport]]:
    """The increases and the report of every round: one, or as many as help some pod that is left while there is time."""
    settings = ground.settings.scale_up
    is_over = deadline(ground.state.elapsed, settings.salvo_scale_up_budget)
    actions: list[IncreaseSize] = []
    reports: list[ScaleUpReport] = []
    current: ScaleUpContext | None = ground
    while current is not None and pods:
        increases, report = ScaleUp(current, pods, random).plan()
        actions += increases
        reports.append(report)
        if not (settings.salvo_scale_up and increases):
            break
        handled = {id(pod) for pod in report.triggered}
        pods = [pod for pod in pods if id(pod) not in handled]
        if pods and is_over():
            said = f"time was up (--salvo-scale-up-budget) with {len(pods)} pods left: the next loop goes on with them"
            reports[-1] = replace(report, partial="; ".join(filter(None, (report.partial, said))))
            break
        current = grown(current, report)
    return actions, reports


def grown(ground: ScaleUpContext, report: ScaleUpReport) -> ScaleUpContext | None:
    """The picture with the new nodes and the pods they are for; None if those do not all fit after all."""
    return grow_in_place(replace(ground, snapshot=ground.snapshot.fork()), report)


def grow_in_place(ground: ScaleUpContext, report: ScaleUpReport) -> ScaleUpContext | None:
    """As ``grown``, in the very picture of ``ground``."""
    _, left = fill_machines(ground, report)
    targets = {expansion.group: expansion.target for expansion in report.expansions}
    return None if left else with_targets(ground, targets)


def fill_machines(ground: ScaleUpContext, report: ScaleUpReport) -> tuple[list[Pod], list[Pod]]:
    """Add the new machines to the very picture of ``ground``, and the pods that they are for: those with room, the others."""
    snapshot = ground.snapshot
    for expansion in report.expansions:
        template = ground.templates[expansion.group]
        rows = snapshot.add_copies(template.node, expansion.added)
        place_daemons(snapshot, template, range(rows.start, rows.stop))
    return take_fitting(snapshot, report.triggered)
