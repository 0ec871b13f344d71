"""Config resources: what the requests about configs can name. Pure."""

from enum import IntEnum

from tailrace.broker.errors import KafkaError
from tailrace.core.runtime.decimal_text import INT32_MAX, decimal
from tailrace.protocol.errors import ErrorCode


class ResourceType(IntEnum):
    """Kind of a config resource. Source: org.apache.kafka.common.config.ConfigResource."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


def resource_type(code: int) -> ResourceType:
    """Return a kind of resource. Errors: KafkaError for one that Kafka does not know."""
    try:
        return ResourceType(code)
    except ValueError:
        message = f"Unknown resource type {code}"
        raise KafkaError(ErrorCode.INVALID_REQUEST, message) from None


def check_broker_name(name: str, node_id: int, expected: str = "") -> None:
    """Check that a resource is this broker. Errors: KafkaError."""
    if name == str(node_id):
        return
    if decimal(name, INT32_MAX, -INT32_MAX - 1) is not None:
        detail = f"Unexpected broker id, expected {expected or node_id}, but received {name}"
    else:
        detail = f"Broker id must be an integer, but it is: {name}"
    raise KafkaError(ErrorCode.INVALID_REQUEST, detail)
