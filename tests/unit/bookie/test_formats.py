"""The files' formats against what Apache's bookie wrote (tests/golden/disk-*.txt), both ways."""

import re
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.bookie import entry_log_format, index_format, journal_format
from tailrace.bookie.cookie import Cookie, format_cookie, parse_cookie
from tailrace.bookie.entry_log_format import LogHeader, pack_ledgers_map, read_ledgers_map
from tailrace.bookie.index_format import IndexHeader
from tailrace.bookie.marks import Mark, pack_mark
from tailrace.protocol.errors import BadLength, DecodeError
from tailrace.protocol.ids import LedgerId

GOLDEN = Path(__file__).parents[2] / "golden"
JOURNAL = (GOLDEN / "disk-journal.txt").read_text()
ENTRY_LOG = (GOLDEN / "disk-entrylog.txt").read_text()
LINE = re.compile(r"^([0-9a-f]{6}) ([0-9a-f]+)( |\.\.\.|$)", re.MULTILINE)


def golden_lines(text: str, first: str, until: str) -> list[tuple[int, bytes, bool]]:
    """Return (position, bytes, whole?) of the hex lines between two headings."""
    section = text[text.index(first) :]
    section = section[: section.index(until)] if until in section else section
    return [
        (int(position, 16), bytes.fromhex(data), end != "...")
        for position, data, end in LINE.findall(section)
    ]


JOURNAL_LINES = golden_lines(JOURNAL, "## journal file", "## entry log")


def journal_bytes() -> bytes:
    """Rebuild the golden journal up to its last printed record; unknown records as padding."""
    image = bytearray(JOURNAL_LINES[0][1].ljust(journal_format.HEADER_SIZE, b"\0"))
    for position, data, _ in JOURNAL_LINES[1:]:
        if position > len(image):
            hole = position - len(image)
            image += journal_format.pack_padding(0, hole) if hole == 0 else b""
            image += (-0x100).to_bytes(4, "big", signed=True) + (hole - 8).to_bytes(4, "big")
            image += bytes(hole - 8)
        image += data
        if data[:4] == b"\xff\xff\xff\x00":
            image += bytes(int.from_bytes(data[4:8], "big"))
    return bytes(image)


def test_journal_header() -> None:
    position, data, _ = JOURNAL_LINES[0]
    assert position == 0
    previous = journal_format.Previous(6, 1024)
    header = journal_format.pack_header(7, previous)
    assert header[:8] == data
    assert header[8:16] == b"TAILRACE"  # where Java has zeros and reads nothing
    assert not any(header[36:])
    assert journal_format.read_previous(header, 7) == previous
    assert journal_format.read_previous(data.ljust(512, b"\0"), 7) is None
    assert journal_format.read_previous((data + b"TAILRACE").ljust(512, b"\0"), 7) is None
    with pytest.raises(DecodeError):
        journal_format.read_previous(header, 8)
    for bit in range(64, 36 * 8):
        flipped = bytearray(header)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(DecodeError):
            journal_format.read_previous(flipped, 7)
    journal_format.check_header(header)
    journal_format.check_header(data.ljust(512, b"\0"))
    assert journal_format.is_grouped(header)
    assert not journal_format.is_grouped(data.ljust(512, b"\0"))
    for size in range(512):
        with pytest.raises(DecodeError):
            journal_format.check_header(header[:size])
    with pytest.raises(DecodeError):
        journal_format.check_header(header.replace(b"BKLG", b"BKLO"))


def test_journal_records_decode_and_encode_to_the_same_bytes() -> None:
    image = journal_bytes()
    encoded = {}
    for record in journal_format.read_records(image, journal_format.HEADER_SIZE):
        ledger_id = LedgerId(record.ledger_id)
        if record.entry_id == journal_format.KEY:
            key = journal_format.read_value(record.body)
            assert key.hex() == "2aa226ba095b6969a64871977693b14671710d76"
            encoded[record.position] = journal_format.pack_key(ledger_id, key)
        elif record.entry_id == journal_format.FENCE:
            encoded[record.position] = journal_format.pack_fence(ledger_id)
        elif record.entry_id == journal_format.EXPLICIT_LAC:
            packet = journal_format.read_value(record.body)
            encoded[record.position] = journal_format.pack_explicit_lac(ledger_id, packet)
        elif record.entry_id >= 0:
            encoded[record.position] = len(record.body).to_bytes(4, "big") + record.body
    golden = {p: d for p, d, _ in JOURNAL_LINES[1:] if d[:4] not in (b"\xff\xff\xff\0", bytes(4))}
    assert len(golden) == 9
    assert encoded == golden


def test_journal_padding_is_javas() -> None:
    paddings = [(p, d) for p, d, _ in JOURNAL_LINES if d[:4] == b"\xff\xff\xff\x00"]
    assert len(paddings) == 3
    for position, head in paddings:
        padding = journal_format.pack_padding(position)
        assert padding == head + bytes(int.from_bytes(head[4:], "big"))
        assert (position + len(padding)) % 512 == 0


@given(st.integers(0, 5000))
def test_padding_always_reaches_the_alignment(position: int) -> None:
    padding = journal_format.pack_padding(position)
    assert (position + len(padding)) % 512 == 0
    assert len(padding) == 0 or len(padding) >= 8
    assert len(padding) < 512 + 8


def test_journal_cut_anywhere_gives_a_prefix_of_its_records() -> None:
    image = journal_bytes()
    whole = list(journal_format.read_records(image, 512))
    for size in range(512, len(image), 7):
        records = list(journal_format.read_records(image[:size], 512))
        assert [r.position for r in records] == [r.position for r in whole][: len(records)]


@pytest.mark.parametrize("length", [-8, -1, -(1 << 31)])
def test_padding_that_leads_back_is_refused(length: int) -> None:
    padding = struct.pack(">ii", journal_format.PADDING, length)
    with pytest.raises(BadLength, match="padding"):
        for _ in zip(range(9), journal_format.read_records(padding * 2, 8), strict=False):
            pass


@given(st.binary(max_size=300))
def test_random_bytes_are_no_journal(data: bytes) -> None:
    try:
        for record in journal_format.read_records(data, 0):
            assert record.position <= len(data)
    except BadLength:
        pass


def log_section(name: str) -> list[tuple[int, bytes, bool]]:
    return golden_lines(ENTRY_LOG, f"## entry log {name}", f"## entry log {int(name[0]) + 1}")


@pytest.mark.parametrize(
    ("name", "header"),
    [("0.log", (0xF7A, 1)), ("1.log", (0x1000, 2)), ("2.log", (0, 0))],
)
def test_entry_log_header_and_records(name: str, header: tuple[int, int]) -> None:
    lines = log_section(name)
    data = lines[0][1].ljust(1024, b"\0")
    read = entry_log_format.read_header(data)
    assert (read.map_offset, read.ledgers, read.previous_end, read.version) == (*header, 0, 1)
    assert entry_log_format.pack_header(read) == data
    position = lines[1][0]
    assert position == entry_log_format.HEADER_SIZE
    for at, record, whole in lines[1:4]:
        assert at == position
        size = int.from_bytes(record[:4], "big")
        assert not whole or len(record) == size + 4
        position = at + 4 + size


@pytest.mark.parametrize(("name", "usage"), [("0.log", {0: 2938}), ("1.log", {0: 861, 1: 2211})])
def test_ledgers_map(name: str, usage: dict[int, int]) -> None:
    position, data, _ = log_section(name)[-1]
    assert position == entry_log_format.read_header(log_section(name)[0][1].ljust(1024, b"\0"))[0]
    assert read_ledgers_map(data, len(usage)) == usage
    assert pack_ledgers_map(usage) == data
    for size in range(len(data)):
        with pytest.raises(DecodeError):
            read_ledgers_map(data[:size], len(usage))


def test_ledgers_map_of_many_ledgers_is_split() -> None:
    usage = {ledger: ledger * 3 + 1 for ledger in range(25_000)}
    data = pack_ledgers_map(usage)
    assert len(data) == 3 * 24 + 25_000 * 16
    assert read_ledgers_map(data, len(usage)) == usage


@given(st.binary(max_size=200), st.integers(1, 5))
def test_random_bytes_are_no_ledgers_map(data: bytes, ledgers: int) -> None:
    with pytest.raises(DecodeError):
        read_ledgers_map(data, ledgers)


@given(st.binary(max_size=1100))
def test_random_bytes_are_no_entry_log(data: bytes) -> None:
    with pytest.raises(DecodeError):
        entry_log_format.read_header(data)


def test_locations_are_javas() -> None:
    found = re.findall(r"location value = logId<<32 \| (\d+) = 0x([0-9a-f]+)", ENTRY_LOG)
    assert len(found) == 9
    for position, location in found:
        log_id = int(location, 16) >> 32
        assert entry_log_format.pack_location(log_id, int(position)) == int(location, 16)
        assert entry_log_format.split_location(int(location, 16)) == (log_id, int(position))


INDEX_HEADERS = re.findall(
    r"^([0-9a-f/]+)\.idx size 9216\n  ([0-9a-f]+)\n.*?state (\d) .*?LAC length \d+ ?([0-9a-f]*)",
    JOURNAL + ENTRY_LOG,
    re.MULTILINE,
)


def test_index_headers() -> None:
    assert len(INDEX_HEADERS) == 5
    for path, start, state, packet in INDEX_HEADERS:
        data = bytes.fromhex(start + packet).ljust(1024, b"\0")
        header = index_format.read_header(data)
        assert header.master_key.hex() == "2aa226ba095b6969a64871977693b14671710d76"
        assert header.fenced == (state == "1")
        assert header.explicit_lac.hex() == packet
        assert index_format.pack_header(header) == data
        ledger_id = int(path.rsplit("/", 1)[1], 16)
        assert "/".join(index_format.file_path(ledger_id)) == path + ".idx"
        for size in range(1024):
            with pytest.raises(DecodeError):
                index_format.read_header(data[:size])


@given(st.binary(max_size=1100))
def test_random_bytes_are_no_index(data: bytes) -> None:
    with pytest.raises(DecodeError):
        index_format.read_header(data)


@given(
    st.binary(max_size=index_format.KEY_BYTES_MAX),
    st.booleans(),
    st.binary(max_size=index_format.PACKET_BYTES_MAX),
)
def test_every_index_header_comes_back(key: bytes, fenced: bool, packet: bytes) -> None:
    header = IndexHeader(key, fenced, packet)
    assert index_format.read_header(index_format.pack_header(header)) == header


@given(st.integers(0, 2**31), st.integers(0, 2**31), st.integers(0, 2**31))
def test_every_log_header_comes_back(map_offset: int, ledgers: int, previous: int) -> None:
    header = LogHeader(map_offset, ledgers % 2**31, previous)
    assert entry_log_format.read_header(entry_log_format.pack_header(header)) == header


def test_marks() -> None:
    found = re.findall(
        r"lastMark: ([0-9a-f]{32}) = journal id (0x[0-9a-f]+), offset (0x[0-9a-f]+)",
        JOURNAL + ENTRY_LOG,
    )
    assert len(found) == 2
    for data, file_id, position in found:
        packed = pack_mark("lastMark", Mark(int(file_id, 16), int(position, 16)))
        assert packed[:16].hex() == data  # Java reads no further


def test_cookies() -> None:
    found = re.findall(r"^('5\\n.*')$", JOURNAL + ENTRY_LOG, re.MULTILINE)
    assert len(found) == 2
    for quoted in found:
        text = quoted[1:-1].replace("\\n", "\n").replace("\\\\", "\\").encode()
        cookie = parse_cookie(text)
        assert cookie.bookie_id.startswith("127.0.0.1:339")
        assert cookie.ledger_directories == ("DIR/ledgers",)
        assert format_cookie(cookie) == text


@given(st.text(), st.text(min_size=1), st.text())
def test_every_cookie_comes_back(bookie: str, directory: str, instance: str) -> None:
    text = directory.replace("\t", " ")
    cookie = Cookie(bookie, text, (text, text + "2"), instance)
    try:
        data = format_cookie(cookie)
    except UnicodeEncodeError:
        return
    assert parse_cookie(data) == cookie


@given(st.binary(max_size=100))
def test_random_bytes_are_no_cookie(data: bytes) -> None:
    with pytest.raises(DecodeError):
        parse_cookie(data)


def test_file_names() -> None:
    assert entry_log_format.file_name(0x1F) == "1f.log"
    assert journal_format.file_name(0x1A1FD40C06C) == "1a1fd40c06c.txn"
    names = ["0.log", "a.log", "1f.log", "x.log", ".log", "lastId", "1.txn", "A.log"]
    assert entry_log_format.file_ids(names) == [0, 10, 31]


def test_a_file_whose_name_is_too_large_a_number_is_none_of_ours() -> None:
    names = ["0.log", "7fffffffffffffff.log", "8000000000000000.log", f"{'e' * 40}.log", ".log"]
    assert entry_log_format.file_ids(names) == [0, (1 << 63) - 1]
