"""Azure's pay-as-you-go list prices for Linux, in USD an hour, for when the price list cannot be read.

``list_prices.csv.gz`` has a row for each size, in lower case and without ``standard_``, and a column for each location. The
prices were copied from a public catalogue that is made from Azure's retail prices; a size that is not sold in a location has
none there.
"""

import csv
import gzip
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from importlib import resources

# Where the location has no column. There Azure may charge up to twice as much; the proportions between sizes are nearly the same.
LOCATION = "eastus2"
AS_OF = datetime(2026, 5, 20, tzinfo=UTC).timestamp()


def list_price(location: str, size: str) -> tuple[float, str] | None:
    """Return USD an hour, and the location that it is of: LOCATION where this one is not in the table; None: the size is not sold."""
    place, prices = _column(location)
    price = prices.get(size.lower().removeprefix("standard_"))
    return (price, place) if price is not None else None


@cache
def _column(location: str) -> tuple[str, Mapping[str, float]]:
    """Return the location, or LOCATION where it has no column, and its prices by size."""
    packed = resources.files("nodewright_azure").joinpath("list_prices.csv.gz").read_bytes()
    head, *rows = csv.reader(gzip.decompress(packed).decode("ascii").splitlines())
    place = location if location in head[1:] else LOCATION
    column = head.index(place)
    return place, {row[0]: float(row[column]) for row in rows if row[column]}
