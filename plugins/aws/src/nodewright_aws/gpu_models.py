"""The GPUs of instance types, for templates with devices (option ``dra_gpus``)."""

# By the family of the instance type: the model in ``nodewright.spec.gpus``.
_MODELS = {
    "p3": "v100-16gb",
    "p3dn": "v100-32gb",
    "p4d": "a100-40gb",
    "p4de": "a100-80gb",
    "p5": "h100",
    "p5e": "h200",
    "p5en": "h200",
    "p6-b200": "b200",
    "g4dn": "t4",
    "g5": "a10g",
    "g6": "l4",
    "gr6": "l4",
    "g6e": "l40s",
}


def gpu_model(instance_type: str) -> str:
    """Return the model of GPU of an instance type; empty: it is not known."""
    return _MODELS.get(instance_type.partition(".")[0], "")
