"""What goes over the wire: generated code, both generations, deadlines, refusals, certificates, and bad options."""

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest
from msgspec.structs import replace as changed

from nodewright.spec import (
    AccessDenied,
    ConfigError,
    FailureScope,
    GroupOptions,
    NodeGroupNotFound,
    NodeTemplate,
    OperationInProgress,
    OutOfCapacity,
    Price,
    ProviderContext,
    ProviderError,
    ProviderUnavailable,
    Quantity,
    QuotaExceeded,
    Taint,
    TargetChanged,
    Throttled,
    hookimpl,
)
from nodewright.testkit import FakeClock
from nodewright.testkit.contract import connect
from nodewright_externalgrpc.convert import price_request, read_node, read_options, read_span, write_node, write_options
from nodewright_externalgrpc.errors import metadata_of, status_of
from nodewright_externalgrpc.provider import ExternalGrpcProvider
from nodewright_externalgrpc.server import Servicer, make_server
from nodewright_externalgrpc.wire import GROUP_ANNOTATION, METHODS, SERVICE, messages
from nodewright_fake import FakeProvider

HOME = Path(__file__).parents[1]
Answers = dict[str, Callable[[Any, Any], Any]]
ServeAnswers = Callable[[Answers], ExternalGrpcProvider]
Serve = Callable[..., Any]


class ForeignServer:
    """A server of another implementation: it answers as configured, and offers nothing else."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers

    def handler(self) -> Any:
        methods = {
            name: grpc.unary_unary_rpc_method_handler(
                answer,
                request_deserializer=METHODS[name].request.FromString,
                response_serializer=METHODS[name].answer.SerializeToString,
            )
            for name, answer in self._answers.items()
        }
        return grpc.method_handlers_generic_handler(SERVICE, methods)


@pytest.fixture
def foreign() -> Iterator[ServeAnswers]:
    """A plugin, in plaintext, of a server with these answers; group ``g`` is there anyway."""
    servers: list[Any] = []

    def serve(answers: Answers) -> ExternalGrpcProvider:
        whole: Answers = {
            "Refresh": lambda *_: messages.RefreshResponse(),
            "NodeGroups": lambda *_: messages.NodeGroupsResponse(
                nodeGroups=[messages.NodeGroup(id="g", minSize=0, maxSize=9)]
            ),
            "NodeGroupTargetSize": lambda *_: messages.NodeGroupTargetSizeResponse(targetSize=1),
            "NodeGroupNodes": lambda *_: messages.NodeGroupNodesResponse(instances=[messages.Instance(id="x://1")]),
            **answers,
        }
        server = grpc.server(ThreadPoolExecutor(2))
        server.add_generic_rpc_handlers((ForeignServer(whole).handler(),))
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        servers.append(server)
        options = {"address": f"127.0.0.1:{port}", "insecure": True, "grpc_timeout": "2s"}
        return ExternalGrpcProvider(ProviderContext(clock=FakeClock(), options=options))

    yield serve
    for server in servers:
        server.stop(None).wait()


def test_the_generated_code_is_that_of_the_protos(tmp_path: Path) -> None:
    command = [sys.executable, str(HOME / "generate.py"), str(tmp_path)]
    subprocess.run(command, check=True, capture_output=True)
    made = {path.name: path.read_text() for path in tmp_path.rglob("*_pb2.py")}
    kept = {path.name: path.read_text() for path in (HOME / "src/nodewright_externalgrpc/wire").glob("*_pb2.py")}
    assert made == kept, "run: python generate.py"


def test_a_template_survives_the_way_there_and_back() -> None:
    template = NodeTemplate(
        allocatable={"cpu": Quantity.of("3920m"), "memory": Quantity.of("16Gi"), "pods": Quantity.of("110")},
        labels={"zone": "a"},
        taints=(Taint(key="dedicated", value="gpu", effect="NoSchedule"),),
    )
    back = read_node(write_node("g", template))
    assert (back.allocatable, back.labels, back.taints) == (template.allocatable, template.labels, template.taints)
    assert back.capacity == template.allocatable


@pytest.mark.parametrize("content", [b"\xff\xff\xff", b"\x1a\x12\x12\x10\x0a\x03cpu\x12\x09\x0a\x07garbage"])
def test_a_template_that_is_none_is_refused(content: bytes) -> None:
    with pytest.raises(ProviderError, match="the template is not a Node"):
        read_node(content)


def test_options_of_either_generation_are_understood() -> None:
    options = GroupOptions(max_node_provision_seconds=321.5, scale_down_unneeded_seconds=77.0)
    assert read_options(write_options(options), GroupOptions()) == options
    old = messages.NodeGroupAutoscalingOptions(oldProvision=messages.OldDuration(duration=60 * 10**9))
    assert read_options(old, options).max_node_provision_seconds == 60
    assert read_options(old, options).max_node_startup_seconds == options.max_node_startup_seconds
    new = write_options(options)
    new.ClearField("oldProvision")
    assert read_options(new, GroupOptions()).max_node_provision_seconds == 321.5


def test_times_of_either_generation_are_understood() -> None:
    request = messages.PricingNodePriceRequest(**price_request(messages.ExternalGrpcNode(), 10.0, 20.5))
    assert read_span(request) == (10.0, 20.5)
    for name in ("startTimestamp", "endTimestamp"):
        request.ClearField(name)
    assert read_span(request) == (10.0, 20.5)


class EuroProvider(FakeProvider):
    @hookimpl
    def node_price(self, group_id: str) -> Price:
        return changed(super().node_price(group_id), currency="EUR")


def test_a_price_in_another_currency_is_converted_or_refused() -> None:
    cloud = {"groups": [{"name": "a", "price_per_hour": 3.0}]}
    priced = connect("fake", EuroProvider(ProviderContext(clock=FakeClock(), options=cloud)))
    priced.refresh()
    request = messages.PricingNodePriceRequest(**price_request(messages.ExternalGrpcNode(), 0.0, 1800.0))
    request.node.annotations[GROUP_ANNOTATION] = "a"
    assert Servicer(priced, rates={"EUR": 1.1}).PricingNodePrice(request, None).price == pytest.approx(1.65)
    with pytest.raises(ProviderError, match="the price of a is in EUR, for which --prices has no rate"):
        Servicer(priced).PricingNodePrice(request, None)


def test_calls_that_are_not_offered_are_switched_off(foreign: ServeAnswers) -> None:
    plugin = foreign({})
    client = connect("externalgrpc", plugin)
    client.refresh()
    [group] = client.node_groups()
    assert {capability.value for capability in group.switched_off} == {"group_options", "pricing"}
    assert client.node_price("g") is None
    with pytest.raises(ProviderError, match="NodeGroupTemplateNodeInfo"):
        client.template_node("g")
    assert {f.subject for f in client.diagnose() or () if f.level != "ok"} == {
        "TLS",
        "NodeGroupTemplateNodeInfo",
        "NodeGroupGetOptions",
        "PricingNodePrice",
    }


def test_a_server_that_is_not_nodewright_is_asked_how_it_ended(foreign: ServeAnswers) -> None:
    size = [1]

    def increase(request: Any, _: Any) -> Any:
        size[0] += request.delta - 1
        return messages.NodeGroupIncreaseSizeResponse()

    plugin = foreign(
        {
            "NodeGroupTargetSize": lambda *_: messages.NodeGroupTargetSizeResponse(targetSize=size[0]),
            "NodeGroupIncreaseSize": increase,
        }
    )
    plugin.refresh(frozenset())
    assert plugin.increase_size("g", 1, 4) == 2
    with pytest.raises(TargetChanged) as changed:
        plugin.increase_size("g", 1, 4)
    assert changed.value.actual == 3


def test_a_foreign_decrease_never_goes_below_what_is_there(foreign: ServeAnswers) -> None:
    asked: list[int] = []

    def decrease(request: Any, _: Any) -> Any:
        asked.append(request.delta)
        return messages.NodeGroupDecreaseTargetSizeResponse()

    plugin = foreign(
        {
            "NodeGroupTargetSize": lambda *_: messages.NodeGroupTargetSizeResponse(targetSize=3),
            "NodeGroupDecreaseTargetSize": decrease,
        }
    )
    plugin.refresh(frozenset())
    plugin.decrease_target_size("g", 3, 0)
    assert asked == [-2]


def test_one_group_that_fails_leaves_the_others(foreign: ServeAnswers) -> None:
    def size(request: Any, context: Any) -> Any:
        if request.id == "bad":
            context.abort(grpc.StatusCode.UNKNOWN, "the database is gone")
        return messages.NodeGroupTargetSizeResponse(targetSize=1)

    groups = [messages.NodeGroup(id=name, maxSize=3) for name in ("bad", "good")]
    plugin = foreign(
        {
            "NodeGroups": lambda *_: messages.NodeGroupsResponse(nodeGroups=groups),
            "NodeGroupTargetSize": size,
        }
    )
    plugin.refresh(frozenset())
    assert plugin.target_size("good") == 1
    with pytest.raises(ProviderError, match="the database is gone") as refused:
        plugin.target_size("bad")
    assert refused.value.code == "unknown"


def test_failed_machines_have_names_of_their_own(foreign: ServeAnswers) -> None:
    info = messages.InstanceErrorInfo(errorCode="STOCKOUT", errorMessage="none left", instanceErrorClass=1)
    status = messages.InstanceStatus(instanceState=2, errorInfo=info)
    listed = [messages.Instance(id="x://1", status=status)]
    plugin = foreign({"NodeGroupNodes": lambda *_: messages.NodeGroupNodesResponse(instances=listed)})
    plugin.refresh(frozenset())
    [first] = plugin.failed_instances("g")
    assert (first.instance_id, first.code, first.error_class) == ("x://1", "STOCKOUT", "out_of_resources")
    plugin.refresh(frozenset())
    assert [again.failure_id for again in plugin.failed_instances("g")] == [first.failure_id]
    failed, listed[:] = list(listed), []
    plugin.refresh(frozenset())
    listed[:] = failed
    plugin.refresh(frozenset())
    assert [other.failure_id for other in plugin.failed_instances("g")] != [first.failure_id]


def test_a_call_ends_at_its_deadline(foreign: ServeAnswers) -> None:
    plugin = foreign({"Refresh": _hang})
    with pytest.raises(ProviderUnavailable, match="Refresh"):
        plugin.refresh(frozenset())


def _hang(_: Any, context: Any) -> Any:
    """Waits as long as the client does."""
    gone = threading.Event()
    context.add_callback(gone.set)
    gone.wait(30)
    return messages.RefreshResponse()


@pytest.mark.parametrize(
    "error",
    [
        NodeGroupNotFound("x"),
        OutOfCapacity("x"),
        QuotaExceeded("x", scope=FailureScope.ZONE),
        AccessDenied("x"),
        Throttled("x", retry_after=90.0),
        OperationInProgress("x", retry_after=90.0),
        ProviderUnavailable("x"),
        TargetChanged(actual=7),
        ProviderError("x", code="somethingOfItsOwn"),
    ],
    ids=lambda error: error.code,
)
def test_a_refusal_crosses_the_wire_as_it_is(foreign: ServeAnswers, error: ProviderError) -> None:
    def refuse(_: Any, context: Any) -> Any:
        context.set_trailing_metadata(metadata_of(error))
        context.abort(status_of(error), str(error))

    plugin = foreign({"NodeGroups": refuse})
    with pytest.raises(type(error)) as told:
        plugin.refresh(frozenset())
    assert (type(told.value), told.value.code) == (type(error), error.code)
    for detail in ("scope", "retry_after", "actual"):
        assert getattr(told.value, detail, None) == getattr(error, detail, None)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({}, "options of provider externalgrpc: address: is missing"),
        ({"address": 5}, "address: must be a string, not the number 5 (quote it)"),
        ({"address": "a:1", "calls_per_minute": "x"}, "calls_per_minute: must be a whole number, not 'x'"),
        ({"address": "a:1", "parallel_calls": 100}, "parallel_calls: must be at most 64, not the number 100"),
        ({"address": "a:1", "gpu_resources": [1]}, "gpu_resources[0]: must be a string, not the number 1 (quote it)"),
        ({"address": "nowhere"}, "address: 'nowhere' is not HOST:PORT"),
        ({"address": "a:1", "insecur": True}, "unknown key insecur, did you mean insecure?"),
        ({"address": "a:1"}, "cert: needed for TLS; set insecure to use plaintext instead"),
        ({"address": "a:1", "cert": "/dev/null", "key": "/dev/null"}, "cacert: needed for TLS"),
        ({"address": "a:1", "cert": "no.pem", "key": "k", "cacert": "c"}, "cert: no.pem: No such file or directory"),
        ({"address": "a:1", "cert": "/dev/null", "key": "k", "cacert": "c"}, "cert: /dev/null: is not a PEM file"),
        ({"address": "a:1", "insecure": True, "cert": "x"}, "insecure: cannot be combined with cert"),
        ({"address": "a:1", "insecure": True, "grpc_timeout": "0s"}, "grpc_timeout: must be more than 0"),
    ],
)
def test_wrong_options_are_named(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError) as refused:
        ExternalGrpcProvider(ProviderContext(clock=FakeClock(), options=options))
    assert sentence in str(refused.value)


def test_groups_on_the_command_line_are_refused() -> None:
    context = ProviderContext(clock=FakeClock(), options={"address": "a:1"}, node_group_specs=("0:3:x",))
    with pytest.raises(ConfigError, match="lists its groups itself"):
        ExternalGrpcProvider(context)


def test_a_stranger_is_not_let_in(serve: Serve, stranger: dict[str, str]) -> None:
    world = serve()
    world.client.refresh()
    address = world.client.diagnose()[0].subject
    context = ProviderContext(clock=FakeClock(), options={"address": address, **stranger})
    with pytest.raises(ProviderUnavailable):
        ExternalGrpcProvider(context).refresh(frozenset())
    plain = ProviderContext(clock=FakeClock(), options={"address": address, "insecure": True})
    with pytest.raises(ProviderUnavailable):
        ExternalGrpcProvider(plain).refresh(frozenset())


def test_a_port_that_is_taken_is_named(serve: Serve) -> None:
    world = serve()
    address = world.client.diagnose()[0].subject
    with pytest.raises(ConfigError, match="cannot listen there"):
        make_server(ForeignServer({}), address, None)  # type: ignore[arg-type] # it has a handler, which is all
