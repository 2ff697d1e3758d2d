"""Events: written once, counted up when they come again, and never in the way."""

from collections.abc import Iterator

import pytest
from core.tests.kube.conftest import ApiServer
from msgspec.structs import replace

from nodewright.actuation import Event
from nodewright.actuation.ports import STATUS_NAME
from nodewright.adapters.clocks import VirtualClock
from nodewright.adapters.kube.api import ApiError
from nodewright.adapters.kube.events import KubeEvents, OwnMaps
from nodewright.expander import CONFIG_MAP

EVENTS = "/api/v1/namespaces/default/events"
GROWN = Event(kind="Pod", name="default/web", reason="TriggeredScaleUp", message="pod triggered scale-up: [{a 0->1}]")


@pytest.fixture
def events(server: ApiServer) -> Iterator[KubeEvents]:
    sink = KubeEvents(server, VirtualClock(1_800_000_000.0), lambda kind, name: f"uid-of-{kind}-{name}")
    yield sink
    sink.stop()


def test_the_same_event_is_counted_up(server: ApiServer, events: KubeEvents) -> None:
    events.record(GROWN)
    events.record(GROWN)
    events.record(GROWN)
    events.start()
    events.stop()
    [held] = server.objects.values()
    assert held["count"] == 3
    assert held["source"] == {"component": "cluster-autoscaler"}
    assert held["involvedObject"] == {
        "apiVersion": "v1",
        "kind": "Pod",
        "namespace": "default",
        "name": "web",
        "uid": "uid-of-Pod-default/web",
    }


def test_many_messages_of_one_object_and_reason_become_one_event(server: ApiServer) -> None:
    clock = VirtualClock(1_800_000_000.0)
    sink = KubeEvents(server, clock)
    for number in range(30):
        sink._write(replace(GROWN, message=f"size {number}"))
    sink._write(replace(GROWN, message="size 3"))
    sink._write(replace(GROWN, name="default/other", message="size 30"))
    told = {held["message"]: held["count"] for held in server.objects.values()}
    combined = {"(combined from similar events): size 29": 20}
    apart = {f"size {number}": 1 + (number == 3) for number in range(10)}
    assert told == {**apart, **combined, "size 30": 1}
    clock.sleep(601)
    sink._write(replace(GROWN, message="size 31"))
    assert "size 31" in {held["message"] for held in server.objects.values()}


def test_an_event_names_its_object_as_the_api_does(server: ApiServer, events: KubeEvents) -> None:
    events._write(Event(kind="ProvisioningRequest", name="shop/train", reason="Accepted", message="it is"))
    [held] = server.objects.values()
    assert held["involvedObject"]["apiVersion"] == "autoscaling.x-k8s.io/v1"
    assert held["involvedObject"]["uid"] == "uid-of-ProvisioningRequest-shop/train"


def test_an_event_about_a_controller_names_it_as_its_pods_do(server: ApiServer, events: KubeEvents) -> None:
    """Its kind may be unknown to nodewright, or have the name of a kind of another API group."""
    event = Event(kind="Job", name="shop/train", reason="NotTriggerScaleUp", message="no")
    events._write(replace(event, api_version="batch.volcano.sh/v1alpha1", uid="u-1"))
    events._write(replace(event, kind="RayCluster", name="shop/ray", api_version="ray.io/v1", uid="u-2"))
    held = [found["involvedObject"] for found in server.objects.values()]
    assert [(of["apiVersion"], of["kind"], of["namespace"], of["name"], of["uid"]) for of in held] == [
        ("batch.volcano.sh/v1alpha1", "Job", "shop", "train", "u-1"),
        ("ray.io/v1", "RayCluster", "shop", "ray", "u-2"),
    ]


@pytest.mark.parametrize(("told", "held"), [(STATUS_NAME, "our-status"), (f"kube-system/{CONFIG_MAP}", CONFIG_MAP)])
def test_events_of_our_own_config_maps_are_where_these_are(
    server: ApiServer, events: KubeEvents, told: str, held: str
) -> None:
    sink = OwnMaps(events, "autoscaling", "our-status")
    sink.record(Event(kind="ConfigMap", name=told, reason="Any", message="it is"))
    sink.record(Event(kind="Pod", name="kube-system/dns", reason="Any", message="it is"))
    events.start()
    events.stop()
    [of, of_pod] = [found["involvedObject"] for found in server.objects.values()]
    assert (of["namespace"], of["name"], of["uid"]) == ("autoscaling", held, f"uid-of-ConfigMap-autoscaling/{held}")
    assert (of_pod["namespace"], of_pod["name"]) == ("kube-system", "dns")


def test_an_event_that_has_expired_is_written_anew(server: ApiServer, events: KubeEvents) -> None:
    events._write(GROWN)
    [path] = server.objects
    server.objects.clear()
    events._write(GROWN)
    assert [held["count"] for held in server.objects.values()] == [1]
    assert path not in server.objects


def test_what_has_no_namespace_is_told_in_default(server: ApiServer, events: KubeEvents) -> None:
    events._write(Event(kind="Node", name="n1", reason="ScaleDown", message="gone"))
    [(path, held)] = server.objects.items()
    assert path.startswith(f"{EVENTS}/n1.")
    assert "namespace" not in held["involvedObject"]


def test_an_api_server_that_fails_only_loses_events(server: ApiServer, events: KubeEvents) -> None:
    server.faults = [ApiError("oops", status=500)]
    events.record(GROWN)
    events.record(Event(kind="Pod", name="default/other", reason="r", message="m"))
    events.start()
    events.stop()
    assert events.dropped == 1
    assert len(server.objects) == 1
    assert not events.problem


def test_why_events_are_not_written(server: ApiServer, events: KubeEvents) -> None:
    server.refusals[EVENTS] = ApiError("events is forbidden", status=403)
    events.record(GROWN)
    events.start()
    events.stop()
    assert events.problem == "events is forbidden"


def test_too_many_are_dropped_from_the_front(server: ApiServer, events: KubeEvents) -> None:
    for number in range(1500):
        events.record(Event(kind="Pod", name=f"default/p{number}", reason="r", message="m"))
    assert events.dropped == 500
    events.start()
    events.stop(30)
    assert len(server.objects) == 1000
    assert any("p1499." in path for path in server.objects)


def test_a_long_name_leaves_room_for_the_events_own(server: ApiServer, events: KubeEvents) -> None:
    long = f"{'x' * 199}-{'y' * 53}"
    events._write(Event(kind="Pod", name=f"default/{long}", reason="r", message="m"))
    [held] = server.objects.values()
    assert held["involvedObject"]["name"] == long
    assert held["metadata"]["name"].startswith(f"{'x' * 199}.")
    assert len(held["metadata"]["name"]) <= 253


def test_a_long_message_is_cut(server: ApiServer, events: KubeEvents) -> None:
    events._write(Event(kind="Pod", name="default/p", reason="r", message="x" * 5000))
    [held] = server.objects.values()
    assert len(held["message"]) == 1024
