"""Kafka requests of our own, for what confluent-kafka's administration client cannot ask.

One connection per broker (`core.runtime.kafka_connection`). Of librdkafka's properties those of
TLS and SASL are understood; all others mean nothing here and are refused.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Self, TypeVar

from tailrace.broker.listeners import Endpoint
from tailrace.core.runtime.kafka_connection import (
    Entrance,
    KafkaConnection,
    KafkaConnectionError,
    NoAnswer,
    NotLetIn,
    NotServed,
)
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.api import Api
from tailrace.protocol.kafka.apis import FIND_COORDINATOR, METADATA
from tailrace.protocol.kafka.messages.find_coordinator import FindCoordinatorRequest
from tailrace.protocol.kafka.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from tailrace.tools.clients.command_config import check_security_alone, entrance
from tailrace.tools.clients.first_connection import not_let_in
from tailrace.tools.clients.librdkafka import CLIENT_ID, Target, check_reachable
from tailrace.tools.endpoints import parse_endpoint
from tailrace.tools.errors import CliError, Exit

Q = TypeVar("Q")
R = TypeVar("R")

FIND_COORDINATOR_VERSION = 3
"""The last one for a single key."""


class Connection:
    """One connection to one broker. Errors: CliError from every method."""

    def __init__(self, at: Endpoint, timeout_s: float, entrance: Entrance | None) -> None:
        with _told():
            host = at.host or "127.0.0.1"
            self._kafka = KafkaConnection(host, at.port, timeout_s, CLIENT_ID, entrance)

    def serves(self, api: Api[Q, R]) -> bool:
        """Tell whether the broker has a version of a request that we speak."""
        try:
            self._kafka.version(api)
        except NotServed:
            return False
        return True

    def ask(self, api: Api[Q, R], request: Q, version_max: int | None = None) -> R:
        """Send a request and return its answer."""
        with _told():
            return self._kafka.ask(api, request, version_max)

    def close(self) -> None:
        """Close. Idempotent."""
        self._kafka.close()


class Brokers:
    """Connections to the brokers of one cluster. Errors: CliError from every method."""

    def __init__(self, to: Target) -> None:
        check_security_alone(to.properties)
        check_reachable(to)
        self._entrance = entrance(to.client, to.properties)
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
            connection = self._connections[node_id] = Connection(
                at, self._timeout_s, self._entrance
            )
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
                return Connection(at, self._timeout_s, self._entrance)
        return Connection(servers[-1], self._timeout_s, self._entrance)


def check(code: int, doing: str, remedy: str = "") -> None:
    """Let an answer without an error pass. Errors: CliError."""
    if code:
        raise CliError(f"{doing}: {ErrorCode(code).name} ({code})", remedy=remedy)


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except NotLetIn as error:
        raise not_let_in(error) from error
    except NoAnswer as error:
        raise CliError(
            error.cause,
            place=error.place,
            remedy="is the broker where it advertises itself? --timeout waits longer",
            code=Exit.UNREACHABLE,
        ) from error
    except KafkaConnectionError as error:
        raise CliError(error.cause, place=error.place) from error
