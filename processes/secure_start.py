"""What `tailrace start --secure` makes below DATA/security, once, and keeps from then on.

    authority.pem          private key and certificate of an authority of this broker's own
    ca.pem                 its certificate, which clients trust
    server.pem             private key and certificate of the broker; renewed in time
    librdkafka.properties  how the user admin gets in
    client.properties      the same for Java's clients; written last: it says that all is done

Only their owner may read them. Whenever the process is killed, the next start goes on: until
client.properties is there, it gives the user admin a new password.
"""

import asyncio
import logging
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tailrace.broker.cluster.paths import ClusterPaths
from tailrace.broker.listeners import EVERYWHERE
from tailrace.core.access.users.codec import USER_CODEC, Credentials
from tailrace.core.access.users.credentials import ScramMechanism
from tailrace.core.access.users.new_credentials import new_credential
from tailrace.core.metadata.store import MetadataStore
from tailrace.core.metadata.stored_entities import StoredEntities
from tailrace.core.runtime.clock import Clock
from tailrace.core.runtime.config import ConfigError
from tailrace.core.runtime.files import write_private
from tailrace.core.runtime.forever import Forever
from tailrace.core.runtime.host import host_name
from tailrace.processes.secure_config import ADMIN, DIRECTORY, SERVER_STORE
from tailrace.processes.standalone_config import StandaloneConfig

logger = logging.getLogger(__name__)

PASSWORD_BYTES: Final = 24
RENEWAL_S: Final = 24 * 3600.0
"""Distance of looks whether the certificate is to be renewed."""
_AUTHORITY: Final = "authority.pem"
TRUSTED: Final = "ca.pem"
JAVA: Final = "client.properties"
LIBRDKAFKA: Final = "librdkafka.properties"
_BEGIN: Final = b"-----BEGIN CERTIFICATE-----"
_LOCAL: Final = ("localhost", "127.0.0.1", "::1")


class Secured:
    """A data directory that is secured. All calls come from the loop."""

    def __init__(self, config: StandaloneConfig, clock: Clock) -> None:
        self._config = config
        self._clock = clock
        self._directory = config.data.resolve() / DIRECTORY
        self._checks = Forever("secure.renewal")

    async def prepare(self, store: MetadataStore) -> str:
        """Make what is not there; return what people are told of it, once: else "".

        Errors: OSError, ConfigError (no certificate can be made), CoreError.
        """
        await asyncio.to_thread(self._directory.mkdir, mode=0o700, exist_ok=True)
        await self._renew()
        java = self._directory / JAVA
        if await asyncio.to_thread(java.exists):
            return ""
        password = secrets.token_urlsafe(PASSWORD_BYTES)
        credentials = await asyncio.to_thread(_credentials, password)
        await _put_admin(store, credentials)
        texts = self._client_texts(password)
        for name, text in texts.items():
            await asyncio.to_thread(write_private, self._directory / name, text.encode())
        return _told(self._directory, texts)

    async def renew_for_ever(self) -> None:
        """Renew the certificate in time. Its listeners follow the file."""
        await self._checks.run(self._renew_later)

    async def _renew_later(self) -> None:
        await asyncio.sleep(RENEWAL_S)
        await self._renew()

    async def _renew(self) -> None:
        if self._has_own_certificate:
            names = list(server_names(self._config))
            await asyncio.to_thread(make_certificates, self._directory, names, self._clock.now_ms())

    @property
    def _has_own_certificate(self) -> bool:
        """Whether the certificate is ours to make: no other key store was set."""
        location = self._config.broker.network.tls.keystore_location
        return location is not None and location.resolve() == self._directory / SERVER_STORE

    def _client_texts(self, password: str) -> dict[str, str]:
        """Return the files for clients; Java's last."""
        trusted = self._directory / TRUSTED if self._has_own_certificate else None
        return {
            LIBRDKAFKA: librdkafka_properties(password, trusted),
            JAVA: java_properties(password, trusted),
        }


def server_names(config: StandaloneConfig) -> Iterator[str]:
    """Return by which names clients reach the process."""
    network = config.broker.network
    yield from _LOCAL
    yield host_name()
    places = [*network.parsed_listeners, *network.parsed_advertised]
    hosts = [each.host for each in places]
    if config.broker.http.enabled:
        hosts.append(config.broker.http.host)
    if config.proxy.enabled:
        hosts += [config.proxy.address.at.host, config.proxy.address.advertised_at(0).host]
    yield from (host for host in hosts if host not in EVERYWHERE)


def make_certificates(directory: Path, names: list[str], now_ms: int) -> None:
    """Make authority and certificate where they are not, or where the latter is due. Blocks.

    Errors: OSError, ConfigError.
    """
    from tailrace.core.security.issuing import CannotIssue, Issued, is_due, issue, new_authority

    whole = directory / _AUTHORITY
    try:
        if not whole.exists():
            made = new_authority(f"tailrace of {host_name()}"[:64], now_ms)
            write_private(whole, made.store)
        authority = Issued(*_parts(whole.read_bytes()))
        write_private(directory / TRUSTED, authority.certificate)
        own = directory / SERVER_STORE
        if not own.exists() or is_due(_parts(own.read_bytes())[1], names, now_ms):
            write_private(own, issue(authority, names, now_ms).store)
            logger.info("certificate_issued file=%s", own)
    except (CannotIssue, ValueError) as error:
        raise ConfigError(f"cannot make a certificate in {directory}: {error}") from error


def java_properties(password: str, trusted: Path | None) -> str:
    """Return how the user admin gets in, for Java's clients, Kafka's tools, --command-config."""
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    lines = [
        "security.protocol=SASL_SSL",
        "sasl.mechanism=SCRAM-SHA-512",
        f'sasl.jaas.config={module} required username="{ADMIN}" password="{password}";',
    ]
    if trusted is not None:
        lines += ["ssl.truststore.type=PEM", f"ssl.truststore.location={trusted}"]
    return "\n".join(lines) + "\n"


def librdkafka_properties(password: str, trusted: Path | None) -> str:
    """Return the same for clients of librdkafka."""
    lines = [
        "security.protocol=SASL_SSL",
        "sasl.mechanism=SCRAM-SHA-512",
        f"sasl.username={ADMIN}",
        f"sasl.password={password}",
    ]
    if trusted is not None:
        lines.append(f"ssl.ca.location={trusted}")
    return "\n".join(lines) + "\n"


def _told(directory: Path, texts: dict[str, str]) -> str:
    shown = "".join(f"\n# {directory / name}\n{text}" for name, text in texts.items())
    return f"secured: the user {ADMIN} may do everything, others nothing yet\n{shown}\n"


def _parts(store: bytes) -> tuple[bytes, bytes]:
    """Return key and certificate of a store. Errors: ValueError."""
    at = store.index(_BEGIN)
    return store[:at], store[at:]


def _credentials(password: str) -> Credentials:
    return {each: new_credential(each, password) for each in ScramMechanism}


async def _put_admin(store: MetadataStore, credentials: Credentials) -> None:
    users = StoredEntities(store, ClusterPaths().users, USER_CODEC)
    await users.start()
    try:
        await users.change({ADMIN: lambda _: credentials})
    finally:
        await users.close()
