"""The TLS side of a bookie or of its client: settings of BookKeeper -> contexts of handshakes.

Contexts are made whole and then take the place of the former one: a connection has the one of the
moment at which its handshake began, and files that cannot be used change nothing.
"""

import logging
import ssl
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from tailrace.core.errors import CoreError
from tailrace.core.runtime.config import Secret
from tailrace.core.runtime.job_pool import JobPool
from tailrace.core.security.bookkeeper_tls_config import BookKeeperTlsConfig
from tailrace.core.security.contexts import load_stores
from tailrace.core.security.keys import InvalidKeys
from tailrace.core.security.tls_config import TlsStores

logger = logging.getLogger(__name__)

READ_S_MAX: Final = 30.0
TEXT_BYTES_MAX: Final = 1024 * 1024
"""A larger password or PEM file is not read."""

_NAMES: Final = (
    ("ssl.keystore.location", "tlsKeyStore"),
    ("ssl.keystore.key", "tlsKeyStore"),
    ("ssl.truststore.location", "tlsTrustStore"),
    ("ssl.key.password", "tlsKeyStorePasswordPath"),
    ("ssl.keystore", "tlsKeyStore"),
)
"""What stores are called in Kafka's settings, and here."""


class BookKeeperTls:
    """What new connections are shaken hands with. All calls come from the loop."""

    def __init__(self, config: BookKeeperTlsConfig, *, is_bookie: bool) -> None:
        """Read everything once. Blocks, 50 ms with PKCS12. Errors: InvalidKeys."""
        self._config = config
        self._is_bookie = is_bookie
        self._stamps = _stamps(config)
        self._context = make_context(config, is_bookie=is_bookie)
        self._checked_s = 0.0
        self._is_reading = False
        self._pool = JobPool("bookkeeper_tls", 1)

    async def context(self, now_s: float) -> ssl.SSLContext:
        """Return what a handshake that begins now goes by. Errors: none. Unit: s of the loop."""
        refresh_s = self._config.refresh_s
        if refresh_s and now_s - self._checked_s >= refresh_s and not self._is_reading:
            self._checked_s = now_s
            stamps = _stamps(self._config)
            if stamps != self._stamps:
                await self._read_again(stamps)
        return self._context

    async def close(self) -> None:
        """Let the thread end that reads files. Idempotent."""
        await self._pool.close(READ_S_MAX)

    async def _read_again(self, stamps: list[Any]) -> None:
        self._is_reading = True
        try:
            made = await self._pool.call(self._tried, READ_S_MAX)
        except CoreError as error:  # no thread, or no end
            made = str(error)
        finally:
            self._is_reading = False
        self._stamps = stamps
        if isinstance(made, str):
            logger.error("bookkeeper_tls_not_reloaded: the former files stay error=%s", made)
        else:
            self._context = made
            logger.info("bookkeeper_tls_reloaded")

    def _tried(self) -> ssl.SSLContext | str:
        try:
            return make_context(self._config, is_bookie=self._is_bookie)
        except InvalidKeys as error:
            return str(error)


def make_context(config: BookKeeperTlsConfig, *, is_bookie: bool) -> ssl.SSLContext:
    """Return what one side shakes hands with. Blocks. Errors: InvalidKeys.

    A bookie verifies certificates of clients where `client_authentication` is set; a client always
    verifies the bookie's.
    """
    verifies = config.client_authentication or not is_bookie
    if is_bookie and config.keystore is None:
        raise InvalidKeys("tlsKeyStore: a bookie that speaks TLS needs a key and a certificate")
    if not is_bookie and config.client_authentication and config.keystore is None:
        raise InvalidKeys("tlsClientAuthentication: set tlsKeyStore, the certificate to show")
    if verifies and config.truststore is None:
        raise InvalidKeys("tlsTrustStore: set the authorities that the other side is checked by")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if is_bookie else ssl.PROTOCOL_TLS_CLIENT)
    if is_bookie:
        context.verify_mode = ssl.CERT_REQUIRED if verifies else ssl.CERT_NONE
    else:
        context.check_hostname = config.hostname_verification
    try:
        load_stores(context, _stores(config, with_key=is_bookie or config.client_authentication))
    except InvalidKeys as error:
        raise InvalidKeys(_in_bookkeepers_words(str(error))) from error
    return context


def _stores(config: BookKeeperTlsConfig, *, with_key: bool) -> TlsStores:
    """Return what there is of a key, and the authorities, by Kafka's settings."""
    assert config.truststore_type != "JKS", "refused before"
    stores = TlsStores(
        enabled_protocols=config.enabled_protocols,
        truststore_type=config.truststore_type,
        truststore_location=config.truststore,
        truststore_password=_password(config.truststore_password_path, "tlsTrustStorePasswordPath"),
    )
    if not with_key:
        return stores
    assert config.keystore is not None, "asked for before"
    assert config.keystore_type != "JKS", "refused before"
    password = _password(config.keystore_password_path, "tlsKeyStorePasswordPath")
    if config.keystore_type == "PEM" and config.certificate_path is not None:
        return replace(
            stores,
            keystore_key=Secret(_text(config.keystore, "tlsKeyStore")),
            keystore_certificate_chain=_text(config.certificate_path, "tlsCertificatePath"),
            key_password=password,
        )
    return replace(
        stores,
        keystore_type=config.keystore_type,
        keystore_location=config.keystore,
        keystore_password=password,
        key_password=password if config.keystore_type == "PEM" else Secret(""),
    )


def _password(path: Path | None, name: str) -> Secret:
    """Return a password, without the white space around it, as Java reads it."""
    return Secret("" if path is None else _text(path, name).strip())


def _text(path: Path, name: str) -> str:
    try:
        with path.open("rb") as file:
            return file.read(TEXT_BYTES_MAX).decode()
    except OSError as error:
        raise InvalidKeys(f"{name}={path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InvalidKeys(f"{name}={path}: it is not text in UTF-8") from error


def _in_bookkeepers_words(text: str) -> str:
    for kafkas, ours in _NAMES:
        text = text.replace(kafkas, ours)
    return text


def _stamps(config: BookKeeperTlsConfig) -> list[tuple[int, int, int] | None]:
    """Return what changes when a file does; None: it is not there, or not to be seen."""
    stamps: list[tuple[int, int, int] | None] = []
    for path in config.files:
        try:
            found = path.stat()
        except OSError:
            stamps.append(None)
        else:
            stamps.append((found.st_ino, found.st_size, found.st_mtime_ns))
    return stamps
