"""The GPUs of machine sizes, for templates with devices (option ``dra_gpus``)."""

import re

# Sizes, and the model in ``nodewright.spec.gpus``. Fractions of a GPU are no devices of their own, and not listed.
_MODELS = (
    (re.compile(r"standard_nc[0-9]+as_t4_v3"), "t4"),
    (re.compile(r"standard_nc[0-9]+r?s_v3"), "v100-pcie"),
    (re.compile(r"standard_nd40rs_v2"), "v100-32gb"),
    (re.compile(r"standard_nd96asr_v4"), "a100-40gb"),
    (re.compile(r"standard_nd96amsr_a100_v4"), "a100-80gb"),
    (re.compile(r"standard_nc[0-9]+ads_a100_v4"), "a100-pcie"),
    (re.compile(r"standard_nc[0-9]+ad(?:i)?s_h100_v5"), "h100-nvl"),
    (re.compile(r"standard_nd96isr_h100_v5"), "h100"),
    (re.compile(r"standard_nd96isr_h200_v5"), "h200"),
)


def gpu_model(size: str) -> str:
    """Return the model of GPU of a machine size; empty: it is not known."""
    return next((model for pattern, model in _MODELS if pattern.fullmatch(size.lower())), "")
