"""A connection that only gets in, and so finds out at once why a client could not.

librdkafka would try again until its time is over, and report no more than that.
"""

from tailrace.core.runtime.kafka_connection import (
    Entrance,
    KafkaConnection,
    KafkaConnectionError,
    NotLetIn,
)
from tailrace.tools.errors import CliError


def get_in(host: str, port: int, timeout_s: float, client_id: str, way_in: Entrance) -> None:
    """Connect, get in, and close.

    Errors: CliError if one side does not trust the other; OSError if there is no answer.
    """
    try:
        KafkaConnection(host, port, timeout_s, client_id, way_in).close()
    except NotLetIn as error:
        raise not_let_in(error) from error
    except KafkaConnectionError as error:
        raise ConnectionError(error.cause) from error


def not_let_in(error: NotLetIn) -> CliError:
    """Return what it means to whoever typed the command."""
    return CliError(
        error.cause,
        place=error.place,
        remedy="see security.protocol, ssl.truststore.location, ssl.keystore.location and "
        "sasl.jaas.config in --command-config, and the broker's log",
    )
