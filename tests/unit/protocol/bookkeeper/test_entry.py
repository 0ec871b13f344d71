import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.protocol.bookkeeper.codec import decode_request, decode_response
from tailrace.protocol.bookkeeper.digest import Digest, DigestType
from tailrace.protocol.bookkeeper.entry import (
    HEADER_SIZE,
    MAX_ENTRY_BYTES,
    MAX_FRAME_BYTES,
    Entry,
    pack_entry,
    pack_lac,
    read_entry,
    read_ids,
    read_lac,
)
from tailrace.protocol.bookkeeper.messages import AddRequest, ReadLacResponse, WriteLacRequest
from tailrace.protocol.errors import BadChecksum, BadValue, BufferUnderflow, DecodeError
from tailrace.protocol.ids import Buffer, LedgerId
from tests.golden import frames
from tests.strategies import entry_ids, hostile, ledger_ids, naturals, pieces, small_bytes

LEDGER = LedgerId(7)
HEADER = "0000000000000007 0000000000000000 ffffffffffffffff 0000000000000005".replace(" ", "")
FIELDS = {
    DigestType.CRC32: "00000000b9e72242",
    DigestType.CRC32C: "9e3e717b",
    DigestType.HMAC: "6af35ec50d8094dd6550da989516362f5cfc4e40",
    DigestType.DUMMY: "",
}
LACS = {
    DigestType.CRC32: "0000000011d37726",
    DigestType.CRC32C: "9640a704",
    DigestType.HMAC: "2cb5990221a1620715993f61e6ce5d844e36fdd5",
    DigestType.DUMMY: "",
}
kinds = st.sampled_from(list(DigestType))


@pytest.mark.parametrize("kind", list(DigestType))
def test_entry_of_the_reference(kind: DigestType) -> None:
    digest = Digest(kind, b"pw")
    body = bytes.fromhex(HEADER + FIELDS[kind]) + b"hello"
    assert b"".join(pack_entry(LEDGER, 0, -1, 5, (b"hello",), digest)) == body
    assert read_entry(body, LEDGER, 0, digest) == Entry(LEDGER, 0, -1, 5, memoryview(b"hello"))


@pytest.mark.parametrize("kind", list(DigestType))
def test_lac_packet_of_the_reference(kind: DigestType) -> None:
    digest = Digest(kind, b"pw")
    packet = bytes.fromhex("00000000000000070000000000000003" + LACS[kind])
    assert pack_lac(LEDGER, 3, digest) == packet
    assert read_lac(packet, LEDGER, digest) == 3


LEDGER_DIGESTS = {
    0: DigestType.CRC32C, 1: DigestType.CRC32, 2: DigestType.CRC32, 3: DigestType.HMAC,
    4: DigestType.DUMMY, 5: DigestType.CRC32C, 7: DigestType.CRC32C, 8: DigestType.CRC32C,
    9: DigestType.CRC32C,
}  # fmt: skip


def test_entries_that_javas_client_wrote_verify_and_repack() -> None:
    count = 0
    for frame in frames("wire-v3.txt"):
        if frame.sender != "client" or "addRequest" not in frame.meaning:
            continue
        _, request = decode_request(frame.data)
        assert isinstance(request, AddRequest)
        digest = Digest(LEDGER_DIGESTS[request.ledger_id], b"pw")
        (body,) = request.body
        entry = read_entry(body, request.ledger_id, request.entry_id, digest)
        repacked = pack_entry(*entry[:4], (entry.payload,), digest)
        assert b"".join(repacked) == body
        count += 1
    assert count == 13


def test_lac_packets_that_javas_client_wrote() -> None:
    digest = Digest(DigestType.CRC32, b"pw")
    packets: list[Buffer] = []
    for frame in frames("wire-v3.txt"):
        if "writeLacRequest" in frame.meaning:
            request = decode_request(frame.data)[1]
            assert isinstance(request, WriteLacRequest)
            packets.append(request.body)
        elif "lacBody" in frame.meaning:
            response = decode_response(frame.data)[1]
            assert isinstance(response, ReadLacResponse)
            assert response.lac_body is not None
            packets.append(response.lac_body)
    assert len(packets) == 3
    for packet in packets:
        assert read_lac(packet, LedgerId(1), digest) == 0
        assert pack_lac(LedgerId(1), 0, digest) == packet


@given(kinds, ledger_ids, entry_ids, entry_ids, naturals, pieces(small_bytes))
def test_entries_come_back(
    kind: DigestType,
    ledger_id: LedgerId,
    entry_id: int,
    lac: int,
    length: int,
    payload: tuple[Buffer, ...],
) -> None:
    digest = Digest(kind, b"secret")
    parts = pack_entry(ledger_id, entry_id, lac, length, payload, digest)
    assert all(part is given for part, given in zip(parts[1:], payload, strict=True))
    body = b"".join(parts)
    expected = (ledger_id, entry_id, lac, length, b"".join(payload))
    assert read_entry(body, ledger_id, entry_id, digest) == expected
    assert read_entry(memoryview(body), ledger_id, None, digest) == expected
    assert read_ids(body) == (ledger_id, entry_id)


@pytest.mark.parametrize("kind", [DigestType.CRC32, DigestType.CRC32C, DigestType.HMAC])
def test_every_flipped_bit_and_every_cut_is_found(kind: DigestType) -> None:
    digest = Digest(kind, b"pw")
    body = b"".join(pack_entry(LEDGER, 3, 2, 50, (b"payload",), digest))
    for bit in range(8 * len(body)):
        flipped = bytearray(body)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(BadChecksum):
            read_entry(flipped, LEDGER, 3, digest)
    for length in range(len(body)):
        with pytest.raises(BufferUnderflow if length < HEADER_SIZE + digest.size else BadChecksum):
            read_entry(body[:length], LEDGER, 3, digest)


def test_another_ledgers_or_entrys_bytes_are_refused() -> None:
    digest = Digest(DigestType.CRC32)
    body = b"".join(pack_entry(LEDGER, 3, 2, 50, (b"payload",), digest))
    with pytest.raises(BadValue):
        read_entry(body, LedgerId(8), 3, digest)
    with pytest.raises(BadValue):
        read_entry(body, LEDGER, 4, digest)
    packet = pack_lac(LEDGER, 3, digest)
    with pytest.raises(BadValue):
        read_lac(packet, LedgerId(8), digest)
    with pytest.raises(BadChecksum):
        read_lac(packet[:15] + b"\x04" + packet[16:], LEDGER, digest)
    with pytest.raises(BufferUnderflow):
        read_lac(packet[:-1], LEDGER, digest)
    with pytest.raises(BufferUnderflow):
        read_ids(body[:15])


@given(kinds, st.data())
def test_hostile_bodies_give_an_entry_or_a_decode_error(
    kind: DigestType, data: st.DataObject
) -> None:
    digest = Digest(kind)
    valid = small_bytes.map(lambda p: b"".join(pack_entry(LEDGER, 1, 0, 9, (p,), digest)))
    body = data.draw(hostile(valid))
    for read in (
        lambda: read_entry(body, LEDGER, None, digest),
        lambda: read_lac(body, LEDGER, digest),
        lambda: read_ids(body),
    ):
        try:
            read()
        except DecodeError:
            continue


def test_the_largest_entry_fits_a_frame() -> None:
    assert MAX_ENTRY_BYTES + 100 < MAX_FRAME_BYTES
