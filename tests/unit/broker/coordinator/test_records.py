import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.broker.coordinator.records import (
    CommittedOffset,
    GroupUpdate,
    OffsetUpdate,
    group_record,
    offset_record,
    read_record,
)
from tailrace.protocol.errors import DecodeError, ProtocolError
from tailrace.protocol.kafka.messages.coordinator_records import GroupMetadataValue, MemberMetadata

TEXT = st.text(st.characters(codec="utf-8"), max_size=30)
OFFSETS = st.builds(
    CommittedOffset,
    st.integers(0, 2**63 - 1),
    st.integers(-1, 2**31 - 1),
    TEXT,
    st.integers(0, 2**62),
    st.just(-1),
)

# Spelled out from OffsetCommitKey/Value.json: key type, strings; value version 3.
OFFSET_KEY = bytes.fromhex("0001 0001 67 0001 74 00000002")
OFFSET_VALUE = bytes.fromhex("0003 000000000000002a ffffffff 0000 0000018bcfe56800")
GROUP_KEY = bytes.fromhex("0002 0001 67")


def test_an_offset_in_kafkas_bytes() -> None:
    update = OffsetUpdate("g", "t", 2, CommittedOffset(42, -1, "", 1_700_000_000_000))
    assert offset_record(update) == (OFFSET_KEY, OFFSET_VALUE)
    assert read_record(OFFSET_KEY, OFFSET_VALUE) == update


@given(TEXT, TEXT, st.integers(0, 2**31 - 1), st.none() | OFFSETS)
def test_offsets_round_trip(
    group: str, topic: str, partition: int, committed: CommittedOffset | None
) -> None:
    update = OffsetUpdate(group, topic, partition, committed)
    assert read_record(*offset_record(update)) == update


def test_a_retention_time_makes_the_version_that_has_room_for_it() -> None:
    update = OffsetUpdate("g", "t", 0, CommittedOffset(1, -1, "m", 5, 99))
    record = offset_record(update)
    assert record.value is not None
    assert record.value[:2] == b"\0\1"
    assert read_record(*record) == update


def test_a_group_round_trips_and_its_tombstone_deletes() -> None:
    value = GroupMetadataValue(
        protocol_type="consumer",
        generation=7,
        protocol="range",
        leader="a",
        current_state_timestamp=5,
        members=[
            MemberMetadata(
                member_id="a",
                group_instance_id="i",
                client_id="c",
                client_host="/h",
                rebalance_timeout=1,
                session_timeout=2,
                subscription=b"s",
                assignment=b"x",
            )
        ],
    )
    read = read_record(*group_record("g", value))
    assert isinstance(read, GroupUpdate)
    assert read.value is not None
    assert list(read.value.members) == value.members
    assert (read.value.generation, read.value.protocol, read.value.leader) == (7, "range", "a")
    assert group_record("g", None) == (GROUP_KEY, None)
    assert read_record(GROUP_KEY, None) == GroupUpdate("g", None)


@pytest.mark.parametrize("kind", [9, 11, 15, 17, 99])
def test_other_kinds_of_groups_are_left_to_others(kind: int) -> None:
    assert read_record(kind.to_bytes(2, "big") + b"whatever", b"x") is None


def test_cut_anywhere_is_an_error() -> None:
    for end in range(len(OFFSET_KEY)):
        with pytest.raises(DecodeError):
            read_record(OFFSET_KEY[:end], None)
    for end in range(len(OFFSET_VALUE)):
        with pytest.raises(DecodeError):
            read_record(OFFSET_KEY, OFFSET_VALUE[:end])
    with pytest.raises(DecodeError):
        read_record(None, None)


@given(st.binary(max_size=60), st.none() | st.binary(max_size=60))
def test_any_bytes_end_in_a_value_or_our_error(key: bytes, value: bytes | None) -> None:
    try:
        read_record(key, value)
    except ProtocolError:
        return
