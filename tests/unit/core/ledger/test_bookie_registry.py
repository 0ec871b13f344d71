"""Registered bookies: the lists and addresses that are remembered, and when they are read again."""

import asyncio

import pytest

from tailrace.core.errors import BookieUnavailable, Unavailable
from tailrace.core.ledger.bookie_client import ask
from tailrace.core.ledger.bookie_registry import RegisteredBookies
from tailrace.core.ledger.config import BookieClientConfig
from tailrace.core.ledger.read_order import Standing
from tailrace.core.metadata.bookie_service_info import (
    NETWORK_LOCATION,
    BookieServiceInfo,
    encode_service_info,
    rpc_service_info,
)
from tailrace.core.metadata.network_location import parse_location
from tailrace.core.metadata.store import Node, Watch, WatchEvent
from tailrace.protocol.bookkeeper.messages import ReadRequest, StatusCode
from tailrace.protocol.ids import BookieId, LedgerId
from tests.unit.core.ledger.fast_world import FastWorld, run_fast
from tests.unit.core.ledger.memory_store import MemoryStore
from tests.unit.core.ledger.world import settle

B0, B1, B2 = (BookieId(f"b{i}") for i in range(3))


class Metadata:
    """The store, counting reads, which may fail; and its watches."""

    def __init__(self, store: MemoryStore) -> None:
        self.reads: list[str] = []
        self.watches: list[Watch] = []
        self.is_down = False
        self.answers = asyncio.Event()
        self.answers.set()
        self._children, self._get = store.children, store.get
        store.children = self.children  # type: ignore[method-assign]
        store.get = self.get  # type: ignore[method-assign]

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        self._note(path, watch)
        await self.answers.wait()
        return await self._children(path, watch)

    async def get(self, path: str, watch: Watch | None = None) -> Node:
        self._note(path, watch)
        return await self._get(path, watch)

    def _note(self, path: str, watch: Watch | None) -> None:
        self.reads.append(path)
        if self.is_down:
            raise Unavailable("the metadata cannot be reached")
        if watch is not None:
            self.watches.append(watch)

    def lose_session(self) -> None:
        watches, self.watches = self.watches, []
        for watch in watches:
            watch("/ledgers/available", WatchEvent.SESSION_LOST)


def node(port: int = 3181, place: str = "") -> bytes:
    doors = rpc_service_info("127.0.0.1", port).endpoints
    return encode_service_info(BookieServiceInfo(doors, {NETWORK_LOCATION: place} if place else {}))


async def register(world: FastWorld, *bookies: BookieId, port: int = 3181, place: str = "") -> None:
    for bookie in bookies:
        await world.store.create(f"/ledgers/available/{bookie}", node(port, place))


async def leave(world: FastWorld, bookie: BookieId) -> None:
    await world.store.delete(f"/ledgers/available/{bookie}")
    await settle()


def test_lists_are_read_once_and_again_when_they_change() -> None:
    async def story(world: FastWorld) -> None:
        await register(world, B0, B1)
        metadata, bookies = Metadata(world.store), RegisteredBookies(world.store)
        assert await bookies.available() == [B0, B1]
        count = len(metadata.reads)
        for _ in range(10):
            assert await bookies.available() == [B0, B1]
        assert len(metadata.reads) == count
        await register(world, B2)
        await settle()
        assert await bookies.available() == [B0, B1, B2]
        await leave(world, B0)
        assert await bookies.available() == [B1, B2]
        await bookies.close()

    run_fast(story)


def test_who_asks_while_the_lists_are_read_for_the_first_time_waits_for_them() -> None:
    async def story(world: FastWorld) -> None:
        await register(world, B0, B1)
        metadata, bookies = Metadata(world.store), RegisteredBookies(world.store)
        metadata.answers.clear()
        first = asyncio.create_task(bookies.available())
        await settle()
        second = asyncio.create_task(bookies.registered())
        await settle()
        metadata.answers.set()
        assert await first == await second == [B0, B1]
        await bookies.close()

    run_fast(story)


def test_standings_and_their_version() -> None:
    async def story(world: FastWorld) -> None:
        await register(world, B0)
        bookies = RegisteredBookies(world.store)
        assert bookies.standing(B1) is Standing.AVAILABLE, "nothing is known yet"
        await bookies.available()
        version = bookies.version
        assert [bookies.standing(b) for b in (B0, B1)] == [Standing.AVAILABLE, Standing.GONE]
        await world.store.create(f"/ledgers/available/readonly/{B0}")
        await leave(world, B0)
        assert bookies.standing(B0) is Standing.READ_ONLY
        assert await bookies.available() == []
        assert bookies.version > version
        version = bookies.version
        await world.store.create("/ledgers/available/readonly/x")
        await world.store.delete("/ledgers/available/readonly/x")
        await settle()
        assert bookies.version >= version
        await bookies.close()

    run_fast(story)


def test_many_who_ask_at_once_share_one_reading() -> None:
    async def story(world: FastWorld) -> None:
        await register(world, B0)
        metadata, bookies = Metadata(world.store), RegisteredBookies(world.store)
        async with asyncio.TaskGroup() as group:
            asked = [group.create_task(bookies.available()) for _ in range(20)]
        assert all(task.result() == [B0] for task in asked)
        assert len(metadata.reads) == 4
        await bookies.close()

    run_fast(story)


def test_lost_session_means_reading_again() -> None:
    async def story(world: FastWorld) -> None:
        await register(world, B0)
        metadata, bookies = Metadata(world.store), RegisteredBookies(world.store)
        await bookies.available()
        metadata.is_down = True
        metadata.lose_session()
        await asyncio.sleep(1)
        with pytest.raises(Unavailable):
            await bookies.available()
        assert bookies.standing(B0) is Standing.AVAILABLE, "the last word counts"
        metadata.is_down = False
        await asyncio.sleep(10)
        count = len(metadata.reads)
        assert await bookies.available() == [B0]
        assert len(metadata.reads) == count, "it was read again by itself"
        await bookies.close()

    run_fast(story)


def test_rereading_is_bounded_and_goes_on_with_the_next_call() -> None:
    async def story(world: FastWorld) -> None:
        await register(world, B0)
        metadata, bookies = Metadata(world.store), RegisteredBookies(world.store)
        await bookies.available()
        metadata.is_down = True
        metadata.lose_session()
        before = len(metadata.reads)
        await asyncio.sleep(1000)
        assert len(metadata.reads) - before == 12
        metadata.is_down = False
        assert await bookies.available() == [B0]
        await bookies.close()

    run_fast(story)


def test_waiting_callers_hear_of_the_close() -> None:
    async def story(world: FastWorld) -> None:
        bookies = RegisteredBookies(world.store)
        waiting = asyncio.get_running_loop().create_task(bookies.available())
        await asyncio.sleep(0)
        await bookies.close()
        with pytest.raises(Unavailable):
            await waiting
        with pytest.raises(Unavailable):
            await bookies.available()

    run_fast(story)


def test_addresses_are_remembered_until_the_node_changes() -> None:
    async def story(world: FastWorld) -> None:
        await register(world, B0)
        metadata, bookies = Metadata(world.store), RegisteredBookies(world.store)
        for _ in range(3):
            assert await bookies._nodes.address(B0) == ("127.0.0.1", 3181)
        assert metadata.reads == ["/ledgers/available/b0"]
        await leave(world, B0)
        with pytest.raises(BookieUnavailable, match="not registered"):
            await bookies._nodes.address(B0)
        await register(world, B0, port=4181)
        assert await bookies._nodes.address(B0) == ("127.0.0.1", 4181)
        metadata.is_down = True
        metadata.lose_session()
        await bookies._nodes.address(B0)
        await world.store.set("/ledgers/available/b0", b"", -1)
        await settle()
        assert await bookies._nodes.address(B0) == ("127.0.0.1", 4181), "the last known one must do"
        with pytest.raises(Unavailable):
            await bookies._nodes.address(B1)
        await bookies.close()

    run_fast(story)


def test_bookies_say_where_they_stand_and_may_move() -> None:
    async def story(world: FastWorld) -> None:
        await register(world, B0, place="/eu/r1")
        await register(world, B1)
        metadata, bookies = Metadata(world.store), RegisteredBookies(world.store)
        assert bookies.location(B0) is None, "nothing is known yet"
        await bookies.available()
        assert [bookies.location(b) for b in (B0, B1)] == [parse_location("/eu/r1"), None]
        version, reads = bookies.version, len(metadata.reads)
        await world.store.set("/ledgers/available/b0", node(place="/us/r2"), -1)
        await settle()
        assert bookies.location(B0) == parse_location("/us/r2")
        assert bookies.version > version, "orders of reads must be made anew"
        assert metadata.reads[reads:].count("/ledgers/available/b1") == 0, "it did not change"
        await register(world, B2, place="/asia/r1")
        await settle()
        assert bookies.location(B2) == parse_location("/asia/r1"), "without anybody asking"
        await leave(world, B0)
        assert bookies.location(B0) == parse_location("/us/r2"), "its last word"
        await register(world, B0, place="/eu/r1")
        await settle()
        assert bookies.location(B0) == parse_location("/eu/r1")
        await bookies.close()

    run_fast(story)


def test_location_of_a_read_only_bookie_is_known() -> None:
    async def story(world: FastWorld) -> None:
        await world.store.create(f"/ledgers/available/readonly/{B0}", node(place="/eu/r1"))
        bookies = RegisteredBookies(world.store)
        assert await bookies.available() == []
        assert bookies.location(B0) == parse_location("/eu/r1")
        await bookies.close()

    run_fast(story)


@pytest.mark.parametrize(
    "data", [b"\xff", node(place="/eu//r1"), b""], ids=["bytes", "path", "none"]
)
def test_unreadable_registration_of_one_bookie_keeps_no_other_away(data: bytes) -> None:
    async def story(world: FastWorld) -> None:
        await register(world, B0, place="/eu/r1")
        await world.store.create(f"/ledgers/available/{B1}", data)
        bookies = RegisteredBookies(world.store)
        assert await bookies.available() == [B0, B1]
        assert [bookies.location(b) for b in (B0, B1)] == [parse_location("/eu/r1"), None]
        await bookies.close()

    run_fast(story)


def test_locations_that_cannot_be_read_are_no_locations_to_choose_by() -> None:
    async def story(world: FastWorld) -> None:
        await register(world, B0, B1, place="/eu/r1")
        metadata, bookies = Metadata(world.store), RegisteredBookies(world.store)
        children = world.store.children

        async def then_down(path: str, watch: Watch | None = None) -> list[str]:
            names = await children(path, watch)
            metadata.is_down = True
            return names

        world.store.children = then_down  # type: ignore[method-assign]
        with pytest.raises(Unavailable):
            await bookies.available()
        world.store.children = children  # type: ignore[method-assign]
        metadata.is_down = False
        assert await bookies.available() == [B0, B1]
        assert bookies.location(B1) == parse_location("/eu/r1")
        await bookies.close()

    run_fast(story)


def test_address_and_lists_that_are_asked_for_at_once() -> None:
    """Found by the simulation: one read's note that a bookie is known misled the other."""

    async def story(world: FastWorld) -> None:
        await register(world, B0, place="/eu/r1")
        bookies = RegisteredBookies(world.store)
        async with asyncio.TaskGroup() as group:
            lists = group.create_task(bookies.available())
            addresses = [group.create_task(bookies._nodes.address(B0)) for _ in range(3)]
        assert lists.result() == [B0]
        assert {address.result() for address in addresses} == {("127.0.0.1", 3181)}
        assert bookies.location(B0) == parse_location("/eu/r1")
        await bookies.close()

    run_fast(story)


def test_idle_connections_of_vanished_bookies_are_closed() -> None:
    async def main() -> None:
        world = FastWorld(1)
        connections: list[asyncio.StreamWriter] = []
        ended = asyncio.Event()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            connections.append(writer)
            while await reader.read(1000):
                pass
            writer.close()
            ended.set()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        await world.store.create("/ledgers/available/readonly", parents=True)
        await register(world, B0, B1, port=port)
        config = BookieClientConfig(vanished_close_ms=10, request_timeout_ms=100)
        bookies = RegisteredBookies(world.store, config)
        await bookies.available()
        response = await ask(bookies.client(B0), ReadRequest(LedgerId(1), 0))
        assert response.status is StatusCode.LOCAL_TIMEOUT
        await leave(world, B1)
        await leave(world, B0)
        assert len(connections) == 1
        async with asyncio.timeout(30):
            await ended.wait()
        await bookies.close()
        server.close()
        await server.wait_closed()
        await world.store.close()

    asyncio.run(main(), debug=True)
