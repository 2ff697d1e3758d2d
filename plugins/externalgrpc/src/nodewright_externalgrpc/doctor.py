"""What ``nodewright doctor`` is told of a server: can it be reached, over what, and what does it not offer?"""

from collections.abc import Iterator, Mapping, Sequence

from nodewright.spec import Capability, Finding, FindingLevel, ProviderError
from nodewright_externalgrpc.channel import Channel

POLICY = """\
A client certificate that the server's authority has signed, and a server certificate for the host of `address` that the
authority in `cacert` has signed. The protocol knows no permissions beyond that.
"""
_LOST = {
    "NodeGroupTemplateNodeInfo": (None, "an empty group of this server cannot be planned with"),
    "NodeGroupGetOptions": (Capability.GROUP_OPTIONS, "every group has the general settings"),
    "PricingNodePrice": (Capability.PRICING, "the price expander passes these groups over"),
}


def examine(channel: Channel, lacks: Mapping[str, Sequence[str]]) -> Iterator[Finding]:
    """Reads the list of groups; ``lacks`` are calls that are not offered, by group."""
    try:
        channel.read("NodeGroups")
    except ProviderError as error:
        remedy = "look whether the server runs, and whether the certificates fit"
        yield Finding(level=FindingLevel.PROBLEM, subject=channel.address, message=str(error), remedy=remedy)
    else:
        yield Finding(level=FindingLevel.OK, subject=channel.address, message="answers")
    if channel.is_secure:
        yield Finding(level=FindingLevel.OK, subject="TLS", message="both sides show certificates")
    else:
        said = "plaintext: whoever reaches the server can delete machines"
        yield Finding(level=FindingLevel.WARNING, subject="TLS", message=said, remedy="set cert, key and cacert")
    for method, (capability, loss) in _LOST.items():
        if any(method in lacking for lacking in lacks.values()):
            said = f"not offered: {loss}"
            yield Finding(level=FindingLevel.WARNING, subject=method, message=said, capability=capability)
