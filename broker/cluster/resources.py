"""Config resources: what DescribeConfigs and IncrementalAlterConfigs can name. Pure."""

from enum import IntEnum

from broker.errors import KafkaError
from protocol.errors import ErrorCode


class ResourceType(IntEnum):
    """Kind of a config resource. Source: org.apache.kafka.common.config.ConfigResource."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


def check_broker_name(name: str, node_id: int) -> None:
    """Check a broker resource: this broker's id, or empty for all. Errors: KafkaError."""
    if not name or name == str(node_id):
        return
    if name.lstrip("-").isdecimal():
        detail = f"Unexpected broker id, expected {node_id} or empty string, but received {name}"
    else:
        detail = f"Broker id must be an integer, but it is: {name}"
    raise KafkaError(ErrorCode.INVALID_REQUEST, detail)


def unsupported(resource_type: int) -> KafkaError:
    """Return the refusal of a kind of resource that has no configs here."""
    try:
        named = ResourceType(resource_type).name
    except ValueError:
        return KafkaError(ErrorCode.INVALID_REQUEST, f"Unsupported resource type: {resource_type}")
    detail = f"Resources of type {named} have no configs on this broker"
    return KafkaError(ErrorCode.INVALID_REQUEST, detail)
