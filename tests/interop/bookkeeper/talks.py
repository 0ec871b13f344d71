"""What is said to bookies of both kinds in `test_same_answers`, and where their answers differ.

A talk is on a connection and a ledger of its own, here called L.
"""

from collections.abc import Sequence
from typing import Any

from tailrace.protocol.bookkeeper.codec import encode_request
from tailrace.protocol.bookkeeper.entry import pack_lac
from tailrace.protocol.bookkeeper.messages import (
    HIGH_PRIORITY,
    AddRequest,
    AuthRequest,
    BatchReadRequest,
    BookieInfoRequest,
    ForceLedgerRequest,
    ListEntriesRequest,
    ReadLacRequest,
    ReadRequest,
    Request,
    StartTlsRequest,
    WriteLacRequest,
)
from tailrace.protocol.bookkeeper.schema import MESSAGES
from tailrace.protocol.ids import LedgerId
from tests.unit.bookie.world import DIGEST, KEY, OTHER_KEY, entry_body

L = LedgerId(0)
"""Stands for the ledger of the case."""
OTHER = LedgerId(1)
NEGATIVE = LedgerId(-7)
ZERO_KEY = bytes(20)
MANY = 1 << 20
# ---- requests, of ledger L


def add(
    entry_id: int, key: bytes = KEY, *, lac: int = -1, cut: int | None = None, **more: Any
) -> AddRequest:
    return AddRequest(L, entry_id, key, (entry_body(L, entry_id, b"payload", lac)[:cut],), **more)


def read(entry_id: int, **more: Any) -> ReadRequest:
    return ReadRequest(L, entry_id, **more)


def fence(entry_id: int = -1, key: bytes = KEY, **more: Any) -> ReadRequest:
    return ReadRequest(L, entry_id, True, key, **more)


def poll(previous: int, timeout_ms: int | None = None, entry_id: int = -1) -> ReadRequest:
    return read(entry_id, previous_lac=previous, timeout_ms=timeout_ms, piggyback=True)


def wait_then_read(entry_id: int, previous: int, timeout_ms: int | None = None) -> ReadRequest:
    return read(entry_id, previous_lac=previous, timeout_ms=timeout_ms)


def lac(entry_id: int, key: bytes = KEY, body: bytes | None = None) -> WriteLacRequest:
    return WriteLacRequest(
        L, entry_id, key, pack_lac(L, entry_id, DIGEST) if body is None else body
    )


def batch(first: int, count: int = 0, size: int = MANY, key: bytes | None = None) -> Request:
    return BatchReadRequest(L, first, count, size, key is not None, key or b"")


def outer(version: int, operation: int, **fields: Any) -> bytes:
    message = MESSAGES["Request"](**fields)
    message.header.version, message.header.operation, message.header.txnId = version, operation, 1
    data: bytes = message.SerializePartialToString()
    return data


def v2_frame(version: int, opcode: int, size: int) -> bytes:
    return bytes((version, opcode, 0, 0)) + bytes(size)


LAST_LAC, LIST, FORCE = ReadLacRequest(L), ListEntriesRequest(L), ForceLedgerRequest(L)
READ_MESSAGE = MESSAGES["ReadRequest"](ledgerId=1, entryId=0)
ENTRY = len(entry_body(L, 0, b"payload")) + 4
"""Bytes of an entry in a batch."""

Talk = Sequence[Request | bytes]
V3: dict[str, Talk] = {
    "life": (
        *(add(0), add(1, lac=0), read(0), read(1), read(2), read(-1), LAST_LAC, lac(1), LAST_LAC),
        *(read(0), LIST, FORCE),
    ),
    "fencing": (
        *(add(0), fence(), add(1), add(1, recovery=True), read(1), fence(0), fence(9), lac(0)),
        LAST_LAC,
    ),
    "fence-of-a-new-ledger": (
        *(fence(), read(-1), read(0), add(0), add(0, recovery=True), read(0)),
    ),
    "keys": (
        *(add(0, OTHER_KEY), add(1), fence(), fence(key=b""), lac(0), add(1, OTHER_KEY)),
        fence(key=OTHER_KEY),
    ),
    "a-short-key": (add(0, b"k"), add(1), fence(key=b"k")),
    "an-empty-key": (add(0, b""), add(0), add(1, b"")),
    "a-zero-key": (add(0, ZERO_KEY), add(1)),
    "entry-minus-1": (add(-1), read(-1)),
    "entry-minus-2": (add(-2),),
    "entry-2-to-31-less-1": (add(2**31 - 1), read(2**31 - 1), read(-1)),
    "entry-2-to-31": (add(2**31), read(2**31)),
    "no-body": (add(0, cut=0),),
    "body-of-15-bytes": (add(0, cut=15),),
    "body-of-23-bytes": (add(0, cut=23),),
    "body-of-24-bytes": (add(0, cut=24), read(0), read(-1)),
    "body-of-another-ledger": (
        AddRequest(L, 0, KEY, (entry_body(OTHER, 5, b"payload"),)),
        read(0),
    ),
    "read-beyond": (add(0), read(2**62)),
    "unknown-ledger": (read(0), read(-1), LAST_LAC, LIST, FORCE, poll(-1), poll(-1, 50)),
    "explicit-lac-only": (lac(3), LAST_LAC, read(-1), read(0), poll(-1), add(0, OTHER_KEY)),
    "explicit-lac-backwards": (add(0), lac(3), lac(2), LAST_LAC),
    "explicit-lac-refused": (add(0), lac(3, OTHER_KEY), lac(3, body=b"short"), LAST_LAC),
    "explicit-lac-not-its-own": (add(0), lac(3, body=bytes(24))),
    "polls": (
        *(add(0), poll(-1), add(1, lac=0), poll(-1), poll(0), poll(0, 30), poll(5), poll(5, -3)),
        *(poll(-1, entry_id=0), wait_then_read(1, -1), wait_then_read(1, 0, 30)),
        wait_then_read(7, 0, 30),
    ),
    "poll-of-another-bookies-entry": (add(2, lac=1), poll(-1), poll(0), poll(0, 30)),
    "poll-of-a-fenced-ledger": (add(0), fence(), poll(-1, 200), poll(5, 200)),
    "poll-of-an-empty-ledger": (fence(), poll(-1)),
    "poll-that-fences": (add(0), fence(0, previous_lac=5, timeout_ms=100), add(1)),
    "piggyback-without-a-lac": (add(0), read(-1, piggyback=True)),
    "deferred-sync": (add(0, write_flags=1), FORCE, read(0), add(1, write_flags=77), read(1)),
    "same-entry-twice": (add(0), add(0), read(0)),
    "same-entry-with-another-lac": (add(0), add(0, lac=5), read(0)),
    "gaps": (add(5), add(3), read(-1), read(4), LIST, LAST_LAC),
    "recovery-of-a-new-ledger": (add(0, recovery=True), read(0)),
    "bookie-info": tuple(BookieInfoRequest(bits) for bits in (None, 0, 1, 2, 3, 4)),
    "auth": (AuthRequest("some-plugin", b"hello"), add(0)),
    "tls": (StartTlsRequest(), add(0)),
    "version-1": (outer(1, 1, readRequest=READ_MESSAGE), add(0)),
    "version-2": (outer(2, 6, readRequest=READ_MESSAGE), add(0)),
    "version-4": (outer(4, 1, readRequest=READ_MESSAGE),),
    "operation-3": (outer(3, 3, readRequest=READ_MESSAGE), add(0)),
    "operation-12": (outer(3, 12, readRequest=READ_MESSAGE), add(0)),
    "operation-77": (outer(3, 77, readRequest=READ_MESSAGE),),
    "add-without-a-message": (outer(3, 2), add(0)),
    "read-lac-without-a-message": (outer(3, 7), add(0)),
    "missing-field": (outer(3, 1, readRequest=MESSAGES["ReadRequest"](ledgerId=1)),),
    "junk": (b"\x0a\x01\x02\x03",),
    "text": (b"GET / HTTP/1.1",),
    "empty-frame": (b"",),
}
V2: dict[str, Talk] = {
    "life": (add(0), add(1, lac=0), read(0), read(1), read(2), read(-1)),
    "batches": (
        *(add(0), add(1), batch(0), batch(0, 1), batch(1, -4), batch(0, 0, 0), batch(0, 0, -9)),
        *(batch(0, 5, 36 + ENTRY), batch(0, 5, 36 + 2 * ENTRY), batch(0, 5, 35 + 2 * ENTRY)),
        *(batch(5), batch(-1, 1)),
    ),
    "batch-of-the-last-entry-and-more": (add(0), add(1), batch(-1)),
    "batch-of-an-unknown-ledger": (batch(0), batch(-1)),
    "batches-that-fence": (
        *(add(0), batch(0, key=OTHER_KEY), batch(0, key=KEY), add(1), batch(7, key=KEY)),
    ),
    "fencing": (
        *(add(0), fence(), add(1), add(1, recovery=True, priority=100), read(1), fence(0)),
        fence(9),
    ),
    "fence-of-a-new-ledger": (fence(), read(0), add(0)),
    "keys": (add(0, OTHER_KEY), add(1), fence(), add(1, OTHER_KEY)),
    "unknown-ledger": (read(0), read(-1)),
    "entry-minus-2": (add(-2),),
    "auth": (AuthRequest("some-plugin", b"hello"), add(0)),
    **{f"opcode-{opcode}": (v2_frame(2, opcode, 60),) for opcode in (0, 4, 5, 6, 8, 255)},
    **{f"version-3-opcode-{opcode}": (v2_frame(3, opcode, 60),) for opcode in (1, 2, 7)},
    "version-1": (v2_frame(1, 2, 60),),
    "short-add": (v2_frame(2, 1, 35),),
    "short-read": (v2_frame(2, 2, 15),),
    "short-fence": (b"\x02\x02\x00\x01" + bytes(35),),
    "short-batch": (v2_frame(2, 7, 35),),
    "short-header": (b"\x02\x01",),
    "auth-of-junk": (b"\x02\x03\x00\x00\xff\xff",),
    "v3-after-v2": (read(0), b"".join(encode_request(1, read(0)))[4:]),
    "unknown-flags": (b"\x02\x02\xff\xf8" + bytes(7) + b"\x09" + bytes(8),),
}

HIGH = HIGH_PRIORITY
READ_ONLY: dict[str, Talk] = {
    "adds": (
        *(
            add(0),
            add(0, recovery=True),
            add(0, priority=HIGH),
            add(0, recovery=True, priority=HIGH),
        ),
        *(add(1, OTHER_KEY, priority=HIGH), read(0), read(-1)),
    ),
    "explicit-lac": (lac(0), lac(0, OTHER_KEY), LAST_LAC),
    "the-rest": (fence(), read(0), FORCE, LIST, BookieInfoRequest(3)),
}
READ_ONLY_V2: dict[str, Talk] = {
    "adds": (*READ_ONLY["adds"], batch(0)),
    "the-rest": (fence(), read(0), batch(0)),
}

DIFFERENT: dict[str, str] = {
    "v3-an-empty-key": "an empty key owns nothing here",
    "v3-a-zero-key": "a key of zeros stands for one that is not known yet",
    "v3-entry-minus-1": "Java stores what nobody can read",
    "v3-entry-minus-2": "Java stores what nobody can read",
    "v2-entry-minus-2": "Java stores what nobody can read",
    "v3-entry-2-to-31": "an index file's end, see bookie/DESIGN.md, Limits",
    "v3-body-of-another-ledger": "Java goes by the body's ids, whatever the request says",
    "v3-explicit-lac-only": "Java answers EIO to READ_LAC, with the packet in it",
    "v3-explicit-lac-backwards": "Java keeps the last packet, not the highest LAC",
    "v3-explicit-lac-not-its-own": "Java stores any packet",
    "v3-poll-of-an-empty-ledger": "Java answers ENOENTRY; here that there is no news",
    "v3-piggyback-without-a-lac": "Java ignores the flag",
    "v3-same-entry-with-another-lac": "Java's memtable keeps the first copy; both are right",
    "v3-version-4": "Java closes on numbers that its enums do not have; EBADVERSION here",
    "v3-operation-77": "Java closes on numbers that its enums do not have; EBADREQ here",
    "v3-read-lac-without-a-message": "Java takes ledger 0",
    "v2-batch-of-the-last-entry-and-more": "Java goes on at entry 0",
    "v2-version-1": "of before 2011; closed here",
}
"""Why the answers of a case are not the same, there and here."""
