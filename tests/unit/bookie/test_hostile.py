"""A live bookie's port against bytes that no client sends: only their own connection may end."""

import asyncio
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import pytest

from tailrace.bookie.app import BookieProcess
from tailrace.protocol.bookkeeper.codec import decode_response, encode_request
from tailrace.protocol.bookkeeper.entry import FRAME_BYTES_LIMIT, pack_lac
from tailrace.protocol.bookkeeper.messages import (
    AddRequest,
    BatchReadRequest,
    ForceLedgerRequest,
    ListEntriesRequest,
    ReadLacRequest,
    ReadRequest,
    Request,
    StatusCode,
    WriteLacRequest,
)
from tailrace.protocol.bookkeeper.v2_requests import encode_request as encode_v2
from tailrace.protocol.ids import LedgerId
from tests.golden import frames
from tests.unit.bookie.tcp import Wire, served
from tests.unit.bookie.world import (
    DIGEST,
    KEY,
    L1,
    OTHER_KEY,
    add,
    entry_body,
    fence,
    read,
    run,
)

GOLDEN = [frame.data for frame in frames("wire-v3.txt") if frame.sender == "client"]
MEMORY_MAX = 40 * 1024 * 1024
UNKNOWN = LedgerId(404)
NEGATIVE = LedgerId(-7)


@asynccontextmanager
async def watched(directory: Path) -> AsyncIterator[BookieProcess]:
    """A bookie beside whose hostile clients an honest one writes and reads, before and after."""
    async with served(directory) as process, await Wire.to(process) as witness:
        assert (await witness.ask(add(L1, 0, b"before"))).status is StatusCode.EOK
        yield process
        assert (await witness.ask(add(L1, 1, b"after"))).status is StatusCode.EOK
        for entry_id, payload in enumerate((b"before", b"after")):
            answer = await witness.ask(read(L1, entry_id))
            assert answer[3] == entry_body(L1, entry_id, payload)
        await until(lambda: len(process.server._connections) == 1)
        await until(lambda: process.server._budget.used == 0)


async def until(holds: Callable[[], bool]) -> None:
    """Let the loop turn until something holds; the story's own limit ends this."""
    while True:
        if holds():
            return
        await asyncio.sleep(0)


async def drain(wire: Wire) -> None:
    """Take what the bookie says until it or we are done."""
    try:
        wire.writer.write_eof()
        await wire.reader.read()
    except ConnectionError:
        return


# ---- sizes


@pytest.mark.parametrize("size", [FRAME_BYTES_LIMIT - 3, 2**31 - 1, 2**31, 2**32 - 1], ids=str)
def test_an_announced_size_above_the_limit_ends_the_connection(tmp_path: Path, size: int) -> None:
    async def story() -> None:
        async with watched(tmp_path) as process, await Wire.to(process) as wire:
            wire.writer.write(size.to_bytes(4, "big") + b"some of it")
            assert await wire.is_closed()

    run(story)


def test_the_largest_frame_is_read_to_its_end(tmp_path: Path) -> None:
    async def story() -> None:
        async with watched(tmp_path) as process, await Wire.to(process) as wire:
            body = entry_body(L1, 5, bytes(5_000_000))
            room = FRAME_BYTES_LIMIT - 4 - len(body) - 60
            request = AddRequest(L1, 5, KEY, (body, bytes(room)))
            assert (await wire.ask(request)).status is StatusCode.EBADREQ, "over the entry's limit"
            assert (await wire.ask(add(L1, 5))).status is StatusCode.EOK

    run(story)


def test_sizes_that_nobody_fills_cost_no_memory(tmp_path: Path) -> None:
    async def story() -> None:
        async with watched(tmp_path) as process:
            tracemalloc.start()
            wires = [await Wire.to(process) for _ in range(50)]
            for wire in wires:
                wire.writer.write((FRAME_BYTES_LIMIT - 4).to_bytes(4, "big") + GOLDEN[0])
                await wire.writer.drain()
            async with await Wire.to(process) as last:
                assert (await last.ask(add(L1, 5))).status is StatusCode.EOK
            assert tracemalloc.get_traced_memory()[1] < MEMORY_MAX  # 250 MB were announced
            tracemalloc.stop()
            for wire in wires:
                wire.writer.close()

    run(story)


# ---- bytes


@pytest.mark.parametrize("first", [b"", b"\n", b"\x02"], ids=["any", "v3", "v2"])
def test_random_frames(tmp_path: Path, first: bytes) -> None:
    async def story() -> None:
        random = Random(7)
        async with watched(tmp_path) as process:
            for _ in range(60):
                async with await Wire.to(process) as wire:
                    for _ in range(random.randint(1, 4)):
                        wire.send(first + random.randbytes(random.randint(0, 80)))
                    await drain(wire)

    run(story)


@pytest.mark.parametrize("index", range(len(GOLDEN)))
def test_javas_frames_cut_and_changed(tmp_path: Path, index: int) -> None:
    async def story() -> None:
        random = Random(index)
        async with watched(tmp_path) as process:
            for _ in range(20):
                frame = bytearray(GOLDEN[index].replace(KEY, OTHER_KEY))
                for _ in range(random.randint(1, 3)):
                    frame[random.randrange(len(frame))] = random.randrange(256)
                async with await Wire.to(process) as wire:
                    wire.send(bytes(frame[: random.randint(1, len(frame))]))
                    await drain(wire)

    run(story)


def test_a_request_byte_by_byte(tmp_path: Path) -> None:
    async def story() -> None:
        async with watched(tmp_path) as process, await Wire.to(process) as wire:
            for byte in b"".join(encode_request(9, read(L1, 0))):
                wire.writer.write(bytes((byte,)))
                await wire.writer.drain()
            txn_id, answer = decode_response(await wire.receive())
            assert (txn_id, answer.status) == (9, StatusCode.EOK)

    run(story)


def test_a_connection_that_ends_inside_a_frame(tmp_path: Path) -> None:
    async def story() -> None:
        async with watched(tmp_path) as process:
            whole = b"".join(encode_request(9, add(UNKNOWN, 0)))
            for length in range(1, len(whole), 7):
                async with await Wire.to(process) as wire:
                    wire.writer.write(whole[:length])
                    await drain(wire)
            async with await Wire.to(process) as wire:
                assert (await wire.ask(read(UNKNOWN, 0))).status is StatusCode.ENOLEDGER

    run(story)


# ---- requests that are well-formed and wrong


def lac(ledger_id: LedgerId, key: bytes = KEY) -> WriteLacRequest:
    return WriteLacRequest(ledger_id, 3, key, pack_lac(ledger_id, 3, DIGEST))


WRONG: dict[str, tuple[Request, StatusCode]] = {
    "add-wrong-key": (add(L1, 5, key=OTHER_KEY), StatusCode.EUA),
    "add-no-key": (add(L1, 5, key=b""), StatusCode.EUA),
    "add-long-key": (add(UNKNOWN, 5, key=bytes(1000)), StatusCode.EUA),
    "add-entry-minus-1": (add(L1, -1), StatusCode.EBADREQ),
    "add-entry-minus-2": (add(L1, -2), StatusCode.EBADREQ),
    "add-entry-2-to-31": (add(L1, 2**31), StatusCode.EBADREQ),
    "add-entry-2-to-62": (add(L1, 2**62), StatusCode.EBADREQ),
    "add-negative-ledger": (add(NEGATIVE, 0), StatusCode.EBADREQ),
    "add-no-body": (AddRequest(L1, 5, KEY, (b"",)), StatusCode.EBADREQ),
    "add-short-body": (AddRequest(L1, 5, KEY, (bytes(15),)), StatusCode.EBADREQ),
    "add-body-without-lac": (
        AddRequest(L1, 5, KEY, (entry_body(L1, 5, b"")[:23],)),
        StatusCode.EBADREQ,
    ),
    "add-others-body": (AddRequest(L1, 5, KEY, (bytes(40),)), StatusCode.EBADREQ),
    "fence-wrong-key": (fence(L1, key=OTHER_KEY), StatusCode.EUA),
    "fence-no-key": (fence(L1, key=b""), StatusCode.EUA),
    "fence-negative-ledger": (fence(NEGATIVE), StatusCode.EBADREQ),
    "read-unknown-ledger": (read(UNKNOWN, 0), StatusCode.ENOLEDGER),
    "read-last-of-unknown": (read(UNKNOWN, -1), StatusCode.ENOLEDGER),
    "read-entry-minus-2": (read(L1, -2), StatusCode.EBADREQ),
    "read-beyond": (read(L1, 2**62), StatusCode.ENOENTRY),
    "read-negative-ledger": (read(NEGATIVE, 0), StatusCode.EBADREQ),
    "poll-unknown-ledger": (
        ReadRequest(UNKNOWN, -1, previous_lac=0, timeout_ms=2**40, piggyback=True),
        StatusCode.ENOLEDGER,
    ),
    "poll-with-entry": (
        ReadRequest(L1, 5, previous_lac=0, timeout_ms=10, piggyback=True),
        StatusCode.EBADREQ,
    ),
    "poll-without-lac": (ReadRequest(L1, -1, piggyback=True), StatusCode.EBADREQ),
    "poll-negative-time": (
        ReadRequest(L1, -1, previous_lac=9, timeout_ms=-5, piggyback=True),
        StatusCode.EOK,
    ),
    "lac-wrong-key": (lac(L1, OTHER_KEY), StatusCode.EUA),
    "lac-negative-ledger": (lac(NEGATIVE), StatusCode.EBADREQ),
    "lac-short": (WriteLacRequest(L1, 3, KEY, b"short"), StatusCode.EBADREQ),
    "lac-long": (WriteLacRequest(L1, 3, KEY, bytes(100_000)), StatusCode.EBADREQ),
    "read-lac-unknown": (ReadLacRequest(UNKNOWN), StatusCode.ENOENTRY),
    "read-lac-negative": (ReadLacRequest(NEGATIVE), StatusCode.EBADREQ),
    "list-unknown": (ListEntriesRequest(UNKNOWN), StatusCode.ENOLEDGER),
    "list-negative": (ListEntriesRequest(NEGATIVE), StatusCode.EBADREQ),
    "force-unknown": (ForceLedgerRequest(UNKNOWN), StatusCode.EOK),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_request_gets_its_status_and_the_connection_stays(
    tmp_path: Path, name: str
) -> None:
    request, status = WRONG[name]

    async def story() -> None:
        async with watched(tmp_path) as process, await Wire.to(process) as wire:
            assert (await wire.ask(request)).status is status
            assert (await wire.ask(read(L1, 0))).status is StatusCode.EOK

    run(story)


# ---- too much of what is allowed


def flood_v3(wire: Wire, count: int) -> None:
    for txn_id in range(count):
        wire.writer.writelines(encode_request(txn_id, read(L1, 3)))


def flood_v2(wire: Wire, count: int) -> None:
    for _ in range(count):
        wire.writer.writelines(encode_v2(BatchReadRequest(L1, 3, 0, 2**62)))


@pytest.mark.parametrize("flood", [flood_v3, flood_v2])
def test_a_client_that_asks_for_much_and_takes_nothing(
    tmp_path: Path, flood: Callable[[Wire, int], Awaitable[None] | None]
) -> None:
    async def story() -> None:
        async with watched(tmp_path) as process:
            async with await Wire.to(process) as wire:
                assert (await wire.ask(add(L1, 3, bytes(1_000_000)))).status is StatusCode.EOK
            tracemalloc.start()
            async with await Wire.to(process) as wire, await Wire.to(process) as other:
                wire.writer.transport.pause_reading()  # type: ignore[attr-defined]
                flood(wire, 2_000)  # 2 GB of answers, of which 16 may be in work
                for entry_id in range(10, 60):
                    assert (await other.ask(add(L1, entry_id))).status is StatusCode.EOK
                assert tracemalloc.get_traced_memory()[1] < 2 * MEMORY_MAX
            tracemalloc.stop()

    run(story)
