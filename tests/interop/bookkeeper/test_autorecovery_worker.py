"""Java's auditor marks, our worker copies, Java's client reads what is left."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from random import Random

import pytest

from tailrace.core.autorecovery.config import AutoRecoveryConfig
from tailrace.core.autorecovery.replication_metrics import ReplicationMetrics
from tailrace.core.autorecovery.underreplicated import UnderreplicatedLedgers
from tailrace.core.autorecovery.worker import ReplicationWorker
from tailrace.core.ledger.bookie_registry import RegisteredBookies
from tailrace.core.ledger.config import BookieClientConfig
from tailrace.core.ledger.context import LedgerContext
from tailrace.core.ledger.ensembles import Ensembles
from tailrace.core.ledger.metadata_update import LedgerNodes
from tailrace.core.metadata.layout import LedgerPaths, UnderreplicationPaths
from tailrace.core.metadata.store import MetadataStore
from tailrace.core.metadata.underreplication import Mark
from tailrace.core.metadata.uri import ledgers_root, open_store
from tailrace.core.runtime.clock import SystemClock
from tailrace.protocol.ids import LedgerId
from tests.interop.bookkeeper.java import JavaAutoRecovery, JavaBookie, create
from tests.interop.bookkeeper.ours import OurBookie, run
from tests.interop.bookkeeper.payloads import shown
from tests.java.peers import JavaClient, JavaError

pytestmark = [pytest.mark.interop, pytest.mark.java, pytest.mark.crash, pytest.mark.slow]

COUNT, SIZE, SEED = 60, 3000, 31
LEDGER_FENCED = -101
"""BKException.Code.LedgerFencedException."""


@contextmanager
def two_of_ours_and_one_of_javas(
    uri: str, path: Path
) -> Iterator[tuple[OurBookie, OurBookie, JavaBookie]]:
    bookies = (
        OurBookie(path / "one", uri),
        OurBookie(path / "other", uri),
        JavaBookie(path / "java-bookie", uri),
    )
    try:
        for bookie in bookies:
            bookie.start()
        yield bookies
    finally:
        for bookie in bookies:
            bookie.stop()


def written_to(java: JavaClient, client: str, ensemble: set[str]) -> tuple[LedgerId, int]:
    """Have Java write a ledger to these bookies; return it with its writer."""
    while True:
        made = create(java, client=client, e=2, qw=2, qa=2)
        metadata = java.call("metadata", client=client, ledger=made["ledger"])
        if set(metadata["ensembles"]["0"]) == ensemble:
            java.call("add", handle=made["handle"], seed=SEED, size=SIZE, count=COUNT)
            return made["ledger"], made["handle"]


async def marks_of_javas_auditor(
    uri: str, path: Path, lost: OurBookie, ledgers: list[LedgerId]
) -> list[Mark]:
    """Let Java's auditor note what a dead bookie had, and its worker find all of it locked."""
    store = await open_store(uri, session_timeout_ms=10_000)
    paths = UnderreplicationPaths(ledgers_root(uri))
    marks = new_marks(store, uri)
    found: list[Mark] = []
    try:
        await marks.prepare()
        for ledger_id in ledgers:
            await store.create(paths.lock(ledger_id), b"", ephemeral=True)
        with JavaAutoRecovery(path, uri) as daemon:
            await asyncio.to_thread(lost.kill)
            while len(found) < len(ledgers):
                daemon.check()
                some = [await marks.get(ledger_id) for ledger_id in ledgers]
                found = [mark for mark in some if mark is not None]
    finally:
        await store.close()
    return found


def new_marks(store: MetadataStore, uri: str) -> UnderreplicatedLedgers:
    return UnderreplicatedLedgers(store, ledgers_root(uri), "ours", SystemClock(), Random(1))


@asynccontextmanager
async def our_worker(uri: str) -> AsyncIterator[UnderreplicatedLedgers]:
    """Our worker, which closes open ledgers after a second."""
    store = await open_store(uri, session_timeout_ms=10_000)
    root = ledgers_root(uri)
    bookies = RegisteredBookies(store, BookieClientConfig(), root=root)
    nodes = LedgerNodes(store, LedgerPaths(root))
    context = LedgerContext(nodes, bookies, Ensembles(bookies, Random(2), store=store))
    config = AutoRecoveryConfig(root=root, open_ledger_grace_ms=1000)
    marks = new_marks(store, uri)
    worker = ReplicationWorker(
        context, marks, config, SystemClock(), ReplicationMetrics(), Random(3)
    )
    working = asyncio.create_task(worker.run())
    try:
        yield marks
    finally:
        working.cancel()
        await asyncio.wait([working])
        await bookies.close()
        await store.close()


def test_what_javas_auditor_marks_our_worker_copies_and_java_reads(
    java: JavaClient, uri: str, v3: str, tmp_path: Path
) -> None:
    with two_of_ours_and_one_of_javas(uri, tmp_path) as (lost, other, spare):
        ensemble = {lost.bookie_id, other.bookie_id}
        closed, writer = written_to(java, v3, ensemble)
        java.call("close", handle=writer)
        still_open, writer = written_to(java, v3, ensemble)

        async def story() -> None:
            ledgers = [closed, still_open]
            for mark in await marks_of_javas_auditor(uri, tmp_path, lost, ledgers):
                assert mark.missing == (lost.bookie_id,)
                assert mark.ctime_ms is not None
            async with our_worker(uri) as marks:
                for ledger_id in ledgers:
                    while await marks.get(ledger_id) is not None:  # noqa: ASYNC110 - pace of asking
                        await asyncio.sleep(0.05)

        run(story)
        with pytest.raises(JavaError) as fenced:
            java.call("add", handle=writer, seed=SEED, size=SIZE, count=1)
        assert fenced.value.code == LEDGER_FENCED
        other.kill()
        for ledger_id in (closed, still_open):
            metadata = java.call("metadata", client=v3, ledger=ledger_id)
            assert all(
                set(bookies) == {other.bookie_id, spare.bookie_id}
                for bookies in metadata["ensembles"].values()
            )
            opened = java.call("open", client=v3, ledger=ledger_id, recovery=False)
            assert (opened["lac"], opened["length"]) == (COUNT - 1, COUNT * SIZE)
            found = java.call("read", handle=opened["handle"], first=0, last=COUNT - 1)
            assert found["entries"] == shown(SEED, 0, COUNT - 1, SIZE)
            how = {"client": v3, "ledger": ledger_id, "last": COUNT}
            held = java.call("list_entries", bookie=spare.bookie_id, **how)
            assert held["entries"] == list(range(COUNT))
