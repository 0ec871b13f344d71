"""Nodes whose bytes were damaged are CorruptData, whatever is wrong: else a watch would die."""

from collections.abc import Callable
from functools import partial

import pytest

from tailrace.broker.cluster.config_codec import decode_configs, encode_configs
from tailrace.broker.cluster.registration import decode_broker
from tailrace.broker.cluster.topic_codec import StoredTopic, decode_topic, encode_topic
from tailrace.broker.quotas.codec import decode_quotas
from tailrace.core.errors import CorruptData
from tailrace.core.log.cold.nodes import ColdSegment, decode_cold, encode_cold
from tailrace.core.metadata.network_location import parse_rack_mapping
from tailrace.core.metadata.region_rules import parse_region_rules

TOPIC = encode_topic(
    StoredTopic(topic_id="X" * 22, partitions=1, ready=1, created_ms=0, configs={"a": "X"})
)
COLD = encode_cold(
    ColdSegment(segment="X", name="X", size_bytes=1, index_at=1, crc32c=1, payload_bytes=1)
)
BROKER = b'{"host":"h","port":1,"endpoints":[],"listener_security_protocol_map":{},"timestamp":"1"}'
QUOTAS = b'{"version":1,"quotas":[{"entity":{"user":"X"},"values":{}}]}'


of_every_kind = pytest.mark.parametrize(
    ("decode", "sound"),
    [
        (partial(decode_configs, "/node"), encode_configs({"a": "X"})),
        (partial(decode_topic, "t"), TOPIC),
        (decode_broker, b'{"endpoints":["X"],"host":"X","port":1}'),
        (decode_quotas, QUOTAS),
        (lambda data: decode_cold(data, "/node"), COLD),
        (parse_rack_mapping, b'{"group":{"bookie:1":{"rack":"X"}}}'),
        (parse_region_rules, b'{"reppRegionsToWrite":["X"]}'),
    ],
)


@of_every_kind
@pytest.mark.parametrize("damage", [b"\xff", b"\n", b'"', b"\\ud800"])
def test_damaged_text_is_corrupt_data(
    decode: Callable[[bytes], object], sound: bytes, damage: bytes
) -> None:
    assert b"X" in sound
    with pytest.raises(CorruptData):
        decode(sound.replace(b"X", damage))


@pytest.mark.parametrize("number", [b"9" * 20, b"-" + b"9" * 20])
@pytest.mark.parametrize(
    ("decode", "sound"),
    [
        (partial(decode_topic, "t"), TOPIC.replace(b'"created_ms":0', b'"created_ms":1')),
        (decode_broker, BROKER),
        (lambda data: decode_cold(data, "/node"), COLD),
        (partial(decode_configs, "/node"), encode_configs({"a": "X"})),
    ],
)
def test_numbers_of_more_than_64_bits_are_corrupt_data(
    decode: Callable[[bytes], object], sound: bytes, number: bytes
) -> None:
    """msgspec takes them for an int, and struct ends whoever uses one."""
    assert decode(sound)
    with pytest.raises(CorruptData):
        decode(sound.replace(b":1", b":" + number))


@of_every_kind
def test_what_is_nested_without_end_is_corrupt_data(
    decode: Callable[[bytes], object], sound: bytes
) -> None:
    deep = b"[" * 5000 + b"]" * 5000
    with pytest.raises(CorruptData):
        decode(b'{"?":' + deep + b"," + sound[1:])
