"""What ``nodewright doctor`` reports of a server: whether it is reachable, whether over TLS, which calls it lacks."""

from collections.abc import Iterator, Mapping, Sequence

from nodewright.spec import Capability, Finding, FindingLevel, ProviderError
from nodewright_externalgrpc.channel import Channel

POLICY = """\
A client certificate that the server's authority has signed, and a server certificate for the host of `address` that the
authority in `cacert` has signed. The protocol has no permissions beyond that.
"""
_LOST = {
    "NodeGroupTemplateNodeInfo": (None, "an empty group of this server cannot be scaled up"),
    "NodeGroupGetOptions": (Capability.GROUP_OPTIONS, "every group uses the general settings"),
    "PricingNodePrice": (Capability.PRICING, "the price expander skips these groups"),
}


def examine(channel: Channel, lacks: Mapping[str, Sequence[str]]) -> Iterator[Finding]:
    """Read the list of groups and yield findings. ``lacks``: the calls that the server does not offer, by group id."""
    try:
        channel.read("NodeGroups")
    except ProviderError as error:
        remedy = "check that the server runs and that the certificates match"
        yield Finding(level=FindingLevel.PROBLEM, subject=channel.address, message=str(error), remedy=remedy)
    else:
        yield Finding(level=FindingLevel.OK, subject=channel.address, message="the server responds")
    if channel.is_secure:
        yield Finding(level=FindingLevel.OK, subject="TLS", message="client and server authenticate with certificates")
    else:
        said = "plaintext: every client that can reach the server can delete machines"
        yield Finding(level=FindingLevel.WARNING, subject="TLS", message=said, remedy="set cert, key and cacert")
    for method, (capability, loss) in _LOST.items():
        if any(method in lacking for lacking in lacks.values()):
            said = f"not offered: {loss}"
            yield Finding(level=FindingLevel.WARNING, subject=method, message=said, capability=capability)
