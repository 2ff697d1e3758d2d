"""What a plan's reader should know first: what was not planned, not read, or left alone."""

from collections.abc import Iterator, Sequence

from nodewright.cli.dry_run.trial import Trial
from nodewright.cli.screen import count, name_some
from nodewright.clusterstate.readiness import describe_unhealthy
from nodewright.model.pod import Pod
from nodewright.planner.scale_up.limits import read_quotas


def find_warnings(trial: Trial, strays: Sequence[Pod]) -> Iterator[str]:
    """One sentence each; ``strays`` are pods on nodes that the dump lacks."""
    if trial.plan.halted:
        yield f"Nothing is planned: {trial.plan.halted}."
    elif trial.state.memory.unhealthy is not None:
        yield f"The {describe_unhealthy(trial.state.memory.unhealthy, trial.state.now)}."
    if trial.plan.partial:
        yield f"The plan is partial, {trial.plan.partial}."
    for name, held in trial.state.observation.providers.items():
        if held.problem:
            yield f"Provider {name} could not be read: {held.problem}."
    for warning in trial.plan.scale_up.warnings:
        yield f"{warning}."
    yield from _left_alone(trial)
    for read in read_quotas(trial.state.observation, trial.settings):
        if read.problem:
            yield f"{read.quota.id} is not enforced: {read.problem}."
    if strays:
        names = name_some([pod.key for pod in strays])
        yield f"{count(len(strays), 'pod')} on nodes that the dump does not hold, left out: {names}."


def _left_alone(trial: Trial) -> Iterator[str]:
    """What the dump holds and the settings pass over."""
    seen, settings = trial.state.observation, trial.settings
    options, buffers = settings.provisioning, settings.buffers.are_read
    asks, classes = options.enable_provisioning_requests, options.enable_provisioning_classes
    for_classes = "enable-provisioning-requests" if classes else "enable-provisioning-classes"
    for objects, is_on, noun, of, flag in (
        (seen.provisioning.requests, asks, "request", "for capacity", "enable-provisioning-requests"),
        (seen.provisioning.classes, asks and classes, "definition", "of request classes", for_classes),
        (seen.buffers.buffers, buffers, "buffer", "of spare capacity", "capacity-buffer-controller-enabled"),
        (seen.quotas, settings.limits.capacity_quotas_enabled, "quota", "of capacity", "capacity-quotas-enabled"),
    ):
        if objects and not is_on:
            are = "is" if len(objects) == 1 else "are"
            yield f"{count(len(objects), noun)} {of} {are} left alone: --{flag} is off."
