"""What lies on a bookie's disk, what a partition's owner keeps in its log, cold objects."""

import struct
from collections.abc import Callable, Iterator
from typing import Any

from tailrace.bookie import entry_log_format, group_format, index_format, index_sums, journal_format
from tailrace.bookie.cookie import Cookie, format_cookie, parse_cookie
from tailrace.bookie.group_scan import GroupScan
from tailrace.bookie.index_files import unpack_slots
from tailrace.bookie.record_scan import scan_records
from tailrace.broker.partition.segment_state import PartitionState, decode_index, encode_index
from tailrace.compaction.restoring.checkpoint import (
    Checkpoint,
    decode_checkpoint,
    encode_checkpoint,
)
from tailrace.compaction.restoring.errors import WrongCheckpoint
from tailrace.compaction.restoring.fold import Progress
from tailrace.core.errors import ColdObjectCorrupt, CorruptData
from tailrace.core.log.cold import format as cold
from tailrace.protocol.bookkeeper.entry import Entry
from tailrace.protocol.crc32c import crc32c
from tailrace.protocol.distributedlog.dlsn import DLSN
from tailrace.protocol.distributedlog.record import LogRecord
from tailrace.protocol.errors import DecodeError
from tailrace.protocol.ids import LedgerId
from tailrace.protocol.records.batch import read_header
from tests.fuzz.batches import NOW_MS, batches
from tests.fuzz.target import Target
from tests.golden import disk_records

_FILE_ID = 7
_BODY = struct.pack(">qqqq", 5, 0, -1, 7) + b"digest and payload"


def _reader(data: bytes) -> Callable[[int, int], bytes]:
    return lambda size, position: data[position : position + size]


def _record(body: bytes) -> bytes:
    return group_format.pack_size(len(body)) + body


def _group(start: int, parts: list[bytes], *, synced: bool) -> bytes:
    whole = b"".join(parts)
    trailer = group_format.pack_trailer(_FILE_ID, start, len(whole), [whole], synced=synced)
    return whole + trailer


# ---- journals


def _journal(data: bytes) -> Any:
    journal_format.check_header(data)
    journal_format.read_previous(data[: journal_format.HEADER_SIZE], _FILE_ID)
    if journal_format.is_grouped(data[: journal_format.HEADER_SIZE]):
        scan = GroupScan(_reader(data), "journal", _FILE_ID, journal_format.ALIGNMENT)
        found: list[Any] = list(scan.groups(journal_format.HEADER_SIZE))
        scan.has_group(scan.end)
        return found
    rows = list(scan_records(_reader(data), journal_format.HEADER_SIZE, "journal"))
    for _, entry_id, _, at, size in rows:
        if entry_id in (journal_format.KEY, journal_format.EXPLICIT_LAC):
            journal_format.read_value(memoryview(data)[at : at + size])
    return rows


def _journal_records(data: bytes) -> Any:
    return [each[:3] for each in journal_format.read_records(data, 0)]


def _journal_parts() -> list[bytes]:
    ledger = LedgerId(5)
    return [
        journal_format.pack_key(ledger, bytes(20)),
        _record(_BODY),
        journal_format.pack_fence(ledger),
        journal_format.pack_explicit_lac(ledger, bytes(20)),
    ]


def _journal_seeds() -> Iterator[bytes]:
    header = journal_format.pack_header(_FILE_ID, journal_format.Previous(6, 1024))
    group = _group(len(header), _journal_parts(), synced=True)
    padded = header + group
    padded += journal_format.pack_padding(len(padded))
    yield padded
    yield header[:16].ljust(len(header), b"\0") + group
    yield padded + _group(len(padded), _journal_parts()[:2], synced=True)
    java = header[:8].ljust(journal_format.HEADER_SIZE, b"\0")
    yield java + b"".join(_journal_parts())
    yield java + journal_format.pack_padding(len(java) + 8) + _record(_BODY)
    for each in disk_records("disk-journal.txt"):
        if not each.is_cut and each.position >= 512:
            yield java + each.data


def _journal_record_seeds() -> Iterator[bytes]:
    yield b"".join(_journal_parts())
    yield journal_format.pack_padding(8, 64) + _record(_BODY)
    yield struct.pack(">iiii", journal_format.PADDING, 8, journal_format.PADDING, -8)


# ---- entry logs


def _entry_log(data: bytes) -> Any:
    header = entry_log_format.read_header(data)
    found: list[Any] = [header]
    if header.grouped:
        scan = GroupScan(_reader(data), "log", _FILE_ID)
        found += scan.groups(entry_log_format.HEADER_SIZE)
    else:
        found += scan_records(_reader(data), entry_log_format.HEADER_SIZE, "log")
    if header.map_offset:
        packed = memoryview(data)[header.map_offset :]
        found.append(entry_log_format.read_ledgers_map(packed, header.ledgers))
    return found


def _entry_log_seeds() -> Iterator[bytes]:
    usage = {5: len(_BODY) + 4, 6: 10}
    for grouped in (True, False):
        start = entry_log_format.HEADER_SIZE
        body = _record(_BODY) * 2
        if grouped:
            body = _group(start, [body], synced=True)
        map_at = start + len(body)
        header = entry_log_format.LogHeader(map_at, len(usage), 0, 1, grouped)
        yield entry_log_format.pack_header(header) + body + entry_log_format.pack_ledgers_map(usage)


def _log_names(data: bytes) -> Any:
    return entry_log_format.file_ids(data.decode("latin-1").split("\n"))


# ---- indexes


def _index_header(data: bytes) -> index_format.IndexHeader:
    header = index_format.read_header(data.ljust(index_format.HEADER_SIZE, b"\0"))
    unpack_slots(data[-100:])
    return header


_PROOF_SIZE = 28


def _index_sums(data: bytes) -> Any:
    """Read what lies beside an index file; its CRC is made right, unless the last byte is 1."""
    block = bytearray(data[:_PROOF_SIZE].ljust(index_sums.BLOCK_SIZE, b"\0"))
    if data[-1:] != b"\1":
        block[_PROOF_SIZE - 4 : _PROOF_SIZE] = struct.pack(
            ">I", crc32c(memoryview(block)[: _PROOF_SIZE - 4])
        )
    proof = index_sums.read_proof(block, LedgerId(5))
    pairs = index_sums.read_pairs(data[_PROOF_SIZE:], len(data) // 8)
    index_sums.damaged_sectors(LedgerId(5), 0, data, pairs)
    return proof


def _index_sums_bytes(proof: index_sums.Proof | None) -> bytes | None:
    return None if proof is None else index_sums.pack_proof(proof)[:_PROOF_SIZE]


# ---- cookies


def _cookie_bytes(found: Cookie) -> bytes | None:
    if any("\t" in each for each in found.ledger_directories):
        return None
    return format_cookie(found)


# ---- what a partition's owner keeps


def _snapshot(data: bytes) -> bytes:
    state = PartitionState(NOW_MS)
    state.restore(data)
    return state.snapshot()


def _snapshot_seeds() -> Iterator[bytes]:
    yield from _states(snapshots=True)


def _states(*, snapshots: bool) -> Iterator[bytes]:
    state = PartitionState(NOW_MS)
    yield state.snapshot() if snapshots else state.index()
    for entry_id, batch in enumerate(batches()):
        stamped = bytearray(batch)
        stamped[:8] = state.next_offset.to_bytes(8, "big")
        last = state.next_offset + read_header(stamped).last_offset_delta
        state.replay(DLSN(1, entry_id, 0), LogRecord(last, bytes(stamped), 0, entry_id + 1))
        if entry_id % 5 == 4:
            yield state.snapshot() if snapshots else state.index()


def _replayed(data: bytes) -> Any:
    state = PartitionState(NOW_MS)
    state.replay(DLSN(1, 0, 0), LogRecord(0, data, 0, 1))
    return state.snapshot(), state.index()


# ---- cold objects: a byte chooses the part; checksums are made right, unless asked


def _cold(data: bytes) -> Any:
    kind, body = (data[0] if data else 0), bytearray(data[1:])
    is_repaired = not kind & 0x80
    part = kind % 4
    if part == 0:
        if is_repaired and len(body) >= 16:
            body[-4:] = struct.pack(">I", crc32c(memoryview(body)[:-4]))
        return part, cold.decode_header(body, "object")
    if part == 1:
        if is_repaired and len(body) >= 4:
            body[-4:] = struct.pack(">I", crc32c(memoryview(body)[:-4]))
        index = cold.decode_index(body, "object")
        assert index.block_numbers(0, cold.last_entry_id(index)) is not None
        return part, index
    if part == 2:
        block = cold.Block(0, 0, len(body), crc32c(body))
        return part, cold.decode_block(body, block, LedgerId(1), "object")
    if is_repaired and len(body) == cold.TRAILER_BYTES:
        body[12:16] = struct.pack(">I", crc32c(memoryview(body)[:12]))
    return part, cold.decode_trailer(body, "object")


def _cold_bytes(value: tuple[int, Any]) -> bytes | None:
    part, found = value
    if part == 0:
        return b"\0" + cold.encode_header(found)
    if part == 1:
        return b"\1" + cold.encode_index(found)
    if part == 3:
        return b"\3" + cold.encode_trailer(*found)
    return b"\2" + b"".join(b"".join(cold.encode_entry(each)) for each in found)


def _cold_seeds() -> Iterator[bytes]:
    header = cold.Header("/ns", "log", 1, 2, 3, 40, "5;1;2")
    yield _cold_bytes((0, header)) or b""
    index = cold.Index((cold.Block(0, 100, 50, 1), cold.Block(2, 150, 60, 2)), 4, 9)
    yield _cold_bytes((1, index)) or b""
    entries = [Entry(LedgerId(1), n, n - 1, 10 * n, memoryview(b"payload")) for n in range(2)]
    yield _cold_bytes((2, entries)) or b""
    yield _cold_bytes((3, (500, 60))) or b""


_CHECKPOINT = Checkpoint(
    topic="t", topic_id="00" * 16, partitions={0: Progress(start=0, end=9, position=4)}, saves=1
)

TARGETS = (
    Target(
        name="journal",
        decode=_journal,
        errors=(CorruptData, DecodeError),
        seeds=_journal_seeds,
        bytes_max=4096,
    ),
    Target(
        name="journal-records",
        decode=_journal_records,
        errors=(DecodeError,),
        seeds=_journal_record_seeds,
    ),
    Target(
        name="entry-log",
        decode=_entry_log,
        errors=(CorruptData, DecodeError),
        seeds=_entry_log_seeds,
        bytes_max=4096,
    ),
    Target(
        name="entry-log-names",
        decode=_log_names,
        errors=(),
        seeds=lambda: [b"0.log\n1f.log\nx.log\n.log"],
    ),
    Target(
        name="index-file",
        decode=_index_header,
        errors=(DecodeError,),
        seeds=lambda: [
            index_format.pack_header(index_format.IndexHeader(bytes(20), fenced=True)).rstrip(
                b"\0"
            ),
            index_format.pack_header(index_format.IndexHeader(b"", False, b"p" * 36)).rstrip(b"\0"),
        ],
        encode=index_format.pack_header,
    ),
    Target(
        name="index-sums",
        decode=_index_sums,
        errors=(DecodeError,),
        seeds=lambda: [
            _index_sums_bytes(index_sums.Proof(LedgerId(5), 7)) or b"",
            (_index_sums_bytes(index_sums.Proof(LedgerId(5), 0)) or b"")
            + index_sums.pack_pairs([index_sums.Pair(1, 2), index_sums.Pair()]),
            b"\0" * 40 + b"\1",
        ],
        encode=_index_sums_bytes,
        memory_per_byte=400,
    ),
    Target(
        name="cookie",
        decode=parse_cookie,
        errors=(DecodeError,),
        seeds=lambda: [
            format_cookie(Cookie("h:3181", "/journal", ("/a", "/b"), "instance")),
            format_cookie(Cookie("h:3181", '/j"\\\n', ())),
        ],
        encode=_cookie_bytes,
    ),
    Target(
        name="partition-snapshot",
        decode=_snapshot,
        errors=(CorruptData,),
        seeds=_snapshot_seeds,
        encode=lambda snapshot: snapshot,
        memory_per_byte=400,
    ),
    Target(
        name="partition-index",
        decode=lambda data: encode_index(decode_index(data)),
        errors=(CorruptData,),
        seeds=lambda: _states(snapshots=False),
        encode=lambda index: index,
        memory_per_byte=400,
    ),
    Target(
        name="replayed-entry",
        decode=_replayed,
        errors=(CorruptData,),
        seeds=batches,
        memory_base=1 << 20,
        memory_per_byte=400,
        steps_per_byte=200,
    ),
    Target(
        name="cold-object",
        decode=_cold,
        errors=(ColdObjectCorrupt,),
        seeds=_cold_seeds,
        encode=_cold_bytes,
        memory_per_byte=400,
    ),
    Target(
        name="restore-checkpoint",
        decode=lambda data: decode_checkpoint(data, "here"),
        errors=(WrongCheckpoint,),
        seeds=lambda: [encode_checkpoint(_CHECKPOINT)],
        encode=encode_checkpoint,
        memory_per_byte=400,
    ),
)
