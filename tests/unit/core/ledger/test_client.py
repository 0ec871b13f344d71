from pathlib import Path
from typing import Any

import pytest

from tailrace.core.errors import EntryNotFound, LedgerFenced, LedgerNotFound, NotEnoughBookies
from tailrace.core.ledger.config import LedgerConfig
from tailrace.core.metadata.ledger_metadata import LedgerState
from tailrace.protocol.bookkeeper.digest import DigestType
from tailrace.protocol.ids import LedgerId
from tests.unit.core.ledger.world import (
    REPLICATED,
    SINGLE,
    STRIPED,
    Listener,
    World,
    run_world,
)

ALL_DIGESTS = [LedgerConfig(digest=digest, password=b"x") for digest in DigestType]


@pytest.mark.parametrize("config", [SINGLE, REPLICATED, STRIPED, *ALL_DIGESTS])
def test_written_ledger_is_read_back(tmp_path: Path, config: LedgerConfig) -> None:
    async def story(world: World) -> None:
        listener = Listener()
        writer = await world.client.create_ledger(config, listener)
        payloads = [b"entry %d" % i * (i + 1) for i in range(20)]
        for entry_id, payload in enumerate(payloads):
            assert writer.add((payload[:4], memoryview(payload)[4:])) == entry_id
        await writer.close()
        assert listener.confirmed[-1] == writer.lac == 19
        assert listener.errors == []
        reader = await world.client.open_ledger(writer.ledger_id, recover=False)
        assert reader.is_closed
        assert reader.last_confirmed == 19
        entries = await reader.read(0, 19)
        assert [bytes(entry.payload) for entry in entries] == payloads
        assert [entry.entry_id for entry in entries] == list(range(20))
        assert entries[-1].length == reader.metadata.length == sum(map(len, payloads))
        assert [bytes(e.payload) for e in await reader.read(7, 8)] == payloads[7:9]
        assert await reader.read(7, 6) == []
        with pytest.raises(EntryNotFound):
            await reader.read(19, 20)

    run_world(tmp_path, story)


def test_ids_are_never_reused(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        first = await world.client.create_ledger(SINGLE, Listener())
        second = await world.client.create_ledger(SINGLE, Listener())
        await world.client.delete_ledger(second.ledger_id)
        third = await world.new_client().create_ledger(SINGLE, Listener())
        assert [first.ledger_id, second.ledger_id, third.ledger_id] == [0, 1, 2]
        assert await world.store.children("/ledgers/idgen") == []

    run_world(tmp_path, story)


def test_deleted_ledger_is_gone_with_its_directories(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        writer = await world.client.create_ledger(SINGLE, Listener())
        await world.client.delete_ledger(writer.ledger_id)
        await world.client.delete_ledger(writer.ledger_id)
        assert await world.store.exists("/ledgers/00") is None
        with pytest.raises(LedgerNotFound):
            await world.client.open_ledger(writer.ledger_id, recover=True)
        with pytest.raises(LedgerNotFound):
            await writer.close()

    run_world(tmp_path, story)


def test_id_that_is_taken_is_passed_over(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.store.create("/ledgers/00/0000/L0000", b"by hand", parents=True)
        writer = await world.client.create_ledger(SINGLE, Listener())
        assert writer.ledger_id == 1

    run_world(tmp_path, story)


def test_ids_beyond_31_bits_come_from_the_long_generator(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        creator = world.client._creator
        long_id, node = await creator._next_long_id()
        assert (long_id, node) == (1 << 32, "/ledgers/idgen-long/HOB-0000000001/ID-0000000000")
        await world.store.create("/ledgers/idgen-long/HOB-0000000003")
        assert (await creator._next_long_id())[0] == 3 << 32

    run_world(tmp_path, story)


@pytest.mark.parametrize("name", ["ID-2147483647", "ID--2147483648", "ID--000000005"])
def test_used_up_short_ids_are_followed_by_long_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """ZooKeeper's sequence has 31 bits: it goes on with negative numbers."""

    async def story(world: World) -> None:
        real = world.store.create

        async def create(path: str, data: bytes = b"", **options: Any) -> str:
            if path == "/ledgers/idgen/ID-":
                return await real(f"/ledgers/idgen/{name}", data, ephemeral=True)
            return await real(path, data, **options)

        monkeypatch.setattr(world.store, "create", create)
        first = await world.client.create_ledger(SINGLE, Listener())
        second = await world.client.create_ledger(SINGLE, Listener())
        assert (first.ledger_id, second.ledger_id) == (1 << 32, (1 << 32) + 1)
        assert await world.store.children("/ledgers/idgen") == []
        assert await world.store.children("/ledgers/000/0000/0042/9496") == ["L7296", "L7297"]

    run_world(tmp_path, story)


def test_too_few_bookies_for_an_ensemble(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        with pytest.raises(NotEnoughBookies):
            await world.client.create_ledger(REPLICATED, Listener())

    run_world(tmp_path, story, bookies=2)


def test_ensembles_spread_and_repeat_for_a_seed(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        chosen = []
        for client in (world.new_client(), world.new_client()):
            writers = [await client.create_ledger(SINGLE, Listener()) for _ in range(20)]
            chosen.append([writer.metadata.fragments for writer in writers])
        assert chosen[0] == chosen[1]
        assert len(set(chosen[0])) == 3

    run_world(tmp_path, story)


def test_reader_without_recovery_follows_the_writer(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        writer = await world.client.create_ledger(REPLICATED, Listener())
        reader = await world.new_client().open_ledger(writer.ledger_id, recover=False)
        assert (reader.last_confirmed, reader.is_closed) == (-1, False)
        for i in range(3):
            writer.add((b"%d" % i,))
            await writer._adder.drained()
        # The last entry's confirmation is known to bookies only with the next one.
        assert await reader.read_last_confirmed() == 1
        assert [bytes(e.payload) for e in await reader.read(0, 1)] == [b"0", b"1"]
        with pytest.raises(EntryNotFound):
            await reader.read(2, 2)
        reader.note_confirmed(2)
        assert len(await reader.read(0, 2)) == 3
        await writer.close()
        assert not reader.is_closed
        assert await reader.read_last_confirmed() == 2
        assert reader.is_closed

    run_world(tmp_path, story)


def test_open_without_recovery_never_fences(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        writer = await world.client.create_ledger(REPLICATED, Listener())
        writer.add((b"a",))
        await world.new_client().open_ledger(writer.ledger_id, recover=False)
        writer.add((b"b",))
        await writer.close()
        assert writer.lac == 1

    run_world(tmp_path, story)


def test_open_of_a_closed_ledger_asks_no_bookie(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        writer = await world.client.create_ledger(REPLICATED, Listener())
        await writer.close()
        for bookie in world.bookies:
            bookie.requests.clear()
        for recover in (False, True):
            reader = await world.client.open_ledger(writer.ledger_id, recover=recover)
            assert (reader.last_confirmed, reader.metadata.length) == (-1, 0)
        assert [bookie.requests for bookie in world.bookies] == [[], [], []]

    run_world(tmp_path, story)


def test_metadata_tells_how_the_ledger_was_made(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        config = LedgerConfig(
            ensemble_size=3, write_quorum=2, ack_quorum=1, custom={"application": b"tailrace"}
        )
        writer = await world.client.create_ledger(config, Listener())
        metadata = await world.client.ledger_metadata(writer.ledger_id)
        assert metadata == writer.metadata
        assert metadata.state is LedgerState.OPEN
        assert (metadata.ensemble_size, metadata.write_quorum, metadata.ack_quorum) == (3, 2, 1)
        assert metadata.custom == {"application": b"tailrace"}
        assert metadata.ctoken > 0
        with pytest.raises(LedgerNotFound):
            await world.client.ledger_metadata(LedgerId(99))

    run_world(tmp_path, story)


def test_recovered_ledger_fences_its_writer(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        listener = Listener()
        writer = await world.client.create_ledger(SINGLE, listener)
        writer.add((b"kept",))
        await writer._adder.drained()
        reader = await world.new_client().open_ledger(writer.ledger_id, recover=True)
        assert reader.is_closed
        assert reader.last_confirmed == 0
        writer.add((b"lost",))
        with pytest.raises(LedgerFenced):
            await writer.close()
        assert isinstance(listener.errors[0], LedgerFenced)
        assert listener.confirmed == [0]
        with pytest.raises(LedgerFenced):
            writer.add((b"later",))

    run_world(tmp_path, story)
