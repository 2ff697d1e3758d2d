"""The predicate in a snapshot: which pods took which devices before, on which node."""

from core.tests.predicates.dra.devices import allocated, asks, claim, context, device_class, gpu, slice_of, template
from core.tests.predicates.manifests import ROOMY, cluster, node, pod, refusals
from msgspec.structs import replace

from nodewright.model.pod import Pod
from nodewright.predicates import feasible
from nodewright.snapshot.context import Context
from nodewright.snapshot.snapshot import Snapshot

TWO = [slice_of("m", gpu("a"), gpu("b")), slice_of("n", gpu("a"), gpu("b"))]


def asking(template_name: str = "t", name: str = "p") -> Pod:
    return pod(name, resourceClaims=[{"name": "x", "resourceClaimTemplateName": template_name}])


def using(claim_name: str, name: str = "p") -> Pod:
    return pod(name, resourceClaims=[{"name": "x", "resourceClaimName": claim_name}])


def two_nodes(given: Context) -> Snapshot:
    return cluster(node("m"), node("n"), context=given)


def fits(snapshot: Snapshot, asked: Pod) -> list[bool]:
    found: list[bool] = feasible(snapshot, snapshot.class_of(asked)).tolist()
    assert [name not in refusals(snapshot, asked) for name in ("m", "n")] == found
    return found


def place(snapshot: Snapshot, asked: Pod, name: str) -> None:
    snapshot.place(snapshot.class_of(asked), snapshot.row(name))


def test_each_pod_placed_takes_devices_of_its_node() -> None:
    snapshot = two_nodes(context(TWO, templates=[template("t", asks(1)), template("both", asks(2))]))
    assert fits(snapshot, asking()) == [True, True]
    place(snapshot, asking(), "m")
    assert fits(snapshot, asking("both")) == [False, True]
    place(snapshot, asking(), "m")
    assert fits(snapshot, asking()) == [False, True]
    place(snapshot, asking("both"), "n")
    assert fits(snapshot, asking()) == [False, False]


def test_a_fork_changes_alone_and_what_is_undone_gives_devices_back() -> None:
    snapshot = two_nodes(context(TWO, templates=[template("both", asks(2))]))
    asked = asking("both")
    fork = snapshot.fork()
    place(fork, asked, "m")
    assert fits(fork, asked) == [False, True]
    assert fits(snapshot, asked) == [True, True]
    fork.unplace(fork.class_of(asked), fork.row("m"))
    assert fits(fork, asked) == [True, True]


def test_devices_of_allocated_claims_are_taken() -> None:
    held = claim("c", asks(2), allocated("m", "a", "b", users=["q"]))
    snapshot = two_nodes(context(TWO, claims=[held], templates=[template("t", asks(1))]))
    assert fits(snapshot, asking()) == [False, True]


def test_a_shared_claim_keeps_its_pods_on_the_node_of_its_devices() -> None:
    held = claim("c", asks(1), allocated("n", "a", users=["q"]))
    snapshot = two_nodes(context(TWO, claims=[held]))
    assert refusals(snapshot, using("c")) == {"m": "DynamicResources: resourceclaim not available on the node"}
    fresh = two_nodes(context(TWO, claims=[claim("c", asks(1))]))
    place(fresh, using("c"), "n")
    assert fits(fresh, using("c", "other")) == [False, True]


def test_a_shared_claim_may_move_once_its_last_pod_has_left() -> None:
    """The claim of two running pods is free when both have left, not before; then the next pod takes it along."""
    held = claim("c", asks(1), allocated("n", "a", users=["p", "q"]))
    snapshot = two_nodes(context(TWO, claims=[held]))
    running = [pod(name, nodeName="n", resourceClaims=[{"name": "x", "resourceClaimName": "c"}]) for name in ("p", "q")]
    snapshot.place_pods([(snapshot.row("n"), running)])
    placed = snapshot.class_of(running[0], placed=True)
    snapshot.unplace(placed, snapshot.row("n"))
    assert fits(snapshot, using("c")) == [False, True]
    snapshot.unplace(placed, snapshot.row("n"))
    assert fits(snapshot, using("c")) == [True, True]
    place(snapshot, using("c"), "m")
    assert fits(snapshot, using("c")) == [True, False]


def test_a_pod_that_leaves_and_returns_has_its_devices_as_before() -> None:
    held = claim("c", asks(1), allocated("n", "a", users=["p"]))
    snapshot = two_nodes(context(TWO, claims=[held], templates=[template("t", asks(1))]))
    running = pod("p", nodeName="n", resourceClaims=[{"name": "x", "resourceClaimName": "c"}])
    snapshot.place_pods([(snapshot.row("n"), [running])])
    placed = snapshot.class_of(running, placed=True)
    snapshot.unplace(placed, snapshot.row("n"))
    snapshot.place(placed, snapshot.row("n"))
    assert snapshot.claim_log is None
    place(snapshot, asking(), "n")
    assert fits(snapshot, asking()) == [True, False]


def test_a_running_pod_that_ends_changes_no_claims_of_its_own_accord() -> None:
    """Its claims are still allocated until the API server says otherwise."""
    held = claim("c", asks(2), allocated("n", "a", "b", users=["p"]))
    snapshot = two_nodes(context(TWO, claims=[held], templates=[template("t", asks(1))]))
    running = pod("p", nodeName="n", resourceClaims=[{"name": "x", "resourceClaimName": "c"}])
    snapshot.place_pods([(snapshot.row("n"), [running])])
    snapshot.unplace(snapshot.class_of(running, placed=True), snapshot.row("n"), pod=running)
    assert snapshot.claim_log is None
    assert fits(snapshot, asking()) == [True, False]


def test_devices_that_all_nodes_reach_are_given_once() -> None:
    snapshot = two_nodes(context([slice_of("", gpu("a"))], templates=[template("t", asks(1))]))
    assert fits(snapshot, asking()) == [True, True]
    place(snapshot, asking(), "m")
    assert fits(snapshot, asking()) == [False, False]


def test_an_extended_resource_is_served_by_a_class_where_no_device_plugin_offers_it() -> None:
    given = context([slice_of("n", gpu("a"))], [device_class("gpu", extendedResourceName="example.com/gpu")])
    asked = pod(requests={"cpu": "1", "example.com/gpu": "1"})
    plugin = node("m", offers={**ROOMY, "example.com/gpu": "1"})
    snapshot = cluster(plugin, node("n"), node("bare"), context=given)
    assert refusals(snapshot, asked) == {"bare": "DynamicResources: cannot allocate all claims"}
    for name in ("m", "n"):
        place(snapshot, asked, name)
    assert refusals(snapshot, asked) == {
        "m": "NodeResourcesFit: Insufficient example.com/gpu",
        "n": "DynamicResources: cannot allocate all claims",
        "bare": "DynamicResources: cannot allocate all claims",
    }


def test_a_class_that_comes_later_serves_pods_that_were_known_before() -> None:
    snapshot = cluster(node("n"))
    asked = pod(requests={"example.com/gpu": "1"})
    assert refusals(snapshot, asked) == {"n": "NodeResourcesFit: Insufficient example.com/gpu"}
    snapshot.context = context([slice_of("n", gpu("a"))], [device_class("gpu", extendedResourceName="example.com/gpu")])
    assert refusals(snapshot, asked) == {}


def test_the_copies_of_a_template_have_devices_of_their_own() -> None:
    snapshot = cluster(context=context([], templates=[template("both", asks(2))]))
    simulated = node("template")
    rows = snapshot.add_copies(replace(simulated, device_slices=(slice_of("template", gpu("a"), gpu("b")),)), 2)
    pod_class = snapshot.class_of(asking("both"))
    assert feasible(snapshot, pod_class, rows).tolist() == [True, True]
    snapshot.place(pod_class, rows.start)
    assert feasible(snapshot, pod_class, rows).tolist() == [False, True]
