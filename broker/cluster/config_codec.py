"""How the configs of a broker or a group lie in the metadata store: Kafka's own JSON. Pure.

    {"config":{"consumer.session.timeout.ms":"50000"},"version":1}

Source: kafka.zk.ConfigEntityZNode.
"""

from collections.abc import Mapping

import msgspec

from tailrace.core.errors import CorruptData
from tailrace.core.runtime.stored_json import NOT_JSON, Int32

FORMAT_VERSION = 1


class _StoredConfigs(msgspec.Struct, frozen=True, kw_only=True):
    version: Int32 = FORMAT_VERSION
    config: dict[str, str]


_DECODER = msgspec.json.Decoder(_StoredConfigs)


def encode_configs(configs: Mapping[str, str]) -> bytes:
    """Return the bytes of a node; equal configs give equal bytes."""
    return msgspec.json.encode(_StoredConfigs(config=dict(configs)), order="sorted")


def decode_configs(path: str, data: bytes) -> dict[str, str]:
    """Read a node. Errors: CorruptData, also for a format of a later release."""
    try:
        stored = _DECODER.decode(data)
    except NOT_JSON as error:
        raise CorruptData(f"the configs at {path} do not decode: {error}") from error
    if stored.version != FORMAT_VERSION:
        raise CorruptData(f"{path} has format {stored.version}, this release reads 1")
    return stored.config
