"""Kinds of trouble that are worth a world of their own: each is added to a schedule that was drawn without it."""

from collections.abc import Callable, Mapping
from typing import Any

from hypothesis import strategies as st

MINUTE, DAY = 60, 86400
SCOPES = ("group", "zone", "instance_type", "account")
STATES = ("old", "truncated", "newer", "foreign", "missing")
REFUSALS = ("quota", "out_of_capacity", "access_denied", "unavailable")

Draw = st.DrawFn
World = dict[str, Any]
Trouble = Callable[[Draw, World], None]


def add_never_ready(draw: Draw, world: World) -> None:
    """Add a scale-up of which no machine becomes ready: more than 45 % of the nodes in the end, and more than four."""
    groups = world["providers"]["fake"]["groups"]
    pair(groups)
    groups[0] |= {"min_size": 0, "size": 0, "request_delay": "0s"}
    groups[1]["size"] = draw(st.integers(2, 4))
    sick = {"group": "a", "start": 0, "end": draw(st.sampled_from((1200, 2400))), "ready": "100h"}
    rules(world, "slow_boots").append(sick)
    world["deployments"][0] |= {"at": draw(st.sampled_from((0, 120, 300))), "replicas": draw(st.integers(9, 12))}
    world["timeline"] = [event for event in world["timeline"] if event["do"] != "scale"]


def add_refusals(draw: Draw, world: World) -> None:
    """Add refusals of one class and scope for long: the cheapest group grows not at all, whenever it is asked."""
    error = draw(st.sampled_from(REFUSALS))
    fault = {"kind": "refuse", "hook": "increase_size", "group": "a", "error": error, "start": 0}
    fault["end"] = draw(st.sampled_from((600, 1200, 2400)))
    if error in ("quota", "out_of_capacity") and draw(st.booleans()):
        fault["scope"] = draw(st.sampled_from(SCOPES))
    rules(world, "faults").append(fault)


def add_busy_cloud(draw: Draw, world: World) -> None:
    """Add bursts in which the cloud asks to come back later: for one hook, or for all that is written."""
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, 8)) * 5 * MINUTE
        lasts = draw(st.sampled_from((30, 120, 600)))
        fault: World = {"start": start, "end": start + lasts}
        fault["kind"] = draw(st.sampled_from(("throttle", "in_progress")))
        fault["retry_after"] = draw(st.sampled_from((1, 20, 90, 300)))
        fault["hook"] = draw(st.sampled_from(("increase_size", "increase_size", "delete_instances")))
        if draw(st.booleans()):
            fault["group"] = "a"
        rules(world, "faults").append(fault)


def add_false_failures(draw: Draw, world: World) -> None:
    """Add reports that call running machines failed creations, for a while or again and again."""
    groups = world["providers"]["fake"]["groups"]
    group = draw(st.sampled_from(groups))
    group.pop("switched_off", None)
    group["size"] = draw(st.integers(1, 3))
    start = draw(st.integers(0, 20)) * MINUTE
    rule: World = {"group": group["name"], "start": start, "end": start + draw(st.sampled_from((120, 600, 1800)))}
    rule["also_listed"] = draw(st.booleans())
    for key, values in (("machines", (1, 3)), ("flaps_every", ("1m", "6m"))):
        if draw(st.booleans()):
            rule[key] = draw(st.sampled_from(values))
    rule["scope"] = draw(st.sampled_from(SCOPES))
    rules(world, "false_failures").append(rule)


def add_late_reports(draw: Draw, world: World) -> None:
    """Add failures of which the cloud tells only after a while, perhaps when they were given up long ago."""
    groups = world["providers"]["fake"]["groups"]
    group = draw(st.sampled_from(groups))
    group.pop("switched_off", None)
    rule: World = {"group": group["name"], "start": 0, "end": draw(st.sampled_from((600, 2400)))}
    rule["delay"] = draw(st.sampled_from(("2m", "4m50s", "8m", "15m")))
    rule["error_class"] = draw(st.sampled_from(("other", "quota", "out_of_resources")))
    rule["scope"] = draw(st.sampled_from(SCOPES))
    rule["share"] = draw(st.sampled_from((1.0, 0.5)))
    rules(world, "failures").append(rule)


def add_silence(draw: Draw, world: World) -> None:
    """Add a cheap group that delivers nothing for long and the cloud does not report it: in a cluster that buys machines twice, or
    where it is tried again after its backoff.
    """
    groups = world["providers"]["fake"]["groups"]
    pair(groups)
    groups[0] |= {"switched_off": {"fast_failure_detection": "the cloud does not say"}, "size": 0}
    if draw(st.booleans()):
        world["settings"] |= {"hedging": "on", "max-node-provision-time": "10m"}
        sold_out = {"group": "a", "start": 0, "end": draw(st.sampled_from((1200, 2400)))}
    else:
        _add_trial(draw, world)
        sold_out = {"group": "a", "start": 0, "end": 2400}
    rules(world, "stock_outs").append({**sold_out, "remaining": draw(st.integers(0, 1))})


def _add_trial(draw: Draw, world: World) -> None:
    """Have the cheapest group asked again as soon as its first backoff, from 5 to 10 minutes, has ended."""
    world["settings"] |= {"expander": "price", "max-node-provision-time": "5m"}
    world["settings"].pop("probe-after-backoff", None)
    web, pods = world["deployments"][0], draw(st.integers(2, 4))
    web |= {"at": 0, "replicas": pods}
    more = {"at": draw(st.integers(22, 50)) * 30, "replicas": pods + draw(st.integers(1, 3))}
    others = [event for event in world["timeline"] if event["do"] != "scale"]
    world["timeline"] = [{"do": "scale", "deployment": "web", **more}, *others]


def add_atomic_requests(draw: Draw, world: World) -> None:
    """Add requests for machines that come all or not at all, on clouds that break that promise."""
    groups = world["providers"]["fake"]["groups"]
    world["settings"]["enable-provisioning-requests"] = True
    pair(groups)
    for group in groups:
        if draw(st.booleans()):
            group["switched_off"] = {**group.get("switched_off", {}), "atomic_resize": "the cloud takes parts"}
    pods = draw(st.integers(2, 5))
    world["provisioning_requests"] = [
        {
            "name": f"request-{number}",
            "class": "best-effort-atomic-scale-up.autoscaling.x-k8s.io",
            "at": draw(st.integers(0, 6)) * MINUTE,
            "pod_sets": [{"count": pods, "pod": {"cpu": "1", "memory": "64Mi"}}],
        }
        for number in range(draw(st.sampled_from((1, 1, 2))))
    ]
    silent = {"fast_failure_detection": "the cloud does not say", "atomic_resize": "the cloud takes parts"}
    groups[0] |= {"switched_off": silent, "size": 0}
    broken = {"group": "a", "start": 0, "end": draw(st.sampled_from((600, 2400)))}
    if draw(st.booleans()):
        rules(world, "stock_outs").append({**broken, "remaining": draw(st.integers(0, pods - 1))})
    else:
        partial = {"kind": "partial", "hook": "increase_size", "at_most": draw(st.integers(1, pods - 1))}
        rules(world, "faults").append({**broken, **partial})


def add_small_machines(draw: Draw, world: World) -> None:
    """Add a group, the cheapest, whose machines take no pod although its template says so."""
    groups = world["providers"]["fake"]["groups"]
    pair(groups)
    groups[0] |= {"min_size": 0, "size": 0}
    start = draw(st.sampled_from((0, 0, 600)))
    small = {"group": "a", "start": start, "end": draw(st.sampled_from((1200, 360000))), "offers": {"cpu": "500m"}}
    rules(world, "small_machines").append(small)


def add_more_small_machines(world: World) -> None:
    """Add three more such groups for good, all cheaper than one with a node that shows that it takes the pods."""
    cloud, groups = world["providers"]["fake"], world["providers"]["fake"]["groups"]
    world["settings"] |= {"expander": "price", "enforce-node-group-min-size": True}
    [small] = [rule for rule in cloud["small_machines"] if rule["group"] == "a"]
    small["end"] = 360000
    for number, name in enumerate(("d", "e", "f"), 1):
        groups.append({**groups[0], "name": name, "price_per_hour": groups[0]["price_per_hour"] + number / 100})
        cloud["small_machines"].append({**small, "group": name})
    groups[1] |= {"size": 1, "min_size": 1, "price_per_hour": 0.5}


def add_wrong_lists(draw: Draw, world: World) -> None:
    """Add lists of the cluster that show no pods, some of them or old ones, on and off."""
    start = draw(st.integers(1, 20)) * MINUTE
    for _ in range(draw(st.integers(1, 4))):
        lasts = draw(st.sampled_from((30, 240, 600)))
        shows = draw(st.sampled_from(("no_pods", "half_of_the_pods", "stale")))
        world["timeline"].append({"do": "misread", "at": start, "for": lasts, "shows": shows})
        start += lasts + draw(st.sampled_from((10, 120)))


def add_stubborn_api_server(draw: Draw, world: World) -> None:
    """Add an API server that refuses edits and evictions, beside a budget, while machines take long to go."""
    for _ in range(draw(st.integers(1, 3))):
        event: World = {"at": draw(st.integers(2, 35)) * MINUTE, "for": draw(st.sampled_from((60, 300, 900)))}
        event["do"] = draw(st.sampled_from(("refuse_edits", "refuse_evictions")))
        if event["do"] == "refuse_edits":
            event["takes_effect"] = draw(st.booleans())
        world["timeline"].append(event)
    for group in world["providers"]["fake"]["groups"]:
        group |= {"cpu": 2, "delete_delay": draw(st.sampled_from(("30s", "5m", "10m")))}
    budget = {"name": "web", "workload": "web", "max_unavailable": draw(st.integers(0, 2))}
    world["disruption_budgets"] = [budget]


def add_kills(draw: Draw, world: World) -> None:
    """Add deaths between any two steps of the engine."""
    for _ in range(draw(st.integers(1, 3))):
        kill: World = {"do": "kill", "at": draw(st.integers(0, 70)) * 30, "step": draw(st.integers(1, 12))}
        kill["down"] = draw(st.sampled_from((5, 60, 400)))
        world["timeline"].append(kill)


def add_strange_state(draw: Draw, world: World) -> None:
    """Add restarts that find no state, or that of before, of another cluster or a later version, or a part of it: each
    once in each world, so that none is met less often than another.
    """
    for saved in draw(st.permutations(STATES)):
        restart: World = {"do": "restart", "at": draw(st.integers(1, 70)) * 30, "down": draw(st.sampled_from((5, 120)))}
        world["timeline"].append({**restart, "saved": saved})


def add_full_disk(draw: Draw, world: World) -> None:
    """Add times in which no state can be saved, perhaps with a death in them."""
    full: World = {"do": "full_disk", "at": draw(st.integers(0, 50)) * 30, "for": draw(st.sampled_from((60, 300, 900)))}
    world["timeline"].append(full)
    if draw(st.booleans()):
        world["timeline"].append({"do": "restart", "at": full["at"] + 30, "down": 20})


def add_hands(draw: Draw, world: World) -> None:
    """Add people who cordon, taint or label nodes, or delete their objects."""
    for _ in range(draw(st.integers(1, 3))):
        touch: World = {"do": "touch_nodes", "at": draw(st.integers(1, 30)) * MINUTE}
        touch |= {
            "how": draw(st.sampled_from(("cordon", "taint", "label", "delete"))),
            "nodes": draw(st.integers(1, 3)),
        }
        # A machine that is no node for as long as its provision time is another trouble.
        touch["for"] = draw(st.sampled_from((20, 120) if touch["how"] == "delete" else (20, 120, 600)))
        world["timeline"].append(touch)


def add_recreated_groups(draw: Draw, world: World) -> None:
    """Add people who delete groups with their machines, and make them again soon or later."""
    for _ in range(draw(st.integers(1, 3))):
        group = draw(st.sampled_from(world["providers"]["fake"]["groups"]))["name"]
        event: World = {"do": "recreate", "group": group, "start": draw(st.integers(0, 80)) * 30}
        event["gone_for"] = draw(st.sampled_from((0, 20, 300, 1200)))
        rules(world, "interference").append(event)


def pair(groups: list[World]) -> None:
    """Make the first two groups alike but for zone and price, and large; add the second where there is one only."""
    if len(groups) == 1:
        groups.append({**groups[0], "name": "b", "price_per_hour": 0.5, "zone": "south", "instance_type": "other"})
    for group in groups[:2]:
        group |= {"cpu": 1, "max_size": 12}


def rules(world: World, key: str) -> list[Any]:
    """Return the list of the cloud's rules of that kind, to be added to."""
    found: list[Any] = world["providers"]["fake"].setdefault(key, [])
    return found


TROUBLES: Mapping[str, Trouble] = {
    "never_ready": add_never_ready,
    "refusals": add_refusals,
    "busy_cloud": add_busy_cloud,
    "false_failures": add_false_failures,
    "late_reports": add_late_reports,
    "silence": add_silence,
    "atomic_requests": add_atomic_requests,
    "small_machines": add_small_machines,
    "wrong_lists": add_wrong_lists,
    "stubborn_api_server": add_stubborn_api_server,
    "kills": add_kills,
    "strange_state": add_strange_state,
    "full_disk": add_full_disk,
    "hands": add_hands,
    "recreated_groups": add_recreated_groups,
}
