"""Where pods were placed last time, so that they are placed there again (behaviour/down.md A6.4)."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from nodewright.model.pod import Pod


@dataclass
class Hints:
    """Names of nodes: ``before`` as the last loop left it, ``fresh`` what was found since and is kept."""

    before: Mapping[str, str] = field(default_factory=dict)
    fresh: dict[str, str] = field(default_factory=dict)

    @property
    def are_none(self) -> bool:
        return not self.fresh and not self.before

    def get(self, pod: Pod) -> str | None:
        key = hint_key(pod)
        return self.fresh.get(key) or self.before.get(key)

    def set(self, pod: Pod, node: str) -> None:
        self.fresh[hint_key(pod)] = node


def hint_key(pod: Pod) -> str:
    """By what the place of a pod is remembered."""
    return pod.metadata.uid or pod.key
