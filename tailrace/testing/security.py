"""How clients of a broker for tests get in: certificates, users, and settings for each client."""

import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

from tailrace.testing.metadata import answers, lets_ask

if TYPE_CHECKING:
    import ssl

    from tailrace.testing.certificates import Authority

Protocol: TypeAlias = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
Client: TypeAlias = Literal["confluent", "java", "kafka-python", "aiokafka"]

USER: Final = "tailrace"
"""Who there is where a test names no users."""
MECHANISM: Final = "SCRAM-SHA-256"


class Files(NamedTuple):
    """What a client needs of certificates."""

    authority: Path
    own: Path | None
    """Private key and certificate of the user."""


class Security:
    """One broker's: made once, before its first start."""

    def __init__(self, protocol: Protocol, users: Mapping[str, str] | None) -> None:
        """`users`: name -> password; None: one of a password that is drawn."""
        self.protocol = protocol
        self.uses_tls = protocol in ("SSL", "SASL_SSL")
        self.uses_sasl = protocol in ("SASL_PLAINTEXT", "SASL_SSL")
        self.users = dict(users or {USER: secrets.token_urlsafe(18)})
        self._authority: Authority | None = None
        self._own: dict[str, Path] = {}

    @property
    def is_any(self) -> bool:
        """Whether there is anything to prepare."""
        return self.uses_tls or self.uses_sasl

    def prepare(self, folder: Path) -> dict[str, str]:
        """Make certificates in a new folder; return the broker's settings."""
        folder.mkdir(mode=0o700)
        if not self.uses_tls:
            return {}
        from tailrace.testing.certificates import HOSTS, Authority

        authority = self._authority = Authority(folder)
        self._own = {name: authority.issue(name) for name in self.users}
        settings = {"ssl.keystore.location": str(authority.issue("broker", HOSTS))}
        if self.protocol == "SSL":
            settings["ssl.truststore.location"] = str(authority.certificate)
            settings["ssl.client.auth"] = "requested"
        return settings

    def password_files(self, folder: Path) -> Iterator[tuple[str, Path]]:
        """Yield the users that the broker is to have, each with a new file with its password."""
        for number, (name, password) in enumerate(self.users.items() if self.uses_sasl else ()):
            file = folder / f"password-{number}"
            file.touch(mode=0o600)
            file.write_text(password + "\n")
            yield name, file

    def listen(self, place: str) -> str:
        """Return what `--listen` takes."""
        return f"{self.protocol}://{place}" if self.is_any else place

    def is_ready(self, host: str, port: int, timeout_s: float) -> bool:
        """Ask once whether the broker answers."""
        if not self.is_any:
            return answers(host, port, timeout_s)
        files = self._files(next(iter(self.users)))
        return lets_ask(host, port, timeout_s, None if files is None else _context(files))

    def client_settings(self, client: Client, bootstrap: str, user: str | None) -> dict[str, Any]:
        """Return what a client needs to get in as a user; None: the first one.

        Errors: KeyError for a user that there is not; ValueError for a client that is not known.
        """
        name = user if user is not None else next(iter(self.users))
        way = _Way(self.protocol, bootstrap, self._files(name), name, self.users[name])
        makers = {
            "confluent": _confluent,
            "java": _java,
            "kafka-python": _kafka_python,
            "aiokafka": _aiokafka,
        }
        if client not in makers:
            raise ValueError(f"{client!r} is not one of {', '.join(makers)}")
        return makers[client](way, uses_sasl=self.uses_sasl)

    def _files(self, user: str) -> Files | None:
        if self._authority is None:
            return None
        own = self._own.get(user) if self.protocol == "SSL" else None
        return Files(self._authority.certificate, own)


class _Way(NamedTuple):
    protocol: Protocol
    bootstrap: str
    files: Files | None
    user: str
    password: str


def _confluent(way: _Way, *, uses_sasl: bool) -> dict[str, Any]:
    settings = {"bootstrap.servers": way.bootstrap, "security.protocol": way.protocol}
    if way.files is not None:
        settings["ssl.ca.location"] = str(way.files.authority)
        if way.files.own is not None:
            settings["ssl.certificate.location"] = str(way.files.own)
            settings["ssl.key.location"] = str(way.files.own)
    if uses_sasl:
        settings["sasl.mechanism"] = MECHANISM
        settings["sasl.username"] = way.user
        settings["sasl.password"] = way.password
    return settings


def _java(way: _Way, *, uses_sasl: bool) -> dict[str, Any]:
    settings = {"bootstrap.servers": way.bootstrap, "security.protocol": way.protocol}
    if way.files is not None:
        settings["ssl.truststore.type"] = "PEM"
        settings["ssl.truststore.location"] = str(way.files.authority)
        if way.files.own is not None:
            settings["ssl.keystore.type"] = "PEM"
            settings["ssl.keystore.location"] = str(way.files.own)
    if uses_sasl:
        settings["sasl.mechanism"] = MECHANISM
        settings["sasl.jaas.config"] = (
            "org.apache.kafka.common.security.scram.ScramLoginModule required "
            f"username={_quoted(way.user)} password={_quoted(way.password)};"
        )
    return settings


def _kafka_python(way: _Way, *, uses_sasl: bool) -> dict[str, Any]:
    settings = {"bootstrap_servers": way.bootstrap, "security_protocol": way.protocol}
    if way.files is not None:
        settings["ssl_cafile"] = str(way.files.authority)
        if way.files.own is not None:
            settings["ssl_certfile"] = str(way.files.own)
            settings["ssl_keyfile"] = str(way.files.own)
    return {**settings, **(_python_user(way) if uses_sasl else {})}


def _aiokafka(way: _Way, *, uses_sasl: bool) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "bootstrap_servers": way.bootstrap,
        "security_protocol": way.protocol,
    }
    if way.files is not None:
        settings["ssl_context"] = _context(way.files)
    return {**settings, **(_python_user(way) if uses_sasl else {})}


def _context(files: Files) -> "ssl.SSLContext":
    import ssl

    context = ssl.create_default_context(cafile=files.authority)
    if files.own is not None:
        context.load_cert_chain(files.own)
    return context


def _python_user(way: _Way) -> dict[str, Any]:
    return {
        "sasl_mechanism": MECHANISM,
        "sasl_plain_username": way.user,
        "sasl_plain_password": way.password,
    }


def _quoted(text: str) -> str:
    """Return a text as a value of `sasl.jaas.config`."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
