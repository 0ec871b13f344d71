import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.broker.cluster.topic_codec import (
    StoredTopic,
    decode_topic,
    encode_topic,
    id_bytes,
    id_text,
)
from tailrace.core.errors import CorruptData

TOPIC = StoredTopic(
    topic_id="aGVsbG8gdG9waWMgaWQgMQ",
    partitions=3,
    ready=3,
    created_ms=5,
    configs={"retention.ms": "5", "cleanup.policy": "compact"},
    replication_factor=2,
)


def test_the_stored_form_is_this() -> None:
    assert encode_topic(TOPIC) == (
        b'{"configs":{"cleanup.policy":"compact","retention.ms":"5"},"created_ms":5,'
        b'"partitions":3,"ready":3,"replication_factor":2,"state":"active",'
        b'"topic_id":"aGVsbG8gdG9waWMgaWQgMQ","version":1}'
    )
    assert decode_topic("t", encode_topic(TOPIC)) == TOPIC


def test_a_node_of_before_there_were_replicas_has_one() -> None:
    old = encode_topic(TOPIC).replace(b'"replication_factor":2,', b"")
    assert decode_topic("t", old).replication_factor == 1


def test_cut_anywhere_is_corrupt() -> None:
    data = encode_topic(TOPIC)
    for end in range(len(data)):
        with pytest.raises(CorruptData, match="topic t"):
            decode_topic("t", data[:end])


@given(st.binary(max_size=60))
@settings(max_examples=100)
def test_random_bytes_are_corrupt(data: bytes) -> None:
    with pytest.raises(CorruptData):
        decode_topic("t", data)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"version":1', b'"version":2'),
        (b'"replication_factor":2', b'"replication_factor":0'),
        (b'"ready":3', b'"ready":4'),
        (b'"ready":3', b'"ready":-1'),
        (b'"partitions":3,"ready":3', b'"partitions":0,"ready":0'),
        (b'"aGVsbG8gdG9waWMgaWQgMQ"', b'"short"'),
        (b'"aGVsbG8gdG9waWMgaWQgMQ"', b'"!GVsbG8gdG9waWMgaWQgMQ"'),
        (b'"state":"active"', b'"state":"asleep"'),
        (b'"version":1', b'"version":1,"more":1'),
    ],
)
def test_nonsense_is_corrupt(old: bytes, new: bytes) -> None:
    with pytest.raises(CorruptData, match="topic t"):
        decode_topic("t", encode_topic(TOPIC).replace(old, new))


@given(st.binary(min_size=16, max_size=16))
@settings(max_examples=100)
def test_ids_round_trip(topic_id: bytes) -> None:
    text = id_text(topic_id)
    assert len(text) == 22
    assert id_bytes(text, "t") == topic_id
