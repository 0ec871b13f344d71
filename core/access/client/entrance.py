"""How a blocking client gets in: TLS, then SASL."""

import socket
import ssl
from collections.abc import Mapping

from typing_extensions import override

from tailrace.core.access.client.config import ClientConfig, client_config
from tailrace.core.runtime.kafka_connection import Entrance, KafkaConnection
from tailrace.core.security.tls_client import client_context


class ClientEntrance(Entrance):
    """Of all connections of one client; each may be another thread's."""

    def __init__(self, config: ClientConfig) -> None:
        """Read key store and trust store. Blocks. Errors: InvalidKeys (a ConfigError)."""
        tls = config.tls
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
        """Whether it is TLS that failed."""
        return isinstance(error, ssl.SSLError)

    @override
    def log_in(self, connection: KafkaConnection) -> float | None:
        """Log in, if the settings say SASL."""
        return None


def entrance_of(settings: Mapping[str, str], origin: str) -> Entrance | None:
    """Return how a client gets in by its settings; None: without TLS and SASL.

    Blocks. Errors: ConfigError.
    """
    config = client_config(settings, origin)
    return None if config.protocol == "PLAINTEXT" else ClientEntrance(config)
