"""A ZooKeeper that knows its clients: who is served, whose nodes are, and what others get."""

import ast
import asyncio
import logging
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

import tailrace
from tailrace.core.errors import AuthFailed, CoreError, NoAuth, Unavailable
from tailrace.core.metadata.store import Create, SessionEvent, SetData
from tailrace.core.metadata.zookeeper import ZookeeperStore
from tailrace.core.metadata.zookeeper_acls import (
    ALL,
    CREATOR_ALL,
    OPEN,
    PLAIN,
    WORLD_READ,
    Grant,
    ZookeeperAccess,
    is_open,
    resolved,
)
from tailrace.core.metadata.zookeeper_config import ZookeeperSecurityConfig, parse_users
from tailrace.core.runtime.config import Secret
from tests.secure_zookeeper import USERS, SaslZooKeeper, access
from tests.zookeeper import ZooKeeperServer

pytestmark = pytest.mark.java

OWN = Grant(ALL, "sasl", "tailrace")


async def connected(
    server: ZooKeeperServer, how: ZookeeperAccess, root: str = "", timeout_ms: int = 5_000
) -> ZookeeperStore:
    return await ZookeeperStore.connect(
        server.hosts, chroot=root, session_timeout_ms=timeout_ms, access=how
    )


def test_a_node_belongs_to_who_makes_it_however_it_is_made(sasl_zookeeper: SaslZooKeeper) -> None:
    root = sasl_zookeeper.make_root()

    async def run() -> None:
        store = await connected(sasl_zookeeper, access(readable="/ns"), root)
        await store.create("/ledgers/cookies/b1", parents=True)
        await store.create("/ns", b"binding")
        await store.multi([Create("/ns/log"), SetData("/ns/log", b"x"), Create("/ns/.tailrace")])
        await store.create("/ns/.tailrace/users/alice", parents=True)
        one = await store.create("/ns/lock-", ephemeral=True, sequential=True)
        two = await store.create("/ledgers/vote", ephemeral=True)
        for path in ("/ns", "/ns/log", one):
            assert set(await store.get_acl(path)) == {OWN, WORLD_READ}, path
        for path in ("/ledgers", "/ledgers/cookies", "/ledgers/cookies/b1", two):
            assert await store.get_acl(path) == (OWN,), path
        for path in ("/ns/.tailrace", "/ns/.tailrace/users", "/ns/.tailrace/users/alice"):
            assert await store.get_acl(path) == (OWN,), path
        await store.close()

    asyncio.run(run())


Attempt = Callable[[ZookeeperStore], Coroutine[Any, Any, object]]
REFUSED: list[Attempt] = [
    lambda store: store.get("/users"),
    lambda store: store.children("/users"),
    lambda store: store.get_all(["/users"]),
    lambda store: store.get_acl("/users"),
    lambda store: store.set("/users/alice", b"mine"),
    lambda store: store.create("/users/mallory"),
    lambda store: store.create("/users/mallory", ephemeral=True),
    lambda store: store.create("/ns/mallory"),
    lambda store: store.set("/ns", b"mine"),
    lambda store: store.delete("/users/alice"),
    lambda store: store.multi([Create("/free"), Create("/ns/mallory")]),
    lambda store: store.set_acl("/users", OPEN),
]


@pytest.mark.parametrize("who", ["nobody", "other"])
def test_others_read_nothing_private_and_write_nothing(
    sasl_zookeeper: SaslZooKeeper, who: str
) -> None:
    root = sasl_zookeeper.make_root()

    async def run() -> None:
        store = await connected(sasl_zookeeper, access(readable="/ns"), root)
        await store.create("/users/alice", b"salted", parents=True)
        await store.create("/ns", b"binding")
        stranger = await connected(sasl_zookeeper, PLAIN if who == "nobody" else access(who), root)
        for attempt in REFUSED:
            with pytest.raises(NoAuth, match="ACL"):
                await attempt(stranger)
        assert (await stranger.get("/ns")).data == b"binding"
        assert await store.exists("/free") is None
        assert await store.children("/users") == ["alice"]
        await store.close()
        await stranger.close()

    asyncio.run(run())


@pytest.mark.parametrize(
    ("user", "password"), [("tailrace", "not-it"), ("mallory", "not-it"), ("tailrace", 'not-it"')]
)
def test_wrong_credentials_end_the_start_at_once(
    sasl_zookeeper: SaslZooKeeper, user: str, password: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    how = access("tailrace", auth_username=user, password=password)

    async def run() -> None:
        with pytest.raises(
            AuthFailed, match=f"{sasl_zookeeper.hosts} refuses user '{user}'"
        ) as refused:
            await connected(sasl_zookeeper, how, timeout_ms=60_000)
        assert "not-it" not in str(refused.value)

    asyncio.run(run())
    assert "not-it" not in caplog.text


def test_a_server_that_has_no_sasl_is_named(zookeeper: ZooKeeperServer) -> None:
    async def run() -> None:
        with pytest.raises(AuthFailed, match="has no SASL"):
            await connected(zookeeper, access(), timeout_ms=60_000)

    asyncio.run(run())


def test_the_digest_scheme_is_an_identity_too(zookeeper: ZooKeeperServer) -> None:
    root = zookeeper.make_root()

    async def run() -> None:
        store = await connected(zookeeper, access(auth_scheme="digest"), root)
        await store.create("/mine")
        ((_, scheme, name),) = await store.get_acl("/mine")
        assert (scheme, name.partition(":")[0]) == ("digest", "tailrace")
        assert USERS["tailrace"] not in name
        await store.close()

    asyncio.run(run())


def test_a_new_session_is_authenticated_again(sasl_zookeeper: SaslZooKeeper) -> None:
    root = sasl_zookeeper.make_root()

    async def run() -> None:
        store = await connected(sasl_zookeeper, access(), root)
        await store.create("/private")
        fired = asyncio.Event()
        events: list[SessionEvent] = []
        is_new = asyncio.Event()

        def hear(event: SessionEvent) -> None:
            events.append(event)
            if event is SessionEvent.NEW_SESSION:
                is_new.set()

        store.on_session(hear)
        link = store._session._link
        assert link is not None
        assert link.client_id is not None
        await store.get("/private", lambda _path, _event: fired.set())
        await asyncio.get_running_loop().run_in_executor(
            None, partial(sasl_zookeeper.expire, *link.client_id)
        )
        await is_new.wait()
        assert fired.is_set()  # with SESSION_LOST
        await store.set("/private", b"still mine")
        assert SessionEvent.LOST in events
        await store.close()

    asyncio.run(run())


def test_credentials_that_are_refused_later_fail_operations_until_they_are_taken_again(
    tmp_path_factory: pytest.TempPathFactory, caplog: pytest.LogCaptureFixture
) -> None:
    only_known = "sessionRequireClientSASLAuth=true\n"
    server = SaslZooKeeper(tmp_path_factory.mktemp("changed") / "zk", only_known).start()

    async def run() -> None:
        in_thread = asyncio.get_running_loop().run_in_executor
        with pytest.raises(AuthFailed, match="serves no session that has not authenticated"):
            await connected(server, PLAIN)
        store = await connected(server, access(), timeout_ms=2_000)
        await store.create("/private")
        server.set_users(USERS | {"tailrace": "changed"})
        await in_thread(None, server.restart)
        refusal: CoreError = Unavailable()
        while not isinstance(refusal, AuthFailed):  # lost first, then refused
            with pytest.raises(Unavailable) as failed:
                await store.get("/private")
            refusal = failed.value
        assert "refuses user 'tailrace'" in str(refusal)
        assert store.metrics.auth_failures_total > 0
        server.set_users(USERS)
        await in_thread(None, server.restart)
        while True:
            try:
                await store.get("/private")
            except Unavailable:
                await asyncio.sleep(0.05)
                continue
            break
        await store.close()

    try:
        asyncio.run(asyncio.wait_for(run(), 60))
    finally:
        server.stop()
    assert "zookeeper_auth_failed" in caplog.text
    assert USERS["tailrace"] not in caplog.text


def test_a_server_that_goes_away_in_the_middle_of_sasl_does_not_refuse() -> None:
    """An older server refuses in no other way: the third time counts as that."""
    seen = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal seen
        seen += 1
        await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
        session = b"\0\0\0\0" + (5_000).to_bytes(4, "big") + b"\x01" * 8 + b"\0\0\0\x10" + b"p" * 16
        writer.write(len(session + b"\0").to_bytes(4, "big") + session + b"\0")
        await reader.readexactly(4)  # of the SASL request
        writer.close()

    async def run() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        with pytest.raises(AuthFailed, match="ends the connection during SASL"):
            await ZookeeperStore.connect(
                f"{host}:{port}", session_timeout_ms=20_000, access=access()
            )
        server.close()

    asyncio.run(run())
    assert seen == 3


def test_what_the_world_may_read() -> None:
    how = ZookeeperAccess(ZookeeperSecurityConfig(), "/messaging/ns")
    readable = ("/messaging/ns", "/messaging/ns/log/<default>/ledgers", "/messaging/ns/.tailraces")
    private = ("/messaging", "/messaging/nsx", "/ledgers", "/messaging/ns/.tailrace", "/")
    assert all(map(how.is_readable, readable))
    assert not any(map(how.is_readable, (*private, "/messaging/ns/.tailrace/acls/x")))
    assert not any(map(ZookeeperAccess(ZookeeperSecurityConfig()).is_readable, readable))


def test_acls_as_the_servers_make_them() -> None:
    how = access(readable="/ns", acl_users="sasl:admin; x509:CN=bookie,O=Example")
    more = (Grant(ALL, "sasl", "admin"), Grant(ALL, "x509", "CN=bookie,O=Example"))
    assert how.acl("/ns/log") == (CREATOR_ALL, *more, WORLD_READ)
    assert how.acl("/ledgers") == (CREATOR_ALL, *more)
    assert resolved(how.acl("/ledgers"), [OWN]) == {OWN, *more}
    assert parse_users(r"x509:CN=a\;b\#c,O=E;sasl:d") == (
        ("x509", r"CN=a\;b\#c,O=E"),
        ("sasl", "d"),
    )
    assert PLAIN.acl("/ledgers") == OPEN
    assert resolved(OPEN, [OWN]) == set(OPEN)
    assert is_open(OPEN, readable=True)
    assert is_open([OWN, WORLD_READ], readable=False)
    assert not is_open([OWN, WORLD_READ], readable=True)
    assert not is_open([OWN], readable=False)


SECRET = Secret("x")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"auth_username": "tailrace"}, "belong together"),
        ({"auth_password": SECRET}, "belong together"),
        ({"set_acl": True}, "can belong to no one"),
        ({"ssl_enable": True}, "truststore.location"),
        ({"truststore_location": "ca.pem"}, "do nothing without"),
        ({"acl_users": "admin"}, "is not sasl:NAME"),
        ({"acl_users": "world:anyone"}, "is not sasl:NAME"),
        ({"acl_users": ";".join(f"sasl:{n}" for n in range(101))}, "more than 100"),
        ({"auth_scheme": "digest", "auth_username": "a:b", "auth_password": SECRET}, "colon"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(
    settings: dict[str, Any], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        ZookeeperSecurityConfig(**settings)


FOLDERS: Final = ("bookie", "broker", "compaction", "core", "processes", "proxy", "tools")


def test_whatever_opens_a_store_says_how_it_comes_to_it() -> None:
    """A caller that left `access` out would work until a cluster is secured."""
    ours = Path(tailrace.__file__).resolve().parent
    files = [file for folder in FOLDERS for file in (ours.parent / folder).rglob("*.py")]
    files += ours.glob("dlog/*.py")
    calls = [
        (f"{file}:{call.lineno}", {each.arg for each in call.keywords})
        for file in files
        if "ZookeeperStore" in (text := file.read_text()) or "open_store" in text
        for call in ast.walk(ast.parse(text))
        if isinstance(call, ast.Call)
        and ast.unparse(call.func) in ("ZookeeperStore.connect", "open_store")
    ]
    assert len(calls) > 8
    assert [place for place, given in calls if "access" not in given] == []
