"""One connection to one broker, with a restore's errors.

confluent-kafka hands out records and not batches, so a reader learns of an end that compaction or
markers left empty by an event at the end of the log only, and every record is an object.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

from tailrace.compaction.restoring.errors import Refused, Transient
from tailrace.core.runtime.kafka_connection import KafkaConnection, NoAnswer, NotKafka, NotServed
from tailrace.protocol.kafka.api import Api

Q = TypeVar("Q")
R = TypeVar("R")

CLIENT_ID = "tailrace-restore"


class Connection:
    """Requests and answers, one at a time, in the highest version that both sides speak.

    Errors of every method: Transient when the broker cannot be reached or does not answer in time;
    Refused when it never will.
    """

    def __init__(self, host: str, port: int, timeout_s: float) -> None:
        with _told():
            self._kafka = KafkaConnection(host, port, timeout_s, CLIENT_ID)
        self.place = self._kafka.place

    def ask(self, api: Api[Q, R], request: Q) -> R:
        """Send a request and return its answer. Cost: record bytes are slices of the answer."""
        with _told():
            return self._kafka.ask(api, request)

    def close(self) -> None:
        """Close, also under the feet of a thread that waits for an answer. Idempotent."""
        self._kafka.close()


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except NoAnswer as error:
        raise Transient(error.cause, error.place) from error
    except NotServed as error:
        remedy = "Apache Kafka 2.1 or later, or Tailrace"
        raise Refused(error.cause, place=error.place, remedy=remedy) from error
    except NotKafka as error:
        raise Refused(error.cause, place=error.place) from error
