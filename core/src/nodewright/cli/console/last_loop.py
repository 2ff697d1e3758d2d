"""The last loop of the daemon, as its pages read it."""

from dataclasses import dataclass, replace
from typing import Any

from nodewright.actuation import Pause
from nodewright.actuation.write_gate import cluster_limits
from nodewright.cli.dry_run.dry_run import DryRun
from nodewright.clusterstate.readiness import describe_unhealthy
from nodewright.clusterstate.state import ClusterState
from nodewright.engine.report import LoopReport
from nodewright.engine.status import StatusReport, make_status
from nodewright.model.duration import format_moment
from nodewright.model.settings import Settings
from nodewright.planner.explain import buffers_planned, requests_seen


@dataclass(frozen=True, kw_only=True)
class LastLoop:
    """A loop that has ended and could read the cluster; ``now`` (epoch seconds) is when it is looked at."""

    report: LoopReport
    state: ClusterState
    settings: Settings
    pause: Pause | None
    now: float

    @property
    def dry_run(self) -> DryRun | None:
        """Return the loop in the form that explanations need; None: there is no plan."""
        if self.report.plan is None:
            return None
        return DryRun(state=self.state, plan=self.report.plan, settings=self.settings, problem=self.report.problem)

    def make_status(self) -> StatusReport:
        """Return the status, as ``nodewright status`` shows it."""
        status = make_status(
            self.state.memory,
            self.now,
            pause=self.pause,
            limits=cluster_limits(self.state, self.settings.deletion_limits),
            removing=self.report.removing,
            capacity=requests_seen(self.state, self.report.plan),
        )
        plan = self.report.plan
        if plan is None:
            return replace(status, buffers=())
        return replace(status, buffers=buffers_planned(plan), outdated=plan.outdated)

    def find_problems(self) -> list[str]:
        """Return a sentence for each problem. A pause that cannot be read counts as a pause."""
        report, state = self.report, self.state
        problems = [report.problem] if report.problem else []
        if self.pause is None and report.plan is not None and report.plan.paused:
            problems.append(f"writes to clouds are {report.plan.paused}")
        if state.memory.unhealthy is not None:
            problems.append(describe_unhealthy(state.memory.unhealthy, state.now))
        problems += [
            f"provider {name}: {held.problem}" for name, held in state.observation.providers.items() if held.problem
        ]
        problems += [f"{ref}: {held.problem}" for ref, held in state.observation.groups.items() if held.problem]
        problems += [f"{ref} is unhealthy" for ref, group in state.groups.items() if not group.healthy]
        return problems

    def as_json(self) -> dict[str, Any]:
        """Return what only a running daemon knows."""
        return {
            "loop": self.report.loop,
            "loop_ended": format_moment(self.report.finished),
            "healthy": self.state.healthy,
            "ready": {str(ref): len(group.readiness.ready) for ref, group in self.state.groups.items()},
            "problems": self.find_problems(),
        }
