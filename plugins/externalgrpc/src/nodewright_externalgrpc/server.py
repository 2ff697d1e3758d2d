"""Serves any nodewright provider over the externalgrpc protocol, to the Go cluster-autoscaler or another nodewright."""

import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

import grpc

from nodewright.spec import (
    Capability,
    ConfigError,
    FailedInstance,
    GroupOptions,
    Instance,
    NodeGroup,
    NodeGroupNotFound,
    NodeTemplate,
    OutOfCapacity,
    Price,
    ProviderError,
    TargetChanged,
)
from nodewright_externalgrpc.convert import read_options, read_span, write_node, write_options
from nodewright_externalgrpc.errors import NotOffered, metadata_of, status_of
from nodewright_externalgrpc.machine_index import MachineIndex, placeholders, write_instances
from nodewright_externalgrpc.wire import ACCEPTED, EXPECTED, GROUP_ANNOTATION, METHODS, SERVICE, WANTED, messages

_LOG = logging.getLogger(__name__)
_WORKERS = 8
_HOUR = 3600.0


class Provider(Protocol):
    """The methods of nodewright's ProviderClient that are served."""

    @property
    def name(self) -> str: ...
    def supports(self, capability: Capability, group_id: str = "") -> bool: ...
    def refresh(self, wanted: frozenset[str] = frozenset()) -> None: ...
    def node_groups(self) -> Sequence[NodeGroup]: ...
    def target_size(self, group_id: str) -> int: ...
    def instances(self, group_id: str) -> Sequence[Instance]: ...
    def failed_instances(self, group_id: str) -> Sequence[FailedInstance] | None: ...
    def template_node(self, group_id: str) -> NodeTemplate: ...
    def group_options(self, group_id: str, defaults: GroupOptions) -> GroupOptions: ...
    def node_price(self, group_id: str) -> Price | None: ...
    def gpu_label(self) -> str | None: ...
    def gpu_types(self) -> Sequence[str] | None: ...
    def increase_size(self, group_id: str, expected_target: int, target: int) -> int: ...
    def decrease_target_size(self, group_id: str, expected_target: int, target: int) -> int: ...
    def delete_instances(self, group_id: str, instance_ids: Sequence[str], expected_target: int) -> Sequence[str]: ...


class Servicer:
    """Has one method for each call of the protocol, with the call's name."""

    def __init__(
        self, provider: Provider, *, ignores_id_case: bool = False, rates: Mapping[str, float] | None = None
    ) -> None:
        """Serve the provider. ``rates``: what one unit of a currency is in USD, which is the protocol's currency."""
        self._provider = provider
        self._rates = {"USD": 1.0, **(rates or {})}
        self._index = MachineIndex(provider, ignores_case=ignores_id_case)

    def handler(self) -> Any:
        """Return the handler for a gRPC server."""
        methods = {
            name: grpc.unary_unary_rpc_method_handler(
                _guarded(name, getattr(self, name, _not_offered)),
                request_deserializer=method.request.FromString,
                response_serializer=method.answer.SerializeToString,
            )
            for name, method in METHODS.items()
        }
        return grpc.method_handlers_generic_handler(SERVICE, methods)

    def Refresh(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002 - the protocol's name and signature
        wanted = _metadata_of(context, WANTED)
        named = wanted if isinstance(wanted, list) else []
        self._provider.refresh(self._index.busy() | frozenset(map(str, named)))
        self._index.forget()
        return messages.RefreshResponse()

    def Cleanup(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002 - as above
        return messages.CleanupResponse()

    def NodeGroups(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002 - as above
        return messages.NodeGroupsResponse(nodeGroups=[_group(group) for group in self._provider.node_groups()])

    def NodeGroupForNode(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002 - as above
        group_id = self._index.group_of(request.node.providerID)
        found = next((_group(group) for group in self._provider.node_groups() if group.id == group_id), None)
        return messages.NodeGroupForNodeResponse(nodeGroup=found or messages.NodeGroup())

    def GPULabel(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002 - as above
        return messages.GPULabelResponse(label=self._provider.gpu_label() or "")

    def GetAvailableGPUTypes(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002 - as above
        answer = messages.GetAvailableGPUTypesResponse()
        for name in self._provider.gpu_types() or ():
            answer.gpuTypes[name].SetInParent()
        return answer

    def NodeGroupTargetSize(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002 - as above
        return messages.NodeGroupTargetSizeResponse(targetSize=self._provider.target_size(request.id))

    def NodeGroupNodes(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002 - as above
        failed = self._provider.failed_instances(request.id) or ()
        return messages.NodeGroupNodesResponse(instances=write_instances(self._provider.instances(request.id), failed))

    def NodeGroupTemplateNodeInfo(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002 - as above
        content = write_node(request.id, self._provider.template_node(request.id))
        return messages.NodeGroupTemplateNodeInfoResponse(oldNode=content, nodeBytes=content)

    def NodeGroupGetOptions(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002 - as above
        self._demand(Capability.GROUP_OPTIONS, request.id)
        defaults = read_options(request.defaults, GroupOptions())
        own = self._provider.group_options(request.id, defaults)
        return messages.NodeGroupAutoscalingOptionsResponse(nodeGroupAutoscalingOptions=write_options(own))

    def PricingNodePrice(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002 - as above
        group_id = request.node.annotations.get(GROUP_ANNOTATION) or self._index.group_of(request.node.providerID)
        self._demand(Capability.PRICING, group_id)
        if not group_id:
            raise NodeGroupNotFound(f"node {request.node.name} belongs to no group of {self._provider.name}")
        price, (start, end) = self._provider.node_price(group_id), read_span(request)
        rate = self._rates.get(price.currency) if price is not None else 1.0
        if price is not None and rate is None:
            raise ProviderError(f"the price of {group_id} is in {price.currency}, for which --prices has no rate")
        per_hour = price.per_hour * rate if price is not None and rate is not None else 0.0
        return messages.PricingNodePriceResponse(price=per_hour * max(0.0, end - start) / _HOUR)

    def NodeGroupIncreaseSize(self, request: Any, context: Any) -> Any:  # noqa: N802 - as above
        _demand_sign(request.delta > 0, "NodeGroupIncreaseSize", request.delta)
        accepted = self._resize(self._provider.increase_size, request, context)
        if not accepted and _metadata_of(context, EXPECTED) is None:
            raise OutOfCapacity(f"{request.id}: none of {request.delta} machines was accepted")
        return messages.NodeGroupIncreaseSizeResponse()

    def NodeGroupDecreaseTargetSize(self, request: Any, context: Any) -> Any:  # noqa: N802 - as above
        _demand_sign(request.delta < 0, "NodeGroupDecreaseTargetSize", request.delta)
        self._resize(self._provider.decrease_target_size, request, context)
        return messages.NodeGroupDecreaseTargetSizeResponse()

    def NodeGroupDeleteNodes(self, request: Any, context: Any) -> Any:  # noqa: N802 - as above
        asked = [node.providerID for node in request.nodes]
        for name in asked:
            group_id = self._index.group_of(name)
            if group_id not in ("", request.id):
                raise ProviderError(f"{name} belongs to group {group_id}, not {request.id}", code="wrongGroup")
        stands_for = placeholders(self._provider.failed_instances(request.id) or ())
        names = list(_whole_failures(asked, stands_for))

        def delete(group_id: str, expected: int) -> Sequence[str]:
            return self._provider.delete_instances(group_id, names, expected)

        accepted = set(self._conditionally(delete, request.id, context))
        _answer(context, [name for name in asked if stands_for.get(name, name) in accepted])
        return messages.NodeGroupDeleteNodesResponse()

    def _resize(self, write: Callable[[str, int, int], int], request: Any, context: Any) -> int:
        accepted: int = self._conditionally(
            lambda group_id, expected: write(group_id, expected, expected + request.delta), request.id, context
        )
        _answer(context, accepted)
        return accepted

    def _conditionally(self, write: Callable[[str, int], Any], group_id: str, context: Any) -> Any:
        """Write on the condition that the client sent.

        Without one, write on the current target; if that has changed, read it again once and repeat the write.
        """
        given = _metadata_of(context, EXPECTED)
        self._index.note(group_id)
        if isinstance(given, int):
            return write(group_id, given)
        try:
            return write(group_id, self._provider.target_size(group_id))
        except TargetChanged:
            self._provider.refresh(frozenset({group_id}))
            return write(group_id, self._provider.target_size(group_id))

    def _demand(self, capability: Capability, group_id: str) -> None:
        if not self._provider.supports(capability, group_id):
            raise NotOffered(
                f"provider {self._provider.name} does not offer {capability.value} for {group_id or 'any'}"
            )


def make_server(servicer: Servicer, address: str, credentials: Any) -> tuple[Any, int]:
    """Return a server for the address, not yet started, and its port. ``credentials`` None: plaintext."""
    server = grpc.server(ThreadPoolExecutor(_WORKERS), options=(("grpc.so_reuseport", 0),))
    server.add_generic_rpc_handlers((servicer.handler(),))
    try:
        port = (
            server.add_insecure_port(address) if credentials is None else server.add_secure_port(address, credentials)
        )
    except RuntimeError as error:
        why = str(error).partition(";")[0]  # gRPC's advice on its own environment variables follows
        raise ConfigError(f"--listen: {address}: cannot listen there: {why}") from None
    return server, int(port)


def _guarded(name: str, call: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Return ``call`` wrapped so that every error becomes a gRPC status.

    Of an unexpected error only the type is sent and logged: its text could contain secrets.
    """

    def handle(request: Any, context: Any) -> Any:
        try:
            return call(request, context)
        except ProviderError as error:
            refused, status = error, status_of(error)
        except Exception as error:  # noqa: BLE001 - every error becomes a response
            _LOG.error("%s: %s", name, type(error).__name__)
            refused, status = ProviderError(f"{name}: {type(error).__name__}"), grpc.StatusCode.INTERNAL
        context.set_trailing_metadata(metadata_of(refused))
        context.abort(status, str(refused))
        return None

    return handle


def _not_offered(request: Any, context: Any) -> Any:  # noqa: ARG001 - the signature of a call
    raise NotOffered("nodewright does not offer this call")


def _demand_sign(holds: bool, method: str, delta: int) -> None:
    if not holds:
        raise ProviderError(f"{method}: a delta of {delta} is not valid", code="badDelta")


def _group(group: NodeGroup) -> Any:
    return messages.NodeGroup(id=group.id, minSize=group.min_size, maxSize=group.max_size, debug=group.id)


def _metadata_of(context: Any, key: str) -> Any:
    """Return the value that a nodewright client sent as metadata; None: it sent none."""
    found = next((value for name, value in context.invocation_metadata() if name == key), None)
    try:
        return json.loads(found) if found is not None else None
    except ValueError:
        return None


def _answer(context: Any, accepted: Any) -> None:
    context.set_trailing_metadata(((ACCEPTED, json.dumps(accepted).encode()),))


def _whole_failures(asked: Sequence[str], stands_for: Mapping[str, str]) -> Iterator[str]:
    """Yield ids as the provider knows them; raise ProviderError if only a part of a failure's machines is named."""
    for name in dict.fromkeys(stands_for.get(name, name) for name in asked):
        parts = {part for part, failure in stands_for.items() if failure == name}
        if parts and not parts <= set(asked):
            raise ProviderError(
                f"failure {name} consists of {len(parts)} machines: name all of them", code="partOfFailure"
            )
        yield name
