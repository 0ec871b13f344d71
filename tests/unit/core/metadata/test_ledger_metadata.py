import base64
import re
from dataclasses import replace

import pytest
from google.protobuf import text_format
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.core.errors import CorruptData
from tailrace.core.metadata.layout import LedgerPaths
from tailrace.core.metadata.ledger_metadata import (
    Fragment,
    LedgerMetadata,
    LedgerState,
    decode_ledger,
    encode_ledger,
)
from tailrace.core.metadata.schemas import LedgerMetadataFormat
from tailrace.protocol.bookkeeper.digest import DigestType
from tailrace.protocol.ids import BookieId
from tests.unit.core.metadata.golden_nodes import GoldenNode, golden_ledgers

B1, B2, B3 = BookieId("127.0.0.1:3181"), BookieId("127.0.0.1:3182"), BookieId("127.0.0.1:3183")
OPEN = LedgerMetadata(
    ensemble_size=2,
    write_quorum=2,
    ack_quorum=2,
    fragments=(Fragment(0, (B1, B2)),),
    digest=DigestType.CRC32C,
    password=b"pw",
    ctoken=42,
)


@pytest.mark.parametrize("node", golden_ledgers(), ids=lambda node: node.path)
def test_java_metadata_is_read_and_written_byte_for_byte(node: GoldenNode) -> None:
    metadata = decode_ledger(node.data)
    assert encode_ledger(metadata) == node.data
    told = dict(re.findall(r"(\w+): (-?\w+)", node.decoded))
    assert metadata.write_quorum == int(told["quorumSize"])
    assert metadata.ensemble_size == int(told["ensembleSize"])
    assert metadata.ack_quorum == int(told["ackQuorumSize"])
    assert metadata.length == int(told["length"])
    assert metadata.last_entry_id == int(told["lastEntryId"])
    assert metadata.state.name == told["state"]
    assert metadata.digest.name == told["digestType"]
    assert metadata.ctoken == int(told["cToken"])
    assert metadata.fragments[0].ensemble == tuple(
        re.findall(r'ensembleMember: "([^"]+)"', node.decoded)
    )


def test_golden_ledgers_lie_where_their_ids_say() -> None:
    paths = LedgerPaths()
    for node in golden_ledgers():
        ledger_id = paths.ledger_id(node.path)
        assert ledger_id is not None
        assert paths.ledger(ledger_id) == node.path


def test_reference_vector() -> None:
    data = base64.b64decode(
        "Qm9va2llTWV0YWRhdGFGb3JtYXRWZXJzaW9uCTMKQQgCEAIYACD///////////8BKAEyIgoOMTI3LjAuMC4xOjMx"
        "ODEKDjEyNy4wLjAuMTozMTgyEAA4A0ICcHdIAmAq"
    )
    assert decode_ledger(data) == OPEN
    assert encode_ledger(OPEN) == data


def test_custom_metadata_keeps_its_order_and_bytes() -> None:
    custom = {"z": b"\x00\x01\xff", "application": b"tailrace"}
    decoded = decode_ledger(encode_ledger(replace(OPEN, custom=custom)))
    assert list(decoded.custom.items()) == list(custom.items())


def test_version_2_is_read() -> None:
    message = LedgerMetadataFormat()
    message.ParseFromString(encode_ledger(OPEN).partition(b"\n")[2][1:])
    data = b"BookieMetadataFormatVersion\t2\n" + text_format.MessageToString(message).encode()
    assert decode_ledger(data) == replace(OPEN, format_version=2)


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("state", list(LedgerState), ids=lambda state: state.name)
def test_an_update_keeps_the_format(version: int, state: LedgerState) -> None:
    old = f"BookieMetadataFormatVersion\t{version}\n".encode()
    made = replace(
        OPEN,
        digest=DigestType.CRC32,
        password=b"",
        ctoken=0,
        has_digest=version > 1,
        format_version=version,
    )
    updated = {
        LedgerState.OPEN: made,
        LedgerState.IN_RECOVERY: made.in_recovery(),
        LedgerState.CLOSED: made.closed(7, 900),
    }[state]
    data = encode_ledger(updated)
    assert data.startswith(old)
    assert decode_ledger(data) == updated


@pytest.mark.parametrize(
    ("tail", "state", "last_entry_id", "length"),
    [
        ("", LedgerState.OPEN, -1, 0),
        ("-102\tCLOSED\n", LedgerState.IN_RECOVERY, -1, 0),
        ("41\tCLOSED\n", LedgerState.CLOSED, 41, 1234),
    ],
)
def test_version_1_is_read(tail: str, state: LedgerState, last_entry_id: int, length: int) -> None:
    text = f"BookieMetadataFormatVersion\t1\n2\n3\n1234\n0\t{B1}\t{B2}\t{B3}\n20\t{B1}\t{B2}\tx:1\n"
    metadata = decode_ledger((text + tail).encode())
    assert (metadata.write_quorum, metadata.ensemble_size, metadata.ack_quorum) == (2, 3, 2)
    assert (metadata.state, metadata.last_entry_id, metadata.length) == (
        state,
        last_entry_id,
        length,
    )
    assert metadata.fragments == (
        Fragment(0, (B1, B2, B3)),
        Fragment(20, (B1, B2, BookieId("x:1"))),
    )
    written = text.replace("1234", str(length)) + tail.rstrip("\n")
    assert encode_ledger(metadata) == written.encode()


def test_life_of_a_ledger() -> None:
    recovering = OPEN.in_recovery()
    assert (recovering.state, recovering.ctoken) == (LedgerState.IN_RECOVERY, 0)
    closed = recovering.closed(9, 100)
    assert closed.is_closed
    assert decode_ledger(encode_ledger(closed)) == closed


def test_fragment_of_an_entry() -> None:
    fragments = (Fragment(0, (B1, B2)), Fragment(10, (B1, B3)), Fragment(11, (B2, B3)))
    metadata = replace(OPEN, fragments=fragments)
    assert [metadata.fragment_of(e) for e in (0, 9, 10, 11, 999)] == [
        fragments[i] for i in (0, 0, 1, 2, 2)
    ]
    with pytest.raises(ValueError, match="no fragment"):
        metadata.fragment_of(-1)


@pytest.mark.parametrize(
    "wrong",
    [
        {"ack_quorum": 0},
        {"ack_quorum": 3},
        {"ensemble_size": 1},
        {"fragments": ()},
        {"fragments": (Fragment(1, (B1, B2)),)},
        {"fragments": (Fragment(0, (B1, B2)), Fragment(0, (B1, B2)))},
        {"fragments": (Fragment(0, (B1, B1)),)},
        {"fragments": (Fragment(0, (B1, B2, B3)),)},
    ],
)
def test_impossible_metadata_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - each has its own words
        replace(OPEN, **wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("node", golden_ledgers()[:4], ids=lambda node: node.path)
def test_cut_metadata_is_corrupt(node: GoldenNode) -> None:
    for size in range(len(node.data)):
        with pytest.raises(CorruptData):
            decode_ledger(node.data[:size])
    with pytest.raises(CorruptData):
        decode_ledger(node.data + b"\0")


def test_a_bookie_whose_name_is_not_text_is_corrupt() -> None:
    """A protobuf library hands out bytes then, where an id should be."""
    data = encode_ledger(OPEN)
    with pytest.raises(CorruptData, match="UTF-8"):
        decode_ledger(data.replace(b"127.0.0.1:3181", b"\xff27.0.0.1:3181"))


@settings(max_examples=200)
@given(st.binary(max_size=200), st.sampled_from(["", "1\n", "2\n", "3\n", "4\n"]))
def test_random_bytes_are_corrupt_or_metadata(tail: bytes, version: str) -> None:
    data = f"BookieMetadataFormatVersion\t{version}".encode() + tail if version else tail
    try:
        metadata = decode_ledger(data)
    except CorruptData:
        return
    assert decode_ledger(encode_ledger(metadata)) == metadata


@settings(max_examples=200)
@given(st.sampled_from(golden_ledgers()), st.data())
def test_spoiled_metadata_is_corrupt_or_metadata(node: GoldenNode, data: st.DataObject) -> None:
    spoiled = bytearray(node.data)
    at = data.draw(st.integers(0, len(spoiled) - 1))
    spoiled[at] = data.draw(st.integers(0, 255))
    try:
        decode_ledger(bytes(spoiled))
    except CorruptData:
        return
