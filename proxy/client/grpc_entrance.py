"""How a client's calls get in: TLS, and as whom, by the settings of Kafka's clients."""

from functools import partial
from typing import Final

import grpc

from tailrace.core.access.client.call_header import call_header
from tailrace.core.access.client.config import ClientConfig
from tailrace.core.runtime.clock import Clock, SystemClock
from tailrace.core.runtime.config import ConfigError
from tailrace.core.security.tls_config import EVERY_VERSION

READ_AGAIN_S: Final = 10.0
"""How long what a token's file said is used."""


class GrpcEntrance:
    """Of all calls of one client."""

    def __init__(self, config: ClientConfig, clock: Clock | None = None) -> None:
        """Read key store and trust store. Blocks. Errors: ConfigError (InvalidKeys)."""
        self.credentials = _credentials(config) if config.uses_tls else None
        """None: without TLS."""
        self._clock = clock or SystemClock()
        self._read = partial(call_header, config.login())
        self._header = self._read()
        self._read_at_s = self._clock.monotonic_s()

    def metadata(self) -> tuple[tuple[str, str], ...]:
        """Return what a call brings. Errors: ConfigError: a token's file cannot be read."""
        now_s = self._clock.monotonic_s()
        if self._header is not None and now_s - self._read_at_s >= READ_AGAIN_S:
            self._header, self._read_at_s = self._read(), now_s
        return () if self._header is None else (("authorization", self._header),)


def _credentials(config: ClientConfig) -> "grpc.ChannelCredentials":
    from tailrace.core.security.keys import read_key_pair, read_trusted  # 60 ms, for TLS alone

    tls = config.tls
    if tls.endpoint_identification != "https":
        raise ConfigError(
            "ssl.endpoint.identification.algorithm: gRPC always compares the server's name"
        )
    if set(tls.enabled_protocols) != set(EVERY_VERSION) or tls.cipher_suites:
        raise ConfigError("ssl.enabled.protocols, ssl.cipher.suites: gRPC has its own; unset them")
    trusted = read_trusted(tls)
    own = read_key_pair(tls) if tls.has_key else None
    return grpc.ssl_channel_credentials(
        None if trusted is None else trusted.encode(),
        None if own is None else own.key,
        None if own is None else own.chain,
    )
