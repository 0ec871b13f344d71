"""What is left after a crash: torn ends, power loss at every step, damage."""

import asyncio
import contextlib
import functools
import os
import random
import shutil
import struct
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import override

from tailrace.bookie import entry_log_format
from tailrace.bookie.app import OpenBookie
from tailrace.bookie.entry_log_format import HEADER_SIZE
from tailrace.bookie.errors import StorageFailed
from tailrace.core.errors import CorruptData
from tailrace.core.runtime.files import SystemFiles
from tailrace.protocol.bookkeeper.entry import pack_lac
from tailrace.protocol.bookkeeper.messages import ReadLacRequest, StatusCode, WriteLacRequest
from tailrace.protocol.ids import Buffer, LedgerId
from tests.unit.bookie.crash_files import CrashFiles
from tests.unit.bookie.world import (
    DIGEST,
    KEY,
    L1,
    L2,
    OTHER_KEY,
    add,
    ask,
    entry_body,
    fence,
    open_small,
    read,
    run,
)

EOK = StatusCode.EOK
MIB = 1024 * 1024


def kill(directory: Path, target: Path) -> None:
    """Copy the files as kill -9 would leave them: what was written, checkpointed or not."""
    shutil.copytree(directory, target)


async def expect(bookie: OpenBookie, bodies: dict[tuple[LedgerId, int], bytes]) -> None:
    for (ledger_id, entry_id), body in bodies.items():
        response = await ask(bookie, read(ledger_id, entry_id))
        assert response.status is EOK, (ledger_id, entry_id, response)
        assert response.body == body


def tear_last_group(directory: Path) -> tuple[Path, int, int]:
    """Return the last entry log, where its last group starts, and where it ends."""
    logs = directory / "ledgers" / "current"
    log_id = entry_log_format.file_ids(os.listdir(logs))[-1]
    path = logs / entry_log_format.file_name(log_id)
    image = path.read_bytes().rstrip(b"\0")
    trailer = image.rindex(b"\x00\x00\x00\x24" + b"\xff" * 8)
    start = int.from_bytes(image[trailer + 20 : trailer + 28], "big")
    return path, start, trailer + 40


@pytest.mark.parametrize("journal_write_data", [False, True])
def test_kill_without_a_checkpoint_loses_nothing(tmp_path: Path, journal_write_data: bool) -> None:
    async def story() -> None:
        live, dead = tmp_path / "live", tmp_path / "dead"
        bookie = await open_small(live, journal_write_data=journal_write_data)
        bodies = {}
        for entry_id in range(60):
            for ledger_id in (L1, L2):
                payload = random.Random(entry_id).randbytes(entry_id * 100)
                response = await ask(bookie, add(ledger_id, entry_id, payload, lac=entry_id - 1))
                assert response.status is EOK
                bodies[ledger_id, entry_id] = entry_body(
                    ledger_id, entry_id, payload, lac=entry_id - 1
                )
            if entry_id == 20:
                await bookie.checkpoint()
            if entry_id == 40:
                await ask(bookie, WriteLacRequest(L1, 5, KEY, pack_lac(L1, 5, DIGEST)))
                await ask(bookie, fence(LedgerId(9)))
        kill(live, dead)
        await bookie.close()
        bookie = await open_small(dead, journal_write_data=journal_write_data)
        await expect(bookie, bodies)
        assert (await ask(bookie, read(L1, 0))).max_lac == 58
        assert (await ask(bookie, ReadLacRequest(L1))).lac_body == pack_lac(L1, 5, DIGEST)
        assert (await ask(bookie, add(LedgerId(9), 0))).status is StatusCode.EFENCED
        assert (await ask(bookie, add(L2, 60, key=OTHER_KEY))).status is StatusCode.EUA
        assert (await ask(bookie, add(L2, 60))).status is EOK
        await bookie.close()
        bookie = await open_small(dead, journal_write_data=not journal_write_data)
        await expect(bookie, bodies)
        await bookie.close()

    run(story)


def test_last_group_torn_at_every_byte(tmp_path: Path) -> None:
    live = tmp_path / "live"
    kept = {}

    async def write() -> None:
        bookie = await open_small(live)
        for entry_id in range(3):
            await ask(bookie, add(L1, entry_id))
            kept[L1, entry_id] = entry_body(L1, entry_id, b"payload")
        await ask(bookie, add(L1, 3))
        kill(live, tmp_path / "dead")
        await bookie.close()

    run(write)
    path, start, end = tear_last_group(tmp_path / "dead")
    image = path.read_bytes()
    assert end - start == 4 + len(entry_body(L1, 3, b"payload")) + 40

    async def reopen(cut: int) -> None:
        directory = tmp_path / f"cut{cut}"
        shutil.copytree(tmp_path / "dead", directory)
        torn = directory / path.relative_to(tmp_path / "dead")
        torn.write_bytes(image[:cut] + bytes(4096 * (cut % 4 // 2)))
        bookie = await open_small(directory)
        await expect(bookie, kept)
        assert (await ask(bookie, read(L1, 3))).status is StatusCode.ENOENTRY
        assert (await ask(bookie, add(L1, 3, b"again"))).status is EOK
        await bookie.close()
        bookie = await open_small(directory)
        await expect(bookie, kept | {(L1, 3): entry_body(L1, 3, b"again")})
        await bookie.close()
        shutil.rmtree(directory)

    for cut in range(start, end - 1, 2):
        run(functools.partial(reopen, cut))


@pytest.mark.parametrize("block", [512, 4096])
def test_last_block_zeroed(tmp_path: Path, block: int) -> None:
    async def story() -> None:
        live, dead = tmp_path / "live", tmp_path / "dead"
        bookie = await open_small(live)
        for entry_id in range(5):
            await ask(bookie, add(L1, entry_id, bytes(range(256)) * 100))
        kill(live, dead)
        await bookie.close()
        path, start, end = tear_last_group(dead)
        image = bytearray(path.read_bytes())
        at = max((end - 1) // block * block, start)
        image[at:end] = bytes(end - at)
        path.write_bytes(image)
        bookie = await open_small(dead)
        for entry_id in range(4):
            assert (await ask(bookie, read(L1, entry_id))).status is EOK
        assert (await ask(bookie, read(L1, 4))).status is StatusCode.ENOENTRY
        await bookie.close()

    run(story)


def test_torn_journal_loses_only_what_was_not_acknowledged(tmp_path: Path) -> None:
    async def story() -> None:
        live = tmp_path / "live"
        bookie = await open_small(live)
        await ask(bookie, fence(L1))
        journal = journal_of(live)
        before = len(journal.read_bytes().rstrip(b"\0"))
        await ask(bookie, fence(L2))
        after = len(journal.read_bytes().rstrip(b"\0"))
        for number, cut in enumerate(range(before + 1, after, 25)):
            dead = tmp_path / f"dead{number}"
            kill(live, dead)
            torn = dead / journal.relative_to(live)
            torn.write_bytes(torn.read_bytes()[:cut].ljust(2000, b"\0"))
            again = await open_small(dead)
            assert (await ask(again, add(L1, 0))).status is StatusCode.EFENCED
            assert (await ask(again, add(L2, 0))).status in (EOK, StatusCode.EFENCED)
            await again.close()
            again = await open_small(dead)
            assert (await ask(again, add(L1, 0))).status is StatusCode.EFENCED
            await again.close()
        await bookie.close()

    run(story)


def journal_of(directory: Path) -> Path:
    return next((directory / "journal/current").glob("*.txn"))


def flip(path: Path, at: int) -> None:
    image = bytearray(path.read_bytes())
    image[at] ^= 0xFF
    path.write_bytes(image)


def test_damage_in_the_acknowledged_tail_is_never_no_such_entry(tmp_path: Path) -> None:
    async def story() -> None:
        live = tmp_path / "live"
        bookie = await open_small(live)
        for entry_id in range(3):
            await ask(bookie, add(L1, entry_id, b"p" * 100))
        kill(live, tmp_path / "payload")
        kill(live, tmp_path / "structure")
        await ask(bookie, fence(L2))
        kill(live, tmp_path / "journal2")
        await bookie.close()
        log = "ledgers/current/0.log"
        flip(tmp_path / "payload" / log, HEADER_SIZE + 80)
        bookie = await open_small(tmp_path / "payload")
        damaged = await ask(bookie, read(L1, 0))
        assert damaged.status is EOK  # the client's digest finds it
        assert damaged.body != entry_body(L1, 0, b"p" * 100)
        await bookie.close()
        flip(tmp_path / "structure" / log, HEADER_SIZE + 2)
        with pytest.raises(CorruptData, match="position 1024"):
            await open_small(tmp_path / "structure")
        journal = journal_of(tmp_path / "journal2")
        flip(journal, 540)
        with pytest.raises(CorruptData, match=journal.name):
            await open_small(tmp_path / "journal2")

    run(story)


def test_a_bit_that_flips_in_the_tail_hides_no_entry_and_makes_none(tmp_path: Path) -> None:
    """Ids, LACs and sizes: each bit of the heads of a group that an acknowledged one follows."""

    async def story() -> None:
        live = tmp_path / "live"
        bookie = await open_small(live)
        await asyncio.gather(*(ask(bookie, add(ledger, 0, b"p" * 20)) for ledger in (L1, L2)))
        await ask(bookie, add(L1, 1))
        await ask(bookie, fence(L2))
        kill(live, tmp_path / "dead")
        await bookie.close()
        log = Path("ledgers/current/0.log")
        whole = (tmp_path / "dead" / log).read_bytes()
        refused = 0
        for bit in range(HEADER_SIZE * 8, (HEADER_SIZE + 28) * 8, 3):
            damaged = tmp_path / f"{bit}"
            kill(tmp_path / "dead", damaged)
            flipped = bytearray(whole)
            flipped[bit // 8] ^= 1 << bit % 8
            (damaged / log).write_bytes(flipped)
            try:
                bookie = await open_small(damaged)
            except CorruptData:
                refused += 1
                continue
            answers = [await ask(bookie, read(ledger, 0)) for ledger in (L1, L2)]
            statuses = {answer.status for answer in answers}
            assert statuses <= {EOK, StatusCode.EIO}, bit - HEADER_SIZE * 8
            assert EOK in statuses
            assert {answer.max_lac for answer in answers} <= {-1, None}
            await bookie.close()
            shutil.rmtree(damaged)
        assert refused <= 32 + 2  # sizes, and signs of ids: then the structure is broken

    run(story)


def journals_of(directory: Path) -> list[Path]:
    return sorted((directory / "journal/current").glob("*.txn"), key=lambda p: int(p.stem, 16))


@pytest.mark.parametrize("journal_write_data", [False, True])
def test_every_byte_of_a_rolled_journal_counts(tmp_path: Path, journal_write_data: bool) -> None:
    """The last group of a file that another one follows was acknowledged: it is never a torn end.

    With each group in a file of its own; the newest file's may be torn, and is not touched here.
    """
    changes = {"journal_write_data": journal_write_data, "journal_max_size_mb": 0}

    async def story() -> None:
        live, dead = tmp_path / "live", tmp_path / "dead"
        bookie = await open_small(live, preallocate_mb=0, **changes)
        assert (await ask(bookie, add(L1, 0))).status is EOK
        await ask(bookie, fence(L1))
        assert (await ask(bookie, add(L2, 0))).status is EOK
        kill(live, dead)
        await bookie.close()
        *rolled, _ = journals_of(dead)
        assert len(rolled) >= 2
        for path in rolled:
            whole = path.read_bytes()
            header = [(at, 1) for at in range(8, 36)]
            for at, bits in [*header, *((at, 0x81) for at in range(512, len(whole), 7))]:
                image = bytearray(whole)
                image[at] ^= bits
                path.write_bytes(image)
                await _is_refused_or_whole(dead, f"{path.name}@{at}", changes)
            for size in (0, 300, 512, 520, len(whole) - 40, len(whole) - 512):
                path.write_bytes(whole[:size])
                await _is_refused_or_whole(dead, f"{path.name} of {size}", changes)
            path.unlink()
            with pytest.raises(CorruptData, match="is missing"):
                await open_small(dead, **changes)
            path.write_bytes(whole)
        bookie = await open_small(dead, **changes)
        assert (await ask(bookie, read(L1, 0))).status is EOK
        await bookie.close()

    run(story)


async def _is_refused_or_whole(dead: Path, what: str, changes: dict[str, Any]) -> None:
    """Damage may lie in zeros that mean nothing; what was acknowledged is there, or no start."""
    spare = dead.with_name("spare")
    kill(dead, spare)
    with contextlib.suppress(CorruptData):
        bookie = await open_small(spare, **changes)
        assert (await ask(bookie, add(L1, 1))).status is StatusCode.EFENCED, what
        assert (await ask(bookie, read(L1, 0))).status is EOK, what
        assert (await ask(bookie, read(L2, 0))).status is EOK, what
        await bookie.close()
    shutil.rmtree(spare)


@pytest.mark.parametrize("journal_write_data", [False, True])
def test_a_torn_end_may_be_followed_by_the_journals_of_later_lives(
    tmp_path: Path, journal_write_data: bool
) -> None:
    """A crash tears the newest file; the next life goes on in another one, and crashes too."""

    async def story() -> None:
        before = tmp_path / "0"
        bookie = await open_small(before, journal_write_data=journal_write_data)
        await ask(bookie, fence(L1))
        whole = len(journal_of(before).read_bytes().rstrip(b"\0"))
        await ask(bookie, fence(L2))
        for life in range(1, 4):
            dead = tmp_path / f"{life}"
            kill(before, dead)
            await bookie.close()
            if life == 1:
                torn = journal_of(dead)
                torn.write_bytes(torn.read_bytes()[: whole + 30].ljust(5000, b"\0"))
            bookie = await open_small(dead, journal_write_data=journal_write_data)
            assert (await ask(bookie, add(L1, 0))).status is StatusCode.EFENCED
            await ask(bookie, fence(LedgerId(10 + life)))
            before = dead
        for number in (1, 11, 12, 13):
            assert (await ask(bookie, add(LedgerId(number), 0))).status is StatusCode.EFENCED
        assert len(journals_of(before)) == 4
        await bookie.close()

    run(story)


@pytest.mark.parametrize(
    ("remove", "message"),
    [
        ("ledgers/current/0.log", "entry log 0, where the scan begins, is missing"),
        ("journal/current/*.txn", "where the replay begins, is missing"),
    ],
)
def test_missing_files_are_refused(tmp_path: Path, remove: str, message: str) -> None:
    def lose() -> None:
        next(tmp_path.glob(remove)).unlink()

    async def story() -> None:
        bookie = await open_small(tmp_path)
        await ask(bookie, add(L1, 0))
        await bookie.close()
        lose()
        with pytest.raises(CorruptData, match=message):
            await open_small(tmp_path)

    run(story)


def test_an_entry_log_that_is_missing_in_the_tail_is_noticed(tmp_path: Path) -> None:
    async def story() -> None:
        live, dead = tmp_path / "live", tmp_path / "dead"
        bookie = await open_small(live, log_size_limit=3000)
        for entry_id in range(6):
            await ask(bookie, add(L1, entry_id, bytes(1000)))
        await bookie.checkpoint()  # none runs while the files are copied
        kill(live, dead)
        await bookie.close()
        for mark in ("entryLogMark", "lastMark"):  # as before the first checkpoint
            (dead / "ledgers/current" / mark).unlink(missing_ok=True)
        (dead / "ledgers/current/1.log").unlink()
        with pytest.raises(CorruptData, match="entry log 1, which it follows, is missing"):
            await open_small(dead)

    run(story)


@pytest.mark.parametrize("name", ["lastMark", "entryLogMark"])
def test_a_damaged_mark_hides_nothing(tmp_path: Path, name: str) -> None:
    """With several ledger directories another one has it; without one there is no start."""

    async def story(root: Path, directories: int) -> list[bool]:
        ledgers = tuple(root / f"live/ledgers{number}" for number in range(directories))
        bookie = await open_small(root / "live", ledger_directories=ledgers)
        await ask(bookie, add(L1, 0))
        await bookie.checkpoint()
        await ask(bookie, fence(L1))
        await ask(bookie, add(L2, 0))
        kill(root / "live", root / "dead")
        await bookie.close()
        path = root / "dead" / ledgers[0].name / "current" / name
        whole = path.read_bytes()
        started = []
        for bit in range(0, len(whole) * 8, 5):
            flipped = bytearray(whole)
            flipped[bit // 8] ^= 1 << bit % 8
            spare = root / f"{bit}"
            kill(root / "dead", spare)
            (spare / path.relative_to(root / "dead")).write_bytes(flipped)
            moved = tuple(spare / ledger.name for ledger in ledgers)
            try:
                bookie = await open_small(spare, ledger_directories=moved)
            except CorruptData as error:
                started.append(name not in str(error))
                continue
            started.append(True)
            assert (await ask(bookie, add(L1, 1))).status is StatusCode.EFENCED
            await expect(bookie, {(L1, 0): entry_body(L1, 0, b"payload")})
            await expect(bookie, {(L2, 0): entry_body(L2, 0, b"payload")})
            await bookie.close()
        return started

    assert not any(run(lambda: story(tmp_path / "one", 1)))
    assert all(run(lambda: story(tmp_path / "two", 2)))


def test_damaged_index_answers_eio(tmp_path: Path) -> None:
    index = tmp_path / "ledgers/current/0/1/1.idx"

    async def story() -> None:
        bookie = await open_small(tmp_path)
        for entry_id in range(3):
            await ask(bookie, add(L1, entry_id))
        await bookie.close()
        image = bytearray(index.read_bytes())
        image[1024:1032] = image[1032:1040]  # entry 0 points at entry 1
        index.write_bytes(image)
        bookie = await open_small(tmp_path)
        assert (await ask(bookie, read(L1, 0))).status is StatusCode.EIO
        assert (await ask(bookie, read(L1, 1))).status is EOK
        assert bookie.metrics.reads_damaged_total == 1
        await bookie.close()
        index.write_bytes(b"XXXX" + bytes(image[4:]))
        bookie = await open_small(tmp_path)
        assert (await ask(bookie, read(L1, 1))).status is StatusCode.EIO
        assert (await ask(bookie, add(L1, 5))).status is StatusCode.EIO
        await bookie.close()

    run(story)


def test_a_location_in_a_log_that_is_not_there_costs_that_entry_only(tmp_path: Path) -> None:
    index = tmp_path / "ledgers/current/0/1/1.idx"

    async def story() -> None:
        bookie = await open_small(tmp_path)
        for entry_id in range(3):
            await ask(bookie, add(L1, entry_id))
        await bookie.close()
        flip(index, 1024 + 16)  # the last entry's log id
        bookie = await open_small(tmp_path)
        assert (await ask(bookie, read(L1, 0))).status is EOK
        assert (await ask(bookie, read(L1, 2))).status is StatusCode.EIO
        assert (await ask(bookie, add(L1, 3))).status is EOK
        kill(tmp_path, tmp_path.with_name("dead"))
        await bookie.close()
        bookie = await open_small(tmp_path.with_name("dead"))  # which loads the ledger at its start
        assert (await ask(bookie, read(L1, 3))).status is EOK
        await bookie.close()

    run(story)


class _GatedSyncs(SystemFiles):
    """Syncs wait while the gate is shut."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()

    @override
    def sync(self, fd: int) -> None:
        assert self.gate.wait(60)
        super().sync(fd)


@pytest.mark.parametrize("journal_write_data", [False, True])
def test_records_that_waited_together_are_replayed(
    tmp_path: Path, journal_write_data: bool
) -> None:
    """In groups that a replay can take, however many there are; and bounded like adds."""

    async def story() -> None:
        live, dead = tmp_path / "live", tmp_path / "dead"
        files = _GatedSyncs()
        bookie = await open_small(
            live,
            files,
            journal_write_data=journal_write_data,
            pending_bytes_max=5,
            group_bytes_max=10_000,
        )
        await ask(bookie, add(L1, 0))
        files.gate.clear()
        first = ask(bookie, add(L1, 1))
        packets = [struct.pack(">qq", 1, number) + bytes(480) for number in range(200)]
        answers = [
            ask(bookie, WriteLacRequest(L1, number, KEY, packet))
            for number, packet in enumerate(packets)
        ]
        fill = [ask(bookie, add(L1, 2 + number, bytes(MIB))) for number in range(6)]
        refused = ask(bookie, WriteLacRequest(L1, 200, KEY, packets[0][:8] + b"\0" * 7 + b"\xc8"))
        assert (await refused).status is StatusCode.ETOOMANYREQUESTS
        files.gate.set()
        assert {(await answer).status for answer in (first, *answers, *fill[:5])} == {EOK}
        assert bookie.metrics.pending_bytes == 0
        assert bookie.metrics.groups_total >= 200 * 520 // 10_600
        await ask(bookie, fence(L2))
        kill(live, dead)
        await bookie.close()
        bookie = await open_small(dead, journal_write_data=journal_write_data)
        assert (await ask(bookie, add(L2, 0))).status is StatusCode.EFENCED
        assert (await ask(bookie, ReadLacRequest(L1))).lac_body == packets[-1]
        await bookie.close()

    run(story)


async def _settled(
    waiting: list["asyncio.Future[object]"], failed: "asyncio.Future[object]"
) -> None:
    """Wait for all of them, or for the failure after which none will come."""
    pending = set(waiting)
    while pending and not failed.done():
        _, pending = await asyncio.wait({*pending, failed}, return_when=asyncio.FIRST_COMPLETED)
        pending.discard(failed)


class _Load:
    """Adds, fences and checkpoints until the files crash; remembers what was acknowledged."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.acked: dict[tuple[LedgerId, int], bytes] = {}
        self.sent: dict[tuple[LedgerId, int], bytes] = {}
        self.fenced: set[LedgerId] = set()
        self.fencing: set[LedgerId] = set()
        self.next: dict[LedgerId, int] = {}

    async def run(self, bookie: OpenBookie, turns: int) -> None:
        for _ in range(turns):
            if bookie.failed.done():
                return
            waiting = [
                self.add(bookie, self.rng.randrange(3)) for _ in range(self.rng.randrange(4))
            ]
            if self.rng.random() < 0.1:
                waiting.append(self.fence(bookie, LedgerId(10 + self.rng.randrange(20))))
            if self.rng.random() < 0.3:
                checkpoint = asyncio.ensure_future(bookie.checkpoint())
                waiting.append(checkpoint)
                checkpoint.add_done_callback(lambda c: c.exception())
            if waiting:
                await asyncio.wait([*waiting, bookie.failed], return_when=asyncio.FIRST_COMPLETED)
                await _settled(waiting, bookie.failed)

    def add(self, bookie: OpenBookie, number: int) -> "asyncio.Future[object]":
        ledger_id = LedgerId(number)
        entry_id = self.next.get(ledger_id, 0)
        self.next[ledger_id] = entry_id + 1
        payload = self.rng.randbytes(self.rng.choice((10, 700, 5000)))
        body = entry_body(ledger_id, entry_id, payload)
        self.sent[ledger_id, entry_id] = body
        future = ask(bookie, add(ledger_id, entry_id, payload))

        def note(done: "asyncio.Future[object]") -> None:
            if not done.cancelled() and done.result().status is EOK:  # type: ignore[attr-defined]
                self.acked[ledger_id, entry_id] = body

        future.add_done_callback(note)
        return future

    def fence(self, bookie: OpenBookie, ledger_id: LedgerId) -> "asyncio.Future[object]":
        self.fencing.add(ledger_id)
        future = ask(bookie, fence(ledger_id))

        def note(done: "asyncio.Future[object]") -> None:
            gone = (StatusCode.EIO, StatusCode.LOCAL_UNAVAILABLE)
            if not done.cancelled() and done.result().status not in gone:  # type: ignore[attr-defined]
                self.fenced.add(ledger_id)

        future.add_done_callback(note)
        return future

    async def check(self, bookie: OpenBookie) -> None:
        for (ledger_id, entry_id), body in self.sent.items():
            response = await ask(bookie, read(ledger_id, entry_id))
            if bookie.failed.done():
                return
            if response.status is EOK:
                assert response.body == body
                self.acked[ledger_id, entry_id] = body  # shown once: has to stay
            else:
                assert response.status in (StatusCode.ENOENTRY, StatusCode.ENOLEDGER)
                assert (ledger_id, entry_id) not in self.acked
        for ledger_id in sorted(self.fenced):
            status = (await ask(bookie, add(ledger_id, 0))).status
            assert status is StatusCode.EFENCED or bookie.failed.done()


def directories(root: Path, name: str, rng: random.Random) -> tuple[Path, ...]:
    return tuple(root / f"{name}{number}" for number in range(rng.randint(1, 3)))


@pytest.mark.parametrize("journal_write_data", [False, True])
@pytest.mark.parametrize("seed", range(25))
def test_power_loss_at_any_step(tmp_path: Path, seed: int, journal_write_data: bool) -> None:
    rng = random.Random(seed * 2 + journal_write_data)
    load = _Load(rng)
    changes = {
        "journal_write_data": journal_write_data,
        "flush_entry_log_bytes": 20_000,
        "preallocate_mb": rng.randrange(2),
        "log_size_limit": rng.choice((30_000, 1024 * MIB)),
        "journal_max_size_mb": rng.randrange(2),
        "journal_backups_max": rng.randrange(2),
        "memtable_bytes_max": rng.choice((5_000, 40_000)),
        "journal_directories": directories(tmp_path, "journal", rng),
        "ledger_directories": directories(tmp_path, "ledgers", rng),
    }

    async def live(files: CrashFiles) -> None:
        try:
            bookie = await open_small(tmp_path, files, **changes)
        except (OSError, StorageFailed):
            assert files.is_crashed
            return
        await load.check(bookie)
        await load.run(bookie, 30)
        try:
            await bookie.close()
        except OSError:
            assert files.is_crashed

    files: CrashFiles | None = None
    for _ in range(4):
        stop_at = rng.choice((rng.randrange(40), rng.randrange(40, 300)))
        files = CrashFiles(stop_at, after=files)
        run(functools.partial(live, files))
        if files.is_crashed and rng.random() < 0.7:
            files.lose_power(rng)
            files = None

    async def last() -> None:
        bookie = await open_small(tmp_path, **changes)
        await load.check(bookie)
        await bookie.close()

    run(last)


@pytest.mark.parametrize("journal_write_data", [False, True])
def test_power_loss_at_every_step(tmp_path: Path, journal_write_data: bool) -> None:
    """Every roll, flush and checkpoint, in two directories each, stopped at each of its steps."""

    async def story(step: int | None) -> list[str]:
        root = tmp_path / f"{step}"
        load = _Load(random.Random(1))
        changes = {
            "journal_write_data": journal_write_data,
            "preallocate_mb": 1,
            "log_size_limit": 9_000,
            "journal_max_size_mb": 0,
            "journal_backups_max": 0,
            "journal_directories": (root / "journal-a", root / "journal-b"),
            "ledger_directories": (root / "ledgers-a", root / "ledgers-b"),
        }
        files = CrashFiles()
        bookie = await open_small(root, files, **changes)
        opened = len(files.steps)
        files.stop_at = None if step is None else opened + step
        for _ in range(2):
            await load.run(bookie, 2)
            waiting = [load.fence(bookie, LedgerId(20)), asyncio.ensure_future(bookie.checkpoint())]
            await _settled(waiting, bookie.failed)
            await asyncio.gather(*waiting[1:], return_exceptions=True)
        try:
            await bookie.close()
        except OSError:
            assert files.is_crashed
        steps = files.steps[opened:]
        files.lose_power(random.Random(step))
        bookie = await open_small(root, **changes)
        await load.check(bookie)
        await bookie.close()
        return steps

    steps = run(functools.partial(story, None))
    named = [".txn", ".log", ".idx", "entryLogMark", "lastMark", "lastMark.1"]
    assert all(any(name in step for step in steps) for name in named)
    assert any(step.startswith("remove") and ".txn" in step for step in steps)
    for step in range(len(steps)):
        run(functools.partial(story, step))


_NEW_LOG = entry_log_format.pack_header(entry_log_format.LogHeader(previous_end=1500, grouped=True))


@pytest.mark.parametrize(
    "left",
    [b"", bytes(1024), bytes(512) + _NEW_LOG[512:], _NEW_LOG[:512] + bytes(512)],
    ids=["nothing", "zeros", "second sector", "first sector"],
)
def test_a_log_that_a_crash_left_without_whole_header_is_forgotten(
    tmp_path: Path, left: bytes
) -> None:
    journals = tmp_path / "journal/current"

    async def story() -> None:
        bookie = await open_small(tmp_path)
        await ask(bookie, add(L1, 0))
        await bookie.close()
        (tmp_path / "ledgers/current/1.log").write_bytes(left)
        (journals / "7fffffffffff.txn").write_bytes(b"")
        bookie = await open_small(tmp_path)
        assert (await ask(bookie, read(L1, 0))).status is EOK
        assert (await ask(bookie, add(L2, 0))).status is EOK
        await bookie.close()
        assert sorted(p.name for p in journals.glob("8*.txn")) == ["800000000000.txn"]
        assert not (tmp_path / "ledgers/current/1.log").exists()  # there was room in 0.log
        bookie = await open_small(tmp_path)
        assert (await ask(bookie, read(L2, 0))).status is EOK
        await bookie.close()

    run(story)


@pytest.mark.parametrize(
    "left",
    [b"", bytes(1024), b"\xff" * 1024, _NEW_LOG[:512] + bytes(512)],
    ids=["nothing", "zeros", "rubbish", "first sector"],
)
def test_a_log_whose_groups_were_checkpointed_is_never_forgotten(
    tmp_path: Path, left: bytes
) -> None:
    async def story() -> None:
        bookie = await open_small(tmp_path)
        await ask(bookie, add(L1, 0))
        await bookie.checkpoint()
        await bookie.close()
        log = tmp_path / "ledgers/current/0.log"
        log.write_bytes(left)
        with pytest.raises(CorruptData, match=r"0\.log"):
            await open_small(tmp_path)
        assert log.read_bytes() == left

    run(story)


class _Failing(SystemFiles):
    """Syncs fail while `broken`; all calls that change a file are counted from then on."""

    def __init__(self) -> None:
        self.broken = False
        self.failed_syncs = 0
        self.syncs_later = 0
        self.writes_later = 0

    @override
    def sync(self, fd: int) -> None:
        if self.broken:
            self.failed_syncs += 1
            raise OSError("the disk is gone")
        self.syncs_later += self.failed_syncs > 0
        super().sync(fd)

    @override
    def write_at(self, fd: int, parts: Sequence[Buffer], position: int) -> None:
        self.writes_later += self.failed_syncs > 0
        super().write_at(fd, parts, position)


@pytest.mark.parametrize("journal_write_data", [False, True])
@pytest.mark.parametrize("what", ["adds", "fence"])
def test_nothing_is_acknowledged_after_a_failed_write(
    tmp_path: Path, journal_write_data: bool, what: str
) -> None:
    """The sync that failed is not retried, and nothing is written or synced after it."""

    async def story() -> None:
        files = _Failing()
        bookie = await open_small(tmp_path, files, journal_write_data=journal_write_data)
        assert (await ask(bookie, add(L1, 0))).status is EOK
        files.broken = True
        if what == "adds":
            lost = [ask(bookie, add(L1, i)) for i in range(1, 4)]
        else:
            lost = [ask(bookie, fence(L1))]
        error = await bookie.failed
        assert "the disk is gone" in str(error)
        files.broken = False
        assert (await ask(bookie, add(L1, 4))).status is StatusCode.LOCAL_UNAVAILABLE
        assert (await ask(bookie, read(L1, 0))).status is StatusCode.LOCAL_UNAVAILABLE
        await bookie.close()
        assert not any(f.done() for f in lost)
        assert (files.failed_syncs, files.syncs_later, files.writes_later) == (1, 0, 0)

    run(story)


@pytest.mark.parametrize("journal_write_data", [False, True])
def test_a_checkpoint_that_cannot_be_synced_ends_the_bookie(
    tmp_path: Path, journal_write_data: bool
) -> None:
    async def story() -> None:
        files = _Failing()
        bookie = await open_small(tmp_path, files, journal_write_data=journal_write_data)
        assert (await ask(bookie, add(L1, 0))).status is EOK
        files.broken = True
        with pytest.raises(OSError, match="the disk is gone"):
            await bookie.checkpoint()
        assert bookie.failed.done()
        files.broken = False
        await bookie.close()
        assert (files.failed_syncs, files.syncs_later, files.writes_later) == (1, 0, 0)
        bookie = await open_small(tmp_path, journal_write_data=journal_write_data)
        assert (await ask(bookie, read(L1, 0))).status is EOK
        await bookie.close()

    run(story)
