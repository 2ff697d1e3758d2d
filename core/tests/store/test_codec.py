"""Saved memory is decoded unchanged; memory of another version is refused or ignored."""

import json
import zlib
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from core.tests.store.memories import fields_of_memory, memories
from hypothesis import example, given
from hypothesis import strategies as st

from nodewright.adapters.store.codec import KIND, SCHEMA, UnreadableState, decode_memory, encode_memory
from nodewright.clusterstate.memory import Backoff, Memory, Recheck, SampleNode, ScaleDownMemory, ScaleUpRequest
from nodewright.model.capability import Capability
from nodewright.model.group import ErrorClass, GroupOptions, GroupRef, Instance, NodeGroup
from nodewright.model.reason import Unremovable, UnremovableCode
from nodewright.snapshot.node_pods import NodePods, PodDestinations
from nodewright.snapshot.observation import GroupSeen
from nodewright.testkit import build_node

# Learned again by looking; of the last two, what concerns no work in flight.
RELEARNED = {"samples", "last_known", "node_groups"}


def test_every_field_of_memory_is_saved_or_known_to_be_learned_anew() -> None:
    """The author of a new field decides which: in the codec and in ``fields_of_memory``, or here."""
    assert {
        *fields_of_memory(),
        "samples",
        "members",
        "empty_since",
        "looked_at",
        "young_nodes",
        "template_evidence",
    } == {field.name for field in fields(Memory)}


@given(memories())
def test_memory_survives_its_bytes(memory: Memory) -> None:
    found = decode_memory(encode_memory(memory))
    for field in fields(Memory):
        if field.name not in RELEARNED:
            assert getattr(found, field.name) == getattr(memory, field.name), field.name
    assert found.last_known.keys() == memory.last_known.keys()
    for ref, held in memory.last_known.items():
        machines = {"instances": None, "failed": None, "template": None}
        kept = held if is_in_flight(memory, ref) else replace(held, **machines)  # type: ignore[arg-type]  # no TypedDict
        assert found.last_known[ref] == replace(kept, price=None)


@given(memories())
def test_a_restart_alone_writes_nothing(memory: Memory) -> None:
    encoded = encode_memory(memory)
    assert encode_memory(decode_memory(encoded)) == encoded


@given(memories())
def test_the_order_in_which_things_were_learned_does_not_matter(memory: Memory) -> None:
    turned: dict[str, Any] = {
        field.name: dict(reversed(value.items())) if isinstance(value, dict) else value
        for field in fields(Memory)
        for value in [getattr(memory, field.name)]
    }
    assert encode_memory(Memory(**turned)) == encode_memory(memory)


def is_in_flight(memory: Memory, ref: GroupRef) -> bool:
    pairs = {*memory.unregistered_since, *memory.late, *memory.seen_failures, *memory.never_ran, *memory.deletion_tried}
    of_groups = {*memory.requests, *memory.given_up, *memory.withdrawn_at, *memory.writes_in_flight}
    return ref in of_groups | {held for held, _ in pairs}


def test_only_nodes_whose_instance_is_gone_are_remembered_by_group() -> None:
    ref = GroupRef("p", "g")
    seen = GroupSeen(
        ref=ref, group=NodeGroup(id="g", min_size=0, max_size=9), target=1, instances=(Instance(id="P://Alive"),)
    )
    memory = Memory(last_known={ref: seen}, node_groups={"p://alive": ref, "p://gone": ref})
    assert decode_memory(encode_memory(memory)).node_groups == {"p://gone": ref}


def test_sample_nodes_are_not_saved() -> None:
    ref = GroupRef("p", "g")
    with_sample = Memory(samples={ref: SampleNode(node=build_node("n"))})
    assert encode_memory(with_sample) == encode_memory(Memory())


def test_the_sizes_and_options_of_the_provider_are_saved_while_a_schedule_holds() -> None:
    ref = GroupRef("p", "g")
    stated = NodeGroup(id="g", min_size=0, max_size=9), GroupOptions(scale_down_unneeded_seconds=60.0)
    seen = GroupSeen(
        ref=ref,
        group=NodeGroup(id="g", min_size=5, max_size=7),
        options=GroupOptions(scale_down_unneeded_seconds=1.0),
        target=5,
        stated=stated,
        is_min_scheduled=True,
    )
    found = decode_memory(encode_memory(Memory(last_known={ref: seen}))).last_known[ref]
    assert (found.group, found.options) == stated
    assert found.stated is None
    assert not found.is_min_scheduled


def test_what_scale_down_finds_out_anew_is_not_saved() -> None:
    """So that a quiet loop writes nothing."""
    passing = ScaleDownMemory(
        unneeded_since={"n": 5.0},
        rechecks={"m": Recheck(6.0, Unremovable(code=UnremovableCode.NO_PLACE))},
        hints=PodDestinations({NodePods([], []): ["n"]}),
        pending_hints={"q": "n"},
        engine_started=1.0,
        updated_at=7.0,
        interval=10.0,
    )
    kept = Memory(scale_down=ScaleDownMemory(unneeded_since={"n": 5.0}))
    assert encode_memory(Memory(scale_down=passing)) == encode_memory(kept)
    assert decode_memory(encode_memory(kept)) == kept


def later_version(document: dict[str, Any]) -> bytes:
    """The same schema with fields that this version does not know, everywhere."""
    document["weather"] = {"sunny": [1, 2]}
    for group in document.get("groups", []):
        group["mood"] = "good"
        group.setdefault("capabilities", []).append("telepathy")
        group.setdefault("switched_off", {})["telepathy"] = "no permission"
        for request in group.get("requests", []):
            request["probe"] = True
    return json.dumps(document).encode()


@given(memories())
def test_what_a_later_version_adds_is_passed_over(memory: Memory) -> None:
    encoded = encode_memory(memory)
    assert decode_memory(later_version(json.loads(encoded))) == decode_memory(encoded)


def test_nothing_is_lost_of_what_version_0_1_saved() -> None:
    """An operator who upgrades keeps what was saved: ``state-0.1.json`` is a state that 0.1 wrote, and does not change."""
    saved = json.loads((Path(__file__).parent / "state-0.1.json").read_text())
    assert saved["schema"] == SCHEMA
    assert list(lost(saved, json.loads(encode_memory(decode_memory(json.dumps(saved).encode()))))) == []


def lost(old: Any, new: Any, path: str = "$") -> Iterator[str]:
    """Yield what the old document has and the new one has not."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key, value in old.items():
            yield from lost(value, new[key], f"{path}.{key}") if key in new else [f"{path}.{key}"]
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, pair in enumerate(zip(old, new, strict=True)):
            yield from lost(*pair, f"{path}[{index}]")
    elif old != new:
        yield path


def test_an_empty_memory_is_a_document_too() -> None:
    windows = {"deletion_window": 600.0, "empty_deletion_window": 60.0}
    assert json.loads(encode_memory(Memory())) == {"kind": KIND, "schema": SCHEMA, **windows}
    assert decode_memory(encode_memory(Memory())) == Memory()


def test_a_former_version_did_not_say_how_long_deletions_count() -> None:
    assert decode_memory(json.dumps({"kind": KIND, "schema": SCHEMA}).encode()) == Memory()


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b"", "damaged"),
        (b"{", "damaged"),
        (b"null", "damaged"),
        (b"[1]", "damaged"),
        (b"{}", "no saved state"),
        (b'{"kind": "Pod", "apiVersion": "v1"}', "no saved state"),
        (b'{"kind": "nodewright-state"}', "no saved state"),
        (b'{"kind": "nodewright-state", "schema": 2, "groups": 7}', "later version"),
        (b'{"kind": "nodewright-state", "schema": 1, "groups": 7}', "damaged"),
        (b'{"kind": "nodewright-state", "schema": 1, "groups": [{"provider": "p"}]}', "damaged"),
        (b'{"kind":"nodewright-state","schema":1,"groups":[{"provider":"p","id":"g","given_up":-1}]}', "damaged"),
        (b'{"kind": "nodewright-state", "schema": 1, "deletion_window": -5}', "damaged"),
        (b'{"kind": "nodewright-state", "schema": 1, "x": ' + b"[" * 100_000, "damaged"),
        (b"\xff\xfe", "damaged"),
    ],
)
def test_what_is_no_saved_memory_is_refused(raw: bytes, why: str) -> None:
    with pytest.raises(UnreadableState, match=why):
        decode_memory(raw)


@given(memories(), st.data())
def test_bytes_that_were_tampered_with_are_refused_or_read(memory: Memory, data: st.DataObject) -> None:
    encoded = bytearray(encode_memory(memory))
    for _ in range(data.draw(st.integers(1, 4))):
        encoded[data.draw(st.integers(0, len(encoded) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(encoded)))
    try:
        found = decode_memory(bytes(encoded[:cut]))
    except UnreadableState:
        return
    assert isinstance(found, Memory)


@given(st.binary(max_size=64))
@example(b'{"kind": 5}')
def test_noise_is_refused(raw: bytes) -> None:
    with pytest.raises(UnreadableState):
        decode_memory(raw)


def test_a_large_cluster_at_its_worst_stays_small() -> None:
    """500 groups, 15,000 machines: every group backed off, every machine asked for and none of them a node yet."""
    memory = worst_memory(groups=500, machines=30)
    size, compressed = len(encode_memory(memory)), len(zlib.compress(encode_memory(memory)))
    assert compressed < 512 * 1024, (size, compressed)
    calm = replace(memory, requests={}, unregistered_since={}, late=frozenset(), seen_failures=frozenset())
    assert len(zlib.compress(encode_memory(calm))) < 32 * 1024


def worst_memory(groups: int, machines: int) -> Memory:
    refs = [GroupRef("cloud", f"pool-{n:03}-{n * 7919 % 65_521:04x}") for n in range(groups)]
    ids = {
        ref: [f"cloud:///region-{n % 3}/{(n * 30 + m) * 2_654_435_761 % 2**64:017x}" for m in range(machines)]
        for n, ref in enumerate(refs)
    }
    pairs = [(ref, instance_id) for ref, found in ids.items() for instance_id in found]
    backoff = Backoff(
        until=1.8e9, duration=1800, last_failure=1.7e9, error_class=ErrorClass.QUOTA, code="QUOTA", message="m" * 200
    )
    labels = {f"example.com/label-{n}": f"value-{n}" for n in range(20)}
    return Memory(
        requests={ref: (ScaleUpRequest(increase=machines, started=1.7e9 + n, deadline=1.7e9 + n + 900),)
                  for n, ref in enumerate(refs)},
        backoffs=dict.fromkeys(refs, backoff),
        unregistered_since={pair: 1.7e9 + n / 7 for n, pair in enumerate(pairs)},
        late=frozenset(pairs),
        seen_failures=frozenset(pairs),
        node_groups={instance_id: ref for ref, instance_id in pairs},
        last_known={
            ref: GroupSeen(
                ref=ref,
                group=NodeGroup(id=ref.group_id, min_size=0, max_size=1000),
                capabilities=frozenset({Capability.FAST_FAILURE_DETECTION}),
                target=machines,
                instances=tuple(Instance(id=instance_id) for instance_id in ids[ref]),
                template=build_node(f"template-{ref.group_id}", labels=labels),
            )
            for ref in refs
        },
    )  # fmt: skip


@given(memories())
def test_the_version_before_knows_the_reason_of_each_saved_move(memory: Memory) -> None:
    """It refuses the whole state otherwise, and there is no way back from this version."""
    known = {"underused", "empty", "replaced", "interrupted", "expired", "drifted"}
    saved = json.loads(encode_memory(memory))
    assert {move["reason"] for move in saved.get("moves", {}).values()} <= known
