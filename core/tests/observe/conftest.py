"""A provider whose results a test can replace."""

from collections.abc import Callable, Container
from typing import Any

import pytest

from nodewright.model.capability import Capability
from nodewright.model.errors import ProviderError
from nodewright.model.group import (
    FailedInstance,
    GroupOptions,
    Instance,
    NodeGroup,
    NodeTemplate,
    Price,
    ProviderInfo,
)
from nodewright.testkit import build_group, build_template


class BentProvider:
    """Two groups, ``a`` and ``b``, of one machine each. ``fails`` holds the (hook, group) pairs that fail."""

    def __init__(self, name: str = "bent") -> None:
        self.name = name
        self.info = ProviderInfo(name=name, ignores_id_case=True)
        self.fails: set[tuple[str, str]] = set()
        self.calls: list[tuple[str, str]] = []
        self.wanted: list[frozenset[str]] = []
        self.groups = [build_group("a"), build_group("b")]
        self.template = build_template(labels={"topology.kubernetes.io/zone": "z1"})
        self.names: tuple[str, ...] = ()
        self.failed: tuple[FailedInstance, ...] | None = None

    def _meet(self, hook: str, group_id: str = "") -> None:
        self.calls.append((hook, group_id))
        if (hook, group_id) in self.fails:
            raise ProviderError(f"{hook} failed", provider=self.name, group_id=group_id, code="broken")

    def capabilities(self, group: NodeGroup) -> frozenset[Capability]:
        return frozenset({Capability.PRICING}) - group.switched_off.keys()

    def refresh(self, wanted: frozenset[str] = frozenset()) -> None:
        self.wanted.append(wanted)
        self._meet("refresh")

    def node_groups(self) -> list[NodeGroup]:
        self._meet("node_groups")
        return self.groups

    def names_of(self, known: Container[str]) -> frozenset[str]:
        return frozenset(one for one in self.names if one in known)

    def target_size(self, group_id: str) -> int:
        self._meet("target_size", group_id)
        return 1

    def instances(self, group_id: str) -> tuple[Instance, ...]:
        self._meet("instances", group_id)
        return (Instance(id=f"i-{group_id}"),)

    def failed_instances(self, group_id: str) -> tuple[FailedInstance, ...] | None:
        self._meet("failed_instances", group_id)
        return self.failed

    def template_node(self, group_id: str) -> NodeTemplate:
        self._meet("template_node", group_id)
        return self.template

    def group_options(self, group_id: str, defaults: GroupOptions) -> GroupOptions:
        self._meet("group_options", group_id)
        return defaults

    def node_price(self, group_id: str) -> Price | None:
        self._meet("node_price", group_id)
        return Price(per_hour=0.5, source="a list")

    def ignored_labels(self) -> tuple[str, ...] | None:
        self._meet("ignored_labels")
        return ("ignored",)

    def same_group_labels(self) -> tuple[str, ...] | None:
        return None

    def gpu_label(self) -> str | None:
        return "gpu-kind"

    def gpu_types(self) -> tuple[str, ...] | None:
        return ("t4", "a100")

    def gpu_resources(self) -> tuple[str, ...] | None:
        return ("vendor.example/gpu",)

    def machine_types(self) -> None:
        """None: groups are made by people."""

    def interruptions(self) -> None:
        return None

    def provisioning_classes(self) -> None:
        """None of its own."""


@pytest.fixture
def provider() -> Any:
    return BentProvider()


@pytest.fixture
def make_provider() -> Callable[[str], Any]:
    return BentProvider
