"""Damaged index files: what a bookie cannot prove it says so, and it denies nothing it promised."""

import random
import shutil
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tailrace.bookie.index_files import IndexFiles
from tailrace.bookie.index_format import IndexHeader, pack_header
from tailrace.bookie.ledger_dirs import LedgerDirs
from tailrace.bookie.ledger_state import LocationTable
from tailrace.core.errors import CorruptData
from tailrace.core.runtime.files import SystemFiles
from tailrace.protocol.bookkeeper.messages import (
    BatchReadRequest,
    ListEntriesRequest,
    ReadLacRequest,
    StatusCode,
)
from tailrace.protocol.ids import LedgerId
from tests.unit.bookie.crash_files import CrashFiles
from tests.unit.bookie.world import KEY, L1, L2, add, ask, fence, open_small, read, run

EOK, EIO = StatusCode.EOK, StatusCode.EIO
ENTRIES = 200
INDEX = "ledgers/current/0/1/1.idx"
SUMS = "ledgers/current/0/1/1.sums"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bookie that was stopped: `ENTRIES` entries of L1, which is fenced; L2 is not."""
    directory = tmp_path_factory.mktemp("written")

    async def story() -> None:
        bookie = await open_small(directory)
        for entry_id in range(ENTRIES):
            assert (await ask(bookie, add(L1, entry_id))).status is EOK
        await bookie.checkpoint()
        await ask(bookie, fence(L1))
        await ask(bookie, add(L2, 0))
        await bookie.close()

    run(story)
    return directory


@pytest.fixture
def directory(written: Path, tmp_path: Path) -> Path:
    shutil.copytree(written, tmp_path / "bookie")
    return tmp_path / "bookie"


def change(path: Path, at: int, data: bytes) -> None:
    image = bytearray(path.read_bytes())
    image[at : at + len(data)] = data
    path.write_bytes(image)


def flip(path: Path, at: int, bits: int = 1) -> None:
    change(path, at, bytes([path.read_bytes()[at] ^ bits]))


def statuses(directory: Path) -> dict[int, StatusCode]:
    """Return what a bookie says of each entry of L1, after the promises that must hold."""

    async def story() -> dict[int, StatusCode]:
        bookie = await open_small(directory)
        found = {n: (await ask(bookie, read(L1, n))).status for n in range(ENTRIES)}
        assert set(found.values()) <= {EOK, EIO}
        assert (await ask(bookie, add(L1, ENTRIES))).status in (StatusCode.EFENCED, EIO)
        last = await ask(bookie, read(L1))
        assert last.status is EIO or last.body[8:16] == (ENTRIES - 1).to_bytes(8, "big")
        listed = await ask(bookie, ListEntriesRequest(L1))
        assert listed.status in (EOK, EIO)
        if listed.status is EOK:
            assert set(found.values()) == {EOK}
        assert (await ask(bookie, read(L2, 0))).status is EOK  # others are not concerned
        await bookie.close()
        return found

    found: dict[int, StatusCode] = run(story)
    return found


def test_a_zeroed_sector_costs_only_its_entries(directory: Path) -> None:
    change(directory / INDEX, 1024 + 512, bytes(512))
    found = statuses(directory)
    assert {n for n, status in found.items() if status is EIO} == set(range(64, 128))


def test_the_end_of_a_damaged_index_is_not_guessed(directory: Path) -> None:
    change(directory / INDEX, 1024 + 3 * 512, bytes(512))

    async def story() -> None:
        bookie = await open_small(directory)
        for request in (read(L1), ReadLacRequest(L1), ListEntriesRequest(L1)):
            assert (await ask(bookie, request)).status is EIO
        batch = BatchReadRequest(L1, -1, 1, 1000)
        assert (await ask(bookie, batch)).status is EIO
        whole = await ask(bookie, BatchReadRequest(L1, 190, 100, 100_000))
        assert (whole.status, len(whole.bodies)) == (EOK, 2)
        assert (await ask(bookie, BatchReadRequest(L1, 192, 100, 100_000))).status is EIO
        assert (await ask(bookie, read(L1, ENTRIES + 64))).status is StatusCode.ENOENTRY
        await bookie.close()

    run(story)


def test_a_shorter_file_is_damaged(directory: Path) -> None:
    image = (directory / INDEX).read_bytes()
    (directory / INDEX).write_bytes(image[: 1024 + 512])
    found = statuses(directory)
    assert [n for n, status in found.items() if status is EOK] == list(range(64))


@pytest.mark.parametrize("at", [0, 5, 11, 12, 33, 35, 36, 39, 40, 495, 496, 503, 504, 511])
def test_a_flipped_bit_in_the_header_never_takes_a_fence_away(directory: Path, at: int) -> None:
    flip(directory / INDEX, at)
    assert set(statuses(directory).values()) == {EIO}


@pytest.mark.parametrize("size", [None, 0, 512, 1024])
def test_a_lost_index_is_not_a_ledger_that_never_was(directory: Path, size: int | None) -> None:
    if size is None:
        (directory / INDEX).unlink()
    else:
        change(directory / INDEX, 0, bytes(size))
        if not size:
            (directory / INDEX).write_bytes(b"")
    assert set(statuses(directory).values()) == {EIO}


def test_without_its_checksums_nothing_of_an_index_is_denied(directory: Path) -> None:
    (directory / SUMS).unlink()
    change(directory / INDEX, 1024, bytes(512))
    found = statuses(directory)
    assert {n for n, status in found.items() if status is EIO} == set(range(64))


@pytest.mark.parametrize("at", [0, 4, 8, 16, 24, 28, 512, 516, 520, 535])
def test_damage_of_the_checksums_denies_nothing(directory: Path, at: int) -> None:
    flip(directory / SUMS, at)
    statuses(directory)
    change(directory / INDEX, 1024, bytes(512))
    assert statuses(directory)[0] is EIO


def test_damage_stays_damage_over_checkpoints_and_restarts(directory: Path) -> None:
    """What is written beside damage does not make it look whole."""
    change(directory / INDEX, 1024 + 3 * 512, bytes(8))

    async def story() -> None:
        bookie = await open_small(directory)
        assert (await ask(bookie, add(L1, ENTRIES, recovery=True))).status is EOK
        await bookie.checkpoint()
        assert (await ask(bookie, read(L1, 192))).status is EIO
        await bookie.close()
        bookie = await open_small(directory)
        assert (await ask(bookie, read(L1, 192))).status is EIO
        assert (await ask(bookie, read(L1, ENTRIES))).status is EOK
        assert (await ask(bookie, add(L1, 192, recovery=True))).status is EOK  # another's copy
        await bookie.checkpoint()
        assert (await ask(bookie, read(L1, 192))).status is EOK
        await bookie.close()

    run(story)


def test_java_may_write_the_same_index(directory: Path) -> None:
    """Java's bookie puts a location that points into a log of its own; it knows of no sums."""
    log = directory / "ledgers/current/1.log"
    log.write_bytes((b"BKLO" + (1).to_bytes(4, "big")).ljust(1024, b"\0"))
    body = (directory / "ledgers/current/0.log").read_bytes()[1024 : 1024 + 4 + 43]
    log.write_bytes(log.read_bytes() + body)
    change(directory / INDEX, 1024, (1 << 32 | 1028).to_bytes(8, "big"))

    async def story() -> None:
        for _ in range(2):
            bookie = await open_small(directory)
            assert (await ask(bookie, read(L1, 0))).status is EOK
            assert (await ask(bookie, read(L1, ENTRIES))).status is StatusCode.ENOENTRY
            assert (await ask(bookie, add(L2, 1))).status is EOK  # so that it has a checkpoint
            await bookie.close()
        bookie = await open_small(directory)
        assert (await ask(bookie, add(L1, 5, recovery=True))).status is EOK
        await bookie.close()

    run(story)
    change(directory / INDEX, 1024 + 512, bytes(512))  # from then on it has sums again
    assert statuses(directory)[64] is EIO


def test_a_header_of_java_proves_nothing(directory: Path) -> None:
    header = pack_header(IndexHeader(KEY, fenced=True))
    change(directory / INDEX, 0, header)
    assert set(statuses(directory).values()) == {EOK}


# Every crash within a write leaves what it was or what it was to be, and never "damaged".

LEDGER = LedgerId(7)


def table_of(locations: dict[int, int]) -> LocationTable:
    table = LocationTable()
    for entry_id, location in locations.items():
        table.put(entry_id, location)
    return table


def opened(directory: Path, files: SystemFiles) -> IndexFiles:
    dirs = LedgerDirs(files, [directory])
    files.make_directory(dirs.all[0])
    return IndexFiles(files, dirs)


def stored(indexes: IndexFiles, entry_ids: range) -> dict[int, int]:
    found = {}
    for page in range(entry_ids.stop // 1024 + 1):
        checked = indexes.check_page(LEDGER, page)
        assert not checked.damaged
        locations = {page * 1024 + at: checked.location(at) for at in range(1024)}
        found |= {entry_id: place for entry_id, place in locations.items() if place}
    return found


ROUNDS = st.lists(
    st.dictionaries(st.integers(0, 3000), st.integers(1, 2**40), min_size=1, max_size=5),
    min_size=1,
    max_size=4,
)


@settings(max_examples=60)
@example([{0: 2}, {128: 1, 0: 1, 1: 1}], 23, random.Random(0))  # a sector that is changed twice
@example([{0: 2}, {128: 1, 0: 1, 1: 1}], 23, random.Random(1))
@example([{0: 2}, {128: 1, 0: 1, 1: 1}], 23, random.Random(2))
@given(rounds=ROUNDS, crash=st.integers(0, 40), rng=st.randoms(use_true_random=False))
def test_no_crash_looks_like_damage(
    tmp_path_factory: pytest.TempPathFactory,
    rounds: list[dict[int, int]],
    crash: int,
    rng: random.Random,
) -> None:
    directory = tmp_path_factory.mktemp("crash")
    files = CrashFiles()
    indexes = opened(directory, files)
    files.stop_at = len(files.steps) + crash
    before: dict[int, int] = {}
    unsure: dict[int, int] = {}
    try:
        for locations in rounds:
            unsure = locations
            indexes.write(LEDGER, IndexHeader(b"key", fenced=True), [table_of(locations)])
            before |= locations
    except OSError:
        assert files.is_crashed
    files.lose_power(rng)
    entry_ids = range(3001)
    again = opened(directory, SystemFiles())
    cut = frozenset(entry_id // 64 for entry_id in unsure)
    again.unsettled = {LEDGER: cut} if files.is_crashed or not before else {}  # as the tail tells
    loaded = again.load(LEDGER)
    assert loaded is not None or not before
    found = stored(again, entry_ids)
    for entry_id in entry_ids:
        assert found.get(entry_id) in {before.get(entry_id), unsure.get(entry_id)}
    again.write(LEDGER, IndexHeader(b"key", fenced=True), [table_of(unsure)])
    assert stored(again, entry_ids) == before | unsure
    assert again.entry_ids(LEDGER) == sorted(before | unsure)
    assert not again.unsettled
    shutil.rmtree(directory)


def test_zeros_are_damage_also_after_the_power_was_lost(tmp_path: Path) -> None:
    """What a sector was before its last write counts only while its ledger is in the tail."""
    files = CrashFiles()
    indexes = opened(tmp_path, files)
    indexes.write(LEDGER, IndexHeader(b"key", fenced=True), [table_of({0: 5, 70: 6})])
    for seed in range(10):
        files.lose_power(random.Random(seed))
    again = opened(tmp_path, SystemFiles())
    again.unsettled = {LEDGER: frozenset({9})}  # of entries that are in the tail
    assert stored(again, range(100)) == {0: 5, 70: 6}
    (path,) = tmp_path.rglob("*.idx")
    change(path, 1024, bytes(512))
    assert again.check_page(LEDGER, 0).damaged == {0}
    change(path, 0, bytes(1024))
    again.unsettled = {}
    with pytest.raises(CorruptData):
        again.load(LEDGER)
    assert again.is_fenced(LEDGER)


def test_a_lost_index_of_a_ledger_in_the_tail_is_noticed(tmp_path: Path) -> None:
    """Its key is not in the tail, so there was an index, which may have said that it is fenced."""

    async def story() -> None:
        live, dead = tmp_path / "live", tmp_path / "dead"
        bookie = await open_small(live)
        await ask(bookie, add(L1, 0))
        await ask(bookie, fence(L1))
        await bookie.checkpoint()
        await ask(bookie, add(L1, 1, recovery=True))
        shutil.copytree(live, dead)
        await bookie.close()
        change(dead / INDEX, 0, bytes(1024))
        with pytest.raises(CorruptData, match="the index of ledger 1 was lost"):
            await open_small(dead)

    run(story)


def test_what_the_tail_does_not_have_was_not_cut(tmp_path: Path) -> None:
    async def story() -> None:
        live, dead = tmp_path / "live", tmp_path / "dead"
        bookie = await open_small(live)
        for entry_id in range(70):
            await ask(bookie, add(L1, entry_id))
        await bookie.checkpoint()
        await ask(bookie, add(L1, 70))
        shutil.copytree(live, dead)
        await bookie.close()
        change(dead / INDEX, 1024, bytes(512))
        for _ in range(2):
            bookie = await open_small(dead)
            assert (await ask(bookie, read(L1, 0))).status is EIO
            assert (await ask(bookie, read(L1, 70))).status is EOK
            assert (await ask(bookie, read(L1, 69))).status is EOK
            assert (await ask(bookie, read(L1, 71))).status is StatusCode.ENOENTRY
            await bookie.close()

    run(story)
