"""Kinds of trouble that are added to a schedule after all else is drawn: a new one leaves the other worlds as they are."""

from collections.abc import Mapping

from hypothesis import strategies as st
from tests.faults.troubles import DAY, MINUTE, Draw, Trouble, World, pair, rules

# Seconds after which nothing ends any more.
FOR_GOOD = 100 * 3600


def add_changed_groups(draw: Draw, world: World) -> None:
    """Add people who change the limits of a group's size, or its template, while something is under way."""
    group = _chosen(draw, world)
    for _ in range(draw(st.integers(1, 3))):
        event: World = {"do": "change", "group": group["name"], "start": draw(st.integers(0, 80)) * 30}
        rules(world, "interference").append(event | _change(draw, group))


def add_vanishing_groups(draw: Draw, world: World) -> None:
    """Add groups that are not listed for a while, although their machines run on, and come back with other limits."""
    group = _chosen(draw, world)
    start = 0
    for _ in range(draw(st.integers(1, 2))):
        start += draw(st.integers(0, 30)) * 30
        event: World = {"do": "vanish", "group": group["name"], "start": start}
        event["gone_for"] = draw(st.sampled_from((20, 120, 400, 1200)))
        start += event["gone_for"] + 30
        rules(world, "interference").append(event | _change(draw, group))


def _chosen(draw: Draw, world: World) -> World:
    """Return one group. In half of the worlds minima are enforced, if only one that it gets later."""
    if draw(st.booleans()):
        world["settings"]["enforce-node-group-min-size"] = True
    else:
        world["settings"].pop("enforce-node-group-min-size", None)
    group: World = draw(st.sampled_from(world["providers"]["fake"]["groups"]))
    return group


def _change(draw: Draw, group: World) -> World:
    """Return what is changed: limits, template or both."""
    found: World = {}
    what = draw(st.sampled_from(("limits", "limits", "template", "both")))
    if what != "template":
        found["min_size"] = draw(st.sampled_from((0, 0, 1, 2)))
        found["max_size"] = draw(st.integers(2, group["max_size"]))
    if what != "limits":
        found["cpu"] = draw(st.sampled_from((1, 2)))
        found["zone"] = draw(st.sampled_from(("north", "south")))
        found["labels"] = {"example.com/team": draw(st.sampled_from(("x", "y")))}
    return found


def add_interlopers(draw: Draw, world: World) -> None:
    """Add people who resize or delete between our read and our write, or between our write and its answer."""
    growth: World = {"when": draw(st.sampled_from(("before", "after"))), "does": "resize", "by": 1, "times": 3}
    start = draw(st.sampled_from((0, 300, 900)))
    rules(world, "interlopers").append({"group": "*", "start": start, "end": start + 1200, **growth})
    for _ in range(draw(st.integers(0, 3))):
        start = draw(st.sampled_from((0, 0, 5, 15, 30))) * MINUTE
        rule: World = {"group": draw(st.sampled_from(world["providers"]["fake"]["groups"]))["name"], "start": start}
        rule |= {"end": start + 1200, "times": draw(st.integers(1, 3))}
        rule["when"] = draw(st.sampled_from(("before", "after")))
        rule["does"] = draw(st.sampled_from(("resize", "delete", "take_back")))
        if rule["does"] == "resize":
            rule["by"] = draw(st.sampled_from((1, -1, 2, -2)))
        else:
            rule["machines"] = draw(st.integers(1, 2))
        rules(world, "interlopers").append(rule)


def add_renamed_nodes(draw: Draw, world: World) -> None:
    """Add people after whom nodes go by another name, or machines have two Node objects."""
    for _ in range(draw(st.integers(1, 3))):
        touch: World = {"do": "touch_nodes", "at": draw(st.integers(1, 30)) * MINUTE, "nodes": draw(st.integers(1, 3))}
        touch["how"] = draw(st.sampled_from(("rename", "double")))
        # A machine that is no node for as long as its provision time is another trouble.
        touch["for"] = draw(st.sampled_from((5, 120) if touch["how"] == "rename" else (120, 600, 1500)))
        world["timeline"].append(touch)


def add_old_nodes(draw: Draw, world: World) -> None:
    """Add lists of nodes that are old, beside the pods of now, for longer than machines may take in some worlds."""
    start = draw(st.integers(0, 20)) * MINUTE
    for _ in range(draw(st.integers(1, 3))):
        lasts = draw(st.sampled_from((120, 600, 1500)))
        world["timeline"].append({"do": "misread", "at": start, "for": lasts, "shows": "stale_nodes"})
        start += lasts + draw(st.sampled_from((10, 300)))


def add_flapping_reads(draw: Draw, world: World) -> None:
    """Add sizes or instances that are those of before in every other read; or a size that stays old for long in the
    cheapest group, for which pods come all the while, beside a group that is sound.
    """
    groups = world["providers"]["fake"]["groups"]
    if draw(st.booleans()):
        pair(groups)
        world["settings"]["expander"] = "price"
        stuck = {"group": "a", "of": "size", "start": draw(st.sampled_from((0, 300))), "end": 2400}
        rules(world, "old_reads").append({**stuck, "lag": 3600, "flaps_every": 3600})
        more = draw(st.integers(13, 30)) * MINUTE
        world["timeline"].append({"do": "scale", "at": more, "deployment": "web", "replicas": draw(st.integers(9, 12))})
        return
    for _ in range(draw(st.integers(1, 2))):
        start = draw(st.sampled_from((0, 1, 5, 20))) * MINUTE
        rule: World = {"group": draw(st.sampled_from(groups))["name"], "start": start}
        rule["end"] = start + draw(st.sampled_from((300, 1200)))
        rule |= {"lag": draw(st.sampled_from((20, 120))), "flaps_every": draw(st.sampled_from((10, 60)))}
        rule["of"] = draw(st.sampled_from(("size", "instances", "both")))
        rules(world, "old_reads").append(rule)


def add_dead_provider(draw: Draw, world: World) -> None:
    """Add a second provider that answers nothing, for long or for good: of its calls three hang, and the others fail.

    While it is dead each tick has a loop. So a world in which it stays dead has an hour and a half of rest, not three.
    """
    start = draw(st.sampled_from((0, 0, 300, 1200)))
    lasts = draw(st.sampled_from((600, 1200, 1200, 1200, 2400, 2400, FOR_GOOD)))
    window: World = {"hook": "*", "start": start, "end": start + lasts}
    if lasts == FOR_GOOD:
        world["duration"] -= 90 * MINUTE
    group: World = {"name": "d", "cpu": "500m", "size": draw(st.integers(0, 3)), "max_size": 5, "price_per_hour": 0.05}
    group |= {"min_size": group["size"], "zone": "north", "instance_type": "small"}
    fails = draw(st.sampled_from(("unavailable", "access_denied", "crash")))
    dead: World = {"kind": "refuse", "error": fails} if fails != "crash" else {"kind": "crash"}
    hangs: list[World] = [{"kind": "hang", "times": 3, **window}] if draw(st.booleans()) else []
    world["providers"]["dead"] = {"groups": [group], "faults": [*hangs, {**dead, **window}]}


def add_idle_crowd(draw: Draw, world: World) -> None:
    """Add a hundred nodes on which next to nothing runs, while the list of the cluster may be wrong."""
    machines = draw(st.integers(60, 120))
    world["providers"]["fake"]["groups"][0] |= {"size": machines, "max_size": machines + 10}
    world["settings"] |= {"scale-down-enabled": True, "scale-down-unneeded-time": draw(st.sampled_from(("2m", "5m")))}
    world["settings"] |= {"scale-down-delay-after-add": "0s", "scale-down-delay-after-delete": "0s"}
    start = 0
    for _ in range(draw(st.integers(0, 3))):
        start += draw(st.integers(1, 12)) * 30
        shows = draw(st.sampled_from(("no_pods", "half_of_the_pods", "stale", "stale_nodes")))
        world["timeline"].append({"do": "misread", "at": start, "for": 30, "shows": shows})
        start += 40


def add_empty_answers(draw: Draw, world: World) -> None:
    """Add an API server that shows no pods, not all or old ones, also when asked for one node right before its deletion.

    In half of these worlds the engine starts anew meanwhile, with or without its memory.
    """
    web = world["deployments"][0]
    web |= {"at": 0, "replicas": max(4, web["replicas"])}
    start, lasts = draw(st.integers(4, 35)) * MINUTE, draw(st.sampled_from((300, 600)))
    shows = draw(st.sampled_from(("no_pods", "no_pods", "half_of_the_pods", "empty_nodes", "stale")))
    world["timeline"].append({"do": "misread", "at": start, "for": lasts, "shows": shows, "direct": True})
    if draw(st.booleans()):
        restart: World = {"do": "restart", "at": start + draw(st.sampled_from((10, 200))), "down": 5}
        saved = {"saved": "missing"} if draw(st.booleans()) else {}
        world["timeline"].append(restart | saved)


def add_few_missing(draw: Draw, world: World) -> None:
    """Add an API server that for 40 minutes shows all pods but one in ten, also when asked for one node right before its
    deletion: so few that a late status may explain it. Only reads by name find them; a new process would not know the names.
    """
    world["providers"]["fake"]["groups"][0] |= {"cpu": 1, "max_size": 12}
    start = draw(st.integers(6, 16)) * MINUTE
    world["deployments"][0] |= {"at": 0, "replicas": draw(st.integers(10, 12))}
    kept = [event for event in world["timeline"] if event["do"] in ("pause", "unready")]
    few: World = {"do": "misread", "at": start, "for": 2400, "shows": "few_pods", "direct": True}
    world["timeline"] = [*kept, few]


def add_interruptions(draw: Draw, world: World) -> None:
    """Have the cloud take machines, or say that it may: with notice, too late, twice, in vain, or without a word."""
    names = [group["name"] for group in world["providers"]["fake"]["groups"]]
    world["settings"]["replace-on-rebalance"] = draw(st.booleans())
    for _ in range(draw(st.integers(1, 4))):
        notice: World = {
            "do": "interrupt",
            "group": draw(st.sampled_from(names)),
            "start": draw(st.integers(8, 80)) * 30,
        }
        notice["kind"] = draw(st.sampled_from(("reclaim", "reclaim", "maintenance", "rebalance", "unhealthy")))
        notice |= {"machines": draw(st.integers(1, 3)), "notice": draw(st.sampled_from((120, 300, 60, 30, 0)))}
        notice["scope"] = draw(st.sampled_from(("", "group", "zone")))
        odd = draw(st.sampled_from(("", "", "", "undelivered", "duplicated", "false_alarm")))
        rules(world, "interference").append(notice | ({odd: True} if odd else {}))


def add_smaller_machines(draw: Draw, world: World) -> None:
    """Have the machines of a group take no pod, for a while or for good, once another writer has changed or recreated it.

    Where it is the only one that is for good: two pods wait for it from then on, beside a larger node that is copied.
    """
    cloud = world["providers"]["fake"]
    event = draw(st.sampled_from([event for event in cloud["interference"] if event["do"] in REMAKES]))
    start = event["start"] + draw(st.sampled_from((0, event.get("gone_for", 0))))
    lasts = draw(st.sampled_from((1200, 360000)))
    small = {"group": event["group"], "start": start, "end": start + lasts, "offers": {"cpu": "500m"}}
    rules(world, "small_machines").append(small)
    [group, *others] = cloud["groups"]
    if not others:
        small["end"] = 360000
        group["size"] = max(1, group["size"])
        web = world["deployments"][0]
        scaled = sorted((event["at"], event["replicas"]) for event in world["timeline"] if event["do"] == "scale")
        pods = [web["replicas"], *(replicas for at, replicas in scaled if at <= start)][-1]
        kept = [event for event in world["timeline"] if event["do"] != "scale" or event["at"] <= start]
        more = {"do": "scale", "at": start + 10, "deployment": "web", "replicas": max(1, pods) + 2}
        world["timeline"] = [*kept, more]


def add_clock_jumps(draw: Draw, world: World) -> None:
    """Let an operator set the wall clock of the engine's machine: 30 s, 10 min or a day, forward or back, for a while or for
    good, with or without a restart meanwhile or afterwards. Back by a day it goes where it was a day ahead before.

    In half of the worlds the API server's responses have no date. No engine of these starts with a clock that is a day
    ahead: see "Not covered" in docs/faults.md.
    """
    is_ahead, dies = False, any(event["do"] in ("crash", "kill", "restart") for event in world["timeline"])
    has_dates = draw(st.booleans())
    for _ in range(draw(st.integers(1, 2))):
        by = draw(st.sampled_from((30, -30, 600, -600, DAY)))
        by = 600 if by == DAY and dies and not has_dates else by
        is_ahead |= by == DAY
        at = 600 + draw(st.integers(0, 80)) * 30
        jump: World = {"do": "jump_clock", "at": at, "by": by, "date_header": has_dates}
        lasts = draw(st.sampled_from((0, 30, 600)))
        if lasts:
            jump["for"] = lasts
        world["timeline"].append(jump)
        after = draw(st.sampled_from((0, 20, 700)))
        if after and (has_dates or not is_ahead):
            dies = True
            world["timeline"].append({"do": "restart", "at": jump["at"] + after, "down": 5})


def add_gangs(draw: Draw, world: World) -> None:
    """Add one or two gangs, of which all or some pods must start together. Some end, and some grow later.

    In half of the worlds no group alone has room for the first of them.
    """
    groups = world["providers"]["fake"]["groups"]
    largest = max(group["max_size"] * group["cpu"] for group in groups)
    for number in range(draw(st.sampled_from((1, 1, 2)))):
        pods = draw(st.integers(2, 6))
        if not number and len(groups) > 1 and draw(st.booleans()):
            pods = largest + draw(st.integers(1, 2))
        at, name = draw(st.integers(0, 40)) * 30, f"gang{number}"
        gang: World = {"name": name, "at": at, "replicas": pods, "gang": draw(st.integers(2, pods))}
        world["deployments"].append(gang | {"pod": {"cpu": "1", "memory": "64Mi"}})
        if draw(st.booleans()):
            later = {"do": "scale", "at": at + draw(st.integers(1, 60)) * 30, "deployment": name}
            world["timeline"].append({**later, "replicas": draw(st.sampled_from((0, 0, pods + 1, pods - 1)))})


# What another writer does to a group after which its machines may be other ones.
REMAKES = ("recreate", "change", "vanish")
LATE_TROUBLES: Mapping[str, Trouble] = {
    "changed_groups": add_changed_groups,
    "vanishing_groups": add_vanishing_groups,
    "interlopers": add_interlopers,
    "renamed_nodes": add_renamed_nodes,
    "old_nodes": add_old_nodes,
    "flapping_reads": add_flapping_reads,
    "dead_provider": add_dead_provider,
    "idle_crowd": add_idle_crowd,
}
