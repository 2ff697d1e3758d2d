"""Why something was not done, as values; texts, events and metrics are drawn from them."""

import msgspec


class Rejection(msgspec.Struct, frozen=True, kw_only=True):
    """A node, real or imagined, does not take a pod: the filter that refused, and kube-scheduler's texts.

    ``reasons`` is empty where the scheduler gives none (a node outside the pod's list of names).
    """

    predicate: str
    reasons: tuple[str, ...] = ()

    def __str__(self) -> str:
        return ", ".join(self.reasons) or f"excluded by {self.predicate}"
