"""Both ways through Kafka 4.3.1's own message classes: each message, each version, real values."""

import base64
import dataclasses
import json
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from tailrace.protocol.kafka import wire
from tailrace.protocol.kafka.api import Api
from tailrace.protocol.kafka.apis import APIS, DESCRIBE_ACLS
from tailrace.protocol.kafka.codec import (
    decode_request,
    decode_response,
    encode_request,
    encode_response,
)
from tailrace.protocol.kafka.messages import consumer_group_records as group_records
from tailrace.protocol.kafka.messages import consumer_protocol, headers
from tailrace.protocol.kafka.messages import coordinator_records as records
from tailrace.protocol.kafka.messages import transaction_records as transactions
from tailrace.protocol.kafka.messages.describe_acls import DescribeAclsRequest
from tailrace.protocol.kafka.primitives import RECORDS, UUID, Kind
from tailrace.protocol.kafka.wire import Array, Wire
from tests.java.peers import LinePeer
from tests.unit.protocol.kafka.samples import sample

pytestmark = pytest.mark.java

SAMPLES = 8
CLIENTS = "org.apache.kafka.common.message"
COORDINATOR = "org.apache.kafka.coordinator.group.generated"
TRANSACTIONS = "org.apache.kafka.coordinator.transaction.generated"
VERSIONS = [(api, version) for api in APIS.values() for version in api.versions]
COORDINATOR_CASES = [
    (records.OffsetCommitKey, 0),
    (records.GroupMetadataKey, 0),
    *((records.OffsetCommitValue, version) for version in range(5)),
    *((records.GroupMetadataValue, version) for version in range(5)),
]
GROUP_RECORDS = list(group_records.RECORD_TYPES.values())
EMBEDDED = [
    (message, version)
    for message in (
        consumer_protocol.ConsumerProtocolSubscription,
        consumer_protocol.ConsumerProtocolAssignment,
    )
    for version in range(consumer_protocol.VERSION_MAX + 1)
]
HEADERS = [
    (headers.RequestHeader, 1, False),
    (headers.RequestHeader, 2, True),
    (headers.ResponseHeader, 0, False),
    (headers.ResponseHeader, 1, True),
]


class MessagePeer(LinePeer):
    """One JVM with Kafka's message classes; see clients/MessagePeer.java."""

    def __init__(self) -> None:
        super().__init__("clients", "MessagePeer")

    def ask(self, *words: object) -> str:
        """Return the answer to one line; an exception over there is a failure here."""
        answer = self.line(" ".join(map(str, words)))
        assert not answer.startswith("!"), answer
        return answer

    def check(self, name: str, version: int, ours: bytes, value: Any) -> None:
        """Let Java read our bytes, and write the value from its JSON: both must give our bytes."""
        again, _, shown = self.ask("hex", name, version, ours.hex()).partition(" ")
        assert bytes.fromhex(again) == ours
        assert json.loads(shown) == as_json(value, version, records=False)
        wanted = json.dumps(as_json(value, version), ensure_ascii=False)
        assert bytes.fromhex(self.ask("json", name, version, wanted)) == ours


@pytest.fixture(scope="module")
def peer() -> Iterator[MessagePeer]:
    peer = MessagePeer()
    yield peer
    peer.close()


@pytest.mark.parametrize(("api", "version"), VERSIONS, ids=[f"{a.name}-{v}" for a, v in VERSIONS])
def test_request_is_javas(peer: MessagePeer, api: Api[Any, Any], version: int) -> None:
    for seed in range(SAMPLES):
        value = sample(api.request, version, Random(seed), plain=seed % 2 == 0)
        ours = encode_request(api, version, value)
        peer.check(f"{CLIENTS}.{api.name}RequestData", version, ours, value)
        assert decode_request(api, version, memoryview(ours)) == value


@pytest.mark.parametrize(("api", "version"), VERSIONS, ids=[f"{a.name}-{v}" for a, v in VERSIONS])
def test_response_is_javas(peer: MessagePeer, api: Api[Any, Any], version: int) -> None:
    for seed in range(SAMPLES):
        value = sample(api.response, version, Random(seed), plain=seed % 2 == 0)
        ours = wire.join(encode_response(api, version, value))
        peer.check(f"{CLIENTS}.{api.name}ResponseData", version, ours, value)
        assert decode_response(api, version, ours) == value


@pytest.mark.parametrize(
    ("record", "version"), COORDINATOR_CASES, ids=lambda p: getattr(p, "__name__", p)
)
def test_coordinator_record_is_javas(peer: MessagePeer, record: type[Any], version: int) -> None:
    for seed in range(SAMPLES):
        value = sample(record, version, Random(seed))
        name = f"{COORDINATOR}.{record.__name__}"
        if isinstance(value, records.OffsetCommitKey | records.GroupMetadataKey):
            ours = records.encode_key(value)
            assert records.decode_key(ours) == value
        else:
            ours = records.encode_value(value, version)
        peer.check(name, version, ours[2:], value)


@pytest.mark.parametrize("version", range(2))
def test_transaction_record_is_javas(peer: MessagePeer, version: int) -> None:
    for seed in range(SAMPLES):
        key = sample(transactions.TransactionLogKey, 0, Random(seed))
        ours = transactions.encode_key(key)
        assert transactions.decode_key(ours) == key
        peer.check(f"{TRANSACTIONS}.TransactionLogKey", 0, ours[2:], key)
        value = sample(transactions.TransactionLogValue, version, Random(seed))
        ours = transactions.encode_value(value, version)
        assert transactions.decode_value(ours) == value
        peer.check(f"{TRANSACTIONS}.TransactionLogValue", version, ours[2:], value)


@pytest.mark.parametrize(
    ("key", "value"), GROUP_RECORDS, ids=[k.__name__ for k, _ in GROUP_RECORDS]
)
def test_consumer_group_record_is_javas(
    peer: MessagePeer, key: type[Any], value: type[Any]
) -> None:
    for seed in range(SAMPLES):
        name = sample(key, 0, Random(seed))
        content = sample(value, 0, Random(seed))
        ours = group_records.encode_group_key(name), group_records.encode_group_value(content)
        assert group_records.decode_group_key(ours[0]) == name
        assert group_records.decode_group_value(name, ours[1]) == content
        peer.check(f"{COORDINATOR}.{key.__name__}", 0, ours[0][2:], name)
        peer.check(f"{COORDINATOR}.{value.__name__}", 0, ours[1][2:], content)


@pytest.mark.parametrize(
    ("message", "version"), EMBEDDED, ids=[f"{m.__name__}-{v}" for m, v in EMBEDDED]
)
def test_embedded_consumer_protocol_is_javas(
    peer: MessagePeer, message: type[Any], version: int
) -> None:
    for seed in range(SAMPLES):
        value = sample(message, version, Random(seed))
        ours = wire.join(wire.encode(value, version, flexible=False))
        peer.check(f"{CLIENTS}.{message.__name__}", version, ours, value)


@pytest.mark.parametrize(
    ("header", "version", "flexible"), HEADERS, ids=[f"{h.__name__}-{v}" for h, v, _ in HEADERS]
)
def test_header_is_javas(
    peer: MessagePeer, header: type[Any], version: int, flexible: bool
) -> None:
    for seed in range(SAMPLES):
        value = sample(header, version, Random(seed))
        ours = wire.join(wire.encode(value, version, flexible=flexible))
        peer.check(f"{CLIENTS}.{header.__name__}Data", version, ours, value)


EVERY_ACL = DescribeAclsRequest(
    resource_type_filter=1,
    resource_name_filter=None,
    principal_filter=None,
    host_filter=None,
    operation=1,
    permission_type=1,
)
"""Kafka's class takes no request with codes that are zero."""


@pytest.mark.parametrize("api", APIS.values(), ids=[a.name for a in APIS.values()])
def test_kafka_ignores_bytes_behind_a_request_as_we_do(
    peer: MessagePeer, api: Api[Any, Any]
) -> None:
    version = api.versions[-1]
    value = EVERY_ACL if api is DESCRIBE_ACLS else api.request()
    body = encode_request(api, version, value) + b"\1\2\3"
    assert peer.ask("rest", api.key, version, body.hex()) == "3"
    assert decode_request(api, version, memoryview(body)) == value


def as_json(value: Any, version: int, *, records: bool = True) -> dict[str, Any]:
    """Return a message as Kafka's JSON converters show it: what its version has, no empty tags.

    Shape: they read record bytes but show none: `records=False` is what they show.
    """
    shown = {}
    for field in dataclasses.fields(value):
        spec: Wire = field.metadata["wire"]
        content = getattr(value, field.name)
        if spec.present(version) and (spec.tag is None or content != field.default):
            shown[_camel(field.name)] = _as_json(spec.kind, content, version, records=records)
    return shown


def _as_json(kind: Any, content: Any, version: int, *, records: bool) -> Any:
    if content is None:
        return None
    if isinstance(kind, Array):
        return [_as_json(kind.element, item, version, records=records) for item in content]
    if not isinstance(kind, Kind):
        return as_json(content, version, records=records)
    return _primitive(kind, content, records=records)


def _primitive(kind: Kind, content: Any, *, records: bool) -> Any:
    if kind is RECORDS and not records:
        return ""
    if kind is UUID:
        return base64.urlsafe_b64encode(content).decode().rstrip("=")
    return base64.b64encode(content).decode() if isinstance(content, bytes) else content


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.title() for word in rest)
