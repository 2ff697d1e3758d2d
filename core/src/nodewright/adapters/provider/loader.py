"""Finds and loads the named provider and imports no other, so that a broken plugin cannot prevent the start of others."""

import difflib
import inspect
import os
import re
import shlex
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import Distribution, distribution, entry_points
from pathlib import Path
from typing import Any, NoReturn, Protocol
from urllib.parse import unquote, urlsplit

import msgspec
import pluggy

from nodewright.adapters.provider import checks
from nodewright.adapters.provider.calls import CallSettings, HookCaller
from nodewright.adapters.provider.client import ProviderClient
from nodewright.adapters.provider.recording import Recorder
from nodewright.adapters.provider.runner import CallRunner, CallTimedOut, ThreadRunner
from nodewright.model.capability import Capability
from nodewright.model.clock import Clock
from nodewright.model.errors import ConfigError, ContractViolation, PluginError, PluginNotFound, ProviderError
from nodewright.model.group import ProviderInfo
from nodewright.model.write_fence import WriteFence
from nodewright.spec.hooks import (
    CAPABILITY_HOOKS,
    ENTRY_POINT_GROUP,
    OPTIONAL_HOOKS,
    SPEC_VERSION,
    ProviderContext,
    RequiredHooks,
)
from nodewright.spec.markers import PROJECT

# Seconds that the import and the construction of a plugin may take.
BUILD_SECONDS = 60.0
# The most seconds that a loop waits before it reads a cloud that it has just written to.
LONGEST_SETTLING = 60.0
# The providers that this project publishes itself.
_OURS = ("aws", "azure", "externalgrpc", "fake", "gce")
# PEP 610: the file of a distribution that was not installed from an index.
_ORIGIN = "direct_url.json"
_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


def register(name: str, plugin: object) -> pluggy.PluginManager:
    """Return a plugin manager for one provider alone: a write is never broadcast to two clouds.

    Raise ContractViolation for a method without ``@hookimpl``, an unknown hook, wrong arguments, or a
    required hook that is missing.
    """
    if inspect.isclass(plugin):
        raise ContractViolation(f"plugin {name}: the entry point gave the class {plugin.__name__}, not a provider")
    manager = pluggy.PluginManager(PROJECT)
    for protocol in (RequiredHooks, *CAPABILITY_HOOKS.values()):
        manager.add_hookspecs(protocol)
    try:
        manager.register(plugin, name=name)
        manager.check_pending()
    except pluggy.PluginValidationError as error:
        raise ContractViolation(f"plugin {name}: {_first_line(error)}") from error
    for protocol in CAPABILITY_HOOKS.values():
        _check_implementations(manager, name, plugin, protocol)
    _check_implementations(manager, name, plugin, RequiredHooks)
    _demand(manager, name, RequiredHooks, "it is required")
    return manager


def check_info(
    manager: pluggy.PluginManager, name: str, info: ProviderInfo, speaks: tuple[int, int] = SPEC_VERSION
) -> None:
    """Check what the plugin says about itself, for a core that speaks that contract version; raise ContractViolation."""
    if info.name != name:
        raise ContractViolation(f"plugin {name}: provider_info names it {info.name!r}, its entry point {name!r}")
    if not _is_version(info.spec_version):
        raise ContractViolation(f"plugin {name}: provider_info gives {info.spec_version!r} as contract version")
    major, minor = info.spec_version
    if major != speaks[0] or minor > speaks[1]:
        ours = "{}.{}".format(*speaks)
        raise ContractViolation(f"plugin {name}: it needs contract {major}.{minor}, this nodewright speaks {ours}")
    settles: object = info.settles_after
    if isinstance(settles, bool) or not isinstance(settles, (int, float)) or not 0 <= settles <= LONGEST_SETTLING:
        limit = f"a number of seconds up to {LONGEST_SETTLING:g}"
        raise ContractViolation(f"plugin {name}: provider_info gives settles_after as {settles!r}, not {limit}")
    for capability in info.capabilities:
        if not isinstance(capability, Capability):
            raise ContractViolation(f"plugin {name}: provider_info declares {capability!r}, which is no capability")
        _demand(manager, name, CAPABILITY_HOOKS[capability], f"provider_info declares {capability.value}")


def hook_names(protocol: type) -> tuple[str, ...]:
    """Return the names of the hooks of one Protocol of the contract."""
    return tuple(name for name, value in vars(protocol).items() if inspect.isfunction(value) and name[0] != "_")


def _check_implementations(manager: pluggy.PluginManager, name: str, plugin: object, protocol: type) -> None:
    for hook in hook_names(protocol):
        implementations = getattr(manager.hook, hook).get_hookimpls()
        method = inspect.getattr_static(plugin, hook, None)
        if method is not None and not implementations:
            raise ContractViolation(f"plugin {name}: method {hook} lacks @hookimpl")
        if not implementations:
            continue
        if inspect.iscoroutinefunction(implementations[0].function):
            raise ContractViolation(f"plugin {name}: hook {hook} is async, hooks are plain methods")
        # pluggy leaves out arguments that the method does not name: a resize would never see expected_target.
        missing = _arguments(getattr(protocol, hook)) - set(implementations[0].argnames)
        if missing:
            raise ContractViolation(f"plugin {name}: hook {hook} does not take {_listed(missing)}")


def _demand(manager: pluggy.PluginManager, name: str, protocol: type, why: str) -> None:
    needed = (hook for hook in hook_names(protocol) if hook not in OPTIONAL_HOOKS)
    missing = [hook for hook in needed if not getattr(manager.hook, hook).get_hookimpls()]
    if missing:
        raise ContractViolation(f"plugin {name}: hook {_listed(missing)} is missing, and {why}")


def _arguments(function: object) -> set[str]:
    return set(inspect.signature(function).parameters) - {"self"} if callable(function) else set()


def _is_version(version: object) -> bool:
    return isinstance(version, tuple) and len(version) == 2 and all(type(part) is int for part in version)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))


def _first_line(error: Exception) -> str:
    """Return a message of pluggy as one line."""
    return " ".join(line.strip() for line in str(error).splitlines() if line.strip())


class ProviderEntry(Protocol):
    """The parts of ``importlib.metadata.EntryPoint`` that the loader uses."""

    @property
    def name(self) -> str: ...
    @property
    def value(self) -> str: ...
    @property
    def dist(self) -> Distribution | None: ...
    def load(self) -> Any: ...


@dataclass(frozen=True, kw_only=True)
class InstalledProvider:
    """A provider that an installed package offers. It has not been imported."""

    name: str
    distribution: str
    version: str


def installed_providers(entries: Iterable[ProviderEntry] | None = None) -> tuple[InstalledProvider, ...]:
    """Return every installed provider, by name; a name that two packages claim appears twice."""
    found = [
        InstalledProvider(
            name=entry.name, distribution=_package(entry), version=entry.dist.version if entry.dist else ""
        )
        for entry in _entries(entries)
    ]
    return tuple(sorted(found, key=lambda provider: (provider.name, provider.distribution)))


def load_provider(
    name: str,
    context: ProviderContext,
    *,
    settings: CallSettings | None = None,
    runner: CallRunner | None = None,
    gate: WriteFence | None = None,
    entries: Iterable[ProviderEntry] | None = None,
) -> ProviderClient:
    """Load the provider of that name and build it from ``context``.

    Raise PluginNotFound, PluginError (it cannot be imported or built, or takes more than BUILD_SECONDS), ContractViolation,
    or the plugin's own ConfigError. ``runner`` builds it and makes the calls, by default threads of its own, and ``gate`` is
    asked before each write; ``entries`` replaces what is installed.
    """
    plugin = build_plugin(name, context, entries, runner)
    manager = register(name, plugin)
    if isinstance(context.exchanges, Recorder):
        context.exchanges.watch(manager)
    client = _make_client(name, manager, clock=context.clock, settings=settings, runner=runner, gate=gate)
    client.demand_limits(context.node_group_specs)
    return client


def build_plugin(
    name: str,
    context: ProviderContext,
    entries: Iterable[ProviderEntry] | None = None,
    runner: CallRunner | None = None,
) -> object:
    """Return the provider object of that name; raise as ``load_provider`` does."""
    entry = _find(name, list(_entries(entries)))
    if not _NAME.fullmatch(name):
        raise PluginError(
            f"provider {name} of {_package(entry)}: a name has lower case, digits and dashes, a letter first"
        )
    builder = ThreadRunner(f"{name}-build")
    try:
        return (runner or builder).run(lambda: _build(entry, context), BUILD_SECONDS)
    except CallTimedOut as error:
        raise PluginError(
            f"provider {name} of {_package(entry)} was not imported and built within {BUILD_SECONDS:g} s"
        ) from error
    finally:
        builder.close()


def connect_provider(
    name: str,
    plugin: object,
    *,
    clock: Clock,
    settings: CallSettings | None = None,
    runner: CallRunner | None = None,
    gate: WriteFence | None = None,
) -> ProviderClient:
    """Return a client of a provider object that exists already; raise ContractViolation."""
    return _make_client(name, register(name, plugin), clock=clock, settings=settings, runner=runner, gate=gate)


def _make_client(
    name: str,
    manager: pluggy.PluginManager,
    *,
    clock: Clock,
    settings: CallSettings | None,
    runner: CallRunner | None,
    gate: WriteFence | None,
) -> ProviderClient:
    settings = settings or CallSettings()

    def caller(workers: int, purpose: str = "") -> HookCaller:
        hands = runner or ThreadRunner(f"{name}{purpose}", workers=workers, max_abandoned=settings.max_abandoned_calls)
        return HookCaller(name, manager.hook, runner=hands, clock=clock, settings=settings, gate=gate)

    calls = caller(workers=1)
    info = _ask_info(name, calls)
    check_info(manager, name, info)
    if info.parallel_calls:
        calls = caller(workers=settings.parallel_calls)
    calls.settles_after, calls.remembers_writes = info.settles_after, info.remembers_writes
    can_wait = bool(manager.hook.await_interruption.get_hookimpls())
    return ProviderClient(info, calls, settings, caller(1, "-notices") if can_wait else None)


def _ask_info(name: str, calls: HookCaller) -> ProviderInfo:
    try:
        return calls.once("provider_info", checks.a(ProviderInfo))
    except ContractViolation:
        raise
    except ProviderError as error:
        raise PluginError(f"provider {name} gives no provider_info: {_reason(error)}") from error


def _entries(entries: Iterable[ProviderEntry] | None) -> Iterable[ProviderEntry]:
    return entry_points(group=ENTRY_POINT_GROUP) if entries is None else entries


def _find(name: str, entries: list[ProviderEntry]) -> ProviderEntry:
    claims = [entry for entry in entries if entry.name == name]
    if len(claims) == 1:
        return claims[0]
    if claims:
        packages = " and ".join(sorted(f"{_package(entry)} ({entry.value})" for entry in claims))
        raise PluginNotFound(f"provider {name} is claimed by several packages: {packages}; uninstall all but one")
    near = difflib.get_close_matches(name, sorted({entry.name for entry in entries}), n=1)
    # Only our own packages are suggested: a hint must not lead to a typosquatted package.
    ours = difflib.get_close_matches(name, _OURS, n=1)
    hint = "to write one, begin with: nodewright provider new (the guide is docs/plugin-guide.md)"
    if near:
        hint = f"did you mean {near[0]}?"
    elif ours:
        hint = f"try: {how_to_install(ours[0], distribution(PROJECT).read_text(_ORIGIN))}"
    known = ", ".join(sorted({entry.name for entry in entries})) or "none"
    raise PluginNotFound(f"no installed package offers the provider {name} (installed: {known}); {hint}")


def how_to_install(name: str, origin: str | None) -> str:
    """Return the command that installs one of our providers. ``origin``: the PEP 610 record of where the core came from."""
    source = msgspec.json.decode(origin or "{}")
    place = urlsplit(source.get("url", ""))
    if place.scheme == "file" and source.get("dir_info", {}).get("editable"):
        return f"pip install -e {shlex.quote(str(Path(unquote(place.path)).parent / 'plugins' / name))}"
    return f'pip install "{PROJECT}[{name}]"'


def _build(entry: ProviderEntry, context: ProviderContext) -> object:
    package = _package(entry)
    try:
        with _exits_told():
            factory = entry.load()
    except (Exception, SystemExit, KeyboardInterrupt) as error:
        raise PluginError(f"provider {entry.name} of {package} cannot be imported: {_reason(error)}") from error
    if not callable(factory):
        raise ContractViolation(f"plugin {entry.name}: its entry point {entry.value} cannot be called")
    try:
        with _exits_told():
            return factory(context)
    except ConfigError:
        raise
    except (Exception, SystemExit, KeyboardInterrupt) as error:
        raise PluginError(f"provider {entry.name} of {package} cannot be built: {_reason(error)}") from error


@contextmanager
def _exits_told() -> Iterator[None]:
    """Let ``os._exit`` raise SystemExit in this thread within the block: it would end the process without a message."""
    real, process, thread = os._exit, os.getpid(), threading.get_ident()
    is_over = False

    def tell(status: int) -> NoReturn:
        if is_over or os.getpid() != process or threading.get_ident() != thread:
            real(status)
        raise SystemExit(f"os._exit({status})")

    os._exit = tell
    try:
        yield
    finally:
        is_over = True
        os._exit = real


def _package(entry: ProviderEntry) -> str:
    return entry.dist.name if entry.dist is not None else entry.value.partition(":")[0]


def _reason(error: BaseException) -> str:
    """Return the message of a plugin's error as one line, with the error's class."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
