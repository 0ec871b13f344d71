"""The TLS side of a server: the certificate that it shows, and by what it checks its clients'.

A connection has the context of the moment at which its handshake began.
"""

import logging
import ssl
from dataclasses import dataclass
from typing import Final, NamedTuple

from tailrace.core.runtime.metrics import counter, gauge
from tailrace.core.security.contexts import load_stores
from tailrace.core.security.distinguished_name import subject_of
from tailrace.core.security.followed_files import FollowedFiles
from tailrace.core.security.keys import InvalidKeys
from tailrace.core.security.tls_config import ClientAuth, TlsConfig

logger = logging.getLogger(__name__)

_VERIFY: Final[dict[ClientAuth, ssl.VerifyMode]] = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}


class _Made(NamedTuple):
    context: ssl.SSLContext
    expires_s: float
    """When the certificate does. Unit: seconds since 1970."""
    serial: int


@dataclass(slots=True)
class TlsMetrics:
    """Numbers of the certificate of one server. Register them as `tls`."""

    certificate_expires_seconds: float = gauge(
        "when the certificate that is shown expires, in seconds since 1970"
    )
    handshake_failures_total: int = counter("connections that ended in their handshake")
    reloads_total: int = counter("times that changed files were taken into use")
    reload_failures_total: int = counter("times that changed files could not be used")


class TlsServer:
    """What new connections are shaken hands with. All calls come from the loop."""

    def __init__(self, config: TlsConfig) -> None:
        """Read everything once. Blocks, 50 ms with PKCS12. Errors: InvalidKeys."""
        self.metrics = TlsMetrics()
        self._followed = FollowedFiles("tls", config, _make, self._on_changed)
        self.metrics.certificate_expires_seconds = self._followed.current.expires_s

    @property
    def context(self) -> ssl.SSLContext:
        """What handshakes that begin now go by."""
        return self._followed.current.context

    def start(self) -> None:
        """Follow the files, if there are any. Idempotent."""
        self._followed.start()

    async def check(self, config: TlsConfig) -> None:
        """Try other files or settings out. Errors: InvalidKeys."""
        await self._followed.check(config)

    def configure(self, config: TlsConfig) -> None:
        """Take other files or settings into use, at the next check."""
        self._followed.configure(config)

    async def close(self) -> None:
        """Follow them no more. Idempotent."""
        await self._followed.close()

    def subject_of(self, certificate: bytes) -> str:
        """Return the name in a client's certificate, which the handshake has verified."""
        return subject_of(certificate)

    def count_failure(self) -> None:
        """Count a handshake that failed."""
        self.metrics.handshake_failures_total += 1

    def _on_changed(self, made: _Made | None) -> None:
        if made is None:
            self.metrics.reload_failures_total += 1
            return
        self.metrics.reloads_total += 1
        self.metrics.certificate_expires_seconds = made.expires_s
        logger.info("tls_reloaded serial=%x", made.serial)


def _make(config: TlsConfig) -> _Made:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.verify_mode = _VERIFY[config.client_auth]
    certificate = load_stores(context, config)
    if certificate is None:
        raise InvalidKeys("ssl.keystore.location: a server needs a certificate")
    expires_s = certificate.not_valid_after_utc.timestamp()
    return _Made(context, expires_s, certificate.serial_number)
