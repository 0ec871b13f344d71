from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.core.errors import CorruptData
from tailrace.core.metadata.segment_metadata import (
    NumberedName,
    SegmentMetadata,
    Truncation,
    completed_name,
    decode_segment,
    encode_segment,
    in_progress_name,
    is_segment_name,
    read_segment_name,
    segment_name,
)
from tailrace.protocol.ids import LedgerId
from tests.unit.core.metadata.golden_nodes import GoldenNode, golden_segments, vectors

VECTORS = vectors("A4")
L42 = LedgerId(42)


def expected(label: str) -> SegmentMetadata:
    version = int(label[1])
    begun = SegmentMetadata(
        lssn=3 if version >= 2 else 0, ledger_id=L42, first_txid=1000, version=version
    )
    if "in progress" in label:
        return begun
    segment = replace(
        begun,
        in_progress=False,
        last_txid=1099,
        completion_time_ms=1_500_000_000_000,
        record_count=100,
        last_entry_id=24 if version >= 2 else -1,
        last_slot=3 if version >= 2 else -1,
        start_sequence_id=200 if version >= 5 else -1,
    )
    if "partially" in label:
        return replace(
            segment,
            truncation=Truncation.PARTIALLY_TRUNCATED,
            min_active_entry_id=10,
            min_active_slot=2,
        )
    if "truncated" in label:
        return replace(segment, truncation=Truncation.TRUNCATED)
    return replace(segment, region_id=3) if "region" in label else segment


@pytest.mark.parametrize(("label", "text"), VECTORS, ids=[label for label, _ in VECTORS])
def test_java_vectors(label: str, text: str) -> None:
    segment = decode_segment(text.encode())
    assert segment == expected(label)
    assert encode_segment(segment) == text.encode()


@pytest.mark.parametrize("node", golden_segments(), ids=lambda node: node.path)
def test_real_segments(node: GoldenNode) -> None:
    segment = decode_segment(node.data)
    assert encode_segment(segment) == node.data
    name = node.path.rpartition("/")[2]
    assert is_segment_name(name)
    if "lay-name0" not in node.path:  # names of the old kind
        assert segment_name(segment) == name


def test_names() -> None:
    assert in_progress_name(1) == "inprogress_000000000000000001"
    assert completed_name(23) == "logrecs_000000000000000023"
    assert not is_segment_name("lock")


def test_truncated_partially_in_the_middle_of_a_log() -> None:
    data = next(n.data for n in golden_segments() if n.data.startswith(b"85899346181;"))
    segment = decode_segment(data)
    assert segment.truncation is Truncation.PARTIALLY_TRUNCATED
    assert (segment.min_active_entry_id, segment.min_active_slot) == (9, 0)
    assert (segment.record_count, segment.start_sequence_id) == (20, 20)


@pytest.mark.parametrize(
    "text",
    [
        "", ";", "5", "5;1", "5;42;1000;3;0;0", "5;42;1000;3;0;0;-1;7", "6;42;1000;3;0;0;-1",
        "0;42;1000;3", "5;42;1000;3;0;x;-1", "5;42;+1;3;0;0;-1", "5; 42;1000;3;0;0;-1",
        "5;4_2;1000;3;0;0;-1", "5;--42;1000;3;0;0;-1", "5;9223372036854775808;1000;3;0;0;-1",
        "99999999999999999999;42;1000;3;0;0;-1", f"{5 | 3 << 8};42;1000;3;0;0;-1", "5;42;1;3;0;0;",
        "5;٤٢;1000;3;0;0;-1", "5;42;1000;3;0;0;-1\n",
    ],
)  # fmt: skip
def test_bad_segment_metadata_is_corrupt(text: str) -> None:
    with pytest.raises(CorruptData):
        decode_segment(text.encode())


@settings(max_examples=200)
@given(st.binary(max_size=80))
def test_random_bytes_are_corrupt(data: bytes) -> None:
    with pytest.raises(CorruptData):
        decode_segment(data)


@settings(max_examples=200)
@given(
    version=st.integers(2, 5),
    truncation=st.sampled_from(Truncation),
    region_id=st.integers(0, 15),
    count=st.integers(0, 2**31 - 1),
    numbers=st.lists(st.integers(-(2**63), 2**63 - 1), min_size=6, max_size=6),
)
def test_round_trip(
    version: int, truncation: Truncation, region_id: int, count: int, numbers: list[int]
) -> None:
    segment = SegmentMetadata(
        lssn=numbers[0],
        ledger_id=LedgerId(numbers[1]),
        first_txid=numbers[2],
        in_progress=False,
        version=version,
        truncation=truncation,
        region_id=region_id,
        record_count=count,
        last_txid=numbers[3],
        completion_time_ms=numbers[4],
        last_entry_id=numbers[5],
        last_slot=0,
    )
    assert decode_segment(encode_segment(segment)) == segment


def test_names_say_number_and_state() -> None:
    assert read_segment_name("inprogress_000000000000000012") == NumberedName(12, in_progress=True)
    assert read_segment_name("logrecs_000000000000000012") == NumberedName(12, in_progress=False)
    for older in (
        "inprogress_3e8",
        "logrecs_000000000000000001_000000000000000009",
        "logrecs_0000000000000000012",
        "inprogress_00000000000000001",
    ):
        assert read_segment_name(older) is None
        assert is_segment_name(older)


def test_segments_keep_the_names_of_older_writers() -> None:
    segment = SegmentMetadata(lssn=0, ledger_id=LedgerId(1), first_txid=1000, version=1)
    assert segment_name(segment) == "inprogress_3e8"
    completed = replace(segment, in_progress=False, last_txid=1009)
    assert segment_name(completed) == "logrecs_000000000000001000_000000000000001009"
    named = replace(completed, version=2, lssn=4, node_name="logrecs_1_2_4_7_0")
    assert segment_name(named) == "logrecs_1_2_4_7_0"
    assert named == replace(named, node_name="")
