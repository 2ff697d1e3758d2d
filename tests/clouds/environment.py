"""The environment's variables of one vendor, for a while: nothing of this machine's own account is seen."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager


@contextmanager
def only_variables(prefixes: tuple[str, ...], values: Mapping[str, str]) -> Iterator[None]:
    """Of all variables that begin so there are these and no others."""
    before = {name: os.environ.pop(name) for name in list(os.environ) if name.startswith(prefixes)}
    os.environ.update(values)
    try:
        yield
    finally:
        for name in [name for name in os.environ if name.startswith(prefixes)]:
            del os.environ[name]
        os.environ.update(before)
