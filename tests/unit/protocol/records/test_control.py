"""Markers: byte for byte as Kafka writes them, and what is none is refused."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.protocol.errors import DecodeError
from tailrace.protocol.records.batch import CONTROL, TRANSACTIONAL, read_header, stamp, verify_crc
from tailrace.protocol.records.control import EndTransaction, build_marker, read_marker
from tailrace.protocol.records.record import Producer, Record, build_batch

GOLDEN = Path(__file__).parents[3] / "golden" / "control-batches.txt"
VECTORS = [line.split() for line in GOLDEN.read_text().splitlines() if line[0] != "#"]


@pytest.mark.parametrize("vector", VECTORS)
def test_they_are_kafkas_bytes(vector: list[str]) -> None:
    offset, timestamp, leader_epoch, producer_id, epoch = map(int, vector[:5])
    marker = EndTransaction(vector[5] == "COMMIT", int(vector[6]))
    built = build_marker(producer_id, epoch, marker, timestamp)
    stamp(built, offset, leader_epoch)
    assert built.hex() == vector[7]
    assert read_marker(bytes.fromhex(vector[7])) == marker


@given(
    st.integers(0, 2**63 - 1),
    st.integers(0, 2**15 - 1),
    st.booleans(),
    st.integers(-1, 2**31 - 1),
    st.integers(0, 2**62),
)
def test_what_is_built_is_read(
    producer_id: int, epoch: int, committed: bool, coordinator: int, time_ms: int
) -> None:
    built = build_marker(producer_id, epoch, EndTransaction(committed, coordinator), time_ms)
    verify_crc(built)
    header = read_header(built)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (
        producer_id, epoch, -1,
    )  # fmt: skip
    assert header.is_control
    assert header.is_transactional
    assert read_marker(built) == (committed, coordinator)


def control(key: bytes | None, value: bytes | None) -> bytearray:
    return build_batch(
        [Record(key=key, value=value)],
        producer=Producer(1, 0, -1),
        attributes=CONTROL | TRANSACTIONAL,
    )


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b"\0\0\0\0\0\1"),
        (b"\0\0\0", b"\0\0\0\0\0\1"),
        (b"\0\0\0\1", None),
        (b"\0\0\0\1", b"\0\0\0\0\0"),
        (b"\0\0\0\2", b"\0\0\0\0\0\1"),
        (b"\xff\xff\0\1", b"\0\0\0\0\0\1"),
        (b"\0\0\0\1", b"\xff\xff\0\0\0\1"),
    ],
)
def test_what_ends_no_transaction_is_refused(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(DecodeError):
        read_marker(control(key, value))


def test_a_later_version_is_read_as_the_first() -> None:
    assert read_marker(control(b"\0\1\0\1more", b"\0\1\0\0\0\5more")) == (True, 5)


def test_a_marker_that_compaction_emptied_says_nothing() -> None:
    empty = bytearray(control(b"\0\0\0\1", b"\0\0\0\0\0\1")[:61])
    empty[8:12] = (61 - 12).to_bytes(4, "big")
    empty[57:61] = bytes(4)
    assert read_marker(empty) is None
