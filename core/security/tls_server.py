"""The TLS side of a server: the certificate that it shows, and by what it checks its clients'.

Contexts are made whole and then take the place of the former one: a connection has the one of the
moment at which its handshake began, and files that cannot be used change nothing.
"""

import asyncio
import logging
import os
import ssl
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from tailrace.core.runtime.forever import Forever
from tailrace.core.runtime.job_pool import JobPool
from tailrace.core.runtime.metrics import counter, gauge
from tailrace.core.runtime.tasks import Tasks
from tailrace.core.security.cipher_suites import SETTING as SUITES_SETTING
from tailrace.core.security.distinguished_name import subject_of
from tailrace.core.security.keys import InvalidKeys, KeyPair, read_key_pair, read_trusted
from tailrace.core.security.tls_config import ClientAuth, TlsConfig, TlsVersion

logger = logging.getLogger(__name__)

CHECK_S: Final = 1.0
"""Distance of checks whether a file has changed."""
READ_S_MAX: Final = 30.0

_VERSIONS: Final[dict[TlsVersion, ssl.TLSVersion]] = {
    "TLSv1.2": ssl.TLSVersion.TLSv1_2,
    "TLSv1.3": ssl.TLSVersion.TLSv1_3,
}
_VERIFY: Final[dict[ClientAuth, ssl.VerifyMode]] = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}


class _Stamp(NamedTuple):
    """What changes when a file does."""

    inode: int
    size: int
    changed_ns: int


class _Made(NamedTuple):
    context: ssl.SSLContext
    expires_s: float
    """When the certificate does. Unit: seconds since 1970."""
    keys: KeyPair
    trusted: str | None

    @property
    def serial(self) -> int:
        return self.keys.certificate.serial_number


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
    """What new connections are shaken hands with. All calls come from the loop.

    Invariant: `context` is whole, and is of files as they were together at one check. `keys` and
    `trusted` (PEM) are what it was made of, for libraries with contexts of their own.
    """

    def __init__(self, config: TlsConfig) -> None:
        """Read everything once. Blocks, 50 ms with PKCS12. Errors: InvalidKeys."""
        self.metrics = TlsMetrics()
        self._config = config
        self._stamps: tuple[_Stamp | None, ...] | None = _stamps(config.files)
        self._use(_make(config))
        self._pool = JobPool("tls", 1)
        self._tasks = Tasks("tls")
        self._checks = Forever("tls.reload")
        self._is_followed = False

    def start(self) -> None:
        """Follow the files, if there are any. Idempotent."""
        if self._stamps != () and not self._is_followed:
            self._is_followed = True
            self._tasks.start(self._checks.run(self._check_later), "reload")

    async def check(self, config: TlsConfig) -> None:
        """Try other files or settings out. Errors: InvalidKeys."""
        if config != self._config:
            made = await self._pool.call(lambda: _tried(config), READ_S_MAX)
            if not isinstance(made, _Made):
                raise InvalidKeys(made)

    def configure(self, config: TlsConfig) -> None:
        """Take other files or settings into use, at the next check."""
        if config != self._config:
            self._config, self._stamps = config, None
            self.start()

    async def close(self) -> None:
        """Follow them no more. Idempotent."""
        await self._tasks.close()
        await self._pool.close(READ_S_MAX)

    def subject_of(self, certificate: bytes) -> str:
        """Return the name in a client's certificate, which the handshake has verified."""
        return subject_of(certificate)

    def count_failure(self) -> None:
        """Count a handshake that failed."""
        self.metrics.handshake_failures_total += 1

    async def _check_later(self) -> None:
        await asyncio.sleep(CHECK_S)
        config = self._config
        stamps = _stamps(config.files)
        if stamps == self._stamps:
            return
        made = await self._pool.call(lambda: _tried(config), READ_S_MAX)
        if config is self._config:  # else there is news already
            self._stamps = stamps
        if isinstance(made, _Made):
            self._use(made)
            self.metrics.reloads_total += 1
            logger.info("tls_reloaded serial=%x", made.serial)
        else:
            self.metrics.reload_failures_total += 1
            logger.error("tls_not_reloaded: the former certificate stays error=%s", made)

    def _use(self, made: _Made) -> None:
        self.context = made.context
        self.keys, self.trusted = made.keys, made.trusted
        self.metrics.certificate_expires_seconds = made.expires_s


def _tried(config: TlsConfig) -> _Made | str:
    """Return what was made, or why it was not."""
    try:
        return _make(config)
    except InvalidKeys as error:
        return str(error)


def _make(config: TlsConfig) -> _Made:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.options |= ssl.OP_NO_RENEGOTIATION
    _limit(context, config)
    context.verify_mode = _VERIFY[config.client_auth]
    trusted = read_trusted(config)
    pair = read_key_pair(config)
    try:
        if trusted is not None:
            context.load_verify_locations(cadata=trusted)
        with _in_memory(pair.key) as key, _in_memory(pair.chain) as chain:
            context.load_cert_chain(chain, key)
    except ssl.SSLError as error:
        why = error.reason or str(error)
        raise InvalidKeys(f"the certificate of ssl.keystore cannot be used: {why}") from error
    expires_s = pair.certificate.not_valid_after_utc.timestamp()
    return _Made(context, expires_s, pair, trusted)


def _limit(context: ssl.SSLContext, config: TlsConfig) -> None:
    """Allow the versions and suites that are configured. Errors: InvalidKeys."""
    versions = set(config.enabled_protocols)
    suites = config.allowed_suites
    if suites is not None:
        if not suites.with_1_3:
            versions.discard("TLSv1.3")
        if suites.openssl:
            try:
                context.set_ciphers(suites.openssl)
            except ssl.SSLError as error:
                why = "OpenSSL here has none of them for TLS 1.2"
                raise InvalidKeys(f"{SUITES_SETTING}: {suites.openssl}: {why}") from error
        else:
            versions.discard("TLSv1.2")
    allowed = [_VERSIONS[each] for each in versions]
    context.minimum_version, context.maximum_version = min(allowed), max(allowed)


@contextmanager
def _in_memory(data: bytes) -> Iterator[str]:
    """Give a path to bytes that lie on no disk: Python's TLS takes keys from files alone."""
    descriptor = os.memfd_create("tls", os.MFD_CLOEXEC)
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(data)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


def _stamps(files: Iterable[Path]) -> tuple[_Stamp | None, ...]:
    return tuple(map(_stamp, files))


def _stamp(file: Path) -> _Stamp | None:
    """Return what changes with a file; None: it is not there, or not to be seen."""
    try:
        found = file.stat()
    except OSError:
        return None
    return _Stamp(found.st_ino, found.st_size, found.st_mtime_ns)
