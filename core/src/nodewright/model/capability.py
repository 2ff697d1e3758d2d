"""The optional capabilities of a provider."""

from enum import StrEnum


class Capability(StrEnum):
    """One optional part of the provider contract; each has a Protocol of hooks in ``nodewright.spec``."""

    FAST_FAILURE_DETECTION = "fast_failure_detection"
    ATOMIC_RESIZE = "atomic_resize"
    GROUP_OPTIONS = "group_options"
    PRICING = "pricing"
    FORCE_DELETE = "force_delete"
    AUTOPROVISIONING = "autoprovisioning"
    GPU = "gpu"
    SIMILARITY = "similarity"
    PROVISIONING_CLASSES = "provisioning_classes"
    INTERRUPTION = "interruption"
    DIAGNOSIS = "diagnosis"
    SIMULATION = "simulation"
