"""Directories that Java's bookie wrote (tests/golden/disk-*.txt): read, and left as they were."""

from pathlib import Path

from tailrace.bookie.index_format import IndexHeader, pack_header
from tailrace.bookie.marks import Mark, pack_mark
from tailrace.protocol.bookkeeper.entry import pack_lac
from tailrace.protocol.bookkeeper.messages import ReadLacRequest, StatusCode
from tailrace.protocol.ids import LedgerId
from tests.unit.bookie.test_formats import (
    ENTRY_LOG,
    JOURNAL,
    golden_lines,
    journal_bytes,
    log_section,
)
from tests.unit.bookie.world import DIGEST, add, ask, fence, open_small, read, run

EOK = StatusCode.EOK
KEY = bytes.fromhex("2aa226ba095b6969a64871977693b14671710d76")
JOURNAL_NAME = "1a1fd40c06c.txn"
L0 = LedgerId(0)


def java_bookie(directory: Path) -> None:
    """Lay out what the golden dump tells of a bookie: journal, entry log, index files, marks."""
    journals, ledgers = directory / "journal/current", directory / "ledgers/current"
    (ledgers / "0/0").mkdir(parents=True)
    journals.mkdir(parents=True)
    (journals / JOURNAL_NAME).write_bytes(journal_bytes() + bytes(4096))
    lines = golden_lines(JOURNAL, "## entry log 0.log", "## entry log 1.log")
    log = bytearray(lines[0][1].ljust(1024, b"\0"))
    for _, record, _ in lines[1:3]:
        log += record
    (ledgers / "0.log").write_bytes(log)
    (ledgers / "1.log").write_bytes(b"")
    index = pack_header(IndexHeader(KEY, fenced=True))
    index += b"".join(place.to_bytes(8, "big") for place in (0x404, 0x431))
    (ledgers / "0/0/0.idx").write_bytes(index.ljust(1024 + 8192, b"\0"))
    (ledgers / "lastId").write_bytes(b"1\n")


def entries() -> list[bytes]:
    """Return the bodies of ledger 0 in the golden journal."""
    lines = golden_lines(JOURNAL, "## journal file", "## entry log")
    return [data[4:] for at, data, _ in lines if at in (0x22C, 0x400, 0x600)]


async def adopt(directory: Path) -> None:
    """Give Java's directories our cookie: another test's matter."""
    bookie = await open_small(directory / "empty")
    await bookie.close()
    give_cookies(directory)


def give_cookies(directory: Path) -> None:
    for name in ("journal", "ledgers"):
        cookie = (directory / "empty" / name / "current/VERSION").read_bytes()
        (directory / name / "current/VERSION").write_bytes(cookie)


def test_a_java_journal_is_replayed_and_its_entry_log_read(tmp_path: Path) -> None:
    java_bookie(tmp_path)
    ledgers = tmp_path / "ledgers/current"
    (ledgers / "lastMark").write_bytes(pack_mark("lastMark", Mark(0x1A1FD40C06C, 0x200))[:16])
    before = read_bytes(ledgers / "0.log")

    async def story() -> None:
        await adopt(tmp_path)
        for _ in range(2):
            bookie = await open_small(tmp_path)
            for entry_id, body in enumerate(entries()):
                response = await ask(bookie, read(L0, entry_id))
                assert (response.status, response.body) == (EOK, body)
            assert (await ask(bookie, add(L0, 3, key=KEY))).status is StatusCode.EFENCED
            assert (await ask(bookie, add(LedgerId(6), 0, key=KEY))).status is StatusCode.EFENCED
            lac = (await ask(bookie, ReadLacRequest(LedgerId(1)))).lac_body
            assert lac is not None
            assert lac[:16] == pack_lac(LedgerId(1), 0, DIGEST)[:16]
            await bookie.close()
        assert read_bytes(ledgers / "0.log") == before
        assert read_bytes(ledgers / "1.log")[:4] == b"BKLO"  # entry 2, that only the journal had

    run(story)


def read_bytes(path: Path) -> bytes:
    return path.read_bytes()


def test_behind_the_mark_nothing_of_a_java_journal_is_replayed(tmp_path: Path) -> None:
    java_bookie(tmp_path)
    ledgers = tmp_path / "ledgers/current"
    (ledgers / "lastMark").write_bytes(pack_mark("lastMark", Mark(0x1A1FD40C06C, 0x2200))[:16])

    async def story() -> None:
        await adopt(tmp_path)
        bookie = await open_small(tmp_path)
        assert (await ask(bookie, read(L0, 1))).body == entries()[1]
        assert (await ask(bookie, read(L0, 2))).status is StatusCode.ENOENTRY
        assert (await ask(bookie, fence(LedgerId(2), key=KEY))).status is StatusCode.ENOENTRY
        assert (await ask(bookie, add(LedgerId(7), 0))).status is EOK
        await bookie.close()

    run(story)


def test_every_printed_record_of_a_java_entry_log_is_read(tmp_path: Path) -> None:
    """The logs with a ledgers map: index files point into them, nothing else is known."""
    ledgers = tmp_path / "ledgers/current"
    (tmp_path / "journal/current").mkdir(parents=True)
    (ledgers / "0/0").mkdir(parents=True)
    places: dict[int, tuple[int, bytes]] = {}
    for log_id in (0, 1):
        lines = log_section(f"{log_id}.log")
        image = bytearray(lines[0][1].ljust(1024, b"\0"))
        for at, shown, _ in lines[1:4]:
            size = int.from_bytes(shown[:4], "big")
            record = shown.ljust(size + 4, b"\xaa")  # the dump shows the first bytes only
            image[at:] = record
            places[int.from_bytes(record[12:20], "big")] = (log_id << 32 | at + 4, record[4:])
        at, data, _ = lines[-1]
        image = image.ljust(at, b"\0") + data
        (ledgers / f"{log_id}.log").write_bytes(image)
    assert sorted(places) == [0, 1, 2, 23, 24, 25]
    index = bytearray(pack_header(IndexHeader(KEY))).ljust(1024 + 8192, b"\0")
    for entry_id, (place, _) in places.items():
        index[1024 + 8 * entry_id : 1032 + 8 * entry_id] = place.to_bytes(8, "big")
    (ledgers / "0/0/0.idx").write_bytes(index)
    assert "0:0x404 1:0x480 2:0x52d" in ENTRY_LOG

    async def story() -> None:
        await adopt(tmp_path)
        bookie = await open_small(tmp_path)
        for entry_id, (_, body) in places.items():
            assert (await ask(bookie, read(L0, entry_id))).body == body
        await ask(bookie, add(L0, 26, key=KEY))
        await bookie.close()

    run(story)
    assert (ledgers / "2.log").exists()
