"""From a scenario to a simulation that is ready to run."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from random import Random
from typing import Any, Protocol

from nodewright.adapters.clocks import VirtualClock
from nodewright.adapters.provider import CallRunner, CallSettings, InlineRunner, ProviderClient, load_provider
from nodewright.engine.planning import Planning
from nodewright.engine.report import LoopReport
from nodewright.model.capability import Capability
from nodewright.model.duration import parse_duration
from nodewright.model.errors import ConfigError
from nodewright.model.pod import Pod
from nodewright.spec.hooks import ProviderContext
from nodewright_simulator.api_server import EDIT, Refusal
from nodewright_simulator.controllers import DeploymentController, named
from nodewright_simulator.mapped import load_mapped
from nodewright_simulator.openb import group_options, load_openb, load_packaged_cut
from nodewright_simulator.recorded import Arrival, Replay, load_trace
from nodewright_simulator.scenario import (
    Crash,
    FullDisk,
    Happening,
    JobsSpec,
    JumpClock,
    Kill,
    Misread,
    Outage,
    PauseWrites,
    RefuseEdits,
    RefuseEvictions,
    RequestSpec,
    Restart,
    ResumeWrites,
    Scale,
    Scenario,
    SpareSpec,
    TouchNodes,
)
from nodewright_simulator.scenario_file import read_flat_settings
from nodewright_simulator.simulation import RunOptions, Simulation
from nodewright_simulator.workloads import (
    budget_rule,
    buffer_objects,
    daemon_set,
    engine_pod,
    gang_pod,
    job_pod,
    pod_group,
    pod_of,
    request_objects,
    trace_pods,
)


class LoadProvider(Protocol):
    """As ``load_provider``."""

    def __call__(
        self, name: str, context: ProviderContext, *, settings: CallSettings, runner: CallRunner
    ) -> ProviderClient: ...


@dataclass(frozen=True, kw_only=True)
class BuildOptions:
    """``every_tick``, ``meters_costs``, ``on_loop``: see RunOptions. ``folder`` is where a trace's relative folder is looked for.

    ``load`` finds each provider by its name, by default among what is installed. ``clock`` stands at 0.
    """

    every_tick: bool = False
    meters_costs: bool = True
    planning: Planning | None = None
    folder: Path | None = None
    load: LoadProvider = load_provider
    clock: VirtualClock = field(default_factory=VirtualClock)
    on_loop: Callable[[LoopReport], None] | None = None


def build_simulation(scenario: Scenario, options: BuildOptions | None = None) -> Simulation:
    """Build the scenario, ready to ``run``; raise ConfigError or PluginError."""
    options = options or BuildOptions()
    source = f"scenario {scenario.name}"
    clock = options.clock
    trace = _load_trace(scenario, options)
    settings = read_flat_settings(scenario.settings, source)
    providers = []
    for number, (name, raw) in enumerate(sorted(scenario.providers.items())):
        context = ProviderContext(
            clock=clock,
            random=Random(scenario.seed + number),
            options=_with_groups(raw, trace) if number == 0 else raw,
        )
        calls = CallSettings(deadline_seconds=60.0, honours_retry_after=settings.policy.waits_for_busy_clouds)
        provider = options.load(name, context, settings=calls, runner=InlineRunner(clock))
        if not provider.supports(Capability.SIMULATION):
            raise ConfigError(f"{source}: provider {name} cannot be simulated")
        providers.append(provider)
    run_options = RunOptions(
        end=scenario.duration,
        title=scenario.name,
        settings=settings,
        seed=scenario.seed,
        every_tick=options.every_tick,
        stops_idle=scenario.stops_idle,
        meters_costs=options.meters_costs,
        preference=scenario.scheduler,
        planning=options.planning or Planning(),
        on_loop=options.on_loop,
    )
    simulation = Simulation(clock, providers, run_options)
    _populate(simulation, scenario, trace)
    return simulation


def _load_trace(scenario: Scenario, options: BuildOptions) -> Replay | None:
    spec, folder = scenario.trace, options.folder or Path()
    if spec is None:
        return None
    arrivals, lifetimes = spec.compression * spec.rush, spec.compression
    if spec.file is not None:
        mapping = folder / spec.mapping if spec.mapping is not None else None
        found = load_trace(folder / spec.file) if mapping is None else load_mapped(folder / spec.file, mapping)
        return found.replay(arrivals=arrivals, lifetimes=lifetimes, all_at_once=spec.all_at_once)
    trace = load_packaged_cut() if spec.folder is None else load_openb(folder / spec.folder)
    if spec.all_at_once:
        trace = trace.all_at_once()
    trace = trace.compressed(arrivals=arrivals, lifetimes=lifetimes)
    pods = zip(trace.pods, trace_pods(trace.pods), strict=True)
    return Replay(
        groups=group_options(trace.shapes),
        arrivals=tuple(Arrival(pod, traced.created, traced.lifetime) for traced, pod in pods),
    )


def _with_groups(raw: Mapping[str, Any], trace: Replay | None) -> Mapping[str, Any]:
    if trace is None or not trace.groups or "groups" in raw or "file" in raw:
        return raw
    return {**raw, "groups": trace.groups}


def _populate(simulation: Simulation, scenario: Scenario, trace: Replay | None) -> None:
    simulation.cluster.daemon_sets = tuple(daemon_set(spec) for spec in scenario.daemon_sets)
    simulation.kubelets.startup_taint_seconds = scenario.startup_taints_last
    workloads = (*scenario.deployments, *scenario.jobs, *scenario.daemon_sets)
    simulation.api_server.budgets = tuple(budget_rule(spec, workloads) for spec in scenario.disruption_budgets)
    if scenario.engine_pod is not None:
        simulation.host_engine(engine_pod(scenario.engine_pod))
    for moment in _edges(scenario.providers):
        simulation.agenda.at(moment, lambda _: None)  # the cloud changes: run a loop
    _add_deployments(simulation, scenario)
    for request in scenario.provisioning_requests:
        _add_request(simulation, request)
    for spare in scenario.capacity_buffers:
        _add_buffer(simulation, spare, scenario)
    for number, jobs in enumerate(scenario.jobs):
        _add_jobs(simulation, jobs, Random(f"{scenario.seed}/{number}"))
    if trace is not None:
        _add_trace(simulation, trace)
    for happening in scenario.timeline:
        _add_happening(simulation, happening)


def _add_happening(simulation: Simulation, happening: Happening) -> None:
    """Schedule what happens to the engine, nodes and the API server. Deployments schedule their own scaling."""
    match happening:
        case Crash() | Restart() | Kill():
            _add_death(simulation, happening)
        case RefuseEdits() | RefuseEvictions() | Misread():
            _add_wrong_answers(simulation, happening)
        case FullDisk():
            simulation.fill_disk(happening.at, happening.lasts)
        case TouchNodes():
            simulation.touch_nodes(happening.at, happening.how, happening.nodes, happening.lasts)
        case Outage():
            simulation.fail_nodes(happening.at, happening.nodes, happening.lasts)
        case PauseWrites():
            simulation.pause(happening.at, happening.lasts)
        case ResumeWrites():
            simulation.pause(happening.at, 0)
        case JumpClock():
            simulation.jump_clock(happening.at, happening.by, happening.lasts, has_dates=happening.date_header)


def _add_death(simulation: Simulation, happening: Crash | Restart | Kill) -> None:
    match happening:
        case Crash():
            simulation.engine.crash(
                happening.at,
                write=happening.write,
                after_effect=happening.after_effect,
                down_seconds=happening.down,
                keeps_memory=happening.keeps_memory,
            )
        case Restart():
            simulation.engine.restart(
                happening.at,
                down_seconds=happening.down,
                keeps_memory=happening.keeps_memory,
                saved=happening.saved,
            )
        case Kill():
            simulation.engine.kill_after(
                happening.at, happening.step, down_seconds=happening.down, keeps_memory=happening.keeps_memory
            )


def _add_wrong_answers(simulation: Simulation, happening: RefuseEdits | RefuseEvictions | Misread) -> None:
    match happening:
        case Misread():
            simulation.misread(happening.at, happening.shows, happening.lasts, is_direct=happening.direct)
        case RefuseEdits():
            end, effect = happening.at + happening.lasts, happening.takes_effect
            edits = Refusal(start=happening.at, end=end, what=EDIT, takes_effect=effect)
            simulation.api_server.refusals.append(edits)
        case RefuseEvictions():
            end = happening.at + happening.lasts
            refusal = Refusal(start=happening.at, end=end, of=happening.namespace or "")
            simulation.api_server.refusals.append(refusal)


def _add_request(simulation: Simulation, spec: RequestSpec) -> None:
    """Schedule the creation of a request with its templates, and its deletion if there is one."""
    request, templates = request_objects(spec)
    requests, held = simulation.api_server.requests, simulation.api_server.templates

    def create(at: float) -> None:
        for template in templates:
            held.put(template)
        requests.add(request, at)

    simulation.agenda.at(spec.at, create)
    if spec.deleted_at is not None:
        simulation.agenda.at(spec.deleted_at, lambda _: requests.delete(request.key))


def _add_buffer(simulation: Simulation, spec: SpareSpec, scenario: Scenario) -> None:
    """Schedule the creation of a buffer with its template, and its deletion if there is one."""
    buffer, template = buffer_objects(spec, scenario.deployments)
    buffers = simulation.api_server.buffers

    def create(at: float) -> None:
        if template is not None:
            simulation.api_server.templates.put(template)
        buffers.put(buffer, at)

    simulation.agenda.at(spec.at, create)
    if spec.deleted_at is not None:
        simulation.agenda.at(spec.deleted_at, lambda _: buffers.delete(buffer.key))


def _add_deployments(simulation: Simulation, scenario: Scenario) -> None:
    for spec in scenario.deployments:
        pod = pod_of(spec.name, spec.pod)
        if spec.gang is not None:
            pod = gang_pod(pod, spec.name)
            group = pod_group(spec.name, pod.metadata.namespace, spec.gang)
            simulation.cluster.pod_groups[group.key] = group
        deployment = DeploymentController(simulation.cluster, spec.name, pod)
        steps = [(spec.at, spec.replicas)]
        steps += [(s.at, s.replicas) for s in scenario.timeline if isinstance(s, Scale) and s.deployment == spec.name]
        for at, replicas in steps:
            simulation.agenda.at(at, partial(deployment.scale, replicas))


def _add_jobs(simulation: Simulation, spec: JobsSpec, random: Random) -> None:
    template = job_pod(spec.name, spec.pod)
    at = float(spec.at)
    for number in range(spec.count):
        lifetime = random.uniform(spec.duration, spec.longest) if spec.longest is not None else spec.duration
        _run_job(simulation, named(template, f"{spec.name}-{number}", at), lifetime, at)
        at += random.expovariate(1 / spec.every) if spec.random_arrivals and spec.every else spec.every


def _add_trace(simulation: Simulation, trace: Replay) -> None:
    simulation.cluster.daemon_sets = (*simulation.cluster.daemon_sets, *trace.daemon_sets)
    for pod, created, lifetime in trace.arrivals:
        _run_job(simulation, pod, lifetime, created, resumes=True)


def _run_job(simulation: Simulation, pod: Pod, lifetime: float, at: float, *, resumes: bool = False) -> None:
    simulation.agenda.at(at, lambda moment: simulation.jobs.run(pod, lifetime, moment, resumes=resumes))


def _edges(options: Any) -> Iterator[float]:
    """Yield when anything in a provider's options starts or ends: the keys ``start`` and ``end`` at any depth."""
    if isinstance(options, Mapping):
        for key in ("start", "end"):
            if key in options:
                yield from _moment(options[key])
        yield from chain.from_iterable(_edges(value) for value in options.values())
    elif isinstance(options, list | tuple):
        yield from chain.from_iterable(_edges(value) for value in options)


def _moment(raw: Any) -> Iterator[float]:
    try:
        yield parse_duration(raw) if isinstance(raw, str) else float(raw)
    except (TypeError, ValueError):
        return  # not a time: only the provider knows what the key means
