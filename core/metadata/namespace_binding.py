"""What a DistributedLog namespace's node says: which ledgers its logs are made of.

Three lines: version `1`, type `BKDL`, then Thrift's TJSON of BKDLConfigFormat: field numbers, each
with a one-key object that names its type. Source: DistributedLog DLMetadata, BKDLConfig; vectors:
tests/golden/dl.txt A5.
"""

import json
from dataclasses import dataclass
from typing import Any, Final

from tailrace.core.errors import CorruptData
from tailrace.core.runtime.stored_json import NOT_JSON

_HEAD: Final = "1\nBKDL\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class BKDLConfig:
    """Binding of a namespace. Names and fallbacks are DistributedLog's."""

    bk_zk_servers: str
    bk_ledgers_path: str
    sanity_check_txid: bool = True
    encode_region_id: bool = False
    bk_zk_servers_for_reader: str = ""
    """Empty: as `bk_zk_servers`."""
    dl_zk_servers_for_writer: str = ""
    """Empty: as `bk_zk_servers`."""
    dl_zk_servers_for_reader: str = ""
    """Empty: as `dl_zk_servers_for_writer`."""
    acl_root_path: str | None = None
    first_log_segment_seq_no: int | None = None
    federated_namespace: bool = False


def encode_binding(config: BKDLConfig) -> bytes:
    """Return the data of a namespace's node, byte for byte as Java writes it."""
    writer = config.dl_zk_servers_for_writer or config.bk_zk_servers
    fields: dict[str, dict[str, str | int]] = {
        "1": {"str": config.bk_zk_servers},
        "2": {"str": config.bk_ledgers_path},
        "3": {"tf": int(config.sanity_check_txid)},
        "4": {"tf": int(config.encode_region_id)},
        "5": {"str": config.bk_zk_servers_for_reader or config.bk_zk_servers},
        "6": {"str": writer},
        "7": {"str": config.dl_zk_servers_for_reader or writer},
    }
    if config.acl_root_path is not None:
        fields["8"] = {"str": config.acl_root_path}
    if config.first_log_segment_seq_no is not None:
        fields["9"] = {"i64": config.first_log_segment_seq_no}
    if config.federated_namespace:
        fields["10"] = {"tf": 1}
    return (_HEAD + json.dumps(fields, separators=(",", ":"), ensure_ascii=False)).encode()


def decode_binding(data: bytes) -> BKDLConfig:
    """Read the data of a namespace's node: any subset of fields, any order. Errors: CorruptData."""
    try:
        text = data.decode()
        fields = json.loads(text.removeprefix(_HEAD)) if text.startswith(_HEAD) else None
    except NOT_JSON:
        fields = None
    if not isinstance(fields, dict):
        raise CorruptData(f"not a DistributedLog namespace binding: {data[:80]!r}")
    return BKDLConfig(
        bk_zk_servers=_required(fields, "1"),
        bk_ledgers_path=_required(fields, "2"),
        sanity_check_txid=bool(_field(fields, "3", "tf", int, 1)),
        encode_region_id=bool(_field(fields, "4", "tf", int, 0)),
        bk_zk_servers_for_reader=_field(fields, "5", "str", str, ""),
        dl_zk_servers_for_writer=_field(fields, "6", "str", str, ""),
        dl_zk_servers_for_reader=_field(fields, "7", "str", str, ""),
        acl_root_path=_field(fields, "8", "str", str, None),
        first_log_segment_seq_no=_field(fields, "9", "i64", int, None),
        federated_namespace=bool(_field(fields, "10", "tf", int, 0)),
    )


def _required(fields: dict[str, Any], number: str) -> str:
    value = _field(fields, number, "str", str, "")
    if not value:
        raise CorruptData(f"namespace binding without field {number}")
    return str(value)


def _field(fields: dict[str, Any], number: str, tag: str, kind: type, default: Any) -> Any:
    if number not in fields:
        return default
    typed = fields[number]
    value = typed.get(tag) if isinstance(typed, dict) else None
    if not isinstance(value, kind):
        raise CorruptData(f"namespace binding: field {number} is not a {tag}")
    return value
