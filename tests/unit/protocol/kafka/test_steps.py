"""Messages in steps: the same bytes and values as in one go, the same errors, in steps indeed."""

from random import Random
from typing import Any

import pytest

from tailrace.protocol.errors import BadLength, ProtocolError
from tailrace.protocol.kafka import steps, wire
from tailrace.protocol.kafka.api import Api
from tailrace.protocol.kafka.apis import APIS, METADATA
from tailrace.protocol.kafka.header import (
    RequestHeader,
    decode_request_header,
    encode_request_header,
)
from tailrace.protocol.kafka.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tests.unit.protocol.kafka.samples import sample

SEEDS = 4


def run(work: steps.Steps[Any]) -> tuple[Any, int]:
    """Return what it returns, and its steps."""
    count = 1
    while True:
        try:
            next(work)
        except StopIteration as done:
            return done.value, count
        count += 1


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
def test_every_message_is_the_same_in_steps(
    api: Api[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps, "STEP_FIELDS", 1)
    for message in (api.request, api.response):
        for version in api.versions:
            flexible = api.flexible(version)
            for seed in range(SEEDS):
                value = sample(message, version, Random(seed))
                body = wire.join(wire.encode(value, version, flexible=flexible))
                written, _ = run(steps.encode(value, version, flexible=flexible))
                assert wire.join(written) == body
                read, _ = run(steps.decode(message, version, body, flexible=flexible))
                assert read == wire.decode(message, version, body, flexible=flexible)
                for cut in {0, len(body) // 2, len(body) - 1}:
                    assert _outcome(message, version, body[:cut], flexible=flexible)


def _outcome(message: type[Any], version: int, body: bytes, *, flexible: bool) -> bool:
    """Whether both ways say the same of bytes that may be no message."""
    try:
        expected = wire.decode(message, version, body, flexible=flexible)
    except ProtocolError as error:
        with pytest.raises(type(error)):
            run(steps.decode(message, version, body, flexible=flexible))
        return True
    return bool(run(steps.decode(message, version, body, flexible=flexible))[0] == expected)


def test_a_step_is_so_many_fields_also_in_arrays_within_arrays() -> None:
    names = [MetadataRequestTopic(name=f"t{number}") for number in range(3000)]
    body = wire.join(wire.encode(MetadataRequest(topics=names), 12, flexible=True))
    assert run(steps.decode(MetadataRequest, 12, body, flexible=True))[1] == 7  # 3 fields each
    partitions = [MetadataResponsePartition(replica_nodes=(1, 2, 3))] * 100
    topics = [MetadataResponseTopic(name="t", partitions=partitions)] * 10
    response = MetadataResponse(topics=topics)
    _, count = run(steps.encode(response, 12, flexible=True))
    assert count == 1 + 1000 * (8 + 3) // steps.STEP_FIELDS


def test_no_place_has_more_tagged_fields_than_a_later_kafka_may_know() -> None:
    request = wire.join(wire.encode(MetadataRequest(topics=()), 12, flexible=True))
    header = RequestHeader(METADATA.key, 12, 1, "c")
    for count, is_fine in ((wire.TAGS_MAX, True), (wire.TAGS_MAX + 1, False)):
        tags = _tags(count)
        body = request[:-1] + tags
        frame = memoryview(encode_request_header(METADATA, header)[:-1] + tags)
        if is_fine:
            assert wire.decode(MetadataRequest, 12, body, flexible=True).topics == ()
            assert decode_request_header(frame) == (header, len(frame))
            continue
        with pytest.raises(BadLength, match="tagged fields"):
            wire.decode(MetadataRequest, 12, body, flexible=True)
        with pytest.raises(BadLength, match="tagged fields"):
            run(steps.decode(MetadataRequest, 12, body, flexible=True))
        with pytest.raises(BadLength, match="tagged fields"):
            decode_request_header(frame)


def _tags(count: int) -> bytes:
    """Return a section of empty tagged fields that nobody knows."""
    fields = b"".join(wire.pack_uvarint(1000 + number) + b"\0" for number in range(count))
    return wire.pack_uvarint(count) + fields
