"""What pods ask of a node beyond room, as far as a group made for them can give it: labels, taints, accelerators."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from nodewright.model.meta import Requirement
from nodewright.model.node import Taint
from nodewright.model.pod import NodeSelectorTerm, PodSpec, Toleration
from nodewright.model.quantity import ZERO

# Of the terms of a node affinity, any of which will do, so many are tried.
_MOST_TERMS = 4
# The domains whose labels kubelets, clouds and Kubernetes itself give a meaning.
_RESERVED = ("kubernetes.io", "k8s.io")
_REPELLING = ("NoSchedule", "NoExecute")


@dataclass(frozen=True)
class Want:
    """Labels by which pods select their nodes, taints that keep other pods off these, and whether an accelerator is
    among what the pods request.
    """

    labels: tuple[tuple[str, str], ...] = ()
    taints: tuple[Taint, ...] = ()
    has_device: bool = False


def find_wants(specs: Iterable[PodSpec], devices: Collection[str]) -> list[Want]:
    """What these pods want, each want once; ``devices`` are the names of resources that stand for accelerators."""
    different = {id(spec): spec for spec in specs}.values()
    return list(dict.fromkeys(want for spec in different for want in _wants(spec, devices)))


def _wants(spec: PodSpec, devices: Collection[str]) -> Iterator[Want]:
    """One for each of its terms of node affinity: any of them will do."""
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    required = affinity.required if affinity is not None else None
    terms = required.node_selector_terms[:_MOST_TERMS] if required is not None else (NodeSelectorTerm(),)
    has_device = _requests_any(spec, devices)
    for term in terms:
        chosen = dict(_choice(wanted) for wanted in term.match_expressions if wanted.operator == "In" and wanted.values)
        labels = {key: value for key, value in {**chosen, **(spec.node_selector or {})}.items() if _may_be_given(key)}
        taints = tuple(taint for toleration in spec.tolerations for taint in _guards(toleration, labels))
        yield Want(tuple(sorted(labels.items())), tuple(dict.fromkeys(taints)), has_device)


def _choice(wanted: Requirement) -> tuple[str, str]:
    """A label that meets an expression: the first of the values that would."""
    return wanted.key, wanted.values[0]


def _may_be_given(key: str) -> bool:
    """Is the label one that means what people take it to mean?"""
    domain = key.partition("/")[0] if "/" in key else ""
    return not any(domain == reserved or domain.endswith(f".{reserved}") for reserved in _RESERVED)


def _guards(toleration: Toleration, labels: dict[str, str]) -> Iterator[Taint]:
    """The taint that keeps a group to the pods which select it: they tolerate what they select, key and value."""
    if toleration.operator in ("", "Equal") and labels.get(toleration.key) == toleration.value:
        effect = toleration.effect or "NoSchedule"
        if effect in _REPELLING:
            yield Taint(key=toleration.key, value=toleration.value, effect=effect)


def _requests_any(spec: PodSpec, devices: Collection[str]) -> bool:
    containers = (*spec.containers, *spec.init_containers)
    return any(
        name in devices and amount > ZERO
        for container in containers
        for amounts in (container.resources.requests, container.resources.limits)
        for name, amount in amounts.items()
    )
