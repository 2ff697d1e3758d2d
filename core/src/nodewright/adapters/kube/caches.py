"""One cache for each kind that is read, and the reflectors that fill the caches."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

from nodewright.adapters.kube.api import Api
from nodewright.adapters.kube.reflector import ObjectCache, Reflector
from nodewright.adapters.kube.resources import Resource
from nodewright.model.clock import Clock
from nodewright.model.node import Node
from nodewright.model.objects import KINDS, POD_GROUP_KINDS
from nodewright.model.pod import Pod
from nodewright.model.settings import Settings

# Pods that have ended matter for no decision, and there may be many.
_LIVING_PODS = {"fieldSelector": "status.phase!=Succeeded,status.phase!=Failed"}
# A pod that kube-scheduler reported unschedulable longer ago than this (seconds) starts no extra loop.
_FRESH_SECONDS = 10.0
_CONFIG_MAP = "ConfigMap"
# Read only if a setting asks for them: a cluster need not know these kinds otherwise.
OPTIONAL_KINDS = frozenset(
    {
        "PodTemplate",
        "ProvisioningRequest",
        "ProvisioningClass",
        "CapacityQuota",
        "CapacityBuffer",
        "Deployment",
        "ResourceQuota",
        *POD_GROUP_KINDS,
    }
)


@dataclass(frozen=True, kw_only=True)
class CacheOptions:
    """``config_maps`` are those of ``namespace`` that are followed, by name; no other ConfigMap is read.

    ``optional`` are kinds of OPTIONAL_KINDS that are followed too.
    """

    namespace: str = "kube-system"
    config_maps: tuple[str, ...] = ()
    optional: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True)
class Listeners:
    """Functions that the thread of a watch calls when something happens that may start a loop, or that metrics count.

    ``on_unschedulable``: kube-scheduler has just found no node for a pod. ``on_pod``: a pod came or changed. ``on_node``: a
    node came or changed; it is called with what was known of it (None: nothing), and with the node. ``on_forbidden``: a
    kind is taken to be absent because the API server refuses to list it; it is called with the kind and a sentence, and
    with "" when that is over.
    """

    on_unschedulable: Callable[[], None] = lambda: None
    on_pod: Callable[[Pod], None] = lambda _: None
    on_node: Callable[[Node | None, Node], None] = lambda _, __: None
    on_forbidden: Callable[[str, str], None] = lambda _, __: None


def optional_kinds(settings: Settings) -> frozenset[str]:
    """Return the kinds that are read only because a setting is on."""
    kinds: set[str] = set()
    if settings.provisioning.enable_provisioning_requests:
        kinds |= {"PodTemplate", "ProvisioningRequest"}
    if settings.policy.serves_provisioning_classes:
        kinds.add("ProvisioningClass")
    if settings.buffers.are_read:
        kinds |= {"PodTemplate", "CapacityBuffer"}
    if settings.buffers.capacity_buffer_controller_enabled:
        kinds |= {"Deployment", "ResourceQuota"}
    if settings.limits.capacity_quotas_enabled:
        kinds.add("CapacityQuota")
    if settings.policy.serves_gangs:
        kinds |= POD_GROUP_KINDS
    return frozenset(kinds)


class Caches:
    """The caches of all kinds, kept current by one thread each from ``start`` to ``stop``.

    ``clock`` is for durations, ``wall`` for the API server's times; by default both are ``clock``.
    """

    def __init__(
        self,
        api: Api,
        clock: Clock,
        random: Random,
        options: CacheOptions,
        listeners: Listeners | None = None,
        *,
        wall: Clock | None = None,
    ) -> None:
        self._clock = clock
        self._wall = wall or clock
        self._listeners = listeners or Listeners()
        # When each pod that was announced lately was found unschedulable. Only the thread of the Pod reflector uses it.
        self._announced: dict[str, float] = {}
        self._reflectors: dict[str, Reflector[Any]] = {}
        hear: Mapping[str, Callable[[Any, Any], None]] = {"Pod": self._see_pod, "Node": self._listeners.on_node}
        for resource in _resources(options):
            listener = hear.get(resource.kind)
            cache: ObjectCache[Any] = ObjectCache(listener) if listener is not None else ObjectCache()
            chance = Random(random.random())
            forbidden = partial(self._listeners.on_forbidden, resource.kind)
            self._reflectors[_name(resource)] = Reflector(api, resource, cache, clock, chance, forbidden)
        self._threads: list[threading.Thread] = []

    def of(self, kind: str) -> ObjectCache[Any]:
        return self._reflectors[kind].cache

    def follows(self, kind: str) -> bool:
        """Return whether a kind is followed; kinds that no setting asks for are not."""
        return kind in self._reflectors

    def config_map(self, name: str) -> ObjectCache[Any]:
        """Return the cache of one ConfigMap that is followed."""
        return self._reflectors[f"{_CONFIG_MAP}/{name}"].cache

    def config_map_data(self, name: str) -> Mapping[str, str] | None:
        """Return the data of one ConfigMap that is followed; None: it does not exist."""
        held = next(iter(self.config_map(name).all()), None)
        return held.data if held is not None else None

    def uid_of(self, kind: str, name: str) -> str:
        """Return the uid of an object; empty if it or its kind is not followed."""
        reflector = self._reflectors.get(kind)
        held = reflector.cache.get(name) if reflector is not None else None
        return held.metadata.uid if held is not None else ""

    def start(self) -> None:
        for name, reflector in self._reflectors.items():
            thread = threading.Thread(target=reflector.run, name=f"watch-{name}", daemon=True)
            thread.start()
            self._threads.append(thread)

    def stop(self, seconds: float = 5.0) -> None:
        """Stop every watch. Wait at most ``seconds`` for their threads: a list may wait for an answer that never comes."""
        for reflector in self._reflectors.values():
            reflector.stop()
        deadline = self._clock.now() + seconds
        for thread in self._threads:
            thread.join(min(seconds, max(0.0, deadline - self._clock.now())))
        self._threads.clear()

    def wait_synced(self, seconds: float) -> bool:
        """Return whether everything was listed within that time."""
        deadline = self._clock.now() + seconds
        return all(r.cache.wait_synced(max(0.0, deadline - self._clock.now())) for r in self._reflectors.values())

    def missing(self) -> dict[str, str]:
        """Return the kinds that were not listed yet, each with its error."""
        return {name: r.cache.problem for name, r in self._reflectors.items() if not r.cache.is_synced}

    def describe_missing(self) -> str:
        """Return one sentence about all kinds that were not listed. It gives one reason: mostly all have the same."""
        missing = self.missing()
        kind, why = next(((kind, why) for kind, why in missing.items() if why), ("", "no answer yet"))
        others = [other for other in missing if other != kind]
        also = f"; nor were {', '.join(others)} listed" if others else ""
        return f"the cluster cannot be read: {why}{also}"

    def ages(self) -> dict[str, float]:
        """Return by kind the seconds since the API server last sent anything about it; unknown kinds are left out."""
        now = self._clock.now()
        return {name: now - r.cache.heard_at for name, r in self._reflectors.items() if not r.cache.is_unknown}

    def problems(self) -> dict[str, str]:
        """Return by kind why its cache is not current; current kinds are left out."""
        return {name: r.cache.problem for name, r in self._reflectors.items() if r.cache.problem}

    def lists(self) -> dict[str, int]:
        """Return how often each kind was listed."""
        return {name: reflector.lists for name, reflector in self._reflectors.items()}

    def _see_pod(self, _: Pod | None, pod: Pod) -> None:
        """Call the listeners: ``on_unschedulable`` only once each time that kube-scheduler finds no node for the pod."""
        self._listeners.on_pod(pod)
        now = self._wall.now()
        since = unschedulable_since(pod)
        if since is None or since + _FRESH_SECONDS < now or self._announced.get(pod.metadata.uid) == since:
            return
        self._announced = {uid: at for uid, at in self._announced.items() if at + _FRESH_SECONDS >= now}
        self._announced[pod.metadata.uid] = since
        self._listeners.on_unschedulable()


def unschedulable_since(pod: Pod) -> float | None:
    """Return when kube-scheduler found no node for the pod (epoch seconds); None: it has one, has ended or was not tried."""
    if pod.spec.node_name or pod.is_terminal:
        return None
    times = (c.last_transition_time for c in pod.status.conditions if c.finds_no_place)
    return next((time.timestamp() for time in times if time is not None), None)


def _resources(options: CacheOptions) -> list[Resource[Any]]:
    passed_over = {_CONFIG_MAP, *(OPTIONAL_KINDS - options.optional)}
    kinds = (kind for kind in KINDS if kind not in passed_over)
    found: list[Resource[Any]] = [Resource(kind, query=_LIVING_PODS if kind == "Pod" else None) for kind in kinds]
    for name in options.config_maps:
        query = {"fieldSelector": f"metadata.name={name}"}
        found.append(Resource(_CONFIG_MAP, namespace=options.namespace, query=query))
    return found


def _name(resource: Resource[Any]) -> str:
    if resource.kind != _CONFIG_MAP:
        return resource.kind
    return f"{_CONFIG_MAP}/{resource.query['fieldSelector'].rpartition('=')[2]}"
