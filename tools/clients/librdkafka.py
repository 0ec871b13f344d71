"""Kafka clients for the commands: confluent-kafka, told what to say when nobody answers.

The library is half typed, so its objects are Any; its errors leave here as CliError.
"""

import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from tailrace.broker.listeners import Endpoint
from tailrace.tools.clients.command_config import (
    client_properties,
    entrance,
    librdkafka_properties,
)
from tailrace.tools.endpoints import parse_endpoint
from tailrace.tools.errors import CliError, Exit

if TYPE_CHECKING:
    from tailrace.core.runtime.kafka_connection import Entrance

CLIENT_ID = "tailrace-cli"
VERIFICATION = "enable.ssl.certificate.verification"


class Target(NamedTuple):
    """Which cluster to talk to, and how."""

    bootstrap: str
    properties: Mapping[str, str]
    """librdkafka's, of `-X`; they win."""
    timeout_s: float
    client: Mapping[str, str] = {}
    """Kafka's, of `--command-config`."""


def target(
    bootstrap: str,
    properties: Sequence[str],
    timeout_s: float,
    command_config: Path | None = None,
) -> Target:
    """Read the common options. Errors: CliError for a property without `=`, or a file."""
    given = {}
    for text in properties:
        key, equals, value = text.partition("=")
        if not equals:
            raise CliError(
                f"{text!r} is not a property", place="-X", remedy="-X KEY=VALUE", code=Exit.USAGE
            )
        given[key.strip()] = value.strip()
    return Target(bootstrap, given, timeout_s, client_properties(command_config))


def admin(to: Target) -> Any:
    """Return an administration client of a cluster that can be reached. Errors: CliError."""
    settings = _settings(to, {})
    check_reachable(to)
    return _client(AdminClient, settings)


def producer(to: Target, **more: Any) -> Any:
    """Return a producer; keyword names have underscores for dots. Errors: CliError."""
    settings = _settings(to, more)
    check_reachable(to)
    return _client(Producer, settings)


def consumer(to: Target, **more: Any) -> Any:
    """Return a consumer; keyword names have underscores for dots. Errors: CliError."""
    settings = _settings(to, more)
    check_reachable(to)
    return _client(Consumer, settings)


def check_reachable(to: Target) -> None:
    """Fail at once when no bootstrap server accepts connections; librdkafka would wait.

    With TLS or SASL the connection has to get in, too. Errors: CliError.
    """
    way_in = _entrance(to)
    reasons = []
    for text in to.bootstrap.split(","):
        at = parse_endpoint(text.strip(), "--bootstrap")
        try:
            _try(at, to.timeout_s, way_in)
        except OSError as error:
            reasons.append(_reason(at, error))
        else:
            return
    raise CliError(
        "no broker answers: " + "; ".join(reasons),
        place=f"--bootstrap {to.bootstrap}",
        remedy=_START_ONE if way_in is None else _LET_IN,
        code=Exit.UNREACHABLE,
    )


def failure(error: Exception, doing: str, to: Target) -> CliError:
    """Return what a client's exception means to whoever typed the command."""
    if not isinstance(error, KafkaException):
        return CliError(f"{doing}: {error}", place=to.bootstrap)
    kafka = error.args[0]
    code = kafka.code() if isinstance(kafka, KafkaError) else None
    if code in _UNREACHABLE:
        return CliError(
            f"{doing}: no answer within {to.timeout_s:g} s ({kafka.str()})",
            place=to.bootstrap,
            remedy="is the broker where it advertises itself? --timeout waits longer",
            code=Exit.UNREACHABLE,
        )
    text = kafka.str() if isinstance(kafka, KafkaError) else str(error)
    name = kafka.name() if isinstance(kafka, KafkaError) else ""
    return CliError(
        f"{doing}: {text}" + (f" ({name})" if name else ""),
        place=to.bootstrap,
        remedy=_REMEDIES.get(code, ""),
    )


_START_ONE = "start one with `tailrace start`, or name another with --bootstrap"
_LET_IN = (
    "is it there? One that asks for a client's certificate ends so, too: ssl.keystore.location"
)
_REMEDIES: dict[int | None, str] = {
    KafkaError.MSG_SIZE_TOO_LARGE: "`-X message.max.bytes=N` lets the client send more, the "
    "topic's max.message.bytes lets the broker take it",
}

_UNREACHABLE = {
    KafkaError._TRANSPORT,
    KafkaError._TIMED_OUT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._RESOLVE,
}


def _settings(to: Target, more: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "bootstrap.servers": to.bootstrap,
        "client.id": CLIENT_ID,
        "log_level": 0,
        "error_cb": lambda _error: None,
        **{key.replace("_", "."): value for key, value in more.items()},
        **librdkafka_properties(to.client),
        **to.properties,
    }


def _client(kind: Any, settings: dict[str, Any]) -> Any:
    try:
        return kind(settings)
    except (KafkaException, ValueError, TypeError) as error:
        detail = error.args[0].str() if isinstance(error, KafkaException) else str(error)
        raise CliError(
            f"the client refuses its configuration: {detail}", place="-X", code=Exit.USAGE
        ) from error


def _entrance(to: Target) -> "Entrance | None":
    """Return how a first connection gets in; None also where certificates are not verified."""
    if to.properties.get(VERIFICATION, "true").lower() != "true":
        return None
    return entrance(to.client, to.properties)


def _try(at: Endpoint, timeout_s: float, way_in: "Entrance | None") -> None:
    """Connect once. Errors: OSError, CliError."""
    host = at.host or "127.0.0.1"
    if way_in is None:
        socket.create_connection((host, at.port), timeout_s).close()
        return
    from tailrace.tools.clients.first_connection import get_in  # 60 ms, for those who need it

    get_in(host, at.port, timeout_s, CLIENT_ID, way_in)


def _reason(at: Endpoint, error: OSError) -> str:
    return f"{at.host or '127.0.0.1'}:{at.port}: {error.strerror or error}"
