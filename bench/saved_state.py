"""What a leader saves in ConfigMaps at the size at which most of it is about single machines."""

from contextlib import AbstractContextManager
from functools import partial
from random import Random

import msgspec

from measure import Benchmark, Prepared, Result, scaled
from nodewright.adapters.kube.api import ApiError, Lines, Request
from nodewright.adapters.kube.config_maps import ConfigMaps
from nodewright.adapters.kube.store import ConfigMapStore
from nodewright.clusterstate.memory import Memory, ScaleDownMemory, ScaleUpRequest
from nodewright.model.group import GroupRef, Instance, NodeGroup
from nodewright.snapshot.observation import GroupSeen
from nodewright.testkit.builders import build_node

_GROUPS = 10
_NOW = 1_000_000.0


class _Server:
    """An API server of one namespace: each ConfigMap as it was sent last. It takes no more than 1 MiB, as the real one."""

    def __init__(self) -> None:
        self.held: dict[str, bytes] = {}

    def send(self, request: Request) -> bytes:
        name = request.path.rsplit("/", 1)[-1]
        if request.method == "GET":
            if name not in self.held:
                raise ApiError(f"{name} is missing", status=404)
            return self.held[name]
        body = request.body or b""
        if len(body) > 1024 * 1024:
            raise ApiError(f"{name} is too large: {len(body)} bytes", status=413)
        self.held[msgspec.json.decode(body)["metadata"]["name"]] = body
        return body

    def follow(self, request: Request) -> AbstractContextManager[Lines]:
        raise ApiError(f"nothing is watched here: {request}")


def _make_memory(nodes: int) -> Memory:
    """Every group has a request under way, and no node is needed."""
    random, last_known = Random(1), dict[GroupRef, GroupSeen]()
    requests = dict[GroupRef, tuple[ScaleUpRequest, ...]]()
    for number in range(_GROUPS):
        ref, size = GroupRef("cloud", f"group-{number}"), nodes // _GROUPS
        ids = [f"aws:///eu-west-1a/i-{random.getrandbits(68):017x}" for _ in range(size)]
        last_known[ref] = GroupSeen(
            ref=ref,
            group=NodeGroup(id=ref.group_id, min_size=0, max_size=nodes),
            target=size + 1,
            instances=tuple(Instance(id=known_as) for known_as in ids),
            template=build_node(f"template-{number}"),
        )
        requests[ref] = (ScaleUpRequest(increase=1, started=_NOW, deadline=_NOW + 900.0),)
    unneeded = {
        f"ip-10-{host >> 16}-{host >> 8 & 255}-{host & 255}.eu-west-1.compute.internal": _NOW - random.randrange(600)
        for host in random.sample(range(2**24), nodes)
    }
    return Memory(last_known=last_known, requests=requests, scale_down=ScaleDownMemory(unneeded_since=unneeded))


def prepare_saved_state(nodes: int, share: float) -> Prepared:
    """Save, and read again as the next leader does."""
    nodes = _GROUPS * scaled(nodes // _GROUPS, share)
    memory, server = _make_memory(nodes), _Server()

    def run() -> Result:
        maps = ConfigMaps(server, "kube-system")
        ConfigMapStore(maps, lambda: None).save_if_changed(memory)
        found = ConfigMapStore(maps, lambda: None).load().memory
        return {
            "machines": sum(len(group.instances or ()) for group in found.last_known.values()),
            "unneeded": len(found.scale_down.unneeded_since),
        }

    return Prepared(
        run=run,
        expected={"machines": nodes, "unneeded": nodes},
        notes=lambda: {"ConfigMaps": len(server.held), "KiB": round(sum(map(len, server.held.values())) / 1024)},
    )


SAVED_STATE: dict[str, Benchmark] = {
    "saved-state-65000": Benchmark(
        workload="65,000 machines in flight and unneeded, saved in ConfigMaps of 1 MiB at most and read again",
        start="memory",
        prepare=partial(prepare_saved_state, 65_000),
        limit=5,
    ),
}
