"""TLS of a gRPC port: the certificate of the moment, in gRPC's own terms."""

import logging
import ssl
from typing import NamedTuple

import grpc

from tailrace.core.security.contexts import load_stores
from tailrace.core.security.followed_files import FollowedFiles
from tailrace.core.security.keys import KeyPair, read_key_pair, read_trusted
from tailrace.core.security.tls_config import TlsConfig
from tailrace.core.security.tls_server import TlsMetrics

logger = logging.getLogger(__name__)


class _Keys(NamedTuple):
    own: KeyPair
    trusted: str | None
    """By which certificates of clients are checked; None: none is asked for."""


class GrpcTls:
    """Credentials of a server whose files may change. All calls come from the loop.

    gRPC asks for the certificate in threads of its own, once for each handshake.
    """

    def __init__(self, config: TlsConfig) -> None:
        """Read everything once, and follow the files. Blocks as TlsServer. Errors: InvalidKeys."""
        self.metrics = TlsMetrics()
        self._followed = FollowedFiles("grpc_tls", config, _make, self._on_changed)
        self._note(self._followed.current)
        self.credentials = grpc.dynamic_ssl_server_credentials(
            self._configuration(),
            self._configuration,
            require_client_authentication=config.client_auth == "required",
        )
        self._followed.start()

    async def close(self) -> None:
        """Follow the files no more. Idempotent."""
        await self._followed.close()

    def _on_changed(self, made: _Keys | None) -> None:
        if made is None:
            self.metrics.reload_failures_total += 1
            return
        self.metrics.reloads_total += 1
        self._note(made)
        logger.info("tls_reloaded serial=%x", made.own.certificate.serial_number)

    def _note(self, made: _Keys) -> None:
        expires = made.own.certificate.not_valid_after_utc
        self.metrics.certificate_expires_seconds = expires.timestamp()

    def _configuration(self) -> "grpc.ServerCertificateConfiguration":
        own, trusted = self._followed.current
        roots = None if trusted is None else trusted.encode()
        return grpc.ssl_server_certificate_configuration([(own.key, own.chain)], roots)


def _make(config: TlsConfig) -> _Keys:
    """Read the files. Errors: InvalidKeys, also for a key of another certificate."""
    load_stores(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), config)
    trusted = read_trusted(config) if config.client_auth == "required" else None
    return _Keys(read_key_pair(config), trusted)
