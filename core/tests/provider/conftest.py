"""A small provider whose results a test can replace, and clients of it."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from nodewright import spec
from nodewright.adapters.clocks import VirtualClock
from nodewright.adapters.provider import CallSettings, InlineRunner, ProviderClient, connect_provider
from nodewright.spec import hookimpl
from nodewright.testkit import build_template

Script = Callable[[], Any]


class ScriptedProvider:
    """One group ``g``; ``script[hook]`` holds what the next calls of a hook do instead of answering.

    A script runs before the effect; hooks named in ``late`` take effect first.
    """

    def __init__(self) -> None:
        self.target = 2
        self.ids = ["i-1", "i-2"]
        self.script: dict[str, list[Script]] = {}
        self.late: set[str] = set()
        self.calls: list[str] = []
        self.info = spec.ProviderInfo(name="scripted")

    def _meet(self, hook: str, effect: Callable[[], Any]) -> Any:
        self.calls.append(hook)
        waiting = self.script.get(hook)
        if not waiting:
            return effect()
        if hook in self.late:
            effect()
        return waiting.pop(0)()

    @hookimpl
    def provider_info(self) -> spec.ProviderInfo:
        return self.info

    @hookimpl
    def refresh(self, wanted: frozenset[str]) -> bool:
        return bool(self._meet("refresh", lambda: wanted is not None))

    @hookimpl
    def node_groups(self) -> Any:
        return self._meet("node_groups", lambda: [spec.NodeGroup(id="g", min_size=0, max_size=9)])

    @hookimpl
    def target_size(self, group_id: str) -> Any:
        return self._meet("target_size", lambda: self.target if group_id == "g" else 0)

    @hookimpl
    def instances(self, group_id: str) -> Any:
        return self._meet("instances", lambda: [spec.Instance(id=name) for name in self.ids if group_id])

    @hookimpl
    def template_node(self, group_id: str) -> Any:
        return self._meet("template_node", lambda: build_template(labels={"group": group_id}))

    @hookimpl
    def increase_size(self, group_id: str, expected_target: int, target: int) -> Any:
        return self._meet("increase_size", lambda: self._resize(group_id, expected_target, target))

    @hookimpl
    def decrease_target_size(self, group_id: str, expected_target: int, target: int) -> Any:
        return self._meet("decrease_target_size", lambda: self._resize(group_id, expected_target, target))

    @hookimpl
    def delete_instances(self, group_id: str, instance_ids: Sequence[str], expected_target: int) -> Any:
        def effect() -> tuple[str, ...]:
            there = [name for name in instance_ids if name in self.ids]
            self._resize(group_id, expected_target, expected_target - len(there))
            self.ids = [name for name in self.ids if name not in there]
            return tuple(there)

        return self._meet("delete_instances", effect)

    def _resize(self, group_id: str, expected_target: int, target: int) -> int:
        if expected_target != self.target:
            raise spec.TargetChanged(actual=self.target, group_id=group_id)
        self.target = target
        return abs(target - expected_target)


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def scripted() -> ScriptedProvider:
    return ScriptedProvider()


@pytest.fixture
def client(scripted: ScriptedProvider, clock: VirtualClock) -> ProviderClient:
    return connect_provider("scripted", scripted, clock=clock, runner=InlineRunner(clock))


@pytest.fixture
def dry_client(scripted: ScriptedProvider, clock: VirtualClock) -> ProviderClient:
    settings = CallSettings(dry_run=True)
    return connect_provider("scripted", scripted, clock=clock, runner=InlineRunner(clock), settings=settings)
