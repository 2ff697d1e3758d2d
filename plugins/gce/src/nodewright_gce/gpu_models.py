"""The GPUs of accelerator types, for templates with devices (option ``dra_gpus``)."""

from collections.abc import Collection

# The model in ``nodewright.spec.gpus``.
_MODELS = {
    "nvidia-tesla-p4": "p4",
    "nvidia-tesla-p100": "p100",
    "nvidia-tesla-v100": "v100-16gb",
    "nvidia-tesla-t4": "t4",
    "nvidia-tesla-a100": "a100-40gb",
    "nvidia-a100-80gb": "a100-80gb",
    "nvidia-l4": "l4",
    "nvidia-h100-80gb": "h100",
    "nvidia-h100-mega-80gb": "h100",
    "nvidia-h200-141gb": "h200",
    "nvidia-b200": "b200",
}


def gpu_model(accelerators: Collection[str]) -> str:
    """Return the model of GPU of a machine with these accelerator types; empty: it is not known, or there are several."""
    models = {_MODELS.get(kind, "") for kind in accelerators if kind.startswith("nvidia-")}
    return models.pop() if len(models) == 1 else ""
