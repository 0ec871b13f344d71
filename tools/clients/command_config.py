"""What `--command-config` and `-X` say of how to get in, for each kind of client."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tailrace.core.runtime.config import ConfigError
from tailrace.tools.errors import CliError, Exit

if TYPE_CHECKING:
    import ssl

    from tailrace.core.access.client.config import ClientConfig
    from tailrace.core.runtime.kafka_connection import Entrance

_OPTION = "--command-config"
_OF_SECURITY = ("security.", "ssl.", "sasl.", "enable.ssl.")
"""How names of properties begin that say how to get in."""


def client_properties(file: Path | None) -> dict[str, str]:
    """Return a file's properties by Kafka's names; None: there are none. Errors: CliError."""
    if file is None:
        return {}
    from tailrace.core.access.client.command_config import client_settings

    with _told():
        return client_settings(file)


def librdkafka_properties(client: Mapping[str, str]) -> dict[str, Any]:
    """Return properties of Kafka's names as confluent-kafka takes them. Errors: CliError."""
    if not client:
        return {}
    from tailrace.core.access.client.confluent import confluent_settings

    with _told():
        return confluent_settings(client)


def entrance(client: Mapping[str, str], properties: Mapping[str, str]) -> "Entrance | None":
    """Return how connections of our own get in; None: without TLS and SASL.

    `properties`: librdkafka's; those that are not of security say nothing here. Errors: CliError.
    """
    if not client and not any(key.startswith(_OF_SECURITY) for key in properties):
        return None
    from tailrace.core.access.client.command_config import client_settings
    from tailrace.core.access.client.entrance import entrance_of
    from tailrace.core.access.client.librdkafka import as_kafka

    with _told():
        return entrance_of(client_settings({**client, **as_kafka(properties)}), _OPTION)


def security_settings(file: Path | None) -> "ClientConfig":
    """Return the settings of a file by which clients of ours get in. Errors: CliError."""
    from tailrace.core.access.client.config import client_config

    properties = client_properties(file)
    with _told():
        return client_config(properties, str(file))


class CallAccess(NamedTuple):
    """How calls over HTTP or gRPC get in."""

    context: "ssl.SSLContext | None" = None
    """None: without TLS."""
    header: str | None = None
    """The calls' `Authorization`."""


def call_access(file: Path | None) -> CallAccess:
    """Return how calls get in by a file's properties. Errors: CliError."""
    if file is None:
        return CallAccess()
    from tailrace.core.access.client.call_header import call_header
    from tailrace.core.security.tls_client import client_context

    config = security_settings(file)
    with _told():
        tls = config.tls
        context = client_context(tls, tls.endpoint_identification) if config.uses_tls else None
        return CallAccess(context, call_header(config.login()))


def check_security_alone(properties: Mapping[str, str]) -> None:
    """Refuse properties of librdkafka that are not of security. Errors: CliError."""
    if not properties:
        return
    from tailrace.core.access.client.librdkafka import SECURITY_KEYS

    for key in properties:
        if key not in SECURITY_KEYS:
            raise CliError(
                "this command speaks Kafka's protocol itself: it knows no properties of librdkafka "
                "but those of TLS and SASL",
                place=f"-X {key}",
                code=Exit.USAGE,
            )


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except ConfigError as error:
        raise CliError(str(error), place=_OPTION, code=Exit.USAGE) from error
