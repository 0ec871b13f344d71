"""Kafka clients for the commands: confluent-kafka, told what to say when nobody answers.

The library is half typed, so its objects are Any; its errors leave here as CliError.
"""

import socket
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from tailrace.broker.listeners import Endpoint
from tailrace.tools.endpoints import parse_endpoint
from tailrace.tools.errors import CliError, Exit


class Target(NamedTuple):
    """Which cluster to talk to, and how."""

    bootstrap: str
    properties: Mapping[str, str]
    timeout_s: float


def target(bootstrap: str, properties: Sequence[str], timeout_s: float) -> Target:
    """Read the common options. Errors: CliError for a property without `=`."""
    given = {}
    for text in properties:
        key, equals, value = text.partition("=")
        if not equals:
            raise CliError(
                f"{text!r} is no property", place="-X", remedy="-X KEY=VALUE", code=Exit.USAGE
            )
        given[key.strip()] = value.strip()
    return Target(bootstrap, given, timeout_s)


def admin(to: Target) -> Any:
    """Return an administration client of a cluster that can be reached. Errors: CliError."""
    check_reachable(to)
    return _client(AdminClient, to, {})


def producer(to: Target, **more: Any) -> Any:
    """Return a producer; keyword names have underscores for dots. Errors: CliError."""
    check_reachable(to)
    return _client(Producer, to, more)


def consumer(to: Target, **more: Any) -> Any:
    """Return a consumer; keyword names have underscores for dots. Errors: CliError."""
    check_reachable(to)
    return _client(Consumer, to, more)


def check_reachable(to: Target) -> None:
    """Fail at once when no bootstrap server accepts connections; librdkafka would wait."""
    reasons = []
    for text in to.bootstrap.split(","):
        at = parse_endpoint(text.strip(), "--bootstrap")
        try:
            socket.create_connection((at.host or "127.0.0.1", at.port), to.timeout_s).close()
        except OSError as error:
            reasons.append(_reason(at, error))
        else:
            return
    raise CliError(
        "no broker answers: " + "; ".join(reasons),
        place=f"--bootstrap {to.bootstrap}",
        remedy="start one with `tailrace start`, or name another with --bootstrap",
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


def _client(kind: Any, to: Target, more: Mapping[str, Any]) -> Any:
    settings: dict[str, Any] = {
        "bootstrap.servers": to.bootstrap,
        "client.id": "tailrace-cli",
        "log_level": 0,
        "error_cb": lambda _error: None,
        **{key.replace("_", "."): value for key, value in more.items()},
        **to.properties,
    }
    try:
        return kind(settings)
    except (KafkaException, ValueError, TypeError) as error:
        detail = error.args[0].str() if isinstance(error, KafkaException) else str(error)
        raise CliError(
            f"the client refuses its configuration: {detail}", place="-X", code=Exit.USAGE
        ) from error


def _reason(at: Endpoint, error: OSError) -> str:
    return f"{at.host or '127.0.0.1'}:{at.port}: {error.strerror or error}"
