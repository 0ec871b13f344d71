"""Coordinator records: prefix and fields, the versions Kafka writes, and bad bytes."""

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.protocol.errors import BufferUnderflow, DecodeError, UnsupportedVersion
from tailrace.protocol.kafka.messages import coordinator_records as c
from tests.unit.protocol.kafka.samples import damaged, sample, values

OFFSET_KEY = c.OffsetCommitKey(group="g", topic="t", partition=1)
GROUP_KEY = c.GroupMetadataKey(group="g")
DECODERS = {
    c.OffsetCommitValue: c.decode_offset_commit_value,
    c.GroupMetadataValue: c.decode_group_metadata_value,
}
value_types = pytest.mark.parametrize("schema", DECODERS, ids=lambda s: s.__name__)


def test_keys_are_type_and_fields() -> None:
    assert c.encode_key(OFFSET_KEY).hex() == "000100016700017400000001"
    assert c.encode_key(GROUP_KEY).hex() == "0002000167"
    assert c.decode_key(c.encode_key(OFFSET_KEY)) == OFFSET_KEY
    assert c.decode_key(c.encode_key(GROUP_KEY)) == GROUP_KEY


def test_the_oldest_offset_key_is_read() -> None:
    assert c.decode_key(b"\0\0" + c.encode_key(OFFSET_KEY)[2:]) == OFFSET_KEY


@pytest.mark.parametrize("kind", [-1, 3, 17, 32767])
def test_other_record_types_are_named(kind: int) -> None:
    with pytest.raises(UnsupportedVersion, match=str(kind)):
        c.decode_key(kind.to_bytes(2, "big", signed=True) + b"anything")


def test_values_are_version_3_unless_they_expire() -> None:
    kept = c.OffsetCommitValue(offset=5, leader_epoch=2, metadata="m", commit_timestamp=9)
    assert c.encode_value(kept)[:2] == b"\0\3"
    assert c.decode_offset_commit_value(c.encode_value(kept)) == kept
    expiring = c.OffsetCommitValue(offset=5, expire_timestamp=10)
    assert c.encode_value(expiring)[:2] == b"\0\1"
    assert c.decode_offset_commit_value(c.encode_value(expiring)) == expiring
    group = c.GroupMetadataValue(protocol_type="consumer", protocol=None, leader=None)
    assert c.encode_value(group)[:2] == b"\0\3"
    assert c.decode_group_metadata_value(c.encode_value(group)) == group


@value_types
@pytest.mark.parametrize("version", range(5))
@settings(max_examples=40)
@given(data=st.data())
def test_values_survive_and_cuts_are_refused(
    schema: type[Any], version: int, data: st.DataObject
) -> None:
    value = data.draw(values(schema, version))
    encoded = c.encode_value(value, version)
    assert DECODERS[schema](encoded) == value
    for length in range(len(encoded)):
        with pytest.raises(DecodeError):
            DECODERS[schema](encoded[:length])


@value_types
@pytest.mark.parametrize("version", [-1, 5, 32767])
def test_other_value_versions_are_refused(schema: type[Any], version: int) -> None:
    with pytest.raises(UnsupportedVersion):
        DECODERS[schema](version.to_bytes(2, "big", signed=True))


@value_types
@given(data=st.data())
def test_bad_bytes_give_a_record_or_a_protocol_error(
    schema: type[Any], data: st.DataObject
) -> None:
    whole = st.integers(0, 50).map(lambda seed: c.encode_value(sample(schema, 3, Random(seed)), 3))
    bad = data.draw(st.binary(max_size=60) | damaged(whole))
    for decode in (c.decode_key, DECODERS[schema]):
        try:
            decode(bad)
        except (DecodeError, UnsupportedVersion):
            continue


def test_a_record_without_its_prefix_is_refused() -> None:
    with pytest.raises(BufferUnderflow):
        c.decode_key(b"\0")
