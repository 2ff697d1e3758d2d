"""The operations that we started: Azure reports at an address of each operation why it failed.

Scale sets, and machines that stay in them, report the reason themselves. Flexible sets without a machine and VM pools do not.
"""

from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from nodewright.spec import ErrorClass
from nodewright_azure.calls import Calls, convert
from nodewright_azure.errors import classify
from nodewright_azure.shapes import Operation, Status

_HEADER = "Azure-AsyncOperation"


class Operations:
    """The address of the last operation on each group."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._addresses: dict[str, str] = {}

    def following(self, name: str) -> dict[str, Any]:
        """Return the argument of a call of the SDK that remembers the operation which the call starts."""

        def note(response: Any) -> None:
            parts = urlsplit(response.http_response.headers.get(_HEADER) or "")
            self._addresses.pop(name.lower(), None)
            if parts.path:  # the host is that of the client: our token goes nowhere else
                self._addresses[name.lower()] = f"{parts.path}?{parts.query}"

        return {"raw_response_hook": note}

    def problem(self, name: str, client: Callable[[], Any]) -> Status | None:
        """Return why our last operation on the group failed; None: it did not, or is not known."""
        address = self._addresses.get(name.lower())
        if address is None:
            return None
        told = self.ask(address, client, about=name)
        if told.status != "Failed" or told.error is None or not told.error.code:
            return None
        kept = (
            one for one in told.error.all if one.code and classify(one.code, one.message)[0] is not ErrorClass.OTHER
        )
        error = next(kept, told.error)
        return Status(code=f"ProvisioningState/failed/{error.code}", message=error.message)

    def ask(self, address: str, client: Callable[[], Any], *, about: str = "") -> Operation:
        """Return the operation at this path; raise ProviderError if there is none, or we may not read it."""
        from azure.core.rest import HttpRequest  # noqa: PLC0415 - the SDK is heavy, and this module is imported at once

        def send() -> Any:
            answer = client().send_request(HttpRequest("GET", address))
            answer.raise_for_status()
            return answer.json()

        return convert(self._calls.call("operations.get", send, about=about), Operation)
