"""Azure for the failover table."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from azurecloud.certificates import Authority
from azurecloud.cloud import SECRET
from azurecloud.play import QUOTA, AzurePlay
from engine_play import CHEAP
from environment import only_variables
from failover_stage import END, Stage


@contextmanager
def open_stage(settings: Mapping[str, Any], *, tells: bool) -> Iterator[Stage]:
    """A resource group of its own, behind TLS; what cannot be had leaves failed machines."""
    with TemporaryDirectory() as folder, only_variables(("ARM_", "AZURE_"), {"ARM_CLIENT_SECRET": SECRET}):
        play = AzurePlay(Authority(Path(folder)), {"detect_failures": tells}, end=END, settings=settings)
        cheap = play.names[CHEAP]
        yield Stage(
            play=play,
            shortage=lambda left: play.cloud.limit(cheap, left),
            quota=lambda: play.cloud.limit(cheap, 0, "failed", QUOTA),
            calls=play.cloud.calls.total,
        )
        play.cloud.close()
