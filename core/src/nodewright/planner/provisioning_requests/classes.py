"""Which class a request is of, and whether this process serves it (behaviour/up.md §5.2)."""

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from nodewright.model.provisioning_request import (
    BEST_EFFORT_ATOMIC,
    CHECK_CAPACITY,
    PROCESSOR_INSTANCE,
    SEED_ATOMIC,
    SEED_CHECK_CAPACITY,
)
from nodewright.model.settings import Settings


class Mode(StrEnum):
    """What a class asks for: a look at the room that there is, machines too, all of them or none, or what a provider
    does for a class of its own.
    """

    CHECK = "check"
    ATOMIC = "atomic"
    PROVIDER = "provider"


class Terms(NamedTuple):
    """Who does the work for a request, a class of the core or of a provider, and with what parameters."""

    class_name: str
    parameters: Mapping[str, str]


_CA_CLASSES = {CHECK_CAPACITY: Mode.CHECK, BEST_EFFORT_ATOMIC: Mode.ATOMIC}
_CLASSES = {**_CA_CLASSES, SEED_CHECK_CAPACITY: Mode.CHECK, SEED_ATOMIC: Mode.ATOMIC}


def is_of_the_core(name: str) -> bool:
    """Is it one of the classes that the core serves, here or in another process?"""
    return name in _CLASSES or name.endswith(CHECK_CAPACITY)


def find_mode(terms: Terms, settings: Settings) -> Mode | None:
    """The mode of a request under terms of the core's classes that this process serves; None: it is somebody else's, or
    nobody's.
    """
    classes = _CLASSES if settings.policy.accepts_more_class_names else _CA_CLASSES
    instance = settings.provisioning.check_capacity_processor_instance
    name, wanted = terms.class_name, terms.parameters.get(PROCESSOR_INSTANCE, "")
    mode = classes.get(name)
    if mode == Mode.ATOMIC:
        return mode if not instance else None
    if mode == Mode.CHECK:
        return mode if wanted == instance else None
    # CA's older way to say for whom a request is.
    return Mode.CHECK if instance and not wanted and name == f"{instance}{CHECK_CAPACITY}" else None
