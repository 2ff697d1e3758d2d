"""Azure's pay-as-you-go list prices in eastus2 for Linux, in USD an hour, for when the price list cannot be read.

Within a family the price is proportional to the vCPUs: ``FAMILIES`` has that of one vCPU. ``SIZES`` has the sizes off that
scale. The figures were copied by hand from public tables; some families follow from the proportions of others, and not
every size was compared with Azure's list. In other locations Azure charges up to twice as much; the proportions between sizes are nearly the same.
"""

import re
from datetime import UTC, datetime

LOCATION = "eastus2"
AS_OF = datetime(2023, 12, 18, tzinfo=UTC).timestamp()

# Standard_, the letters of the family, the vCPUs, perhaps a limit of them (which changes no price), features, version.
_SIZE = re.compile(r"standard_(?P<family>[a-z]+)(?P<cpus>\d+)(-\d+)?(?P<features>[a-z]*)(?P<version>(_v\d+)?)")

FAMILIES = {
    "d_v3": 0.048,
    "ds_v3": 0.048,
    "d_v4": 0.048,
    "ds_v4": 0.048,
    "da_v4": 0.048,
    "das_v4": 0.048,
    "dd_v4": 0.0565,
    "dds_v4": 0.0565,
    "d_v5": 0.048,
    "ds_v5": 0.048,
    "dd_v5": 0.0565,
    "dds_v5": 0.0565,
    "das_v5": 0.043,
    "dads_v5": 0.0515,
    "dls_v5": 0.0425,
    "dlds_v5": 0.048,
    "dps_v5": 0.0385,
    "dpds_v5": 0.0452,
    "dpls_v5": 0.034,
    "dplds_v5": 0.0384,
    "e_v3": 0.0665,
    "es_v3": 0.0665,
    "e_v4": 0.063,
    "es_v4": 0.063,
    "ea_v4": 0.063,
    "eas_v4": 0.063,
    "ed_v4": 0.072,
    "eds_v4": 0.072,
    "e_v5": 0.063,
    "es_v5": 0.063,
    "ed_v5": 0.072,
    "eds_v5": 0.072,
    "eas_v5": 0.0565,
    "eads_v5": 0.0655,
    "ebs_v5": 0.0745,
    "ebds_v5": 0.0835,
    "eps_v5": 0.0504,
    "epds_v5": 0.0576,
    "f": 0.0497,
    "fs": 0.0497,
    "fs_v2": 0.0423,
    "ls_v2": 0.078,
    "ls_v3": 0.087,
    "las_v3": 0.078,
}

SIZES = {
    "standard_b1ls": 0.0052,
    "standard_b1s": 0.0104,
    "standard_b1ms": 0.0208,
    "standard_b2s": 0.0416,
    "standard_b2ms": 0.0832,
    "standard_b4ms": 0.166,
    "standard_b8ms": 0.333,
    "standard_b12ms": 0.499,
    "standard_b16ms": 0.666,
    "standard_b20ms": 0.832,
    "standard_ds1_v2": 0.057,
    "standard_ds2_v2": 0.114,
    "standard_ds3_v2": 0.229,
    "standard_ds4_v2": 0.458,
    "standard_ds5_v2": 0.916,
    "standard_ds11_v2": 0.149,
    "standard_ds12_v2": 0.299,
    "standard_ds13_v2": 0.598,
    "standard_ds14_v2": 1.196,
    "standard_ds15_v2": 1.495,
    "standard_d1_v2": 0.057,
    "standard_d2_v2": 0.114,
    "standard_d3_v2": 0.229,
    "standard_d4_v2": 0.458,
    "standard_d5_v2": 0.916,
    "standard_e20_v3": 1.46,
    "standard_e20s_v3": 1.46,
    "standard_e48_v3": 3.024,
    "standard_e48s_v3": 3.024,
    "standard_e64_v3": 3.629,
    "standard_e64s_v3": 3.629,
    "standard_nc4as_t4_v3": 0.526,
    "standard_nc8as_t4_v3": 0.752,
    "standard_nc16as_t4_v3": 1.204,
    "standard_nc64as_t4_v3": 4.352,
    "standard_nc6s_v3": 3.06,
    "standard_nc12s_v3": 6.12,
    "standard_nc24s_v3": 12.24,
    "standard_nc24ads_a100_v4": 3.673,
    "standard_nc48ads_a100_v4": 7.346,
    "standard_nc96ads_a100_v4": 14.692,
    "standard_nd96asr_v4": 27.197,
    "standard_nd96isr_h100_v5": 98.32,
    "standard_nv6ads_a10_v5": 0.454,
    "standard_nv12ads_a10_v5": 0.908,
    "standard_nv18ads_a10_v5": 1.6,
    "standard_nv36ads_a10_v5": 3.2,
    "standard_nv72ads_a10_v5": 6.52,
}


def list_price(size: str) -> float | None:
    """Return USD an hour in eastus2; None: not in the table."""
    name = size.lower()
    if name in SIZES:
        return SIZES[name]
    found = _SIZE.fullmatch(name)
    per_cpu = FAMILIES.get(found["family"] + found["features"] + found["version"]) if found is not None else None
    return per_cpu * int(found["cpus"]) if found is not None and per_cpu is not None else None
