"""One connection to one broker, with a restore's errors.

confluent-kafka hands out records and not batches, so a reader learns of an end that compaction or
markers left empty by an event at the end of the log only, and every record is an object.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from tailrace.compaction.restoring.errors import Refused, Transient
from tailrace.core.access.client.command_config import client_settings as read_settings
from tailrace.core.runtime.config import ConfigError
from tailrace.core.runtime.kafka_connection import (
    Entrance,
    KafkaConnection,
    NoAnswer,
    NotKafka,
    NotLetIn,
    NotServed,
)
from tailrace.protocol.kafka.api import Api

Q = TypeVar("Q")
R = TypeVar("R")

CLIENT_ID = "tailrace-restore"


class Connection:
    """Requests and answers, one at a time, in the highest version that both sides speak.

    Errors of every method: Transient when the broker cannot be reached or does not answer in time;
    Refused when it never will.
    """

    def __init__(
        self, host: str, port: int, timeout_s: float, entrance: Entrance | None = None
    ) -> None:
        """`entrance`: TLS and SASL, if the broker asks for them."""
        with _told():
            self._kafka = KafkaConnection(host, port, timeout_s, CLIENT_ID, entrance)
        self.place = self._kafka.place

    def ask(self, api: Api[Q, R], request: Q) -> R:
        """Send a request and return its answer. Cost: record bytes are slices of the answer."""
        with _told():
            return self._kafka.ask(api, request)

    def close(self) -> None:
        """Close, also under the feet of a thread that waits for an answer. Idempotent."""
        self._kafka.close()


def way_in(client_settings: Mapping[str, str] | Path | None) -> Entrance | None:
    """Return how a client with such settings gets in; None: without TLS and SASL.

    Blocks. Errors: Refused.
    """
    if client_settings is None:
        return None
    from tailrace.core.access.client.entrance import entrance_of  # for those who need it

    with _refusals():
        return entrance_of(read_settings(client_settings), "client_settings")


def librdkafka_settings(client_settings: Mapping[str, str] | Path | None) -> dict[str, Any]:
    """Return such settings as confluent-kafka takes them. Blocks. Errors: Refused."""
    if client_settings is None:
        return {}
    from tailrace.core.access.client.confluent import confluent_settings

    with _refusals():
        return confluent_settings(read_settings(client_settings))


@contextmanager
def _refusals() -> Iterator[None]:
    """Let settings that cannot be used refuse a restore."""
    try:
        yield
    except ConfigError as error:
        raise Refused(str(error), place="client_settings") from error


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except NoAnswer as error:
        raise Transient(error.cause, error.place) from error
    except NotServed as error:
        remedy = "Apache Kafka 2.1 or later, or Tailrace"
        raise Refused(error.cause, place=error.place, remedy=remedy) from error
    except NotLetIn as error:
        remedy = "see security.protocol and its like in the client's properties"
        raise Refused(error.cause, place=error.place, remedy=remedy) from error
    except NotKafka as error:
        raise Refused(error.cause, place=error.place) from error
