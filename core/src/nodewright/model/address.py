"""Addresses at which the daemon serves pages."""

from ipaddress import ip_address

from nodewright.model.errors import ConfigError

# The ``Server`` header: a client checks that the process at this address is nodewright.
SERVER_NAME = "nodewright"


def parse_address(flag: str, address: str) -> tuple[str, int]:
    """Parse ``host:port`` or ``:port`` (every address of the machine); raise ConfigError."""
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise ConfigError(f"{flag}: '{address}' is not an address like 127.0.0.1:8085 or :8085")
    return host.removeprefix("[").removesuffix("]"), int(port)


def is_loopback(host: str) -> bool:
    """Return whether only this machine, or this pod, can reach the address."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
