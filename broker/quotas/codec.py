"""How the quotas of a cluster lie in the metadata store: one JSON object in one node. Pure.

    {"quotas":[{"entity":{"client-id":"app","user":null},"values":{"producer_byte_rate":1.0}}],"version":1}

One node, so that what one request alters changes together, and one watch sees it. The node's limit
(`core.metadata.store.NODE_BYTES_MAX`) is some 8,000 entities.
"""

import msgspec

from tailrace.broker.errors import KafkaError
from tailrace.broker.quotas.entity import check_entity, check_value, entity_of
from tailrace.broker.quotas.table import Quotas
from tailrace.core.errors import CorruptData
from tailrace.core.runtime.stored_json import NOT_JSON, Int32

FORMAT_VERSION = 1


class _StoredQuota(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    entity: dict[str, str | None]
    values: dict[str, float]


class _StoredQuotas(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    version: Int32 = FORMAT_VERSION
    quotas: list[_StoredQuota]


_DECODER = msgspec.json.Decoder(_StoredQuotas)


def encode_quotas(quotas: Quotas) -> bytes:
    """Return the bytes of the node; equal quotas give equal bytes."""
    stored = [
        _StoredQuota(entity=dict(entity), values=dict(values)) for entity, values in quotas.items()
    ]
    stored.sort(key=lambda each: msgspec.json.encode(each.entity, order="sorted"))
    return msgspec.json.encode(_StoredQuotas(quotas=stored), order="sorted")


def decode_quotas(data: bytes) -> Quotas:
    """Read the node. Errors: CorruptData, also for a format of a later release."""
    try:
        stored = _DECODER.decode(data)
    except NOT_JSON as error:
        raise CorruptData(f"the node of client quotas does not decode: {error}") from error
    if stored.version != FORMAT_VERSION:
        raise CorruptData(f"client quotas have format {stored.version}, this release reads 1")
    quotas = {}
    for each in stored.quotas:
        entity = entity_of(each.entity.items())
        try:
            check_entity(entity)
            for key, value in each.values.items():
                check_value(entity, key, value)
        except KafkaError as error:
            raise CorruptData(f"a stored client quota is none: {error}") from error
        quotas[entity] = each.values
    return quotas
