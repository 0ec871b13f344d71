"""Tagged fields of a later Kafka, in every struct of every flexible message: read past, no trace.

The later messages are made from ours: each struct has two fields more, at tags that nobody has.
"""

import dataclasses
from functools import cache
from random import Random
from typing import Any

import pytest

from tailrace.protocol.kafka import codec, wire
from tailrace.protocol.kafka.api import Api
from tailrace.protocol.kafka.apis import APIS
from tailrace.protocol.kafka.primitives import BYTES, INT64, Kind
from tailrace.protocol.kafka.wire import Array, Wire
from tests.unit.protocol.kafka.samples import sample

FLEXIBLE = [
    (api, version) for api in APIS.values() for version in api.versions if api.flexible(version)
]
SEEDS = 4


@cache
def later(message: type[Any]) -> type[Any]:
    """Return the class of a message as a later Kafka declares it."""
    fields: list[Any] = []
    for field in dataclasses.fields(message):
        spec: Wire = field.metadata["wire"]
        made = dataclasses.replace(spec, kind=_later_kind(spec.kind))
        default = field.default
        if dataclasses.is_dataclass(default):
            default = later(type(default))()
        fields.append(
            (field.name, Any, dataclasses.field(default=default, metadata={"wire": made}))
        )
    fields += [
        ("later_bytes", Any, wire.wire(BYTES, tag=9000, default=b"")),
        ("later_number", Any, wire.wire(INT64, tag=9001)),
    ]
    return dataclasses.make_dataclass(message.__name__, fields, frozen=True, kw_only=True)


def _later_kind(kind: Any) -> Any:
    if isinstance(kind, Array):
        return Array(_later_kind(kind.element))
    return kind if isinstance(kind, Kind) else later(kind)


def as_later(value: Any) -> Any:
    """Return the same value, with something in the fields that we do not know."""
    if isinstance(value, list | tuple):
        return tuple(as_later(each) for each in value)
    if not dataclasses.is_dataclass(value):
        return value
    known = {
        field.name: as_later(getattr(value, field.name)) for field in dataclasses.fields(value)
    }
    return later(type(value))(**known, later_bytes=b"what is this", later_number=-1)


@pytest.mark.parametrize(
    ("api", "version"), FLEXIBLE, ids=[f"{api.name}-{version}" for api, version in FLEXIBLE]
)
def test_a_later_message_reads_as_ours(api: Api[Any, Any], version: int) -> None:
    for seed in range(SEEDS):
        request = sample(api.request, version, Random(seed))
        body = wire.join(wire.encode(as_later(request), version, flexible=True))
        assert len(body) > len(codec.encode_request(api, version, request))
        assert codec.decode_request(api, version, memoryview(bytearray(body))) == request
        response = sample(api.response, version, Random(seed))
        body = wire.join(wire.encode(as_later(response), version, flexible=True))
        assert codec.decode_response(api, version, body) == response
