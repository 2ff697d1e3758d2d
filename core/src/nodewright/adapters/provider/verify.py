"""Is this object a provider? What pluggy does not notice is checked here, before anything is called."""

import inspect
from collections.abc import Iterable

import pluggy

from nodewright.model.capability import Capability
from nodewright.model.errors import ContractViolation
from nodewright.model.group import ProviderInfo
from nodewright.spec.hooks import CAPABILITY_HOOKS, SPEC_VERSION, RequiredHooks
from nodewright.spec.markers import PROJECT


def register(name: str, plugin: object) -> pluggy.PluginManager:
    """A manager of its own for one provider: a write is never broadcast to two clouds.

    Raises ContractViolation for a method without ``@hookimpl``, an unknown hook, wrong arguments, or a
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


def check_info(manager: pluggy.PluginManager, name: str, info: ProviderInfo) -> None:
    """Does what the plugin says of itself hold? Raises ContractViolation."""
    if info.name != name:
        raise ContractViolation(f"plugin {name}: provider_info names it {info.name!r}, its entry point {name!r}")
    if not _is_version(info.spec_version):
        raise ContractViolation(f"plugin {name}: provider_info gives {info.spec_version!r} as contract version")
    major, minor = info.spec_version
    if major != SPEC_VERSION[0] or minor > SPEC_VERSION[1]:
        ours = "{}.{}".format(*SPEC_VERSION)
        raise ContractViolation(f"plugin {name}: it needs contract {major}.{minor}, this nodewright speaks {ours}")
    for capability in info.capabilities:
        if not isinstance(capability, Capability):
            raise ContractViolation(f"plugin {name}: provider_info declares {capability!r}, which is no capability")
        _demand(manager, name, CAPABILITY_HOOKS[capability], f"provider_info declares {capability.value}")


def hook_names(protocol: type) -> tuple[str, ...]:
    """The hooks of one Protocol of the contract."""
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
        # pluggy would call it without the arguments it does not name: a resize that never sees expected_target.
        missing = _arguments(getattr(protocol, hook)) - set(implementations[0].argnames)
        if missing:
            raise ContractViolation(f"plugin {name}: hook {hook} does not take {_listed(missing)}")


def _demand(manager: pluggy.PluginManager, name: str, protocol: type, why: str) -> None:
    missing = [hook for hook in hook_names(protocol) if not getattr(manager.hook, hook).get_hookimpls()]
    if missing:
        raise ContractViolation(f"plugin {name}: hook {_listed(missing)} is missing, and {why}")


def _arguments(function: object) -> set[str]:
    return set(inspect.signature(function).parameters) - {"self"} if callable(function) else set()


def _is_version(version: object) -> bool:
    return isinstance(version, tuple) and len(version) == 2 and all(type(part) is int for part in version)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))


def _first_line(error: Exception) -> str:
    """pluggy's messages in one sentence."""
    return " ".join(line.strip() for line in str(error).splitlines() if line.strip())
