"""Client of the daemon's debug pages, on this machine or through a forwarded port."""

import http.client
from collections.abc import Mapping
from urllib.parse import urlencode

import click

from nodewright.cli.screen import make_console
from nodewright.model.address import SERVER_NAME, parse_address
from nodewright.model.errors import ConfigError
from nodewright.model.settings import ServingSettings

# In seconds. A daemon in the middle of a loop responds when the loop ends.
_TIMEOUT_SECONDS = 120.0
_FLAG = "--debug-address"
debug_address_option = click.option(
    _FLAG,
    metavar="TEXT",
    default=ServingSettings().debug_address,
    show_default=True,
    help="Address of the daemon to ask.",
)


def ask_daemon(address: str, path: str, query: Mapping[str, str]) -> str | None:
    """Return the page of the daemon at ``address`` as text; see ``fetch_page``."""
    content = fetch_page(address, path, query)
    return None if content is None else content.decode(errors="replace")


def fetch_page(address: str, path: str, query: Mapping[str, str]) -> bytes | None:
    """Return the page of the daemon at ``address``; None if no process listens there or the address is empty.

    Raise ConfigError with the reason if the daemon refuses.
    """
    if not address:
        return None
    host, port = parse_address(_FLAG, address)
    line = http.client.HTTPConnection(host or "127.0.0.1", port, timeout=_TIMEOUT_SECONDS)
    try:
        line.request("GET", f"{path}?{urlencode(query)}")
        reply = line.getresponse()
        content = reply.read()
    except ConnectionRefusedError:
        return None
    except (OSError, http.client.HTTPException) as error:
        raise ConfigError(f"{_FLAG}: {address}: {error or type(error).__name__}") from None
    finally:
        line.close()
    if (reply.getheader("Server") or "").strip() != SERVER_NAME:
        raise ConfigError(f"{_FLAG}: {address}: the process there is not nodewright")
    if reply.status != http.HTTPStatus.OK:
        raise ConfigError(f"the daemon at {address}: {content.decode(errors='replace').strip()}")
    return content


def page_query(output: str) -> dict[str, str]:
    """Return the query for a page as JSON, or as a table that fits this terminal."""
    return {"output": output, "width": str(make_console().width)}
