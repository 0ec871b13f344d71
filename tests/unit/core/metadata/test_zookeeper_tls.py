"""TLS towards ZooKeeper: who is trusted, who is known by a certificate, what is asked of files."""

import asyncio
import socket
import ssl
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tailrace.core.errors import NoAuth, Unavailable
from tailrace.core.metadata.kazoo_handler import LoopHandler
from tailrace.core.metadata.zookeeper import ZookeeperStore
from tailrace.core.metadata.zookeeper_acls import ALL, Grant, ZookeeperAccess
from tailrace.core.metadata.zookeeper_config import ZookeeperSecurityConfig
from tailrace.core.metadata.zookeeper_tls import zookeeper_context
from tailrace.core.runtime.config import Secret
from tailrace.core.security.keys import InvalidKeys
from tests.certificates import Authority
from tests.secure_zookeeper import TlsZooKeeper

pytestmark = pytest.mark.java


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def secure(
    tmp_path_factory: pytest.TempPathFactory, authority: Authority
) -> Iterator[TlsZooKeeper]:
    server = TlsZooKeeper(tmp_path_factory.mktemp("tls") / "zk", authority).start()
    yield server
    server.stop()


def access(authority: Authority, key: Path | None = None, **settings: Any) -> ZookeeperAccess:
    config = ZookeeperSecurityConfig(
        **{
            "ssl_enable": True,
            "truststore_location": authority.certificate,
            "keystore_location": key,
            "set_acl": key is not None,
            **settings,
        }
    )
    return ZookeeperAccess(config)


async def connected(
    server: TlsZooKeeper, how: ZookeeperAccess, root: str = "", timeout_ms: int = 10_000
) -> ZookeeperStore:
    return await ZookeeperStore.connect(
        server.secure_hosts, chroot=root, session_timeout_ms=timeout_ms, access=how
    )


@pytest.mark.parametrize(("kind", "version"), [("PEM", "TLSv1.3"), ("PKCS12", "TLSv1.2")])
def test_a_certificate_is_an_identity(
    secure: TlsZooKeeper, authority: Authority, version: str, kind: str
) -> None:
    root = secure.make_root()
    if kind == "PEM":
        how = access(authority, authority.store("broker"), enabled_protocols=(version,))
    else:
        store = authority.pkcs12("broker", "s3cret")
        password = Secret("s3cret")
        how = access(
            authority,
            store,
            keystore_type=kind,
            keystore_password=password,
            enabled_protocols=(version,),
        )

    async def run() -> None:
        store = await connected(secure, how, root)
        await store.create("/mine")
        ((permissions, scheme, name),) = await store.get_acl("/mine")
        assert (permissions, scheme) == (ALL, "x509")
        assert "CN=broker" in name
        unknown = await connected(secure, access(authority), root)
        with pytest.raises(NoAuth):
            await unknown.get("/mine")
        await unknown.close()
        await store.close()

    asyncio.run(run())


def test_others_that_may_everything_are_named(secure: TlsZooKeeper, authority: Authority) -> None:
    root = secure.make_root()

    async def run() -> None:
        bookie = await connected(secure, access(authority, authority.store("bookie")), root)
        await bookie.create("/own")
        ((_, _, name),) = await bookie.get_acl("/own")
        how = access(authority, authority.store("broker"), acl_users=f"x509:{name}")
        broker = await connected(secure, how, root)
        await broker.create("/shared")
        assert Grant(ALL, "x509", name) in await broker.get_acl("/shared")
        await bookie.set("/shared", b"by another")
        await bookie.close()
        await broker.close()

    asyncio.run(run())


def test_what_tls_has_decrypted_already_is_ready(authority: Authority) -> None:
    """Two answers in one record: the socket shows nothing of the second. kazoo would wait on."""
    ours, theirs = socket.socketpair()
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(authority.store("server", "127.0.0.1"))
    how = zookeeper_context(access(authority).config)
    assert how is not None

    def serve() -> None:
        with server.wrap_socket(theirs, server_side=True) as secured:
            secured.sendall(b"12")
            secured.recv(1)

    with ThreadPoolExecutor() as pool:
        served = pool.submit(serve)
        with how.wrap_socket(ours, server_hostname="127.0.0.1") as client:
            handler = LoopHandler(1, lambda: None)
            assert client.recv(1) == b"1"
            other, _far = socket.socketpair()
            with other, _far:
                _far.sendall(b"!")
                assert handler.select([client, other], [], [], 0)[0] == [client, other]
                assert client.recv(1) == b"2"
                assert handler.select([client, other], [], [], 0)[0] == [other]
            client.sendall(b"3")
        served.result()


async def refused(hosts: str, how: ZookeeperAccess, why: str) -> None:
    """Connect until a handshake was over in time, on a machine that may be busy."""
    for timeout_ms in (1_000, 4_000, 16_000):
        with pytest.raises(Unavailable) as found:
            await ZookeeperStore.connect(hosts, session_timeout_ms=timeout_ms, access=how)
        if why in str(found.value):
            return
    raise AssertionError(str(found.value))


def test_a_server_that_nobody_vouches_for_is_not_trusted(
    secure: TlsZooKeeper, tmp_path: Path
) -> None:
    stranger = Authority(tmp_path / "stranger")

    async def run() -> None:
        hosts = f"127.0.0.1:{secure.secure_port}"
        await refused(hosts, access(stranger), "certificate verify failed")

    asyncio.run(run())


def test_a_server_must_be_the_one_that_was_asked_for(
    secure: TlsZooKeeper, authority: Authority
) -> None:
    async def run() -> None:
        hosts = f"localhost:{secure.secure_port}"
        await refused(hosts, access(authority), "not valid for 'localhost'")
        how = access(authority, identification="")
        store = await ZookeeperStore.connect(hosts, access=how)
        await store.close()

    asyncio.run(run())


def test_stores_that_cannot_be_used_are_told_at_once(
    secure: TlsZooKeeper, authority: Authority, tmp_path: Path
) -> None:
    empty = tmp_path / "empty.pem"
    empty.touch()

    async def run() -> None:
        for how, words in (
            (access(authority, tmp_path / "none.pem"), "zookeeper.ssl.keystore.location=.*none"),
            (access(authority, truststore_location=empty), "zookeeper.ssl.truststore.location=.*"),
        ):
            with pytest.raises(InvalidKeys, match=words):
                await connected(secure, how)

    asyncio.run(run())


def test_a_renewed_certificate_is_shown_by_the_next_connection(
    secure: TlsZooKeeper, authority: Authority, tmp_path: Path
) -> None:
    root = secure.make_root()
    key = tmp_path / "key.pem"
    key.write_bytes(authority.store("first").read_bytes())

    async def run() -> None:
        store = await connected(secure, access(authority, key), root)
        key.write_bytes(authority.store("second").read_bytes())
        link = store._session._link
        assert link is not None
        assert link._client._connection._socket is not None
        link._client._connection._socket.shutdown(2)
        while True:
            try:
                await store.create("/made")
                break
            except Unavailable:
                continue
        assert "CN=second" in str(await store.get_acl("/made"))
        await store.close()

    asyncio.run(run())
