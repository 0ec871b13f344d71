"""Entries above BookKeeper's default frame: which bookies a ledger gets, and what fits into it."""

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from tailrace.core.errors import BookieUnavailable, CorruptData, LogRecordTooLong, NotEnoughBookies
from tailrace.core.ledger.bookie_registry import LocalBookies
from tailrace.core.ledger.client import LedgerClient
from tailrace.core.ledger.config import LedgerConfig
from tailrace.core.ledger.ensembles import Ensembles
from tailrace.core.ledger.entry_limit import (
    LIMIT_KEY,
    entry_limit_of,
    has_large_entries,
    with_entry_limit,
)
from tailrace.core.ledger.placement_policy import Quorums
from tailrace.core.ledger.reader import SOME_BYTES, LedgerReader
from tailrace.protocol.bookkeeper.entry import ENTRY_BYTES_LIMIT, MAX_ENTRY_BYTES
from tailrace.protocol.bookkeeper.messages import StatusCode
from tailrace.protocol.ids import BookieId
from tests.unit.core.ledger.world import Listener, World, run_world, settle

LARGE = ENTRY_BYTES_LIMIT
MIB = 1 << 20
TWO = LedgerConfig(ensemble_size=2, write_quorum=2, ack_quorum=2, entry_bytes_max=LARGE)
ORDINARY = replace(TWO, entry_bytes_max=MAX_ENTRY_BYTES)


class Sized(LocalBookies):
    """Bookies of which some take as much as any, others less."""

    small: frozenset[BookieId] = frozenset()

    def entry_bytes_max(self, bookie_id: BookieId) -> int:
        return MAX_ENTRY_BYTES if bookie_id in self.small else LARGE


def sized(world: World, *small: str) -> tuple[LedgerClient, Sized]:
    bookies = Sized(world.bookies)
    bookies.small = frozenset(map(BookieId, small))
    return LedgerClient(world.store, bookies, None, Random(7)), bookies


@pytest.mark.parametrize("most", [1, MAX_ENTRY_BYTES, MAX_ENTRY_BYTES + 1, LARGE])
def test_a_ledger_says_only_what_not_every_bookie_takes(most: int) -> None:
    custom = with_entry_limit({"a": b"b"}, most)
    assert entry_limit_of(custom) == max(most, MAX_ENTRY_BYTES)
    assert has_large_entries(custom) == (most > MAX_ENTRY_BYTES) == (LIMIT_KEY in custom)
    assert custom["a"] == b"b"


@pytest.mark.parametrize("said", [b"", b"-1", b"x", b"9" * 13])
def test_a_limit_that_is_not_a_number_is_damage(said: bytes) -> None:
    with pytest.raises(CorruptData, match=LIMIT_KEY):
        entry_limit_of({LIMIT_KEY: said})


def test_no_limit_is_beyond_what_is_read_anywhere() -> None:
    assert entry_limit_of({LIMIT_KEY: b"999999999999"}) == LARGE
    assert entry_limit_of({LIMIT_KEY: b"1"}) == MAX_ENTRY_BYTES
    with pytest.raises(ValueError, match="entries of"):
        LedgerConfig(entry_bytes_max=LARGE + 1)


def test_bookies_with_small_frames_are_left_out_and_named(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        ensembles = Ensembles(Sized(world.bookies), Random(7))
        ensembles._bookies.small = frozenset({BookieId("b1")})  # type: ignore[attr-defined]
        for _ in range(20):
            chosen = await ensembles.new_ensemble(Quorums(2, 2, 2), entry_bytes=LARGE)
            assert sorted(chosen) == ["b0", "b2"]
        everybody = [await ensembles.new_ensemble(Quorums(2, 2, 2)) for _ in range(20)]
        assert any("b1" in chosen for chosen in everybody), "ordinary ledgers go anywhere"
        for lacking in (
            ensembles.new_ensemble(Quorums(3, 3, 2), entry_bytes=LARGE),
            ensembles.new_ensemble_up_to(Quorums(3, 3, 2), entry_bytes=LARGE),
            ensembles.replace(
                (BookieId("b0"), BookieId("b2")), {0: BookieId("b0")}, Quorums(2, 2, 2),
                entry_bytes=LARGE,
            ),
        ):  # fmt: skip
            with pytest.raises(NotEnoughBookies, match=r"above nettyMaxFrameSizeBytes of: b1"):
                await lacking

    run_world(tmp_path, story)


def test_what_a_ledger_takes_is_what_its_metadata_says(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        client, _ = sized(world)
        listener = Listener()
        writer = await client.create_ledger(TWO, listener)
        assert entry_limit_of(writer.metadata.custom) == LARGE
        with pytest.raises(LogRecordTooLong):
            writer.add((bytes(LARGE),))
        writer.add((bytes(6 * MIB),))
        writer.add((b"last",))
        await writer.close()
        reader = await client.open_ledger(writer.ledger_id, recover=False)
        entries = await reader.read(0, 1)
        assert [len(entry.payload) for entry in entries] == [6 * MIB, 4]
        ordinary = await client.create_ledger(ORDINARY, listener)
        assert ordinary.metadata.custom == {}
        with pytest.raises(LogRecordTooLong):
            ordinary.add((bytes(6 * MIB),))

    run_world(tmp_path, story)


def test_a_failed_bookie_is_never_replaced_by_one_that_could_not_take_the_entries(
    tmp_path: Path,
) -> None:
    async def story(world: World) -> None:
        client, bookies = sized(world, "b2")
        listener = Listener()
        writer = await client.create_ledger(TWO, listener)
        failing, staying = world.ensemble(writer)
        failing.fault = lambda _: StatusCode.LOCAL_UNAVAILABLE
        writer.add((bytes(6 * MIB),))
        await settle(200)
        assert [type(error) for error in listener.errors] == [BookieUnavailable]
        assert {b.bookie_id for b in (failing, staying)} == {"b0", "b1"}
        assert all("b2" not in fragment.ensemble for fragment in writer.metadata.fragments)
        assert not world.bookie(BookieId("b2")).ledgers
        assert bookies.small == {"b2"}

    run_world(tmp_path, story)


def test_a_ledger_of_large_entries_is_recovered(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        client, _ = sized(world)
        writer = await client.create_ledger(TWO, Listener())
        sizes = [6 * MIB, 10, 7 * MIB, 100]
        for size in sizes:
            writer.add((bytes(size),))
        await settle()
        assert writer.lac == len(sizes) - 1
        reader = await sized(world)[0].open_ledger(writer.ledger_id, recover=True)
        entries = await reader.read(0, reader.last_confirmed)
        assert [len(entry.payload) for entry in entries] == sizes

    run_world(tmp_path, story)


@pytest.mark.parametrize("reads_batches", [False, True])
def test_no_more_large_entries_are_read_than_fit_into_memory(
    tmp_path: Path, reads_batches: bool
) -> None:
    """Nobody knows how large they are before they come: after small ones they grow slowly."""

    async def story(world: World) -> None:
        client, _ = sized(world)
        for bookie in world.bookies:
            bookie.reads_batches = reads_batches
        writer = await client.create_ledger(TWO, Listener())
        sizes = [10] * 40 + [6 * MIB] * 8 + [10] * 5
        for size in sizes:
            writer.add((bytes(size),))
        await writer.close()
        reader = await client.open_ledger(writer.ledger_id, recover=False)
        first, found = 0, []
        while first < len(sizes):
            entries = await reader.read_some(first, len(sizes) - 1)
            got = [len(entry.payload) for entry in entries]
            assert sum(got) <= SOME_BYTES + 2 * 6 * MIB
            found += got
            first = entries[-1].entry_id + 1
        assert found == sizes
        assert len(await _all(client, writer.ledger_id)) == len(sizes)

    run_world(tmp_path, story)


async def _all(client: LedgerClient, ledger_id: int) -> list[object]:
    reader: LedgerReader = await client.open_ledger(ledger_id, recover=False)  # type: ignore[arg-type]
    return list(await reader.read(0, reader.last_confirmed))


def test_ordinary_ledgers_are_read_as_they_are_asked_for(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        client, _ = sized(world)
        writer = await client.create_ledger(ORDINARY, Listener())
        for _ in range(6):
            writer.add((bytes(4 * MIB),))
        await writer.close()
        reader = await client.open_ledger(writer.ledger_id, recover=False)
        assert len(await reader.read_some(0, 5)) == 6

    run_world(tmp_path, story)
