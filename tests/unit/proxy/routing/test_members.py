"""Proxies in the metadata store: made, kept, followed; what is no member is passed over."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

import pytest
from typing_extensions import override

from tailrace.core.errors import CorruptData, Unavailable
from tailrace.core.log.names import is_reserved
from tailrace.core.metadata.store import MetadataStore, SessionEvent
from tailrace.core.runtime.tasks import together
from tailrace.proxy.routing import members as module
from tailrace.proxy.routing.hosts import Member
from tailrace.proxy.routing.members import (
    GRPC,
    READ_PROXIES,
    WRITE_PROXIES,
    Endpoint,
    MemberNode,
    MemberRegistration,
    MemberWatch,
    decode_member,
    encode_member,
    member_number,
    proxy_node,
)
from tailrace.proxy.routing.ring import Host
from tailrace.simulation.metadata import MetadataServer
from tailrace.simulation.sessions import SimStore
from tests.unit.core.log.faulty_store import FaultyStore
from tests.unit.core.metadata.conftest import run as run

NS = "/messaging/ns"
PATH = f"{NS}/{WRITE_PROXIES}"
Run = Callable[[Callable[[MetadataStore], Coroutine[Any, Any, None]]], None]

JAVAS = (
    b'{"serviceEndpoint":{"host":"10.0.0.1","port":8000},"additionalEndpoints":'
    b'{"aurora":{"host":"10.0.0.1","port":8001},"stats":{"host":"10.0.0.1","port":8001},'
    b'"service":{"host":"10.0.0.1","port":8000},"thrift":{"host":"10.0.0.1","port":8000}},'
    b'"status":"ALIVE","shard":3}'
)


def node(shard: int, status: str = "ALIVE") -> MemberNode:
    return MemberNode(
        service_endpoint=Endpoint(f"10.0.0.{shard}", 8000), status=status, shard=shard
    )


def member(number: int, shard: int) -> Member:
    return Member(number, shard, Host(f"10.0.0.{shard}", 8000))


class Heard:
    def __init__(self) -> None:
        self.lists: list[list[Member]] = []
        self._moved = asyncio.Event()

    def __call__(self, members: list[Member]) -> None:
        self.lists.append(members)
        self._moved.set()

    async def until(self, condition: Callable[[list[Member]], bool]) -> list[Member]:
        async with asyncio.timeout(30):
            while not self.lists or not condition(self.lists[-1]):
                self._moved.clear()
                await self._moved.wait()
        return self.lists[-1]

    async def shards(self, *shards: int) -> list[Member]:
        return await self.until(lambda found: sorted(m.shard for m in found) == list(shards))


def test_the_node_is_twitters() -> None:
    stats, own = Endpoint("10.0.0.1", 8001), Endpoint("10.0.0.1", 8000)
    written = MemberNode(
        service_endpoint=own,
        additional_endpoints={"aurora": stats, "stats": stats, "service": own, "thrift": own},
        shard=3,
    )
    assert encode_member(written) == JAVAS
    assert decode_member(JAVAS) == written


@pytest.mark.parametrize(("region", "last"), [("eu", b',"region":"eu"'), ("", b"")])
def test_our_node_says_where_grpc_is_beside_what_twitters_readers_know(
    region: str, last: bytes
) -> None:
    written = proxy_node(Endpoint("10.0.0.1", 8000), 3, region)
    data = encode_member(written)
    assert data == (
        b'{"serviceEndpoint":{"host":"10.0.0.1","port":8000},'
        b'"additionalEndpoints":{"grpc":{"host":"10.0.0.1","port":8000}},'
        b'"status":"ALIVE","shard":3' + last + b"}"
    )
    assert decode_member(data) == written


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b'{"serviceEndpoint":{"host":"h","port":1},"additionalEndpoints":{},"status":"ALIVE"}',
        JAVAS.replace(b'"shard":3', b'"shard":-1'),
        JAVAS.replace(b'"shard":3', b'"shard":2147483648'),
        JAVAS.replace(b'"shard":3', b'"shard":null'),
        JAVAS.replace(b'"host":"10.0.0.1","port":8000', b'"host":"","port":8000', 1),
        JAVAS.replace(b'"port":8000', b'"port":65536', 1),
        JAVAS.replace(b'"port":8000', b'"port":0', 1),
        JAVAS.replace(b'"shard":3', b'"shard":3,"region":7'),
        JAVAS.replace(b'"shard":3', b'"shard":3,"region":"%s"' % (b"x" * 256)),
    ],
)
def test_what_is_no_member_does_not_decode(data: bytes) -> None:
    with pytest.raises(CorruptData):
        decode_member(data)


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("member_0000000000", 0),
        ("member_2147483647", 2147483647),
        ("member_2147483648", None),
        ("member_-000000001", None),
        ("member_7", None),
        ("member_00000000007", None),
        ("member_", None),
        ("0000000007", None),
        ("nodes", None),
    ],
)
def test_names_of_members(name: str, number: int | None) -> None:
    assert member_number(name) == number


def test_no_log_is_listed_for_a_server_set() -> None:
    assert is_reserved(WRITE_PROXIES)
    assert is_reserved(READ_PROXIES)


@pytest.mark.parametrize("kind", [WRITE_PROXIES, READ_PROXIES])
def test_proxies_come_and_go(run: Run, kind: str) -> None:
    async def story(store: MetadataStore) -> None:
        heard = Heard()
        path = f"{NS}/{kind}"
        watch = MemberWatch(store, path, heard)
        watch.start()
        await heard.until(lambda found: found == [])  # before the parent is there
        first, second = (MemberRegistration(store, path, node(shard)) for shard in (0, 1))
        await first.register()
        made = first.path or ""
        assert member_number(made.rpartition("/")[2]) is not None
        assert (await store.get(made)).ephemeral_owner == store.session_id
        await heard.shards(0)
        await second.register()
        found = await heard.shards(0, 1)
        assert found == sorted(found)
        assert found[0]._replace(number=0) == member(0, 0)
        await first.close()
        await first.close()
        assert first.path is None
        await heard.shards(1)
        await watch.close()
        await second.close()
        assert await store.children(path) == []
        assert all(one != two for one, two in zip(heard.lists, heard.lists[1:], strict=False))

    run(story)


def test_registering_twice_makes_one_node(run: Run) -> None:
    async def story(store: MetadataStore) -> None:
        registration = MemberRegistration(store, PATH, node(0))
        await registration.register()
        await registration.register()
        assert len(await store.children(PATH)) == 1
        await registration.close()

    run(story)


def test_a_proxy_that_starts_again_is_a_newer_member(run: Run) -> None:
    async def story(store: MetadataStore) -> None:
        for _ in range(2):
            await MemberRegistration(store, PATH, node(0)).register()
        heard = Heard()
        watch = MemberWatch(store, PATH, heard)
        watch.start()
        found = await heard.shards(0, 0)
        assert found[0].number < found[1].number
        await watch.close()

    run(story)


def test_distributedlogs_own_proxies_are_passed_over(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    """They speak thrift. One that speaks both is asked where it speaks gRPC."""

    async def story(store: MetadataStore) -> None:
        both = decode_member(JAVAS)
        both.additional_endpoints[GRPC] = Endpoint("10.0.0.1", 8002)
        ours = proxy_node(Endpoint("10.0.0.4", 8000), 4, "")
        nodes = {901: JAVAS, 902: encode_member(both), 903: encode_member(node(2))}
        for number, data in (nodes | {904: encode_member(ours)}).items():
            await store.create(f"{PATH}/member_0000000{number}", data, parents=True)
        heard = Heard()
        watch = MemberWatch(store, PATH, heard)
        watch.start()
        expected = [Member(902, 3, Host("10.0.0.1", 8002)), member(903, 2), member(904, 4)]
        await heard.until(lambda found: found == expected)
        await store.create(f"{PATH}/member_0000000905", encode_member(node(5)))
        await heard.until(lambda found: found == [*expected, member(905, 5)])
        await watch.close()

    with caplog.at_level(logging.WARNING):
        run(story)
    assert caplog.text.count("member_passed_over") == 1
    assert "member_0000000901 error=a proxy of DistributedLog's own" in caplog.text


def test_what_is_no_member_is_passed_over_with_one_line(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(store: MetadataStore) -> None:
        await store.create(f"{PATH}/nodes", parents=True)
        await store.create(f"{PATH}/member_0000000901", b"no JSON")
        without = b'{"serviceEndpoint":{"host":"h","port":1},"status":"ALIVE"}'
        await store.create(f"{PATH}/member_0000000902", without)
        await store.create(f"{PATH}/member_0000000903", encode_member(node(3, "STOPPING")))
        heard = Heard()
        watch = MemberWatch(store, PATH, heard)
        watch.start()
        await heard.until(lambda found: found == [])
        for number in (904, 905):
            await store.create(f"{PATH}/member_0000000{number}", encode_member(node(number - 900)))
            await heard.shards(*range(4, number - 899))
        assert heard.lists[-1] == [member(904, 4), member(905, 5)]
        await watch.close()

    with caplog.at_level(logging.WARNING):
        run(story)
    lines = [each.getMessage() for each in caplog.records if "passed_over" in each.message]
    assert [line.split()[1].rpartition("_")[2] for line in lines] == ["0000000901", "0000000902"]


def test_beyond_the_bound_the_newest_count(
    run: Run, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "HOSTS_MAX", 2)

    async def story(store: MetadataStore) -> None:
        for number in range(3):
            data = encode_member(node(number))
            await store.create(f"{PATH}/member_{number:010d}", data, parents=True)
        heard = Heard()
        watch = MemberWatch(store, PATH, heard)
        watch.start()
        await heard.until(lambda found: found == [member(1, 1), member(2, 2)])
        await store.create(f"{PATH}/member_0000000003", encode_member(node(3)))
        await heard.until(lambda found: found == [member(2, 2), member(3, 3)])
        await watch.close()

    with caplog.at_level(logging.WARNING):
        run(story)
    assert sum("members_over_bound" in each.message for each in caplog.records) == 1


def test_a_server_set_that_was_made_again_is_read_again(run: Run) -> None:
    """Its numbers begin again: the same name, another proxy."""

    async def story(store: MetadataStore) -> None:
        heard = Heard()
        watch = MemberWatch(store, PATH, heard)
        watch.start()
        for shard in (0, 1):
            name = await store.create(
                f"{PATH}/member_", encode_member(node(shard)), sequential=True, parents=True
            )
            assert name == f"{PATH}/member_0000000000"
            await heard.until(lambda found, shard=shard: found == [member(0, shard)])  # type: ignore[misc]
            await store.delete(name)
            await store.delete(PATH)
        await watch.close()

    run(story)


def test_a_store_that_is_away_is_read_later(run: Run) -> None:
    class Away(FaultyStore):
        refusals = 2

        @override
        async def get_all(self, paths: Any) -> Any:
            if self.refusals:
                self.refusals -= 1
                raise Unavailable("away")
            return await super().get_all(paths)

    async def story(store: MetadataStore) -> None:
        registration = MemberRegistration(store, PATH, node(0))
        await registration.register()
        away, heard = Away(store), Heard()
        watch = MemberWatch(away, PATH, heard)
        watch.start()
        await heard.shards(0)
        assert away.refusals == 0
        assert heard.lists[0] != []  # nothing was heard before one reading went well
        await watch.close()

    run(story)


async def end_session(store: SimStore) -> None:
    """Return when the store's user has heard of its next session."""
    began = asyncio.Event()

    def hear(event: SessionEvent) -> None:
        if event is SessionEvent.NEW_SESSION:
            began.set()

    store.on_session(hear)
    store.expire()
    store.tick()
    await began.wait()


def simulated(story: Callable[[SimStore, SimStore], Coroutine[Any, Any, None]]) -> None:
    """Run a story of two clients whose sessions it can end."""

    async def main() -> None:
        server = MetadataServer(Random(1))
        async with asyncio.timeout(30):
            await story(server.open(), server.open())

    asyncio.run(main(), debug=True)


async def until_newer(heard: Heard, number: int) -> Member:
    found = await heard.until(lambda found: [each.number > number for each in found] == [True])
    return found[0]


def test_a_registration_survives_lost_sessions() -> None:
    async def story(store: SimStore, other: SimStore) -> None:
        heard = Heard()
        watch = MemberWatch(other, PATH, heard)
        registration = MemberRegistration(store, PATH, node(0))
        await registration.register()
        watch.start()
        (last,) = await heard.shards(0)
        for _ in range(3):
            await end_session(store)
            last = await until_newer(heard, last.number)
        assert registration.path == f"{PATH}/member_{last.number:010d}"
        assert (await other.get(registration.path)).ephemeral_owner == store.session_id
        await registration.close()
        assert await other.children(PATH) == []
        await watch.close()

    simulated(story)


def test_a_lost_session_of_the_one_that_follows_hides_nothing() -> None:
    async def story(store: SimStore, other: SimStore) -> None:
        heard = Heard()
        watch = MemberWatch(other, PATH, heard)
        watch.start()
        await heard.until(lambda found: found == [])
        other.expire()
        await MemberRegistration(store, PATH, node(0)).register()  # no watch of `other` fires
        other.tick()
        await heard.shards(0)
        await MemberRegistration(store, PATH, node(1)).register()
        await heard.shards(0, 1)
        await watch.close()

    simulated(story)


def test_a_session_that_ends_while_the_node_is_made_costs_nothing() -> None:
    async def story(store: SimStore, other: SimStore) -> None:
        fickle = FaultyStore(store)

        async def end(number: int) -> None:
            if number < 2:
                await end_session(store)

        fickle.after = end
        registration = MemberRegistration(fickle, PATH, node(0))
        await registration.register()
        (name,) = await other.children(PATH)
        assert registration.path == f"{PATH}/{name}"
        assert (await other.get(registration.path)).ephemeral_owner == store.session_id
        await registration.close()

    simulated(story)


def test_it_is_tried_again_while_the_store_is_away() -> None:
    async def story(store: SimStore, other: SimStore) -> None:
        away, heard = FaultyStore(store), Heard()
        registration = MemberRegistration(away, PATH, node(0))
        await registration.register()
        watch = MemberWatch(other, PATH, heard)
        watch.start()
        (last,) = await heard.shards(0)

        async def refuse(number: int) -> None:
            if number <= 2:
                raise Unavailable("away")

        away.before = refuse
        await end_session(store)
        await until_newer(heard, last.number)
        assert away.changes == 4
        assert len(await other.children(PATH)) == 1
        await watch.close()
        await registration.close()

    simulated(story)


def test_a_node_of_that_name_that_is_anothers_is_left_alone() -> None:
    """The server set was made again, and its numbers begin again."""

    async def story(store: SimStore, other: SimStore) -> None:
        mine, theirs = (MemberRegistration(each, PATH, node(0)) for each in (store, other))
        await mine.register()
        taken = mine.path or ""
        await other.delete(taken)
        await other.delete(PATH)
        await theirs.register()
        assert theirs.path == taken
        await mine.close()
        assert await other.children(PATH) == ["member_0000000000"]
        await theirs.close()

    simulated(story)


def test_what_has_signed_off_does_not_register_again(caplog: pytest.LogCaptureFixture) -> None:
    async def story(store: SimStore, other: SimStore) -> None:
        refused = FaultyStore(store)
        for registration in (
            MemberRegistration(store, PATH, node(0)),
            MemberRegistration(refused, PATH, node(1)),
        ):
            await registration.register()
            await registration.close()
        changes = refused.changes
        await end_session(store)
        assert await other.children(PATH) == []
        assert refused.changes == changes

    with caplog.at_level(logging.ERROR):
        simulated(story)
    assert [each for each in caplog.records if each.levelno >= logging.ERROR] == []


def test_a_first_registration_that_fails_says_so() -> None:
    async def story(store: SimStore, other: SimStore) -> None:
        dead = FaultyStore(store)
        dead.die_at(0, applied=False)
        registration = MemberRegistration(dead, PATH, node(0))
        with pytest.raises(Unavailable):
            await registration.register()
        await registration.close()
        assert await other.exists(PATH) is None

    simulated(story)


def test_a_close_does_not_wait_for_a_store_that_is_away(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "SIGN_OFF_S", 0.01)

    class Silent(FaultyStore):
        is_silent = False

        @override
        async def exists(self, path: str, watch: Any = None) -> Any:
            if self.is_silent:
                await asyncio.Event().wait()
            return await super().exists(path, watch)

    async def story(store: SimStore, other: SimStore) -> None:
        silent = Silent(store)
        registration = MemberRegistration(silent, PATH, node(0))
        await registration.register()
        silent.is_silent = True
        await registration.close()
        assert len(await other.children(PATH)) == 1
        await store.close()
        assert await other.children(PATH) == []

    with caplog.at_level(logging.WARNING):
        simulated(story)
    assert "member_sign_off_failed" in caplog.text


def test_two_that_close_it_at_once_both_come_to_an_end(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(store: MetadataStore) -> None:
        registration = MemberRegistration(store, PATH, node(1))
        await registration.register()
        exists, is_closed, asked = store.exists, asyncio.Event(), 0

        async def second_is_late(path: str) -> Any:
            nonlocal asked
            asked += 1
            is_second = asked == 2
            found = await exists(path)
            if is_second:
                await is_closed.wait()
            return found

        monkeypatch.setattr(store, "exists", second_is_late)

        async def close_first() -> None:
            await registration.close()
            is_closed.set()

        await together([close_first(), registration.close()])
        assert await store.children(PATH) == []

    run(story)
