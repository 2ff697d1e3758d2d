"""Are two node groups of one kind? (behaviour/up.md §4.7b, seed 002)"""

from collections.abc import Iterable, Mapping

from nodewright.estimator.binpacking import Template
from nodewright.model.meta import Resources
from nodewright.model.node import HOSTNAME_LABEL
from nodewright.model.quantity import ZERO, Quantity
from nodewright.model.settings import ScaleUpSettings
from nodewright.snapshot.requests import PODS, exact_requests, is_counted

IGNORED_LABELS = frozenset(
    {
        HOSTNAME_LABEL,
        "failure-domain.beta.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region",
        "topology.kubernetes.io/zone",
        "topology.kubernetes.io/region",
        "beta.kubernetes.io/fluentd-ds-ready",
        "kops.k8s.io/instancegroup",
    }
)


def are_similar(a: Template, b: Template, settings: ScaleUpSettings, ignored: Iterable[str] = ()) -> bool:
    """Whether new nodes may go to either group alike.

    With ``balancing_label`` those labels alone decide. Otherwise capacity must be equal (memory within a
    ratio), allocatable and what is left of it within ratios, and labels equal but for those that tell places
    apart; ``ignored`` adds a provider's own.
    """
    labels_a, labels_b = a.node.metadata.labels, b.node.metadata.labels
    if settings.balancing_label:
        return all(key in labels_a and labels_a[key] == labels_b.get(key) for key in settings.balancing_label)
    skipped = IGNORED_LABELS.union(settings.balancing_ignore_label, ignored)
    return (
        _same_capacity(a.node.status.capacity, b.node.status.capacity, settings.memory_difference_ratio)
        and _all_within(a.node.status.allocatable, b.node.status.allocatable, settings.max_allocatable_difference_ratio)
        and _all_within(_free(a), _free(b), settings.max_free_difference_ratio)
        and _without(labels_a, skipped) == _without(labels_b, skipped)
    )


def share_a_label(a: Template, b: Template, keys: Iterable[str]) -> bool:
    """Whether a label that a provider gives to one group's parts has the same, non-empty value on both."""
    labels_a, labels_b = a.node.metadata.labels, b.node.metadata.labels
    return any(labels_a.get(key) and labels_a[key] == labels_b.get(key) for key in keys)


def _same_capacity(a: Resources, b: Resources, memory_ratio: float) -> bool:
    if a.keys() != b.keys():
        return False
    return all(_within(a[n], b[n], memory_ratio) if n == "memory" else a[n] == b[n] for n in a)


def _all_within(a: Resources, b: Resources, ratio: float) -> bool:
    return a.keys() == b.keys() and all(_within(a[name], b[name], ratio) for name in a)


def _within(a: Quantity, b: Quantity, ratio: float) -> bool:
    larger, smaller = max(a.milli, b.milli), min(a.milli, b.milli)
    return larger - smaller <= larger * ratio


def _free(template: Template) -> Resources:
    """Allocatable less what the template's own pods request, of every resource that CA sums up for a node.

    A resource that is requested and not offered counts below zero. The number of pods is not summed up: of it
    all that is allocatable counts as free.
    """
    requested: dict[str, Quantity] = dict.fromkeys((PODS, "cpu", "memory", "ephemeral-storage"), ZERO)
    for pod in template.pods:
        for name, nano in exact_requests(pod, placed=True).items():
            if is_counted(name):
                requested[name] = requested.get(name, ZERO) + Quantity(nano)
    offered = template.node.status.allocatable
    return {name: offered.get(name, ZERO) - amount for name, amount in requested.items()}


def _without(labels: Mapping[str, str], skipped: frozenset[str]) -> dict[str, str]:
    return {key: value for key, value in labels.items() if key not in skipped}
