"""Flipped bytes: never given out over the wire, found by the scrub, mended from another replica."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.bookie.app import BookieProcess, OpenBookie, start_bookie
from tailrace.bookie.config import BookieConfig
from tailrace.bookie.entry_judge import EntryJudge
from tailrace.bookie.inspect import BookieFiles
from tailrace.bookie.metrics import BookieMetrics
from tailrace.bookie.scrub import YIELDS_MAX, Pace, Replica, Scrub, ScrubConfig
from tailrace.core.errors import CoreError
from tailrace.core.ledger.bookie_registry import RegisteredBookies
from tailrace.core.ledger.client import LedgerClient
from tailrace.core.ledger.config import LedgerConfig
from tailrace.core.ledger.replica_reader import ReplicaReader
from tailrace.core.metadata.ledger_tree import initialize_layout
from tailrace.core.metadata.sqlite import SqliteStore
from tailrace.core.runtime.clock import ManualClock
from tailrace.core.runtime.files import SystemFiles
from tailrace.core.runtime.metrics import Metrics
from tailrace.protocol.bookkeeper.digest import Digest, DigestType
from tailrace.protocol.bookkeeper.messages import BatchReadRequest, StatusCode
from tailrace.protocol.ids import EntryId, LedgerId
from tests.unit.bookie.world import DIGEST, L1, L2, add, ask, open_small, read, run, small_config

COUNT = 5
FAST = ScrubConfig(interval_s=0, rate_limit=1e6)


class Confirmed:
    """A listener that only waits."""

    def __init__(self) -> None:
        self.lac = -1
        self.moved = asyncio.Event()

    def on_confirmed(self, lac: EntryId) -> None:
        self.lac = lac
        self.moved.set()

    def on_failed(self, error: CoreError) -> None:
        raise AssertionError(error)


class Cluster:
    """Two bookies over TCP with one metadata store, and a ledger on both."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.bookies: list[BookieProcess] = []

    async def __aenter__(self) -> "Cluster":
        self.store = SqliteStore(self._directory / "metadata", ManualClock())
        await initialize_layout(self.store)
        for number in range(2):
            config = self._config(number)
            process = await start_bookie(
                config, self.store, ManualClock(), SystemFiles(), Metrics()
            )
            self.bookies.append(process)
        self.registry = RegisteredBookies(self.store)
        self.ledgers = LedgerClient(self.store, self.registry)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.registry.close()
        for process in self.bookies:
            await process.close()
        await self.store.close()

    def _config(self, number: int) -> BookieConfig:
        config = small_config(self._directory / str(number), bookie_id=f"bookie:{number}")
        return replace(config, scrub=FAST)

    async def write(self, quorum: int, digest: DigestType) -> LedgerId:
        heard = Confirmed()
        config = LedgerConfig(
            ensemble_size=quorum, write_quorum=quorum, ack_quorum=quorum, digest=digest,
            password=b"secret",
        )  # fmt: skip
        writer = await self.ledgers.create_ledger(config, heard)
        for number in range(COUNT):
            writer.add([b"entry %d" % number])
        while heard.lac < COUNT - 1:
            heard.moved.clear()
            await heard.moved.wait()
        await writer.close()
        return writer.ledger_id

    def flip(self, number: int, ledger_id: LedgerId, entry_id: EntryId, at: int = -1) -> None:
        """Change one byte of an entry's body in a bookie's entry log."""
        ledgers = self._config(number).ledger_directories
        place = BookieFiles(SystemFiles(), ledgers).locate(ledger_id, entry_id)
        assert place is not None
        position = place.position + at % place.size
        with place.path.open("r+b") as file:
            file.seek(position)
            (byte,) = file.read(1)
            file.seek(position)
            file.write(bytes([byte ^ 0x10]))

    def mend_from_others(self, number: int) -> None:
        replicas = ReplicaReader(self.ledgers)

        async def fetch(ledger_id: LedgerId, entry_id: EntryId) -> Replica | None:
            found = await replicas.read(ledger_id, entry_id)
            return found and Replica(*found)

        scrub = self.bookies[number].bookie.scrub
        assert scrub is not None
        scrub.fetch = fetch


def on_cluster(directory: Path, story: Callable[[Cluster], Any]) -> None:
    async def main() -> None:
        async with Cluster(directory) as cluster:
            await story(cluster)

    run(main)


JUDGED = [DigestType.CRC32, DigestType.CRC32C, DigestType.HMAC]


@pytest.mark.parametrize("digest", JUDGED, ids=lambda digest: digest.name)
def test_a_flipped_byte_is_an_error_at_that_bookie_and_mended_by_the_scrub(
    tmp_path: Path, digest: DigestType
) -> None:
    async def story(cluster: Cluster) -> None:
        ledger_id = await cluster.write(2, digest)
        bookie = cluster.bookies[0].bookie
        assert (await ask(bookie, read(ledger_id, 2))).status is StatusCode.EOK
        cluster.flip(0, ledger_id, 2)
        assert (await ask(bookie, read(ledger_id, 2))).status is StatusCode.EIO
        batch = await ask(bookie, BatchReadRequest(ledger_id, 0, COUNT, 10**6))
        assert (batch.status, len(batch.bodies)) == (StatusCode.EOK, 2)
        assert bookie.metrics.reads_damaged_total == 1
        reader = await cluster.ledgers.open_ledger(ledger_id, recover=False)
        entries = await reader.read(0, COUNT - 1)
        assert [bytes(entry.payload) for entry in entries] == [b"entry %d" % n for n in range(5)]

        cluster.mend_from_others(0)
        assert bookie.scrub is not None
        await bookie.scrub.round()
        metrics = bookie.scrub.metrics
        assert (metrics.repaired_entries_total, metrics.damaged_entries) == (1, 0)
        mended = await ask(bookie, read(ledger_id, 2))
        whole = await ask(cluster.bookies[1].bookie, read(ledger_id, 2))
        assert bytes(mended.body) == bytes(whole.body)
        await bookie.scrub.round()
        assert metrics.repaired_entries_total == 1
        assert metrics.entries_total == 2 * COUNT

    on_cluster(tmp_path, story)


@pytest.mark.parametrize(
    "at", [0, 8, 16, 24, 32], ids=["ledger", "entry", "lac", "length", "digest"]
)
def test_every_part_of_an_entry_is_verified(tmp_path: Path, at: int) -> None:
    async def story(cluster: Cluster) -> None:
        ledger_id = await cluster.write(1, DigestType.CRC32C)
        (holder,) = [b.bookie for b in cluster.bookies if ledger_id in await b.bookie.ledger_ids()]
        cluster.flip(int(holder.bookie_id[-1]), ledger_id, 1, at)
        assert (await ask(holder, read(ledger_id, 1))).status is StatusCode.EIO

    on_cluster(tmp_path, story)


def test_without_another_replica_it_is_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(cluster: Cluster) -> None:
        ledger_id = await cluster.write(1, DigestType.CRC32C)
        (holder,) = [b.bookie for b in cluster.bookies if ledger_id in await b.bookie.ledger_ids()]
        number = int(holder.bookie_id[-1])
        cluster.mend_from_others(number)
        cluster.flip(number, ledger_id, 1)
        assert holder.scrub is not None
        await holder.scrub.round()
        assert holder.scrub.metrics.damaged_entries == 1
        assert f"entry_damaged ledger={ledger_id} entry=1" in caplog.text
        assert "there is no other replica" in caplog.text

    on_cluster(tmp_path, story)


def test_a_ledger_without_metadata_is_given_out_unjudged(tmp_path: Path) -> None:
    async def story(cluster: Cluster) -> None:
        ledger_id = await cluster.write(2, DigestType.CRC32C)
        await cluster.ledgers.delete_ledger(ledger_id)
        bookie = cluster.bookies[0].bookie
        assert (await ask(bookie, read(ledger_id, 0))).status is StatusCode.EOK
        assert bookie.metrics.reads_unjudged_total == 1

    on_cluster(tmp_path, story)


def test_a_judge_that_was_closed_lets_everything_pass_at_once() -> None:
    """Reads may be under way while a bookie closes; each must have its answer."""

    async def story() -> None:
        never = asyncio.Event()

        async def find(_: LedgerId) -> Digest | None:
            await never.wait()
            return None

        metrics = BookieMetrics()
        judge = EntryJudge(find, metrics)
        waiting = asyncio.get_running_loop().create_future()
        judge.judge(LedgerId(1), b"body", waiting.set_result)
        await judge.close()
        assert await waiting is None
        assert await judge.damage_of(LedgerId(2), b"body") is None
        assert metrics.reads_unjudged_total == 2

    run(story)


def test_a_ledger_whose_index_cannot_be_read_is_damage(tmp_path: Path) -> None:
    async def story() -> None:
        bookie = await open_small(tmp_path)
        for ledger_id in (L1, L2):
            await ask(bookie, add(ledger_id, 0))
        await bookie.close()
        index = tmp_path / "ledgers/current/0/1/1.idx"
        index.write_bytes(b"what" + index.read_bytes()[4:])
        bookie = await open_small(tmp_path)

        async def find(_: LedgerId) -> Digest | None:
            return DIGEST

        scrub = Scrub(bookie, EntryJudge(find, BookieMetrics()), FAST)
        await scrub.round()
        assert (scrub.metrics.damaged_entries, scrub.metrics.entries_total) == (1, 1)
        await bookie.close()

    run(story)


@given(
    entries=st.integers(1, 10**8),
    duration_s=st.floats(1, 10**6),
    rate=st.one_of(st.just(0.0), st.floats(0.1, 10**6)),
)
def test_a_round_takes_what_the_interval_has_unless_it_is_limited(
    entries: int, duration_s: float, rate: float
) -> None:
    pace = Pace(entries, duration_s, rate)
    needed_s = max(duration_s, entries / rate if rate else 0.0)
    assert pace.is_late == (needed_s > duration_s)
    elapsed_s, done = 0.0, 0
    for share in (0.0, 0.1, 0.5, 0.99, 1.0):
        done = int(entries * share)
        elapsed_s += pace.pause_s(done, elapsed_s)
        assert elapsed_s == pytest.approx(needed_s * done / entries)
        assert pace.pause_s(done, elapsed_s + 1) == 0  # late: it catches up
    assert elapsed_s == pytest.approx(needed_s)


class _Listened:
    """A bookie that says what the scrub asks of it; others read there, for a while."""

    def __init__(self, bookie: OpenBookie, busy: int = 0) -> None:
        self._bookie = bookie
        self._busy = busy
        self.asked: list[Any] = []

    def submit(self, request: Any, reply: Callable[[Any], Any]) -> None:
        self.asked.append(request)
        self._bookie.submit(request, reply)

    async def ledger_ids(self) -> set[LedgerId]:
        return await self._bookie.ledger_ids()

    async def entries_max(self, ledger_ids: Sequence[LedgerId]) -> list[int]:
        return await self._bookie.entries_max(ledger_ids)

    @property
    def pending_reads(self) -> int:
        self._busy -= 1
        self.asked.append("yields" if self._busy > 0 else "goes on")
        return max(self._busy, 0)


def test_a_round_reads_in_batches_and_makes_room_for_others(tmp_path: Path) -> None:
    entry_ids = [*range(150), *range(200, 210), 5000]

    async def story() -> None:
        bookie = await open_small(tmp_path)
        for entry_id in entry_ids:
            await ask(bookie, add(L1, entry_id))
        await bookie.checkpoint()
        await ask(bookie, add(L2, 0))

        async def find(_: LedgerId) -> Digest | None:
            return DIGEST

        listened = _Listened(bookie, busy=3)
        scrub = Scrub(listened, EntryJudge(find, BookieMetrics()), FAST)
        await scrub.round()
        assert scrub.metrics.entries_total == len(entry_ids) + 1
        assert scrub.metrics.damaged_entries == 0
        batches = [a for a in listened.asked if isinstance(a, BatchReadRequest)]
        spans = [(a.ledger_id, a.entry_id, a.count_max) for a in batches]
        of_l1 = [(0, 64), (64, 64), (128, 22), (200, 10), (5000, 1)]
        assert spans == [*((L1, first, count) for first, count in of_l1), (L2, 0, 1)]
        first = listened.asked.index(batches[0])
        assert listened.asked[first - 3 : first] == ["yields", "yields", "goes on"]
        never_idle = _Listened(bookie, busy=10**9)
        await Scrub(never_idle, EntryJudge(find, BookieMetrics()), FAST).round()
        assert never_idle.asked.count("yields") == YIELDS_MAX * len(batches)  # it ends all the same
        await bookie.close()

    run(story)
