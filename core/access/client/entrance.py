"""How a blocking client gets in: TLS, then SASL."""

import socket
import ssl
from collections.abc import Mapping
from typing import Final, TypeVar

from typing_extensions import override

from tailrace.core.access.client.config import ClientConfig, client_config
from tailrace.core.access.client.kafka_login import Ask, log_in, run_at_once
from tailrace.core.access.sasl.mechanism import AuthenticationFailed
from tailrace.core.access.sasl.work import at_once
from tailrace.core.runtime.kafka_connection import Entrance, KafkaConnection, NotLetIn
from tailrace.core.security.tls_client import client_context
from tailrace.protocol.kafka.api import Api

Q = TypeVar("Q")
R = TypeVar("R")

_ENDS: Final = (ssl.SSLEOFError, ssl.SSLZeroReturnError)


class ClientEntrance(Entrance):
    """Of all connections of one client; each may be another thread's."""

    def __init__(self, config: ClientConfig) -> None:
        """Read key store and trust store. Blocks. Errors: InvalidKeys (a ConfigError)."""
        tls = config.tls
        self._login = config.login()
        self._context = (
            client_context(tls, tls.endpoint_identification) if config.uses_tls else None
        )

    @override
    def encrypt(self, connection: socket.socket, host: str) -> socket.socket:
        """Shake hands, if the settings say TLS. Errors: OSError."""
        if self._context is None:
            return connection
        return self._context.wrap_socket(connection, server_hostname=host)

    @override
    def is_refusal(self, error: OSError) -> bool:
        """Whether it is TLS that failed, and not the connection below it."""
        return isinstance(error, ssl.SSLError) and not isinstance(error, _ENDS)

    @override
    def log_in(self, connection: KafkaConnection) -> float | None:
        """Log in, if the settings say SASL."""
        if self._login is None:
            return None
        try:
            return run_at_once(log_in(_Asked(connection), self._login.exchange(at_once)))
        except AuthenticationFailed as error:
            raise NotLetIn(str(error), connection.place) from error


class _Asked(Ask):
    """The requests of a connection that blocks."""

    def __init__(self, connection: KafkaConnection) -> None:
        self._connection = connection

    @override
    async def __call__(self, api: Api[Q, R], request: Q, /) -> R:
        return self._connection.ask(api, request)


def entrance_of(settings: Mapping[str, str], origin: str) -> Entrance | None:
    """Return how a client gets in by its settings; None: without TLS and SASL.

    Blocks. Errors: ConfigError.
    """
    config = client_config(settings, origin)
    return None if config.protocol == "PLAINTEXT" else ClientEntrance(config)
