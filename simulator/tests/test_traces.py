"""Traces in files: recorded from dumps and from a live cluster, read back and run; tables with a mapping."""

import json
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from msgspec.structs import replace
from pyarrow import parquet

from nodewright.model.decode import decode_objects
from nodewright.model.errors import ConfigError
from nodewright.model.pod import Pod
from nodewright_simulator.api import simulate
from nodewright_simulator.cli.record import read_dumps
from nodewright_simulator.lives import list_pods
from nodewright_simulator.mapped import load_mapped
from nodewright_simulator.recorded import UnfinishedTrace, finish_trace, load_trace, save_trace
from nodewright_simulator.recording import Anonymiser, Recording, TraceMaker

START = 1_800_000_000
SECRETS = (
    "payments",
    "acme",
    "ledger",
    "vault",
    "gold",
    "blue-dc",
    "uid-of",
    "pool-x",
    "fpga",
    "node-secret",
    "own-type",
)


def stamp(seconds: float) -> str:
    return datetime.fromtimestamp(START + seconds, UTC).isoformat().replace("+00:00", "Z")


def node(name: str, *, zone: str = "blue-dc-1") -> dict[str, Any]:
    labels = {
        "acme.example/tier": "gold",
        "acme.example/pool": "pool-x",
        "kubernetes.io/hostname": name,
        "topology.kubernetes.io/zone": zone,
        "node.kubernetes.io/instance-type": "own-type.4",
    }
    return {
        "kind": "Node",
        "apiVersion": "v1",
        "metadata": {"name": name, "uid": f"uid-of-{name}", "labels": labels, "creationTimestamp": stamp(-900)},
        "spec": {"taints": [{"key": "acme.example/only", "value": "vault", "effect": "NoSchedule"}]},
        "status": {
            "allocatable": {"cpu": "4", "memory": "16Gi", "pods": "110", "acme.example/fpga": "2"},
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": stamp(-800)}],
        },
    }


def pod(name: str, at: float, *, cpu: str = "1500m", kind: str = "ReplicaSet", **more: Any) -> dict[str, Any]:
    spec = {
        "nodeName": "node-secret-1",
        "nodeSelector": {"acme.example/tier": "gold"},
        "tolerations": [{"key": "acme.example/only", "operator": "Equal", "value": "vault"}],
        "containers": [
            {"name": "ledger", "resources": {"requests": {"cpu": cpu, "memory": "2Gi", "acme.example/fpga": "1"}}}
        ],
        **more,
    }
    owner = {
        "kind": kind,
        "name": f"ledger-{kind.lower()}",
        "uid": "uid-of-ledger",
        "apiVersion": "apps/v1",
        "controller": True,
    }
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": stamp(at + 5)}
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "name": name,
            "namespace": "payments",
            "uid": f"uid-of-{name}",
            "creationTimestamp": stamp(at),
            "labels": {"app": "ledger"},
            "ownerReferences": [owner],
        },
        "spec": spec,
        "status": {"phase": "Running", "conditions": [scheduled]},
    }


def spread_and_apart() -> dict[str, Any]:
    selector = {"matchLabels": {"app": "ledger"}}
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": selector}
    zones = {"topologyKey": "topology.kubernetes.io/zone", "maxSkew": 2, "labelSelector": selector}
    return {
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}},
        "topologySpreadConstraints": [zones],
    }


def dump(path: Path, *items: dict[str, Any]) -> Path:
    path.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": list(items)}))
    return path


@pytest.fixture
def dumps(tmp_path: Path) -> Path:
    """Three moments: a pod ends between the first two, one comes, one of a DaemonSet is there, one node comes."""
    folder = tmp_path / "dumps"
    folder.mkdir()
    daemon = pod("ledger-agent", -600, cpu="100m", kind="DaemonSet")
    first = [node("node-secret-1"), daemon, pod("ledger-a", -300), pod("ledger-b", 0)]
    later = [node("node-secret-1"), daemon, pod("ledger-b", 0), pod("ledger-c", 600, cpu="3", **spread_and_apart())]
    dump(folder / "z-first.json", *first)
    dump(folder / "a-later.json", *later)
    dump(folder / "last.json", *later, node("node-secret-2"), pod("ledger-d", 1200))
    return folder


def test_dumps_become_a_trace_of_arrivals_and_ends(dumps: Path) -> None:
    trace = read_dumps([dumps]).make_trace(Anonymiser(None))
    assert [(p.name, p.created, p.ended) for p in trace.pods] == [
        ("ledger-a", 0.0, 600.0),  # the first dump is of 5 s: ledger-b was scheduled then
        ("ledger-b", 0.0, None),
        ("ledger-c", 595.0, None),
        ("ledger-d", 1195.0, None),
    ]
    assert {(p.owner, p.owner_kind) for p in trace.pods} == {("ledger-replicaset", "ReplicaSet")}
    assert trace.pods[2].cpu_milli == 3000
    assert trace.pods[2].memory_bytes == 2 * 2**30
    assert trace.pods[2].resources == {"acme.example/fpga": 1}
    plain, apart = trace.header.classes
    assert (plain.node_selector, plain.apart, plain.spread) == ({"acme.example/tier": "gold"}, False, ())
    assert (apart.apart, apart.spread[0].max_skew) == (True, 2)
    [group] = trace.header.groups
    assert (group["size"], group["max_size"], group["labels"]) == (1, 2, {"acme.example/tier": "gold"})
    [daemon] = trace.header.daemon_sets
    assert daemon.pod.cpu == "100m"
    assert trace.header.seconds == 1200.0


def test_round_trip_runs_the_same_pods_with_the_same_sizes(dumps: Path, tmp_path: Path) -> None:
    for hides in (Anonymiser(None), Anonymiser(b"salt")):
        path = tmp_path / "own.parquet"
        trace = read_dumps([dumps]).make_trace(hides, group_max=9)
        save_trace(trace, path)
        assert load_trace(path) == trace
        assert [held.name for held in tmp_path.iterdir() if held.name != "dumps"] == ["own.parquet"]
        result = simulate({"name": "own", "duration": "1h", "providers": {"fake": {}}, "trace": {"file": str(path)}})
        pods = [held for held in list_pods(result.details) if held.owner == "Job"]
        assert len(pods) == 4
        assert sorted(held.end for held in pods) == ["", "", "", "ended"]
        assert all(held.started is not None for held in pods)
        assert result.details.final.pending == 0
        daemons = [held for held in list_pods(result.details) if held.owner == "DaemonSet"]
        assert len(daemons) >= 2
        replayed = trace.replay().arrivals
        sizes = [arrival.pod.spec.containers[0].resources.requests for arrival in replayed]
        assert [size["cpu"].milli for size in sizes] == [1500, 1500, 3000, 1500]
        assert {size["memory"].value for size in sizes} == {2 * 2**30}


def test_a_trace_whose_pods_do_not_end_is_over_when_nothing_is_left_to_happen(dumps: Path, tmp_path: Path) -> None:
    path = tmp_path / "own.parquet"
    save_trace(read_dumps([dumps]).make_trace(Anonymiser(None), group_max=9), path)
    details = simulate(path).details
    assert details.final.running >= 3
    assert details.end - details.start < 3 * 3600


def test_anonymised_file_holds_no_name_of_the_cluster(dumps: Path, tmp_path: Path) -> None:
    files = []
    for number, salt in enumerate((b"one", b"two", None)):
        path = tmp_path / f"{number}.parquet"
        save_trace(read_dumps([dumps]).make_trace(Anonymiser(salt)), path)
        table = parquet.read_table(path)
        files.append(f"{table.to_pydict()} {table.schema.metadata} {path.read_bytes()!r}".lower())
    assert [secret for secret in SECRETS if secret in files[0]] == []
    kept = set(SECRETS) - {"uid-of", "node-secret", "pool-x"}  # no trace needs these
    assert [secret for secret in kept if secret not in files[2]] == []
    owners = [parquet.read_table(tmp_path / f"{number}.parquet").column("owner")[0].as_py() for number in (0, 1)]
    assert owners[0] != owners[1]


def test_what_a_trace_cannot_hold_is_counted(tmp_path: Path) -> None:
    claim: dict[str, Any] = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "ledger"}}]}
    terms = [{"matchExpressions": [{"key": "x", "operator": "In", "values": ["a", "b"]}]}]
    choice: dict[str, Any] = {
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    }
    path = dump(tmp_path / "dump.json", node("n"), pod("a", 0, **claim), pod("b", 0, **choice))
    found = read_dumps([path]).make_trace(Anonymiser(b"s")).header.left_out
    assert found == {"node affinity with several choices": 1, "persistent volumes": 1}


def test_a_pod_that_is_missing_once_and_seen_again_did_not_end() -> None:
    objects = decode_objects(json.dumps({"kind": "List", "items": [node("n"), pod("a", 0)]}).encode(), "x")
    recording = Recording()
    recording.see(objects.nodes, objects.pods, START + 1.0)
    recording.see(objects.nodes, (), START + 2.0)
    recording.see(objects.nodes, objects.pods, START + 3.0)
    assert [held.ended for held in recording.make_trace(Anonymiser(None)).pods] == [None]
    recording.see(objects.nodes, (), START + 4.0)
    assert [held.ended for held in recording.make_trace(Anonymiser(None)).pods] == [3.0]


def read_pods(*names: str) -> list[Pod]:
    items = [pod(name, 60.0 * place) for place, name in enumerate(names)]
    text = json.dumps({"kind": "List", "apiVersion": "v1", "items": items})
    return list(decode_objects(text.encode(), "pods").pods)


def test_a_recording_that_is_cut_off_keeps_what_was_saved(tmp_path: Path) -> None:
    """What is gone is written once and forgotten, also if the watch tells of it again."""
    path, recording = tmp_path / "own.parquet", Recording()
    maker = TraceMaker(recording, Anonymiser(b"salt"), None, None)
    a, b, c = read_pods("a", "b", "c")
    with UnfinishedTrace(path) as target:
        recording.see((), [a, b], START)
        target.save(maker.take_gone(), maker.peek())
        recording.see((), [b], START + 60)
        target.save(maker.take_gone(), maker.peek())
        assert [seen.name for seen, _ in recording.seen_pods()] == ["b"]
        recording.see((), [b, c], START + 120, passed=[a])
        target.save(maker.take_gone(), maker.peek())
        recording.see((), [], START + 180)  # not saved
    with (
        pytest.raises(ConfigError, match=r"parts: holds a recording that was cut off: nodewright record --finish --to"),
        UnfinishedTrace(path),
    ):
        pass
    header, count = finish_trace(path)
    assert (header.seconds, header.anonymous, count, recording.pods) == (120.0, True, 3, 3)
    assert [(held.created, held.ended) for held in load_trace(path).pods] == [(0.0, 60.0), (60.0, None), (120.0, None)]
    assert len({held.name for held in load_trace(path).pods}) == 3
    assert [held.name for held in tmp_path.iterdir()] == ["own.parquet"]
    with pytest.raises(ConfigError, match=r"no recording for .* was cut off"):
        finish_trace(path)


def test_a_recorder_at_work_has_its_folder_for_itself(tmp_path: Path) -> None:
    path, recording = tmp_path / "own.parquet", Recording()
    maker = TraceMaker(recording, Anonymiser(None), None, None)
    recording.see((), read_pods("a"), START)
    with UnfinishedTrace(path) as target:
        for saves in range(2):
            with pytest.raises(ConfigError, match=r"own.parquet.parts: another nodewright record is at work on it"):
                finish_trace(path)
            with pytest.raises(ConfigError, match="another nodewright record is at work"), UnfinishedTrace(path):
                pass
            if not saves:
                target.save(maker.take_gone(), maker.peek())
    assert finish_trace(path)[1] == 1


def test_a_recording_without_a_save_leaves_nothing(tmp_path: Path) -> None:
    with UnfinishedTrace(tmp_path / "own.parquet"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_part_that_cannot_be_read_leaves_no_half_trace(tmp_path: Path) -> None:
    path, recording = tmp_path / "own.parquet", Recording()
    maker = TraceMaker(recording, Anonymiser(None), None, None)
    [like] = read_pods("like")
    pods = [replace(like, metadata=replace(like.metadata, uid=str(number))) for number in range(10_000)]
    with UnfinishedTrace(path) as target:
        for there in (pods, ()):
            recording.see((), there, START + 60.0 * (not there))
            target.save(maker.take_gone(), maker.peek())
    (tmp_path / "own.parquet.parts" / "part-000001.parquet").write_text("broken")
    with pytest.raises(ConfigError, match=r"part-000001\.parquet: cannot be read as Parquet"):
        finish_trace(path)
    assert [held.name for held in tmp_path.iterdir()] == ["own.parquet.parts"]


def test_many_pods_are_written_in_parts_and_not_kept(tmp_path: Path) -> None:
    path, recording = tmp_path / "own.parquet", Recording()
    maker = TraceMaker(recording, Anonymiser(None), None, None)
    [like] = read_pods("like")
    with UnfinishedTrace(path) as target:
        for step in range(5):
            pods = [replace(like, metadata=replace(like.metadata, uid=f"{step}-{number}")) for number in range(4000)]
            recording.see((), pods, START + step)
            target.save(maker.take_gone(), maker.peek())
            assert sum(1 for _ in recording.seen_pods()) == 4000
    assert sorted(held.name for held in (tmp_path / "own.parquet.parts").iterdir()) == [
        "lock",
        "part-000001.parquet",
        "rest.parquet",
    ]
    # A part that was written after the last save does not count: its pods are in the rest.
    rest = (tmp_path / "own.parquet.parts" / "rest.parquet").read_bytes()
    (tmp_path / "own.parquet.parts" / "part-000002.parquet").write_bytes(rest)
    header, count = finish_trace(path)
    assert (count, recording.pods, header.seconds) == (20_000, 20_000, 4.0)
    assert len(load_trace(path).pods) == 20_000


def test_nodes_that_are_gone_are_kept_once_for_all_that_are_alike() -> None:
    recording = Recording()
    made = [node(f"node-{number}") for number in range(30)]
    text = json.dumps({"kind": "List", "apiVersion": "v1", "items": made})
    nodes = decode_objects(text.encode(), "nodes").nodes
    for place in range(29):
        recording.see(nodes[place : place + 2], (), START + place)
    assert len({id(held) for held, _, _ in recording.stays()}) == 3
    [group] = recording.make_trace(Anonymiser(None)).header.groups
    assert (group["size"], group["max_size"]) == (2, 2)


def test_a_group_may_grow_to_the_most_nodes_that_it_had_at_a_time() -> None:
    items = [node(f"n{number}") for number in range(4)]
    nodes = decode_objects(json.dumps({"kind": "List", "items": items}).encode(), "x").nodes
    recording = Recording()
    for at, there in enumerate([(0, 1), (1, 2), (2, 3, 0), (3,), (0, 3)]):
        recording.see([nodes[number] for number in there], (), START + float(at))
    [group] = recording.make_trace(Anonymiser(None)).header.groups
    assert (group["size"], group["max_size"]) == (2, 3)
    [group] = recording.make_trace(Anonymiser(None), group_max=1).header.groups
    assert (group["size"], group["max_size"]) == (2, 2)


MAPPING = """
columns: {created: begin, ended: end, cpu: plan_cpu, memory: plan_mem, owner: job, count: instances, gpus: gpu}
cpu_unit: 0.01
memory_unit: 1Gi
only: {status: Terminated}
groups: [{name: big, cpu: 96, memory: 384Gi, max_size: 5, resources: {nvidia.com/gpu: 8}}]
"""
TABLE = {
    "job": ["j1", "j1", "j2", "j3"],
    "instances": [3, 1, 1, 1],
    "status": ["Terminated", "Terminated", "Failed", "Terminated"],
    "begin": [10, 20, 30, 40],
    "end": [100, None, 300, 400],
    "plan_cpu": [50.0, 100.0, 100.0, None],
    "plan_mem": [0.5, 1.0, 2.0, 1.0],
    "gpu": [0, 2, 0, 0],
}


def write_table(folder: Path, suffix: str) -> Path:
    path = folder / f"table{suffix}"
    if suffix == ".parquet":
        parquet.write_table(pa.table(TABLE), path)
        return path
    rows = [",".join("" if value is None else str(value) for value in row) for row in zip(*TABLE.values(), strict=True)]
    path.write_text("\n".join([",".join(TABLE), *rows, ""]))
    return path


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_tables_of_others_are_read_with_a_mapping(tmp_path: Path, suffix: str) -> None:
    mapping, table = tmp_path / "mapping.yaml", write_table(tmp_path, suffix)
    mapping.write_text(MAPPING)
    trace = load_mapped(table, mapping)
    assert [(p.name, p.cpu_milli, p.memory_bytes >> 20, p.created, p.ended) for p in trace.pods] == [
        ("row-1-0", 500, 512, 10.0, 100.0),
        ("row-1-1", 500, 512, 10.0, 100.0),
        ("row-1-2", 500, 512, 10.0, 100.0),
        ("row-2", 1000, 1024, 20.0, None),
    ]
    assert trace.header.left_out == {"rows without a time or a size": 1}
    spec = {"file": str(table), "mapping": str(mapping)}
    result = simulate({"name": "own", "duration": "1h", "providers": {"fake": {}}, "trace": spec})
    assert [held.end for held in list_pods(result.details)] == ["ended", "ended", "ended", ""]


@pytest.mark.parametrize(
    ("mapping", "said"),
    [
        (MAPPING.replace("plan_cpu", "plan_cpus"), "mapping.yaml: columns.cpu: {table} has no column plan_cpus"),
        (MAPPING.replace("status:", "state:"), "mapping.yaml: only.state: {table} has no column state"),
        (MAPPING.replace("cpu_unit", "cpu_units"), "mapping.yaml: unknown key cpu_units"),
        (MAPPING.replace("1Gi", "much"), "mapping.yaml: memory_unit"),
        (MAPPING.replace("created: begin, ", ""), "mapping.yaml: columns.created: is missing"),
        (MAPPING.replace("ended: end", "ended: end, lifetime: end"), "mapping.yaml: columns: ended and lifetime"),
        (MAPPING.replace("plan_mem", "job"), "{table}: row 1: job is 'j1', not a number (memory)"),
        ("- a\n", "mapping.yaml: a mapping file is one mapping"),
    ],
)
def test_a_bad_mapping_is_one_sentence_that_names_file_and_key(tmp_path: Path, mapping: str, said: str) -> None:
    path, table = tmp_path / "mapping.yaml", write_table(tmp_path, ".csv")
    path.write_text(mapping)
    with pytest.raises(ConfigError) as refused:
        load_mapped(table, path)
    assert said.format(table=table) in str(refused.value)
    assert "\n" not in str(refused.value)


def test_files_that_are_no_trace_are_refused(tmp_path: Path) -> None:
    other = write_table(tmp_path, ".parquet")
    with pytest.raises(ConfigError, match=r"table.parquet: is no trace of nodewright record"):
        load_trace(other)
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(Random(1).randbytes(100))
    with pytest.raises(ConfigError, match=r"broken.parquet: cannot be read as Parquet"):
        load_trace(broken)
    for trace, said in (
        ({"file": "x.parquet", "folder": "x"}, "trace: folder and file"),
        ({"mapping": "x.yaml"}, "trace: mapping: needs file"),
    ):
        with pytest.raises(ConfigError, match=said):
            simulate({"name": "x", "duration": "1h", "providers": {"fake": {}}, "trace": trace})


EXAMPLES = Path(__file__).parents[2] / "docs/examples/traces"


@pytest.mark.parametrize(
    ("name", "row", "expected"),
    [
        (
            "azure-packing-2020",
            {"vmId": 7, "tenantId": 3, "starttime": -1.5, "endtime": 0.5, "core": 0.25, "memory": 0.125},
            [(16_000, 64, 43_200.0)],
        ),
        (
            "google-2019",
            {"collection_id": 1, "submitted": 5_000_000, "scheduled": "", "ended": "", "cpus": 0.5, "memory": 0.25},
            [(48_000, 192, None)],
        ),
        ("alibaba-2018", "M1,2,j_1,1,Terminated,100,160,50.0,25", [(500, 128, 160.0)] * 2),
    ],
)
def test_the_mapping_files_of_published_traces_read_rows_of_their_schema(
    tmp_path: Path, name: str, row: Any, expected: list[tuple[int, int, float | None]]
) -> None:
    table = tmp_path / "table.csv"
    table.write_text(f"{row}\n" if isinstance(row, str) else f"{','.join(row)}\n{','.join(map(str, row.values()))}\n")
    found = load_mapped(table, EXAMPLES / f"{name}.yaml")
    assert [(p.cpu_milli, round(p.memory_bytes / 2**30, 6), p.ended) for p in found.pods] == expected
    scenario = {
        "name": name,
        "duration": "1h",
        "providers": {"fake": {}},
        "trace": {"file": str(table), "mapping": str(EXAMPLES / f"{name}.yaml")},
    }
    assert simulate(scenario).details.final.pending == 0
