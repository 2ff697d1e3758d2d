"""What every replay of recorded cases has in common."""

from collections.abc import Iterator

import pytest

from environment import only_variables


@pytest.fixture(autouse=True)
def no_account() -> Iterator[None]:
    """No account of Azure is seen: tests of its plugin set one for as long as their process lives."""
    with only_variables(("ARM_", "AZURE_"), {}):
        yield
