"""Nodes of the metadata store that another process wrote."""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from tailrace.broker.cluster.config_codec import decode_configs, encode_configs
from tailrace.broker.cluster.live_brokers import live_broker
from tailrace.broker.cluster.registration import BrokerNode, decode_broker, encode_broker
from tailrace.broker.cluster.topic_codec import (
    StoredTopic,
    decode_assignments,
    decode_topic,
    encode_topic,
)
from tailrace.broker.partition.notes import CleanNotes, LogNotes, decode_notes
from tailrace.broker.quotas.codec import decode_quotas, encode_quotas
from tailrace.core.access.acls.codec import PatternEntries, decode_entries, encode_entries
from tailrace.core.access.acls.model import Entry, Operation, Permission
from tailrace.core.errors import CorruptData
from tailrace.core.log.cold.nodes import ColdSegment, decode_cold, encode_cold
from tailrace.core.log.ownership import parse_member
from tailrace.core.metadata import bookie_service_info as service_info
from tailrace.core.metadata import namespace_binding, segment_metadata, underreplication
from tailrace.core.metadata.layout import LAYOUT_TEXT, check_layout
from tailrace.core.metadata.ledger_metadata import decode_ledger, encode_ledger
from tailrace.core.metadata.network_location import parse_rack_mapping
from tailrace.core.metadata.region_rules import RegionRules, encode_region_rules, parse_region_rules
from tailrace.protocol.ids import BookieId
from tailrace.proxy.owner.location import ProxyLocation, parse_location
from tailrace.proxy.routing.members import Endpoint, MemberNode, decode_member, encode_member
from tailrace.proxy.routing.stopped_regions import decode_stopped
from tests.fuzz.target import Target
from tests.golden import vectors, znodes
from tests.unit.core.metadata.golden_nodes import golden_ledgers, golden_segments

_BOOKIE = BookieId("bookie:3181")


_NOTES = [
    LogNotes(log_start_offset=7).encode(),
    LogNotes(
        cleaned=CleanNotes(first_dirty_offset=5, cleaned_ms=1, bytes_before=9, bytes_after=3)
    ).encode(),
]
_ACLS = encode_entries(
    PatternEntries((Entry("User:a", "*", Operation.DESCRIBE_CONFIGS, Permission.ALLOW),))
)
_STOPPED = b'{"region_stop_accept_new_stream": ["eu", "us"]}'


def _noted(notes: LogNotes) -> bytes | None:
    """Return the form with the same version; an empty node has none."""
    encoded = notes.encode()
    return encoded if decode_notes("log", encoded) == notes else None


def _golden(*parts: str) -> list[bytes]:
    return [
        each.data for each in znodes("zk-layout.md") if any(part in each.path for part in parts)
    ]


def _ledgers() -> Iterator[bytes]:
    for node in golden_ledgers():
        yield node.data
        yield node.data.replace(b"127.", b"\xff27.")
        metadata = decode_ledger(node.data)
        yield encode_ledger(_as_version(metadata, 2))
    for tail in (b"", b"\n7\tCLOSED", b"\n-102\tCLOSED"):
        yield b"BookieMetadataFormatVersion\t1\n2\n3\n0\n0\ta:1\tb:1\tc:1" + tail


def _as_version(metadata: Any, version: int) -> Any:
    return replace(metadata, format_version=version, ctoken=0)


def _segments() -> Iterator[bytes]:
    yield from (node.data for node in golden_segments())
    yield from (each.value.encode() for each in vectors("dl.txt") if each.section.startswith("A4"))


_TEXT_KINDS: dict[int, tuple[Callable[[bytes], Any], Callable[[Any], bytes] | None]] = {
    0: (underreplication.decode_mark, underreplication.encode_mark),
    1: (underreplication.decode_lock, underreplication.encode_lock),
    2: (underreplication.decode_vote, underreplication.encode_vote),
    3: (underreplication.CHECK_ALL_LEDGERS.decode, None),
    4: (underreplication.check_underreplication_layout, None),
}


def _underreplication(data: bytes) -> tuple[int, Any]:
    kind = (data[0] if data else 0) % len(_TEXT_KINDS)
    return kind, _TEXT_KINDS[kind][0](data[1:])


def _underreplication_bytes(value: tuple[int, Any]) -> bytes | None:
    kind, found = value
    encode = _TEXT_KINDS[kind][1]
    return None if encode is None else bytes((kind,)) + encode(found)


def _underreplication_seeds() -> Iterator[bytes]:
    mark = underreplication.Mark((_BOOKIE, BookieId("other:1")), 1_700_000_000_000)
    yield b"\0" + underreplication.encode_mark(mark)
    yield b"\1" + underreplication.encode_lock("owner")
    yield b"\2" + underreplication.encode_vote("candidate")
    yield b"\3" + underreplication.CHECK_ALL_LEDGERS.encode(1_700_000_000_000)
    yield b"\4" + underreplication.LAYOUT_BYTES


def _location_bytes(location: ProxyLocation | None) -> bytes | None:
    return None if location is None else location.text.encode("latin-1")


def _info(data: bytes) -> tuple[service_info.BookieServiceInfo, Any]:
    info = service_info.decode_service_info(data, _BOOKIE)
    return info, info.location()


def _info_seeds() -> Iterator[bytes]:
    info = service_info.rpc_service_info("host", 3181)
    yield service_info.encode_service_info(info)
    place = {service_info.NETWORK_LOCATION: "/region/rack"}
    door = service_info.Endpoint("id", "h", 1, "http", ("auth",), ("extension",))
    placed = service_info.encode_service_info(service_info.BookieServiceInfo((door,), place))
    yield placed
    yield placed.replace(b"/region", b"\xffregion")


def _binding_seeds() -> Iterator[bytes]:
    yield namespace_binding.encode_binding(
        namespace_binding.BKDLConfig(
            bk_zk_servers="zk:2181",
            bk_ledgers_path="/ledgers",
            acl_root_path="acl",
            first_log_segment_seq_no=4,
            federated_namespace=True,
        )
    )


def _broker(data: bytes) -> BrokerNode:
    node = decode_broker(data)
    live_broker(1, node)
    return node


def _topic(data: bytes) -> StoredTopic:
    stored = decode_topic("t", data)
    decode_assignments(stored)
    return stored


_TOPIC = StoredTopic(
    topic_id="AAAAAAAAAAAAAAAAAAAAAA",
    partitions=2,
    ready=1,
    created_ms=1,
    configs={"retention.ms": "5"},
    assignments={"0": (1, 2), "1": (2,)},
)
_QUOTAS = (
    b'{"version":1,"quotas":[{"entity":{"user":"u","client-id":null},'
    b'"values":{"producer_byte_rate":2}},{"entity":{"ip":"127.0.0.1"},'
    b'"values":{"connection_creation_rate":3}}]}'
)
_BROKER = BrokerNode(
    host="h",
    port=9092,
    endpoints=["PLAINTEXT://h:9092"],
    listener_security_protocol_map={"PLAINTEXT": "PLAINTEXT"},
    timestamp="1",
    rack="r",
)
_MEMBER = MemberNode(
    service_endpoint=Endpoint("10.0.0.1", 8000),
    additional_endpoints={"stats": Endpoint("10.0.0.1", 8001)},
    shard=3,
)
_COLD = ColdSegment(
    segment="5;1;2", name="n-1", size_bytes=1, index_at=1, crc32c=1, payload_bytes=1
)


def _with_large_numbers(seed: bytes) -> Iterator[bytes]:
    for found in re.finditer(rb"(?<=[:,\[])\d+", seed):
        yield seed[: found.start()] + b"9" * 20 + seed[found.end() :]


def _json(
    name: str,
    decode: Callable[[bytes], Any],
    seeds: list[bytes],
    encode: Callable[[Any], bytes | None] | None = None,
) -> Target:
    deep = b'{"?":' + b"[" * 1200 + b"]" * 1200 + b","
    return Target(
        name=name,
        decode=decode,
        errors=(CorruptData,),
        seeds=lambda: [
            *seeds,
            *(deep + seed[1:] for seed in seeds),
            *(large for seed in seeds for large in _with_large_numbers(seed)),
        ],
        encode=encode,
        bytes_max=4096,
        dictionary=(b"[" * 30, b'{"":' * 8, b"\\ud800", b"1e999", b"9" * 20, b'"version":'),
    )


TARGETS = (
    Target(
        name="ledger-metadata",
        decode=decode_ledger,
        errors=(CorruptData,),
        seeds=_ledgers,
        encode=encode_ledger,
        memory_per_byte=400,
        steps_per_byte=200,
        dictionary=(
            b"ensembleMember",
            b"segment {",
            b"}",
            b"firstEntryId: ",
            b"\xff",
            b"\t",
            b"\n",
        ),
    ),
    Target(
        name="segment-metadata",
        decode=segment_metadata.decode_segment,
        errors=(CorruptData,),
        seeds=_segments,
        encode=segment_metadata.encode_segment,
    ),
    Target(
        name="underreplication",
        decode=_underreplication,
        errors=(CorruptData,),
        seeds=_underreplication_seeds,
        encode=_underreplication_bytes,
        memory_per_byte=400,
        dictionary=(b"replica: ", b"ctime: ", b"bookieId: ", b'"', b"\\377"),
    ),
    Target(
        name="bookie-service-info",
        decode=_info,
        errors=(CorruptData,),
        seeds=_info_seeds,
        encode=lambda value: service_info.encode_service_info(value[0]) or None,
        memory_per_byte=400,
    ),
    _json(
        "namespace-binding",
        lambda data: namespace_binding.encode_binding(namespace_binding.decode_binding(data)),
        list(_binding_seeds()),
        lambda written: written,
    ),
    _json(
        "rack-mapping",
        parse_rack_mapping,
        [b'{"group":{"bookie:1":{"rack":"/region/rack"},"b":{"rack":null,"x":[1]}}}'],
    ),
    _json(
        "region-rules",
        parse_region_rules,
        [encode_region_rules(RegionRules(to_write=("eu", "us"), disallowed=frozenset(("us",))))],
        encode_region_rules,
    ),
    _json("topic-node", _topic, [encode_topic(_TOPIC)], encode_topic),
    _json(
        "config-node",
        partial(decode_configs, "/node"),
        [encode_configs({"a": "b"})],
        encode_configs,
    ),
    _json("acl-node", partial(decode_entries, "/node"), [_ACLS], encode_entries),
    _json("quota-node", decode_quotas, [_QUOTAS], encode_quotas),
    _json("broker-node", _broker, [encode_broker(_BROKER)], encode_broker),
    _json("partition-notes", lambda data: decode_notes("log", data), _NOTES, _noted),
    _json("stopped-regions", decode_stopped, [_STOPPED]),
    _json("proxy-member", decode_member, [encode_member(_MEMBER)], encode_member),
    _json("cold-node", lambda data: decode_cold(data, "/node"), [encode_cold(_COLD)], encode_cold),
    Target(
        name="ledger-layout",
        decode=check_layout,
        errors=(CorruptData,),
        seeds=lambda: [LAYOUT_TEXT, *_golden("LAYOUT")],
    ),
    Target(
        name="segment-name",
        decode=lambda data: segment_metadata.read_segment_name(data.decode("latin-1")),
        errors=(),
        seeds=lambda: [b"inprogress_000000000000000007", b"logrecs_000000000000000007"],
    ),
    Target(
        name="lock-member",
        decode=lambda data: parse_member(data.decode("latin-1")),
        errors=(ValueError,),
        seeds=lambda: [b"member_client%3A1_s        17_0000000003", b"member_3", b"x_-1"],
    ),
    Target(
        name="proxy-location",
        decode=lambda data: parse_location(data.decode("latin-1")),
        encode=_location_bytes,
        errors=(),
        seeds=lambda: [b"1;7;host:4181", b"1;-1;[::1]:0", b"2;7;host:4181"],
    ),
)
