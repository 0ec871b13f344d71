"""This project's ledger client on Apache's bookies; Apache's client reads what it wrote."""

import asyncio
from typing import Any

import pytest

from tailrace.core.errors import CoreError, EntryNotFound, LedgerFenced, UnauthorizedAccess
from tailrace.core.ledger import bookie_client
from tailrace.core.ledger.client import LedgerClient
from tailrace.core.ledger.config import LedgerConfig
from tailrace.core.ledger.reader import LedgerReader
from tailrace.protocol.bookkeeper.digest import DigestType
from tailrace.protocol.bookkeeper.entry import HEADER_SIZE, MAX_ENTRY_BYTES
from tailrace.protocol.bookkeeper.messages import BatchReadRequest, BatchReadResponse, StatusCode
from tailrace.protocol.ids import LedgerId
from tests.interop.bookkeeper.java import create
from tests.interop.bookkeeper.ours import Listener, add, bookies_of, ledger_client, run
from tests.interop.bookkeeper.payloads import payload, shown
from tests.java.peers import JavaClient, JavaError

pytestmark = [
    pytest.mark.interop,
    pytest.mark.java,
    pytest.mark.usefixtures("java_bookies"),
]
FENCED = -101
JAVAS_NAMES = {"HMAC": "MAC"}
"""Of digests, where they differ."""


def config(**changes: Any) -> LedgerConfig:
    how = {"ensemble_size": 2, "write_quorum": 2, "ack_quorum": 2, "digest": DigestType.CRC32C}
    return LedgerConfig(**(how | changes))


async def check(reader: LedgerReader, seed: int, last: int, size: int) -> None:
    """Compare everything that is confirmed with what was added."""
    assert reader.last_confirmed == last
    for entry in await reader.read(0, last):
        assert bytes(entry.payload) == payload(seed, entry.entry_id, size)
        assert entry.length == (entry.entry_id + 1) * size


def read_by_java(
    java: JavaClient, client: str, ledger_id: LedgerId, *, recovery: bool = True, **how: Any
) -> Any:
    """Return (LAC, ledger length, entries) as Java's client sees them."""
    opened = java.call("open", client=client, ledger=ledger_id, recovery=recovery, **how)
    last = opened["lac"]
    found = java.call("read", handle=opened["handle"], first=0, last=last)
    return last, opened["length"], found["entries"]


@pytest.mark.parametrize("digest", list(DigestType), ids=lambda digest: digest.name)
def test_a_ledgers_life(java: JavaClient, uri: str, v3: str, v2: str, digest: DigestType) -> None:
    async def story() -> LedgerId:
        async with ledger_client(uri) as ledgers:
            listener = Listener()
            how = config(digest=digest, password=b"secret", custom={"application": b"test"})
            writer = await ledgers.create_ledger(how, listener)
            await add(writer, listener, 1, 50, 100)
            open_reader = await ledgers.open_ledger(writer.ledger_id, recover=False)
            assert -1 <= open_reader.last_confirmed <= 49  # a burst carries an old LAC
            await writer.close()
            await check(await ledgers.open_ledger(writer.ledger_id, recover=False), 1, 49, 100)
            return writer.ledger_id

    ledger_id = run(story)
    name = JAVAS_NAMES.get(digest.name, digest.name)
    for client in (v3, v2):
        how = {"digest": name, "password": "secret"}
        found = read_by_java(java, client, ledger_id, **how)
        assert found == (49, 5000, shown(1, 0, 49, 100))
    metadata = java.call("metadata", client=v3, ledger=ledger_id)
    assert (metadata["state"], metadata["digest"]) == ("CLOSED", name)
    assert (metadata["last"], metadata["length"]) == (49, 5000)
    assert metadata["custom"] == {"application": "test"}
    java.call("delete", client=v3, ledger=ledger_id)


def test_entries_are_read_in_batches(uri: str) -> None:
    """Large enough for several answers, of which Java bounds each; all over one connection."""

    async def story() -> None:
        async with ledger_client(uri) as ledgers:
            listener = Listener()
            writer = await ledgers.create_ledger(config(), listener)
            await add(writer, listener, 9, 300, 40_000)
            await writer.close()
        async with bookies_of(uri) as (bookies, ledgers):
            reader = await ledgers.open_ledger(writer.ledger_id, recover=False)
            await check(reader, 9, 299, 40_000)
            metrics = bookies.metrics
            assert (metrics.connects_total, metrics.batch_refusals_total) == (1, 0)
            first, *_ = writer.metadata.fragments[0].ensemble
            missing = BatchReadRequest(writer.ledger_id, 298, 10, 1 << 20)
            answer = await bookie_client.ask(bookies.client(first), missing)
            assert isinstance(answer, BatchReadResponse)
            assert (answer.status, len(answer.bodies)) == (StatusCode.EOK, 2)
            nothing = await bookie_client.ask(bookies.client(first), missing._replace(entry_id=300))
            assert nothing == BatchReadResponse(StatusCode.ENOENTRY, writer.ledger_id, 300)

    run(story)


def test_striped_entries(java: JavaClient, uri: str, v3: str) -> None:
    async def story() -> tuple[LedgerId, tuple[str, ...]]:
        async with ledger_client(uri) as ledgers:
            listener = Listener()
            writer = await ledgers.create_ledger(config(write_quorum=1, ack_quorum=1), listener)
            await add(writer, listener, 2, 30, 70)
            await writer.close()
            return writer.ledger_id, writer.metadata.fragments[0].ensemble

    ledger_id, ensemble = run(story)
    for index, bookie in enumerate(ensemble):
        found = java.call("list_entries", client=v3, bookie=bookie, ledger=ledger_id, last=40)
        assert found["entries"] == list(range(index, 30, 2))
    assert read_by_java(java, v3, ledger_id) == (29, 2100, shown(2, 0, 29, 70))


def test_the_largest_entry(java: JavaClient, uri: str, v3: str) -> None:
    size = MAX_ENTRY_BYTES - HEADER_SIZE - 4

    async def story() -> LedgerId:
        async with ledger_client(uri) as ledgers:
            listener = Listener()
            writer = await ledgers.create_ledger(config(), listener)
            await add(writer, listener, 3, 2, size)
            await writer.close()
            await check(await ledgers.open_ledger(writer.ledger_id, recover=False), 3, 1, size)
            return writer.ledger_id

    assert read_by_java(java, v3, run(story)) == (1, 2 * size, shown(3, 0, 1, size))


def test_recovery_fences_the_writer(java: JavaClient, uri: str, v3: str) -> None:
    async def story() -> LedgerId:
        async with ledger_client(uri) as ledgers, ledger_client(uri) as others:
            listener = Listener()
            writer = await ledgers.create_ledger(config(), listener)
            await add(writer, listener, 4, 30, 100)
            await check(await others.open_ledger(writer.ledger_id, recover=True), 4, 29, 100)
            await add(writer, listener, 4, 1, 100)
            assert [type(error) for error in listener.errors] == [LedgerFenced]
            with pytest.raises(LedgerFenced):
                await writer.close()
            return writer.ledger_id

    assert read_by_java(java, v3, run(story)) == (29, 3000, shown(4, 0, 29, 100))


def test_java_fences_our_writer(java: JavaClient, uri: str, v3: str) -> None:
    async def story() -> None:
        async with ledger_client(uri) as ledgers:
            listener = Listener()
            writer = await ledgers.create_ledger(config(), listener)
            await add(writer, listener, 5, 30, 100)
            found = await asyncio.to_thread(read_by_java, java, v3, writer.ledger_id)
            assert found == (29, 3000, shown(5, 0, 29, 100))
            await add(writer, listener, 5, 1, 100)
            assert [type(error) for error in listener.errors] == [LedgerFenced]

    run(story)


@pytest.mark.parametrize("protocol", ["v3", "v2"])
def test_we_fence_javas_writer(
    java: JavaClient, uri: str, protocol: str, request: pytest.FixtureRequest
) -> None:
    client = request.getfixturevalue(protocol)
    made = create(java, client=client, e=2, qw=2, qa=2, password="p")
    java.call("add", handle=made["handle"], seed=6, size=100, count=30)

    async def story() -> None:
        async with ledger_client(uri) as ledgers:
            await check(await ledgers.open_ledger(made["ledger"], recover=True), 6, 29, 100)

    run(story)
    with pytest.raises(JavaError) as fenced:
        java.call("add", handle=made["handle"], seed=6, size=100, count=1)
    assert fenced.value.code == FENCED
    metadata = java.call("metadata", client=client, ledger=made["ledger"])
    assert (metadata["state"], metadata["last"], metadata["length"]) == ("CLOSED", 29, 3000)


def test_a_wrong_password(java: JavaClient, uri: str, v3: str) -> None:
    made = create(java, client=v3, e=2, qw=2, qa=2, password="right")
    java.call("add", handle=made["handle"], seed=7, size=10, count=3)

    async def story() -> None:
        async with ledger_client(uri) as ledgers:
            with pytest.raises(UnauthorizedAccess):
                await ledgers.open_ledger(made["ledger"], recover=True, password=b"wrong")
            reader = await ledgers.open_ledger(made["ledger"], recover=True, password=b"right")
            await check(reader, 7, 2, 10)

    run(story)


def test_an_explicit_lac(java: JavaClient, uri: str, v3: str) -> None:
    async def story() -> None:
        async with ledger_client(uri) as ledgers:
            listener = Listener()
            writer = await ledgers.create_ledger(config(explicit_lac_interval_ms=50), listener)
            await add(writer, listener, 8, 5, 10)
            how = {"client": v3, "ledger": writer.ledger_id, "recovery": False}
            reader = (await ask(java, "open", **how))["handle"]
            while (await ask(java, "read_explicit_lac", handle=reader))["lac"] != 4:
                pass  # until the writer's timer has fired; each is a round trip
            found = await ask(java, "read", handle=reader, first=0, last=4)
            assert found["entries"] == shown(8, 0, 4, 10)
            await writer.close()

    run(story)


def test_deferred_sync_and_force(java: JavaClient, uri: str, v3: str) -> None:
    async def story() -> LedgerId:
        async with ledger_client(uri) as ledgers:
            listener = Listener()
            writer = await ledgers.create_ledger(config(deferred_sync=True), listener)
            for entry_id in range(20):
                writer.add((payload(9, entry_id, 100),))
            while writer.lac < 19:
                await writer.force()
            await writer.close()
            return writer.ledger_id

    assert read_by_java(java, v3, run(story)) == (19, 2000, shown(9, 0, 19, 100))


def test_entries_in_any_order(java: JavaClient, uri: str, v3: str) -> None:
    async def story() -> None:
        async with ledger_client(uri) as ledgers:
            listener = Listener()
            how = {"ledger_id": LedgerId(8_000_000_000)}
            writer = await ledgers.create_ledger_adv(config(), listener, **how)
            for entry_id in (2, 0, 1, 4, 3):
                writer.add(entry_id, (payload(10, entry_id, 10),))
            await listener.reach(4)
            await writer.close()

    run(story)
    last, length, entries = read_by_java(java, v3, LedgerId(8_000_000_000))
    assert (last, length) == (4, 50)
    assert [entry[3] for entry in entries] == [entry[3] for entry in shown(10, 0, 4, 10)]


def test_a_long_poll_reader_of_java_follows_our_writer(java: JavaClient, uri: str, v3: str) -> None:
    async def story() -> None:
        async with ledger_client(uri) as ledgers:
            listener = Listener()
            writer = await ledgers.create_ledger(config(), listener)
            await add(writer, listener, 11, 1, 10)
            how = {"client": v3, "ledger": writer.ledger_id, "recovery": False}
            reader = (await ask(java, "open", **how))["handle"]
            for entry in range(5):
                poll = java.start("long_poll", handle=reader, entry=entry, timeout_ms=4_000)
                await add(writer, listener, 11, 1, 10)  # its LAC is `entry`
                news = await asyncio.wrap_future(poll)
                assert (news["lac"], news["entry"]) == (entry, shown(11, entry, entry, 10)[0])
            await writer.close()
            news = {"lac": 4}
            while news["lac"] == 4:  # until the reader's watch has told it of the end
                news = await ask(java, "long_poll", handle=reader, entry=5, timeout_ms=300)
            assert (news["lac"], news["entry"]) == (5, shown(11, 5, 5, 10)[0])

    run(story)


def test_reading_behind_javas_writer(java: JavaClient, uri: str, v3: str) -> None:
    made = create(java, client=v3, e=2, qw=2, qa=2)

    async def story() -> None:
        async with ledger_client(uri) as ledgers:
            reader = await ledgers.open_ledger(made["ledger"], recover=False)
            assert reader.last_confirmed == -1
            how = {"handle": made["handle"], "seed": 12, "size": 10, "count": 1}
            for entry in range(5):
                await ask(java, "add", **how)
                await reader.read_last_confirmed()
                assert reader.last_confirmed == entry - 1
            await check(reader, 12, 3, 10)
            await ask(java, "close", handle=made["handle"])
            await reader.read_last_confirmed()
            assert reader.is_closed
            await check(reader, 12, 4, 10)

    run(story)


def test_waiting_for_javas_writer(java: JavaClient, uri: str, v3: str) -> None:
    made = create(java, client=v3, e=2, qw=2, qa=2)
    how = {"handle": made["handle"], "seed": 13, "size": 10, "count": 1}

    async def story() -> None:
        async with ledger_client(uri) as ledgers:
            await ask(java, "add", **how)
            reader = await ledgers.open_ledger(made["ledger"], recover=False)
            for entry_id in range(5):
                async with asyncio.TaskGroup() as group:
                    news = group.create_task(reader.read_last_confirmed_and_entry(entry_id, 60_000))
                    await ask(java, "add", **how)  # its LAC is `entry_id`
                lac, entry = news.result()
                assert (lac, entry is None) == (entry_id, False)
                assert entry is not None
                assert bytes(entry.payload) == payload(13, entry_id, 10)
            nothing = await reader.read_last_confirmed_and_entry(5, 200)
            assert nothing == (4, None)
            last = await reader.read_unconfirmed(5, 5)
            assert bytes(last[0].payload) == payload(13, 5, 10)
            with pytest.raises(EntryNotFound):
                await reader.read_unconfirmed(6, 6)
            assert await reader.try_read_last_confirmed() == 4
            await ask(java, "close", handle=made["handle"])
            lac, entry = await reader.read_last_confirmed_and_entry(5, 60_000)
            assert (lac, entry is None) == (5, False)

    run(story)


def test_javas_explicit_lac(java: JavaClient, uri: str) -> None:
    java.call("connect", client="lac", uri=uri, conf={"explicitLacInterval": 50})
    made = create(java, client="lac", e=2, qw=2, qa=2)
    java.call("add", handle=made["handle"], seed=14, size=10, count=3, one_by_one=True)

    async def story() -> None:
        async with ledger_client(uri) as ledgers:
            reader = await ledgers.open_ledger(made["ledger"], recover=False)
            while await reader.read_explicit_lac() != 2:
                pass  # until the writer's timer has fired; each is a round trip
            await check(reader, 14, 2, 10)

    run(story)
    java.call("disconnect", client="lac")


def test_a_deleted_ledger(java: JavaClient, uri: str, v3: str) -> None:
    made = create(java, client=v3, e=2, qw=2, qa=2)
    java.call("delete", client=v3, ledger=made["ledger"])

    async def story() -> None:
        async with ledger_client(uri) as ledgers:
            await expect_missing(ledgers, made["ledger"])

    run(story)


async def expect_missing(ledgers: LedgerClient, ledger_id: LedgerId) -> None:
    with pytest.raises(CoreError):
        await ledgers.open_ledger(ledger_id, recover=True)


async def ask(java: JavaClient, op: str, **fields: Any) -> dict[str, Any]:
    return await asyncio.wrap_future(java.start(op, **fields))
