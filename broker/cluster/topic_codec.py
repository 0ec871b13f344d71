"""How a topic lies in the metadata store: one JSON object per node. Pure."""

import base64
from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from tailrace.core.errors import CorruptData
from tailrace.core.runtime.decimal_text import decimal
from tailrace.core.runtime.stored_json import NOT_JSON, Int32, Natural

FORMAT_VERSION = 1


class StoredTopic(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One topic as it is stored.

    `ready` counts the partitions whose streams are known to exist. It is behind `partitions` only
    while somebody creates streams, or after a crash in between: whoever finds it so creates what
    is missing. A stream below `ready` that is not there is damage, and is never made anew.
    """

    version: Int32 = FORMAT_VERSION
    topic_id: str
    """22 characters of URL-safe base64, Kafka's text form."""
    partitions: Int32
    ready: Int32
    state: Literal["claiming", "active", "deleting"] = "active"
    """`claiming`: the streams from `ready` on are not made yet, and one of them may be another's:
    that is checked first. Proxies let no client make or claim them from now on."""
    created_ms: Natural
    configs: dict[str, str]
    replication_factor: Int32 = 1
    assignments: dict[str, tuple[Int32, ...]] | msgspec.UnsetType = msgspec.UNSET
    """Preference lists of brokers, by partition; left out where no partition has one."""


_DECODER = msgspec.json.Decoder(StoredTopic)


def encode_topic(stored: StoredTopic) -> bytes:
    """Return the bytes of a node; equal topics give equal bytes."""
    return msgspec.json.encode(stored, order="sorted")


def decode_topic(name: str, data: bytes) -> StoredTopic:
    """Read a node. Errors: CorruptData, also for a format of a later release."""
    try:
        stored = _DECODER.decode(data)
    except NOT_JSON as error:
        raise CorruptData(f"the node of topic {name} does not decode: {error}") from error
    if stored.version != FORMAT_VERSION:
        raise CorruptData(f"topic {name} has format {stored.version}, this release reads 1")
    if not 0 <= stored.ready <= stored.partitions or stored.partitions < 1:
        raise CorruptData(f"topic {name}: {stored.ready} of {stored.partitions} partitions ready")
    if stored.replication_factor < 1:
        raise CorruptData(f"topic {name} has replication factor {stored.replication_factor}")
    for partition, brokers in (stored.assignments or {}).items():
        if decimal(partition, stored.partitions - 1) is None or not brokers:
            raise CorruptData(f"topic {name} assigns {brokers} to partition {partition}")
    id_bytes(stored.topic_id, name)
    return stored


def id_text(topic_id: bytes) -> str:
    """Return Kafka's text form of a topic id."""
    return base64.urlsafe_b64encode(topic_id).rstrip(b"=").decode("ascii")


def id_bytes(text: str, name: str) -> bytes:
    """Return the 16 bytes of a topic id. Errors: CorruptData."""
    try:
        topic_id = base64.b64decode(text + "==", altchars=b"-_", validate=True)
    except ValueError as error:
        raise CorruptData(f"topic {name} has a broken id {text!r}") from error
    if len(topic_id) != 16:
        raise CorruptData(f"topic {name} has a broken id {text!r}")
    return topic_id


def encode_assignments(
    assignments: Mapping[int, Sequence[int]],
) -> dict[str, tuple[int, ...]] | msgspec.UnsetType:
    """Return preference lists as they are stored: nothing for none."""
    return {str(at): tuple(brokers) for at, brokers in assignments.items()} or msgspec.UNSET


def decode_assignments(stored: StoredTopic) -> dict[int, tuple[int, ...]]:
    """Return the preference lists of a topic, by partition."""
    return {int(at): brokers for at, brokers in (stored.assignments or {}).items()}
