"""The protocol's messages and methods.

The ``_pb2`` modules are generated: run ``python generate.py`` in plugins/externalgrpc.
"""

from typing import Any, NamedTuple

from google.protobuf import message_factory

from nodewright_externalgrpc.wire import externalgrpc_pb2, node_pb2

messages: Any = externalgrpc_pb2
nodes: Any = node_pb2

SERVICE = "clusterautoscaler.cloudprovider.v1.externalgrpc.CloudProvider"
RUNNING, CREATING, DELETING = 1, 2, 3
OUT_OF_RESOURCES, OTHER = 1, 99

# Metadata between nodewright client and nodewright server only: conditional writes and exact results, which the protocol lacks.
EXPECTED = "nodewright-expected-target"
WANTED = "nodewright-wanted-bin"
ACCEPTED = "nodewright-accepted-bin"
ACTUAL = "nodewright-actual-target"
CODE = "nodewright-code"
SCOPE = "nodewright-scope"
RETRY_AFTER = "nodewright-retry-after"
# The annotation that names the group of a template when its price is requested.
GROUP_ANNOTATION = "nodewright.node-group"


class Method(NamedTuple):
    """One call of the service: its path and the classes of its request and answer."""

    name: str
    path: str
    request: Any
    answer: Any


METHODS = {
    found.name: Method(
        found.name,
        f"/{SERVICE}/{found.name}",
        message_factory.GetMessageClass(found.input_type),
        message_factory.GetMessageClass(found.output_type),
    )
    for found in messages.DESCRIPTOR.services_by_name["CloudProvider"].methods
}

__all__ = ["METHODS", "Method", "messages", "nodes"]
