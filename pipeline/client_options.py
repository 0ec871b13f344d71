"""A client's settings for TLS and SASL, as Spark's Kafka source and sink take them."""

from collections.abc import Mapping
from pathlib import Path

from tailrace.core.access.client.command_config import java_settings

_NOT_HERE = frozenset({"bootstrap.servers"})
"""What the source and the sink have from elsewhere."""


def kafka_options(client_settings: Mapping[str, str] | Path) -> dict[str, str]:
    """Return options for `TopicSource.options` and `write_topic`: `kafka.security.protocol`, ...

    `client_settings`: by the names of Kafka's clients or librdkafka's, or a file of them. Files
    that they name must be there on every worker. Errors: ConfigError.
    """
    found = java_settings(client_settings)
    return {f"kafka.{key}": value for key, value in found.items() if key not in _NOT_HERE}
