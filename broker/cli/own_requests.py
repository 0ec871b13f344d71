"""Kafka requests of our own, for what confluent-kafka's administration client cannot ask.

Plain sockets and the project's codec: one connection per broker, one request at a time, in the
highest version that both sides speak. Properties of librdkafka mean nothing here and are refused.
"""

import socket
from collections.abc import Iterator
from contextlib import suppress
from typing import Self, TypeVar

from broker.cli.clients import Target, check_reachable
from broker.cli.endpoints import parse_endpoint
from broker.cli.errors import CliError, Exit
from broker.listeners import Endpoint
from protocol.errors import ErrorCode, ProtocolError
from protocol.kafka.api import Api
from protocol.kafka.apis import API_VERSIONS, FIND_COORDINATOR, METADATA
from protocol.kafka.codec import decode_response, encode_request
from protocol.kafka.header import RequestHeader, decode_response_header, request_frame
from protocol.kafka.messages.api_versions import ApiVersionsRequest
from protocol.kafka.messages.find_coordinator import FindCoordinatorRequest
from protocol.kafka.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

Q = TypeVar("Q")
R = TypeVar("R")

ANSWER_BYTES_MAX = 100 * 1024 * 1024
"""A longer answer is none."""
FIND_COORDINATOR_VERSION = 3
"""The last one for a single key."""


class Connection:
    """One connection to one broker. Errors: CliError from every method."""

    def __init__(self, at: Endpoint, timeout_s: float) -> None:
        self._at = at
        self._correlation_id = 0
        try:
            self._socket = socket.create_connection((at.host or "127.0.0.1", at.port), timeout_s)
        except OSError as error:
            raise self._lost(error) from error
        asked = self._ask(API_VERSIONS, 0, ApiVersionsRequest())
        self._latest = {each.api_key: each.max_version for each in asked.api_keys}

    def ask(self, api: Api[Q, R], request: Q, version_max: int | None = None) -> R:
        """Send a request and return its answer."""
        latest = self._latest.get(api.key, -1)
        version = min(latest, api.versions[-1] if version_max is None else version_max)
        if version < api.versions[0]:
            raise CliError(f"the broker does not serve {api.name}", place=self._place)
        return self._ask(api, version, request)

    def close(self) -> None:
        """Close. Idempotent."""
        self._socket.close()

    @property
    def _place(self) -> str:
        return f"{self._at.host or '127.0.0.1'}:{self._at.port}"

    def _ask(self, api: Api[Q, R], version: int, request: Q) -> R:
        self._correlation_id += 1
        header = RequestHeader(api.key, version, self._correlation_id, "tailrace-cli")
        try:
            self._socket.sendall(request_frame(api, header, encode_request(api, version, request)))
            size = int.from_bytes(self._take(4), "big", signed=True)
            if not 0 <= size <= ANSWER_BYTES_MAX:
                raise CliError(f"an answer of {size} bytes", place=self._place)
            frame = memoryview(self._take(size))
            _, at = decode_response_header(api, version, frame)
            return decode_response(api, version, frame[at:])
        except OSError as error:
            raise self._lost(error) from error
        except ProtocolError as error:
            raise CliError(f"no Kafka broker answers: {error}", place=self._place) from error

    def _take(self, size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            data = self._socket.recv(min(size - len(parts), 1 << 20))
            if not data:
                raise ConnectionResetError("the broker closed the connection")
            parts += data
        return bytes(parts)

    def _lost(self, error: OSError) -> CliError:
        return CliError(
            f"no answer: {error.strerror or error}",
            place=self._place,
            remedy="is the broker where it advertises itself? --timeout waits longer",
            code=Exit.UNREACHABLE,
        )


class Brokers:
    """Connections to the brokers of one cluster. Errors: CliError from every method."""

    def __init__(self, to: Target) -> None:
        if to.properties:
            raise CliError(
                "this command speaks Kafka's protocol itself and knows no librdkafka properties",
                place="-X " + next(iter(to.properties)),
                code=Exit.USAGE,
            )
        check_reachable(to)
        self._timeout_s = to.timeout_s
        self._connections: dict[int, Connection] = {}
        self._first = self._connect(to.bootstrap)
        self.metadata = self._first.ask(METADATA, MetadataRequest(topics=[]))
        self._places = {each.node_id: each for each in self.metadata.brokers}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for connection in (self._first, *self._connections.values()):
            connection.close()

    def all(self) -> Iterator[tuple[int, Connection]]:
        """Return each broker's id and a connection to it."""
        for node_id in sorted(self._places):
            yield node_id, self.to(node_id)

    def to(self, node_id: int) -> Connection:
        """Return a connection to one broker."""
        place = self._places.get(node_id)
        if place is None:
            raise CliError(f"there is no broker {node_id}")
        connection = self._connections.get(node_id)
        if connection is None:
            at = Endpoint(place.host, place.port)
            connection = self._connections[node_id] = Connection(at, self._timeout_s)
        return connection

    def coordinator(self, key: str, key_type: int) -> int:
        """Return the broker that coordinates a group (0) or a transactional id (1)."""
        request = FindCoordinatorRequest(key=key, key_type=key_type)
        found = self._first.ask(FIND_COORDINATOR, request, FIND_COORDINATOR_VERSION)
        check(found.error_code, f"coordinator of {key}")
        return found.node_id

    def topics(self, names: list[str] | None) -> MetadataResponse:
        """Return what is known of topics; None: of all."""
        wanted = None if names is None else [MetadataRequestTopic(name=name) for name in names]
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
        found: MetadataResponse = self._first.ask(METADATA, request)
        return found

    def _connect(self, bootstrap: str) -> Connection:
        servers = [parse_endpoint(text.strip(), "--bootstrap") for text in bootstrap.split(",")]
        for at in servers[:-1]:
            with suppress(CliError):  # the last one says why nobody answers
                return Connection(at, self._timeout_s)
        return Connection(servers[-1], self._timeout_s)


def check(code: int, doing: str, remedy: str = "") -> None:
    """Let an answer without an error pass. Errors: CliError."""
    if code:
        raise CliError(f"{doing}: {ErrorCode(code).name} ({code})", remedy=remedy)
