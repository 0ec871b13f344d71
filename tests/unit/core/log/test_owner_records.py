import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.core.log import owner_records
from tailrace.core.log.owner_records import (
    PART_BYTES_MAX,
    SegmentIndex,
    join_index,
    join_snapshot,
    pack_index,
    pack_snapshot,
    read_part,
)
from tailrace.protocol.distributedlog.record import MAX_LOGRECORD_SIZE
from tailrace.protocol.errors import BadLength, DecodeError


def test_bytes() -> None:
    assert pack_snapshot(b"state") == [b"TRS1\0\0\0\0\0\0\0\1state"]
    assert pack_index(SegmentIndex(b"end", b"index")) == [b"TRX1\0\0\0\0\0\0\0\1\0\0\0\3endindex"]
    assert pack_snapshot(b"") == pack_index(SegmentIndex(b"", b"")) == []
    assert read_part(b"control") is None
    assert read_part(b"") is None


@given(st.binary(min_size=1, max_size=50), st.binary(max_size=50), st.integers(1, 20))
def test_round_trip_in_any_number_of_parts(snapshot: bytes, index: bytes, size: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner_records, "PART_BYTES_MAX", size)
        parts = [read_part(payload) for payload in pack_snapshot(snapshot)]
        assert join_snapshot([p for p in parts if p]) == snapshot
        both = SegmentIndex(snapshot, index)
        parts = [read_part(payload) for payload in pack_index(both)]
        assert join_index([p for p in parts if p]) == both
        if len(parts) > 1:
            for wrong in (parts[1:], parts[:-1], parts[::-1], [*parts, parts[-1]]):
                with pytest.raises(BadLength):
                    join_index([p for p in wrong if p])


def test_every_part_is_a_record_that_distributedlog_allows() -> None:
    payloads = pack_snapshot(bytes(3 * PART_BYTES_MAX + 1))
    assert len(payloads) == 4
    assert max(map(len, payloads)) + 20 <= MAX_LOGRECORD_SIZE
    with pytest.raises(BadLength):
        pack_snapshot(bytes(owner_records.PARTS_MAX * PART_BYTES_MAX + 1))


def test_cut_anywhere() -> None:
    payload = pack_index(SegmentIndex(b"end", b"index"))[0]
    for length in range(4, len(payload)):
        try:
            part = read_part(payload[:length])
            assert part is not None
            assert join_index([part]) != SegmentIndex(b"end", b"index")
        except DecodeError:
            pass


@given(st.sampled_from([b"TRS1", b"TRX1", b""]), st.binary(max_size=40))
def test_random_bytes(magic: bytes, rest: bytes) -> None:
    try:
        part = read_part(magic + rest)
        if part is not None:
            (join_index if magic == b"TRX1" else join_snapshot)([part])
    except DecodeError:
        pass
