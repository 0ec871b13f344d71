"""The fold against a dict: gaps, transactions, tombstones, empty batches, codecs, any answers."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tailrace.compaction.restoring.digest import live_state, merged, pair_digest
from tailrace.compaction.restoring.errors import CorruptBatch
from tailrace.compaction.restoring.fold import Progress, fold, next_offset
from tailrace.compaction.restoring.records import Changes
from tailrace.protocol.records.batch import HEADER_SIZE, TRANSACTIONAL, stamp_crc
from tailrace.protocol.records.record import Producer, Record, build_batch
from tests.unit.compaction.restore.logs import Log, Transaction, end_transaction, logs


def answer(log: Log, position: int, count: int) -> bytes:
    """Return `count` batches, beginning with the one that holds `position`, and a cut one."""
    left = [data for _, last, data in log.batches if last >= position]
    cut = left[count][: len(left[count]) // 2] if len(left) > count else b""
    return b"".join(left[:count]) + cut


def folded(log: Log, start: int, counts: list[int]) -> tuple[Progress, Changes]:
    progress = Progress(start=start, end=log.end, position=start)
    changes: Changes = {}
    for turn in range(100):
        if progress.is_done:
            break
        records = answer(log, progress.position, counts[turn % len(counts)])
        if not records:  # a hole up to the end: the broker's answer would be a later batch
            progress.position = progress.end
            break
        expected = next_offset(records, "t-0")
        fold(progress, records, log.aborted(progress.position), changes, "t-0")
        assert progress.position == expected
    return progress, changes


@given(log=logs(), start=st.integers(0, 400), counts=st.lists(st.integers(1, 4), min_size=1))
def test_it_is_what_a_dict_would_be(log: Log, start: int, counts: list[int]) -> None:
    start = min(start, log.end)
    progress, changes = folded(log, start, counts)
    assert {key: value for key, value in changes.items() if value is not None} == log.latest(start)
    visible = log.visible(start)
    assert progress.records == len(visible)
    assert progress.keyless == sum(record.key is None for record in visible)
    assert progress.tombstones == sum(r.key is not None and r.value is None for r in visible)
    assert progress.bytes == sum(len(r.key or b"") + len(r.value or b"") for r in visible)
    there = [record.offset for record, _ in log.records if record.offset >= start]
    assert progress.aborted == len(there) - len(visible)
    markers = sum(each.last >= start for each in log.transactions)
    assert progress.markers == markers
    assert progress.gaps == log.end - start - len(there) - markers


@given(log=logs(), end=st.integers(0, 400))
def test_an_end_inside_a_batch_cuts_it(log: Log, end: int) -> None:
    end = min(end, log.end)
    progress = Progress(start=0, end=end, position=0)
    changes: Changes = {}
    everything = b"".join(data for _, _, data in log.batches)
    fold(progress, everything, log.aborted(0), changes, "t-0")
    assert progress.records == sum(record.offset < end for record in log.visible(0))
    assert progress.is_done or end > max((last for _, last, _ in log.batches), default=-1)


@given(log=logs(), at=st.integers(0, 1 << 20), bit=st.integers(0, 7))
def test_a_flipped_bit_is_found_and_says_where(log: Log, at: int, bit: int) -> None:
    assume(log.batches)
    first, last, data = log.batches[-1]
    broken = bytearray(data)
    broken[HEADER_SIZE - 44 + at % (len(data) - HEADER_SIZE + 44)] ^= 1 << bit  # behind the CRC
    progress = Progress(start=first, end=last + 1, position=first)
    with pytest.raises(CorruptBatch) as caught:
        fold(progress, broken, (), {}, "t-0")
    assert f"t-0 at offset {first}" in str(caught.value)
    assert caught.value.remedy
    assert progress.position == first


def test_bytes_that_a_checksum_covers_and_no_writer_writes_are_refused() -> None:
    batch = build_batch([Record(key=b"key", value=b"value")])
    for at in range(HEADER_SIZE, len(batch)):
        for byte in (0x00, 0x01, 0x03, 0x7F, 0x80, 0xFF):
            broken = bytearray(batch)
            broken[at] = byte
            stamp_crc(broken)
            changes: Changes = {}
            try:
                fold(Progress(start=0, end=1, position=0), broken, (), changes, "t-0")
            except CorruptBatch:
                continue
            assert len(changes) <= 1, "one record made more than one"


def test_the_hash_is_the_documented_one() -> None:
    """printf '\\x00\\x00\\x00\\x01kv' | sha256sum."""
    assert pair_digest(b"k", b"v").hex() == "dcebe451747903d86e81a0c6769287a2"
    assert live_state([]).hash == "0" * 32
    pairs = [(b"a", b"1"), (b"b", b""), (b"", b"x" * 1000)]
    assert live_state(pairs) == live_state(reversed(pairs))
    assert merged(live_state([pair]) for pair in pairs) == live_state(pairs)
    assert live_state([(b"ab", b"c")]).hash != live_state([(b"a", b"bc")]).hash


def test_a_producer_that_aborts_and_then_commits_in_one_answer() -> None:
    log = Log()
    for value, committed in ((b"1", True), (b"2", False), (b"3", True), (b"4", False)):
        transaction = Transaction(7, log.end)
        log.transactions.append(transaction)
        record = Record(offset=log.end, key=b"k" + value, value=value)
        batch = build_batch(
            [record], base_offset=log.end, producer=Producer(7, 0, 0), attributes=TRANSACTIONAL
        )
        log.records.append((record, transaction))
        log.append(batch, log.end)
        end_transaction(log, transaction, committed)
    progress, changes = folded(log, 0, [8])
    assert changes == {b"k1": b"1", b"k3": b"3"}
    assert (progress.aborted, progress.markers, progress.gaps) == (2, 4, 0)
