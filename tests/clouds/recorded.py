"""Records what a plugin asks a cloud of tests, and replays it without that cloud."""

from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import Any

from nodewright.adapters.provider import ProviderClient, load_provider
from nodewright.adapters.provider.recording import SCHEMA, RecordedSession, Recorder
from nodewright.adapters.provider.replay import Replay, find_recordings, replay
from nodewright.spec import ProviderContext, ProviderError
from nodewright.testkit import FakeClock


def record(
    vendor: str, folder: Path, clock: FakeClock, options: Mapping[str, Any], nodes: str, act: Callable[[Any], object]
) -> str:
    """Record the reads of the group of ``nodes``, what ``act`` does with a client, and the reads after it.

    Return the text of all files.
    """
    session = RecordedSession(
        schema=SCHEMA,
        provider=vendor,
        distribution="",
        version="",
        seed="1",
        options=dict(options),
        node_group_specs=(nodes,),
        auto_discovery_specs=(),
        dry_run=False,
    )
    context = ProviderContext(
        clock=clock,
        random=Random("1"),
        options=options,
        node_group_specs=(nodes,),
        exchanges=Recorder(folder, session, clock, {}),
    )
    client = load_provider(vendor, context)
    _read(client)
    act(client)
    clock.sleep(61)
    _read(client)
    return "\n".join(path.read_text() for path in sorted(folder.glob("*/*.json")))


def replayed(folder: Path) -> Replay:
    """Replay the one recording in a folder."""
    [recording] = find_recordings(folder)
    return replay(recording)


def _read(client: ProviderClient) -> None:
    client.refresh()
    for group in client.node_groups():
        client.target_size(group.id)
        client.instances(group.id)
        client.failed_instances(group.id)
        for read in (client.template_node, client.node_price):
            try:
                read(group.id)
            except ProviderError:
                continue  # the error is recorded
