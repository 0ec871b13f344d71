"""TLS of a gRPC port: the certificate of the moment, in gRPC's own terms."""

import grpc

from tailrace.core.security.tls_config import TlsConfig
from tailrace.core.security.tls_server import TlsMetrics, TlsServer


class GrpcTls:
    """Credentials of a server whose files may change. All calls come from the loop.

    gRPC asks for the certificate in threads of its own, once for each handshake.
    """

    def __init__(self, config: TlsConfig) -> None:
        """Read everything once, and follow the files. Blocks as TlsServer. Errors: InvalidKeys."""
        self._tls = TlsServer(config)
        self._needs_certificates = config.client_auth == "required"
        self.credentials = grpc.dynamic_ssl_server_credentials(
            self._configuration(),
            self._configuration,
            require_client_authentication=self._needs_certificates,
        )
        self._tls.start()

    @property
    def metrics(self) -> TlsMetrics:
        """Numbers of the certificate."""
        return self._tls.metrics

    async def close(self) -> None:
        """Follow the files no more. Idempotent."""
        await self._tls.close()

    def _configuration(self) -> "grpc.ServerCertificateConfiguration":
        keys, trusted = self._tls.keys, self._tls.trusted
        roots = trusted.encode() if trusted is not None and self._needs_certificates else None
        return grpc.ssl_server_certificate_configuration([(keys.key, keys.chain)], roots)
