"""Which nodewright this is."""

from importlib.metadata import PackageNotFoundError, version


def find_version() -> str:
    """The installed version; a source tree that is not installed has none."""
    try:
        return version("nodewright")
    except PackageNotFoundError:
        return "0+unknown"
