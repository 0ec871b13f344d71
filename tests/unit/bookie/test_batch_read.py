"""Batch reads: BookKeeper's limits, held against a plain loop over what is stored."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.bookie.batch_read import BatchReads
from tailrace.bookie.entry_log_format import file_name, pack_location, split_location
from tailrace.bookie.entry_reader import EntryReader
from tailrace.bookie.entry_spans import LENGTH_SIZE, SLACK_BYTES
from tailrace.bookie.index_files import IndexFiles
from tailrace.bookie.index_format import IndexHeader
from tailrace.bookie.ledger_dirs import LedgerDirs
from tailrace.bookie.ledger_state import LedgerState
from tailrace.core.errors import CorruptData
from tailrace.core.runtime.files import SystemFiles
from tailrace.protocol.bookkeeper.messages import (
    LAST_ENTRY,
    BatchReadRequest,
    BatchReadResponse,
    ReadRequest,
    StatusCode,
)
from tailrace.protocol.ids import LedgerId
from tests.unit.bookie.world import (
    KEY,
    L1,
    L2,
    OTHER_KEY,
    add,
    ask,
    entry_body,
    fence,
    open_small,
    run,
)

MANY = 1 << 20
ANSWER_BYTES = 24 + 8 + 4


def by_a_loop(
    entries: dict[int, bytes | Exception], first: int, count_max: int, bytes_max: int
) -> tuple[StatusCode, list[bytes]]:
    bodies: list[bytes] = []
    used = ANSWER_BYTES
    while count_max <= 0 or len(bodies) < count_max:
        body = entries.get(first + len(bodies))
        if not isinstance(body, bytes):
            failed = StatusCode.ENOENTRY if body is None else StatusCode.EIO
            return (StatusCode.EOK if bodies else failed), bodies
        used += len(body) + 4
        if bodies and used > bytes_max:
            break
        bodies.append(body)
    return StatusCode.EOK, bodies


class Stored(NamedTuple):
    """One entry of a log that was written by hand."""

    hole: int
    """Bytes of others before it."""
    size: int
    log_id: int
    fault: str


@contextmanager
def written(
    entries: list[Stored],
    files: SystemFiles | None = None,
    behind: Any = None,
    *,
    cut: int = 0,
) -> Iterator[tuple[EntryReader, list[int], dict[int, bytes | Exception]]]:
    """Write entry logs; yield a reader, where entries are (0: nowhere), and what to find there.

    `cut`: bytes that are missing at the end of the last entry's log.
    """
    with TemporaryDirectory() as folder:
        dirs = LedgerDirs(SystemFiles(), [Path(folder)])
        current = Path(folder) / "current"
        current.mkdir()
        logs = {1: bytearray(1024), 2: bytearray(1024)}
        places: list[int] = []
        expected: dict[int, bytes | Exception] = {}
        for entry_id, (hole, size, log_id, fault) in enumerate(entries):
            log = logs[log_id]
            log += b"\xff" * hole
            owner = L2 if fault == "another's" else L1
            body = entry_body(owner, entry_id, b"x" * size)
            length = {"no length": -5, "too long": 1 << 30}.get(fault, len(body))
            places.append(0 if fault == "missing" else pack_location(log_id, len(log) + 4))
            log += length.to_bytes(4, "big", signed=True) + body
            if fault == "none":
                expected[entry_id] = body
            elif fault != "missing":
                expected[entry_id] = CorruptData(fault)
        if cut:
            del logs[entries[-1].log_id][-cut:]
        for log_id, log in logs.items():
            (current / file_name(log_id)).write_bytes(log)
        indexes = IndexFiles(SystemFiles(), dirs)
        reader = EntryReader(
            files or SystemFiles(), dirs, indexes, behind, files_max=1, pages_max=1
        )
        yield reader, places, expected
        reader.close()


stored = st.builds(
    Stored,
    st.sampled_from([0, 0, 0, 7, 5000]),
    st.integers(0, 120) | st.integers(3000, 9000),
    st.sampled_from([1, 1, 1, 1, 2]),
    st.sampled_from(["none"] * 12 + ["missing", "another's", "no length", "too long"]),
)


@given(st.lists(stored, min_size=1, max_size=20), st.integers(0, 5), st.integers(-5, 60_000))
def test_a_batch_is_what_a_plain_loop_reads(
    entries: list[Stored], first: int, bytes_max: int
) -> None:
    with written(entries) as (reader, places, expected):
        status, bodies = by_a_loop(expected, first, 0, bytes_max + ANSWER_BYTES)
        if status is StatusCode.EIO:
            with pytest.raises(CorruptData):
                reader.read_batch(L1, first, places[first:], 0, bytes_max)
        else:
            assert reader.read_batch(L1, first, places[first:], 0, bytes_max) == bodies


@pytest.mark.parametrize("fault", ["another's", "no length", "too long", "missing"])
def test_the_first_that_is_not_right_ends_a_batch(fault: str) -> None:
    entries = [Stored(0, 100, 1, fault if index == 6 else "none") for index in range(10)]
    with written(entries) as (reader, places, expected):
        assert reader.read_batch(L1, 0, places, 0, MANY) == [expected[i] for i in range(6)]
        assert reader.read_batch(L1, 7, places[7:], 0, MANY) == [expected[i] for i in (7, 8, 9)]


class CountingFiles(SystemFiles):
    """Counts what is read."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def read_at(self, fd: int, size: int, position: int) -> bytes:
        self.sizes.append(size)
        return super().read_at(fd, size, position)


def test_scattered_entries_are_read_once_each_and_what_was_not_guessed_once_more() -> None:
    sizes = [9000, 9100, 8900, 18_000, 18_100, 9000]
    entries = [Stored(5000, size, 1, "none") for size in sizes]
    files = CountingFiles()
    with written(entries, files) as (reader, places, expected):
        assert reader.read_batch(L1, 0, places, 0, MANY) == list(expected.values())
    body = {size: len(entry_body(L1, 0, bytes(size))) for size in sizes}
    more = LENGTH_SIZE + SLACK_BYTES
    assert files.sizes == [
        LENGTH_SIZE, body[9000],  # nobody knew how long the first one is
        body[9000] + more,
        body[9100] + more,
        body[8900] + more, body[18_000] - body[8900] - SLACK_BYTES,  # longer than the one before
        body[18_000] + more,
        body[18_100] + more,
    ]  # fmt: skip


def test_of_a_length_that_cannot_be_no_more_is_read_than_was_guessed() -> None:
    entries = [Stored(5000, 9000, 1, "none"), Stored(5000, 9000, 1, "too long")]
    files = CountingFiles()
    with written(entries, files) as (reader, places, expected):
        assert reader.read_batch(L1, 0, places, 0, MANY) == [expected[0]]
    body = len(entry_body(L1, 0, bytes(9000)))
    assert max(files.sizes) == body + LENGTH_SIZE + SLACK_BYTES


class Behind:
    """Notes what was read of entry logs."""

    def __init__(self) -> None:
        self.ends: list[int] = []

    def read(self, _log_id: int, _fd: int, _start: int, end: int) -> None:
        self.ends.append(end)

    def close_log(self, _log_id: int) -> None:
        pass


def test_who_lets_go_of_pages_hears_how_far_was_read() -> None:
    entries = [Stored(5000, size, 1, "none") for size in (9000, 18_000, 9000)]
    behind = Behind()
    with written(entries, behind=behind) as (reader, places, expected):
        bodies = reader.read_batch(L1, 0, places, 0, MANY)
        assert bodies == list(expected.values())
    ends = [split_location(at)[1] + len(body) for at, body in zip(places, bodies, strict=True)]
    assert behind.ends == ends, "the last one is the end of the log, however much was asked for"


@pytest.mark.parametrize("kept", [0, 3, 4, 4000, 16_000])
def test_a_body_that_the_end_of_a_log_cuts_short_ends_a_batch(kept: int) -> None:
    entries = [Stored(5000, size, 1, "none") for size in (9000, 9000, 18_000)]
    with written(entries, cut=4 + len(entry_body(L1, 2, bytes(18_000))) - kept) as world:
        reader, places, expected = world
        assert reader.read_batch(L1, 0, places, 0, MANY) == [expected[0], expected[1]]
        with pytest.raises(CorruptData):
            reader.read_batch(L1, 2, places[2:], 0, MANY)


@given(
    st.integers(0, 25),
    st.integers(-1, 30),
    st.integers(-5, 2500) | st.just(MANY),
    st.integers(0, 2500),
)
def test_the_limits_of_request_and_bookie(
    first: int, count_max: int, asked_bytes: int, bytes_max: int
) -> None:
    bodies: dict[int, bytes | Exception] = {i: entry_body(L1, i, bytes(i * 7)) for i in range(20)}
    reads = Reads(bodies)
    answers: list[BatchReadResponse] = []
    batches = BatchReads(reads, bytes_max, lambda reply, r: reply(r))  # type: ignore[arg-type]
    request = BatchReadRequest(L1, first, count_max, asked_bytes)
    batches.read(LedgerState(L1, IndexHeader(KEY)), request, answers.append)
    expected = by_a_loop(bodies, first, count_max, min(asked_bytes, bytes_max))
    assert [(each.status, list(each.bodies)) for each in answers] == [expected]
    assert [(each.ledger_id, each.entry_id) for each in answers] == [(L1, first)]
    reads.is_full = True
    batches.read(LedgerState(L1, IndexHeader(KEY)), request, answers.append)
    assert answers[1] == BatchReadResponse(StatusCode.ETOOMANYREQUESTS, L1, first)


class Reads:
    """Batches of a dictionary, by the same plain loop."""

    def __init__(self, entries: dict[int, bytes | Exception]) -> None:
        self._entries = entries
        self.is_full = False

    def fetch_batch(
        self, _state: object, first: int, count: int, bytes_max: int, then: Callable[[Any], None]
    ) -> bool:
        if not self.is_full:
            then(by_a_loop(self._entries, first, count, bytes_max + ANSWER_BYTES)[1])
        return not self.is_full


@pytest.mark.parametrize("journal_write_data", [False, True], ids=["direct", "journaled"])
def test_of_a_real_bookie(tmp_path: Path, journal_write_data: bool) -> None:
    async def story() -> None:
        bookie = await open_small(tmp_path, journal_write_data=journal_write_data)
        for entry_id in range(20):
            await ask(bookie, add(L1, entry_id, b"%d" % entry_id))
        bodies = tuple(entry_body(L1, i, b"%d" % i) for i in range(20))
        answer = await ask(bookie, BatchReadRequest(L1, 3, 5, MANY))
        assert answer == BatchReadResponse(StatusCode.EOK, L1, 3, bodies[3:8])
        answer = await ask(bookie, BatchReadRequest(L1, 10, 0, MANY))
        assert answer.bodies == bodies[10:]
        await bookie.checkpoint()  # from here on the index file knows where entries are
        answer = await ask(bookie, BatchReadRequest(L1, 2, 15, MANY))
        assert answer.bodies == bodies[2:17]
        assert (await ask(bookie, BatchReadRequest(L1, 0, 100, MANY))).bodies == bodies
        answer = await ask(bookie, BatchReadRequest(L1, LAST_ENTRY, 0, MANY))
        assert answer == BatchReadResponse(StatusCode.EOK, L1, LAST_ENTRY, bodies[-1:])
        for nowhere in (20, 2**31 - 1, 2**31, 2**63 - 1):
            answer = await ask(bookie, BatchReadRequest(L1, nowhere, 5, MANY))
            assert answer == BatchReadResponse(StatusCode.ENOENTRY, L1, nowhere)
        answer = await ask(bookie, BatchReadRequest(L2, 0, 5, MANY))
        assert answer == BatchReadResponse(StatusCode.ENOLEDGER, L2, 0)
        answer = await ask(bookie, BatchReadRequest(L1, -2, 5, MANY))
        assert answer.status is StatusCode.EBADREQ
        await bookie.close()

    run(story)


@pytest.mark.parametrize("fenced_before", [False, True], ids=["open", "fenced"])
def test_a_batch_read_that_fences(tmp_path: Path, fenced_before: bool) -> None:
    async def story() -> None:
        bookie = await open_small(tmp_path)
        await ask(bookie, add(L1, 0))
        if fenced_before:
            await ask(bookie, fence(L1))
        wrong = await ask(bookie, BatchReadRequest(L1, 0, 5, MANY, True, OTHER_KEY))
        assert wrong.status is StatusCode.EUA
        without = await ask(bookie, BatchReadRequest(L1, 0, 5, MANY, True))
        assert without.status is StatusCode.EUA
        answer = await ask(bookie, BatchReadRequest(L1, 0, 5, MANY, True, KEY))
        assert (answer.status, len(answer.bodies)) == (StatusCode.EOK, 1)
        assert (await ask(bookie, add(L1, 1))).status is StatusCode.EFENCED
        new = await ask(bookie, BatchReadRequest(LedgerId(9), 0, 5, MANY, True, KEY))
        assert new.status is StatusCode.ENOENTRY
        assert (await ask(bookie, ReadRequest(LedgerId(9), 0))).status is StatusCode.ENOENTRY
        await bookie.close()

    run(story)
