"""Calls of the protocol's methods: each has a deadline and is counted, and its error is translated here."""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import grpc

from nodewright.spec import Clock, ProviderError
from nodewright.spec.meter import Meter
from nodewright_externalgrpc.certificates import Files, client_credentials
from nodewright_externalgrpc.errors import translate
from nodewright_externalgrpc.options import SOURCE, Options
from nodewright_externalgrpc.wire import METHODS, SERVICE

# gRPC must not retry: a repeated write could take effect twice, and the core repeats reads.
_CHANNEL = (("grpc.enable_retries", 0), ("grpc.max_receive_message_length", 64 * 2**20))


class Answer(NamedTuple):
    """A response, and the nodewright metadata that came after it."""

    message: Any
    trailing: Mapping[str, Any]


class Channel:
    """One connection to one server."""

    def __init__(self, options: Options, clock: Clock) -> None:
        files = Files(f"{SOURCE}: ", options.cert, options.key, options.cacert, options.insecure)
        credentials = client_credentials(files)
        self.is_secure = credentials is not None
        self.address = options.address
        self.meter = Meter(clock, options.calls_per_minute)
        self._timeout = float(options.grpc_timeout)
        self._channel = (
            grpc.secure_channel(options.address, credentials, options=_CHANNEL)
            if credentials is not None
            else grpc.insecure_channel(options.address, options=_CHANNEL)
        )
        self._calls = {
            name: self._channel.unary_unary(
                method.path,
                request_serializer=method.request.SerializeToString,
                response_deserializer=method.answer.FromString,
            )
            for name, method in METHODS.items()
        }

    def __repr__(self) -> str:
        return f"Channel({self.address!r}, {SERVICE!r})"

    def close(self) -> None:
        """Close the connection."""
        self._channel.close()

    def read(self, name: str, **fields: Any) -> Any:
        """Call a method that reads and return the response's message; raise ProviderError."""
        return self.meter.call(name, lambda: self._call(name, {}, fields).message)

    def write(self, name: str, extra: Mapping[str, Any], **fields: Any) -> Answer:
        """Call a method that writes; raise ProviderError.

        ``extra`` is sent as metadata that only a nodewright server understands.
        """
        return self.meter.call(name, lambda: self._call(name, extra, fields), urgent=True)

    def _call(self, name: str, extra: Mapping[str, Any], fields: Mapping[str, Any]) -> Answer:
        request = METHODS[name].request(**fields)
        metadata = tuple((key, _packed(key, value)) for key, value in extra.items())
        try:
            message, call = self._calls[name].with_call(request, timeout=self._timeout, metadata=metadata)
        except grpc.RpcError as error:
            raise translate(error, name) from error
        except ValueError as error:  # grpc raises ValueError if the channel was closed
            raise ProviderError(f"{name}: {error}", code="closed") from error
        return Answer(message, {key: _unpacked(key, value) for key, value in call.trailing_metadata() or ()})


def _packed(key: str, value: Any) -> str | bytes:
    text = json.dumps(value)
    return text.encode() if key.endswith("-bin") else text


def _unpacked(key: str, value: Any) -> Any:
    if not key.startswith("nodewright-"):
        return None
    try:
        return json.loads(value)
    except ValueError:
        return value
