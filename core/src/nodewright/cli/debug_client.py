"""Asking the daemon that runs on this machine, or behind a port that is forwarded to it."""

import http.client
from collections.abc import Mapping
from urllib.parse import urlencode

from nodewright.adapters.web import SERVER_NAME, parse_address
from nodewright.cli.screen import make_console
from nodewright.model.errors import ConfigError

# A daemon in the middle of a loop answers when that ends.
_TIMEOUT_SECONDS = 120.0
_FLAG = "--debug-address"


def ask_daemon(address: str, path: str, query: Mapping[str, str]) -> str | None:
    """Its answer; None when nobody listens there, or anywhere (an empty address). Raises ConfigError when it cannot
    answer, with its reason.
    """
    if not address:
        return None
    host, port = parse_address(_FLAG, address)
    line = http.client.HTTPConnection(host or "127.0.0.1", port, timeout=_TIMEOUT_SECONDS)
    try:
        line.request("GET", f"{path}?{urlencode(query)}")
        reply = line.getresponse()
        text = reply.read().decode(errors="replace")
    except ConnectionRefusedError:
        return None
    except (OSError, http.client.HTTPException) as error:
        raise ConfigError(f"{_FLAG}: {address}: {error or type(error).__name__}") from None
    finally:
        line.close()
    if (reply.getheader("Server") or "").strip() != SERVER_NAME:
        raise ConfigError(f"{_FLAG}: {address}: what answers there is not nodewright")
    if reply.status != http.HTTPStatus.OK:
        raise ConfigError(f"the daemon at {address}: {text.strip()}")
    return text


def page_query(output: str) -> dict[str, str]:
    """How an answer is to look: as JSON, or as a table that fits this terminal."""
    return {"output": output, "width": str(make_console().width)}
