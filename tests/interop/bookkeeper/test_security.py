"""TLS and authentication between this project's and Apache's bookies and clients."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from tailrace.bookie import security_config as of_bookie
from tailrace.core.ledger import security_config as of_client
from tailrace.core.ledger.config import LedgerConfig
from tailrace.core.ledger.security_config import BookieClientSecurity
from tailrace.core.runtime.config import Assignment, load
from tailrace.core.security.bookkeeper_tls_config import FACTORY
from tests.certificates import Authority
from tests.interop.bookkeeper.java import JavaBookie, create
from tests.interop.bookkeeper.ours import Listener, OurBookie, add, ledger_client, run
from tests.interop.bookkeeper.payloads import payload, shown
from tests.java.peers import JavaClient, JavaError
from tests.zookeeper import ZooKeeperServer

pytestmark = [pytest.mark.interop, pytest.mark.java]

PASSWORD: Final = "open s\u00e4same"
SIZE: Final = 100_000
COUNT: Final = 20


@dataclass
class Secrets:
    """Files of one cluster. Java takes settings by the same names."""

    authority: Authority
    folder: Path

    def __post_init__(self) -> None:
        self.password = self.folder / "password"
        self.password.write_text("sesame\n")
        self.jaas = self.folder / "jaas.conf"
        module = "org.apache.zookeeper.server.auth.DigestLoginModule required"
        self.jaas.write_text(f"""
            Bookie {{ {module} user_bookkeeper="{PASSWORD}"; }};
            BookKeeper {{ {module} username="bookkeeper" password="{PASSWORD}"; }};
            Stranger {{ {module} username="bookkeeper" password="wrong"; }};
        """)
        self.bookie = self.authority.pkcs12("bookie", "sesame", "127.0.0.1", "localhost")
        self.client = self.authority.pkcs12("client", "sesame", unit="0:broker;1:cluster")

    @property
    def jvm(self) -> tuple[str, ...]:
        return (f"-Djava.security.auth.login.config={self.jaas}", "-Dfile.encoding=UTF-8")

    def tls(self, *, is_bookie: bool, mutual: bool) -> dict[str, str]:
        given = {
            "tlsProviderFactoryClass": FACTORY,
            "tlsTrustStoreType": "PEM",
            "tlsTrustStore": str(self.authority.certificate),
        }
        if mutual:
            given["tlsClientAuthentication"] = "true"
        if is_bookie or mutual:
            given["tlsKeyStoreType"] = "PKCS12"
            given["tlsKeyStore"] = str(self.bookie if is_bookie else self.client)
            given["tlsKeyStorePasswordPath"] = str(self.password)
        return given


SASL_OF_BOOKIES: Final = {"bookieAuthProviderFactoryClass": of_bookie.SASL_FACTORY}
ROLES_OF_BOOKIES: Final = {
    "bookieAuthProviderFactoryClass": of_bookie.ROLES_FACTORY,
    "authorizedRoles": "broker",
}
SASL_OF_CLIENTS: Final = {"clientAuthProviderFactoryClass": of_client.SASL_FACTORY}

MODES: Final = {
    "tls": {"tls": True, "mutual": False, "sasl": False},
    "mutual": {"tls": True, "mutual": True, "sasl": False},
    "roles": {"tls": True, "mutual": True, "sasl": False},
    "sasl": {"tls": False, "mutual": False, "sasl": True},
    "tls-sasl": {"tls": True, "mutual": False, "sasl": True},
}


@pytest.fixture(scope="module")
def secrets(tmp_path_factory: pytest.TempPathFactory) -> Secrets:
    folder = tmp_path_factory.mktemp("secrets")
    return Secrets(Authority(folder / "keys"), folder)


@pytest.fixture(scope="module")
def java_with_jaas(
    secrets: Secrets, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[JavaClient]:
    client = JavaClient(tmp_path_factory.mktemp("java") / "log", jvm=secrets.jvm)
    yield client
    client.close()


class Case:
    """A cluster of one bookie, and the settings of its clients."""

    def __init__(self, secrets: Secrets, uri: str, name: str) -> None:
        mode = MODES[name]
        self.secrets, self.uri = secrets, uri
        self.of_bookies: dict[str, str] = {}
        self.of_clients: dict[str, str] = {}
        if mode["tls"]:
            self.of_bookies |= secrets.tls(is_bookie=True, mutual=mode["mutual"])
            self.of_clients |= secrets.tls(is_bookie=False, mutual=mode["mutual"])
        if name == "roles":
            self.of_bookies |= ROLES_OF_BOOKIES
        if mode["sasl"]:
            self.of_bookies |= SASL_OF_BOOKIES
            self.of_clients |= SASL_OF_CLIENTS

    def security(self, **changes: str) -> BookieClientSecurity:
        """Return the settings of this project's client."""
        given = {**self.of_clients, **changes}
        if "clientAuthProviderFactoryClass" in given:
            given["saslJaasConfigFile"] = str(self.secrets.jaas)
        assignments = [Assignment(key, value, "test") for key, value in given.items()]
        return load(BookieClientSecurity, assignments).config

    def ours(self, path: Path) -> OurBookie:
        settings = {**self.of_bookies, **self.of_clients, **self.of_bookies}
        if "clientAuthProviderFactoryClass" in settings:
            settings["saslJaasConfigFile"] = str(self.secrets.jaas)
        lines = tuple(f"{key}={value}" for key, value in settings.items())
        return OurBookie(path, self.uri, settings=lines)

    def javas(self, path: Path) -> JavaBookie:
        lines = tuple(f"{key}={value}" for key, value in self.of_bookies.items())
        return JavaBookie(path, self.uri, settings=lines, jvm=self.secrets.jvm)


def by_java(java: JavaClient, case: Case, *, v2: bool) -> None:
    """Write a ledger and read it by Java's client."""
    name = f"{case.uri}-{v2}"
    conf = {**case.of_clients, "useV2WireProtocol": v2}
    java.call("connect", client=name, uri=case.uri, conf=conf)
    made = create(java, client=name, e=1, qw=1, qa=1)
    java.call("add", handle=made["handle"], seed=1, size=SIZE, count=COUNT)
    found = java.call("read", handle=made["handle"], first=0, last=COUNT - 1)
    assert found["entries"] == shown(1, 0, COUNT - 1, SIZE)
    java.call("disconnect", client=name)


def by_us(case: Case) -> None:
    """Write a ledger and read it by this project's client."""

    async def story() -> None:
        async with ledger_client(case.uri, case.security()) as ledgers:
            listener = Listener()
            writer = await ledgers.create_ledger(LedgerConfig(), listener)
            await add(writer, listener, 2, COUNT, SIZE)
            assert listener.errors == []
            reader = await ledgers.open_ledger(writer.ledger_id, recover=True)
            for entry in await reader.read(0, COUNT - 1):
                assert bytes(entry.payload) == payload(2, entry.entry_id, SIZE)

    run(story)


@pytest.mark.parametrize("mode", list(MODES))
def test_our_bookie(
    zookeeper: ZooKeeperServer,
    java_with_jaas: JavaClient,
    secrets: Secrets,
    tmp_path: Path,
    mode: str,
) -> None:
    uri = f"zk+hierarchical://{zookeeper.hosts}/secure-ours-{mode}"
    assert java_with_jaas.call("init", uri=uri)["created"]
    case = Case(secrets, uri, mode)
    bookie = case.ours(tmp_path)
    with ExitStack() as stack:
        stack.callback(bookie.stop)
        bookie.start()
        by_us(case)
        for v2 in (False, True):
            by_java(java_with_jaas, case, v2=v2)
        if mode == "tls":  # Java's client tries for seconds
            refused(java_with_jaas, case)


def refused(java: JavaClient, case: Case) -> None:
    """Java's client without any of it: the bookie takes nothing from it."""
    java.call("connect", client="bare", uri=case.uri, conf={})
    made = create(java, client="bare", e=1, qw=1, qa=1)
    with pytest.raises(JavaError):
        java.call("add", handle=made["handle"], seed=1, size=10, count=1)
    java.call("disconnect", client="bare")


@pytest.mark.parametrize("mode", ["roles", "tls-sasl"])  # a JVM each
def test_javas_bookie(
    zookeeper: ZooKeeperServer,
    java_with_jaas: JavaClient,
    secrets: Secrets,
    tmp_path: Path,
    mode: str,
) -> None:
    uri = f"zk+hierarchical://{zookeeper.hosts}/secure-javas-{mode}"
    assert java_with_jaas.call("init", uri=uri)["created"]
    case = Case(secrets, uri, mode)
    bookie = case.javas(tmp_path)
    with ExitStack() as stack:
        stack.callback(bookie.stop)
        bookie.start()
        by_us(case)
