"""How every call of the SDK is made: counted, within the budget and time limits, with its error translated once.

This is the only module that imports boto3, and it does so only at the first call. The SDK does not retry: the core
repeats reads and settles writes, and retries at two levels would multiply. Credentials come from the SDK's own chain
(environment, shared files and profiles, web identity, container and instance roles); this plugin never sees them.
"""

import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar

import msgspec

from nodewright.spec import AccessDenied, ApiCalls, Clock, ProviderError, ProviderUnavailable
from nodewright.spec.exchanges import ApiAnswer, ApiRequest, Exchanges, RecordedBody, as_text
from nodewright.spec.meter import Meter
from nodewright_aws.errors import NO_CREDENTIALS, NO_REGION, from_response
from nodewright_aws.options import Options
from nodewright_aws.shapes import Raw

T = TypeVar("T")

_NOT_MADE = "badRequest"


class Calls:
    """Calls to one account in one region. Thread-safe."""

    def __init__(self, options: Options, clock: Clock, exchanges: Exchanges | None = None) -> None:
        self._meter = Meter(clock, options.api_calls_per_minute)
        self._options = options
        self._lock = threading.Lock()
        self._session: Any = None
        self._clients: dict[str, Any] = {}
        self._server_time = 0.0
        self._exchanges = exchanges
        self._replays = exchanges is not None and exchanges.replays

    def made(self) -> Sequence[ApiCalls]:
        """Return the number of calls so far, by operation and result."""
        return self._meter.made()

    def within(self, seconds: float) -> AbstractContextManager[None]:
        """Let this thread begin no call later than ``seconds`` from now; raise ProviderUnavailable instead."""
        return self._meter.within(seconds)

    def region(self) -> str:
        """Return the region; raise ProviderError if none is configured."""
        return self._exchanges.fact("region", self._find_region) if self._exchanges is not None else self._find_region()

    def _find_region(self) -> str:
        name = self._options.region or os.environ.get("AWS_REGION") or self._open().region_name
        if not name:
            raise ProviderError("no region: set providers.aws.options.region, or AWS_REGION", code=NO_REGION)
        return str(name)

    def server_time(self) -> float:
        """Return the time of AWS's last response (epoch seconds, AWS's clock; 0: there was none yet)."""
        return self._server_time

    def pages(self, service: str, operation: str, **parameters: Any) -> Iterator[Raw]:
        """Yield all pages of a list, one call each."""
        token: Raw = {}
        while True:
            answer = self.call(service, operation, **parameters, **token)
            yield answer
            if not answer.get("NextToken"):
                return
            token = {"NextToken": answer["NextToken"]}

    def call(self, service: str, operation: str, *, urgent: bool = False, **parameters: Any) -> Raw:
        """Make one call. ``urgent``: the budget does not delay it; for writes and the reads that belong to them."""
        client = self._client(service)
        return self._meter.call(operation, lambda: self._send(client, operation, parameters), urgent=urgent)

    def _send(self, client: Any, operation: str, parameters: Raw) -> Raw:
        from botocore import exceptions, parsers, xform_name  # noqa: PLC0415 - the SDK is heavy, see the first lines

        try:
            answer: Raw = getattr(client, xform_name(operation))(**parameters)
        except exceptions.ClientError as error:
            self._note_time(error.response)
            raise from_response(operation, error.response)[1] from error
        except (exceptions.NoCredentialsError, exceptions.PartialCredentialsError) as error:
            said = f"{operation}: {error}; the README of nodewright-aws lists where credentials come from"
            raise AccessDenied(said, code=NO_CREDENTIALS) from error
        except (exceptions.CredentialRetrievalError, exceptions.TokenRetrievalError) as error:
            said = f"{operation}: credentials could not be fetched ({type(error).__name__})"
            raise AccessDenied(said, code=NO_CREDENTIALS) from error
        except exceptions.ParamValidationError as error:
            raise ProviderError(f"{operation}: {error}", code=_NOT_MADE) from error
        except (exceptions.BotoCoreError, parsers.ResponseParserError) as error:
            raise ProviderUnavailable(f"{operation} in {self.region()}: {type(error).__name__}: {error}") from error
        self._note_time(answer)
        return answer

    def _note_time(self, answer: Mapping[str, Any]) -> None:
        date = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("date")
        try:
            told = parsedate_to_datetime(date).timestamp() if date else 0.0
        except (ValueError, TypeError, IndexError, OverflowError):  # the parser raises each of them for some text
            return  # the time of the response before stays
        if told:
            self._server_time = told

    def _open(self) -> Any:
        with self._lock:
            if self._session is None:
                import boto3  # noqa: PLC0415 - the SDK is heavy, see the module's first lines
                from botocore.exceptions import BotoCoreError  # noqa: PLC0415 - as above

                try:
                    self._session = boto3.Session(profile_name=None if self._replays else self._options.profile)
                except BotoCoreError as error:
                    raise AccessDenied(f"providers.aws.options.profile: {error}") from error
            return self._session

    def _client(self, service: str) -> Any:
        session, region = self._open(), region_of(service, self.region())
        with self._lock:
            if service not in self._clients:
                self._clients[service] = self._build(session, service, region)
            return self._clients[service]

    def _build(self, session: Any, service: str, region: str) -> Any:
        from botocore import UNSIGNED  # noqa: PLC0415 - the SDK is heavy, see the module's first lines
        from botocore.config import Config  # noqa: PLC0415 - as above
        from botocore.exceptions import BotoCoreError  # noqa: PLC0415 - as above

        options = self._options
        config = Config(
            retries={"mode": "standard", "total_max_attempts": 1},
            connect_timeout=options.connect_timeout,
            read_timeout=options.read_timeout,
            max_pool_connections=options.parallel_calls,
            user_agent_extra="nodewright",
            **({"signature_version": UNSIGNED} if self._replays else {}),
        )
        try:
            client = session.client(
                service, region_name=region, endpoint_url=options.endpoints.get(service), config=config
            )
        except (BotoCoreError, ValueError) as error:
            raise ProviderError(f"no client for {service} in {region}: {error}", code="badConfiguration") from error
        if self._exchanges is not None:
            _Tap(self._exchanges).attach(client)
        return client


class _Tap:
    """Passes the requests of a client through a recording. Requests for credentials are those of other clients."""

    def __init__(self, exchanges: Exchanges) -> None:
        self._exchanges = exchanges
        self._sent = threading.local()

    def attach(self, client: Any) -> None:
        events = client.meta.events
        events.register("before-send", self._before)
        if not self._exchanges.replays:
            events.register("before-parse", self._after)
            events.register("response-received", self._after_failure)

    def _before(self, request: Any, event_name: str, **_: Any) -> Any:
        from botocore.awsrequest import AWSResponse  # noqa: PLC0415 - the SDK is heavy, see the module's first lines
        from botocore.exceptions import HTTPClientError  # noqa: PLC0415 - as above

        asked = ApiRequest(
            operation=event_name.rpartition(".")[2],
            method=request.method,
            url=request.url,
            headers=dict(request.headers.items()),
            body=as_text(request.body),
        )
        self._sent.request = asked
        known = self._exchanges.find(asked)
        if known is None:
            return None
        if known.failure:
            raise HTTPClientError(error=known.failure)
        return AWSResponse(request.url, known.status, known.headers, RecordedBody(known))

    def _after(self, response_dict: Mapping[str, Any], **_: Any) -> None:
        answer = ApiAnswer(
            status=response_dict["status_code"],
            headers=dict(response_dict["headers"].items()),
            body=as_text(response_dict["body"]),
        )
        self._exchanges.note(self._sent.request, answer)

    def _after_failure(self, exception: Exception | None, **_: Any) -> None:
        if exception is not None:
            self._exchanges.note(self._sent.request, ApiAnswer(failure=f"{type(exception).__name__}: {exception}"))


def region_of(service: str, region: str) -> str:
    """Return the region whose endpoint serves a service: the price list is served in a few regions, for all others."""
    if service != "pricing":
        return region
    homes = {"cn-": "cn-northwest-1", "eu-": "eu-central-1", "ap-": "ap-south-1"}
    return next((home for prefix, home in homes.items() if region.startswith(prefix)), "us-east-1")


def convert(answer: Any, kind: type[T]) -> T:
    """Decode a response; raise ProviderUnavailable if it does not have the expected form."""
    try:
        return msgspec.convert(answer, kind)
    except msgspec.ValidationError as error:
        raise ProviderUnavailable(f"unexpected response from AWS: {error}") from error
