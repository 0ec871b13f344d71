"""Batch reads: BookKeeper's limits, held against a plain loop over what is stored."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bookie.batch_read import BatchReads
from bookie.index_format import IndexHeader
from bookie.ledger_state import LedgerState
from protocol.bookkeeper.messages import (
    LAST_ENTRY,
    BatchReadRequest,
    BatchReadResponse,
    ReadRequest,
    StatusCode,
)
from protocol.ids import LedgerId
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


class Entries:
    """Reads of a dictionary, answered one turn later; counts what is asked at once."""

    def __init__(self, entries: dict[int, bytes | Exception], refuse_from: int) -> None:
        self._entries = entries
        self._refuse_from = refuse_from
        self.asked = 0

    def fetch(
        self, _state: object, entry_id: int, then: Callable[[bytes | Exception | None], None]
    ) -> bool:
        self.asked += 1
        if self.asked > self._refuse_from:
            return False
        asyncio.get_running_loop().call_soon(then, self._entries.get(entry_id))
        return True


def by_a_loop(
    entries: dict[int, bytes | Exception], first: int, count_max: int, bytes_max: int
) -> tuple[StatusCode, list[bytes]]:
    bodies: list[bytes] = []
    used = 24 + 8 + 4
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


def batch(reads: Entries, request: BatchReadRequest, bytes_max: int) -> BatchReadResponse:
    async def main() -> BatchReadResponse:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[BatchReadResponse] = loop.create_future()
        batches = BatchReads(reads, bytes_max, lambda reply, r: reply(r))  # type: ignore[arg-type]
        batches.read(LedgerState(L1, IndexHeader(KEY)), request, answer.set_result)
        return await answer

    return asyncio.run(main())


stored = st.dictionaries(
    st.integers(0, 25),
    st.integers(0, 120).map(bytes) | st.just(OSError("damaged")),
    max_size=26,
)


@given(stored, st.integers(0, 5), st.integers(-1, 30), st.integers(-5, 900), st.integers(0, 900))
def test_a_batch_is_what_a_plain_loop_reads(
    entries: dict[int, bytes | Exception],
    first: int,
    count_max: int,
    asked_bytes: int,
    bytes_max: int,
) -> None:
    request = BatchReadRequest(L1, first, count_max, asked_bytes)
    answer = batch(Entries(entries, 10**6), request, bytes_max)
    expected = by_a_loop(entries, first, count_max, min(asked_bytes, bytes_max))
    assert (answer.status, list(answer.bodies)) == expected
    assert (answer.ledger_id, answer.entry_id) == (L1, first)


@given(st.integers(0, 40))
def test_a_refused_read_ends_the_batch_with_what_is_there(refuse_from: int) -> None:
    entries: dict[int, bytes | Exception] = {i: bytes((i,)) for i in range(30)}
    reads = Entries(entries, refuse_from)
    answer = batch(reads, BatchReadRequest(L1, 0, 0, MANY), MANY)
    if refuse_from == 0:
        assert (answer.status, answer.bodies) == (StatusCode.ETOOMANYREQUESTS, ())
    else:
        assert answer.status is StatusCode.EOK
        assert list(answer.bodies) == [bytes((i,)) for i in range(len(answer.bodies))]
        assert len(answer.bodies) >= min(30, refuse_from) - 8


def test_of_a_real_bookie(tmp_path: Path) -> None:
    async def story() -> None:
        bookie = await open_small(tmp_path)
        for entry_id in range(20):
            await ask(bookie, add(L1, entry_id, b"%d" % entry_id))
        bodies = tuple(entry_body(L1, i, b"%d" % i) for i in range(20))
        answer = await ask(bookie, BatchReadRequest(L1, 3, 5, MANY))
        assert answer == BatchReadResponse(StatusCode.EOK, L1, 3, bodies[3:8])
        answer = await ask(bookie, BatchReadRequest(L1, 10, 0, MANY))
        assert answer.bodies == bodies[10:]
        answer = await ask(bookie, BatchReadRequest(L1, LAST_ENTRY, 0, MANY))
        assert answer == BatchReadResponse(StatusCode.EOK, L1, LAST_ENTRY, bodies[-1:])
        answer = await ask(bookie, BatchReadRequest(L1, 20, 5, MANY))
        assert answer == BatchReadResponse(StatusCode.ENOENTRY, L1, 20)
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
