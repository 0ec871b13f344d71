"""Our auditor beside Apache's: it marks for Java's worker, its shell reads ours, one is elected."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tailrace.core.autorecovery.auditor import Auditor
from tailrace.core.autorecovery.config import AutoRecoveryConfig
from tailrace.core.autorecovery.election import current_auditor, read_votes
from tailrace.core.autorecovery.underreplicated import UnderreplicatedLedgers
from tailrace.core.errors import NoNode
from tailrace.core.ledger.config import LedgerConfig
from tailrace.core.metadata.layout import LedgerPaths, UnderreplicationPaths
from tailrace.core.metadata.ledger_metadata import decode_ledger
from tailrace.core.metadata.store import MetadataStore
from tailrace.core.metadata.uri import ledgers_root, open_store
from tailrace.core.runtime.clock import SystemClock
from tailrace.protocol.bookkeeper.digest import DigestType
from tailrace.protocol.ids import BookieId, LedgerId
from tests.interop.bookkeeper.java import JavaAutoRecovery, JavaShell
from tests.interop.bookkeeper.ours import Listener, OurBookie, add, ledger_client, run
from tests.interop.bookkeeper.payloads import shown
from tests.java.peers import JavaClient

pytestmark = [pytest.mark.interop, pytest.mark.java, pytest.mark.crash, pytest.mark.slow]

COUNT, SIZE, SEED = 40, 500, 51
TWICE = LedgerConfig(ensemble_size=2, write_quorum=2, ack_quorum=2, digest=DigestType.CRC32C)
OURS = "tailrace:1"


class Candidate:
    """An auditor of ours in the test's process."""

    def __init__(self, store: MetadataStore, uri: str, **settings: Any) -> None:
        root = ledgers_root(uri)
        self.store = store
        self.paths = UnderreplicationPaths(root)
        self.ledgers = LedgerPaths(root)
        self.marks = UnderreplicatedLedgers(store, root, OURS, SystemClock(), Random(1))
        config = AutoRecoveryConfig(root=root, **settings)
        self.auditor = Auditor(store, self.marks, None, config, SystemClock(), name=OURS)
        self.root = root

    async def elected(self) -> str | None:
        return await current_auditor(self.store, self.root)

    async def votes(self) -> int:
        try:
            return len(await read_votes(self.store, self.paths))
        except NoNode:
            return 0

    async def ensembles(self, ledger_id: LedgerId) -> set[BookieId]:
        node = await self.store.get(self.ledgers.ledger(ledger_id))
        return {bookie for one in decode_ledger(node.data).fragments for bookie in one.ensemble}


@asynccontextmanager
async def candidate(uri: str, **settings: Any) -> AsyncIterator[Candidate]:
    store = await open_store(uri, session_timeout_ms=4_000)
    made = Candidate(store, uri, **settings)
    await made.marks.prepare()
    task = asyncio.create_task(made.auditor.run())
    try:
        yield made
    finally:
        task.cancel()
        await asyncio.wait([task])
        await store.close()
        assert task.cancelled(), task.exception()


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    while not await holds():  # noqa: ASYNC110 - pace of asking
        await asyncio.sleep(0.05)


async def written(uri: str) -> tuple[LedgerId, list[BookieId]]:
    async with ledger_client(uri) as ledgers:
        listener = Listener()
        writer = await ledgers.create_ledger(TWICE, listener)
        await add(writer, listener, SEED, COUNT, SIZE)
        await writer.close()
        return writer.ledger_id, list(writer.metadata.fragments[0].ensemble)


def test_javas_worker_and_shell_understand_our_auditor(
    java: JavaClient,
    shell: JavaShell,
    uri: str,
    v3: str,
    our_bookies: list[OurBookie],
    tmp_path: Path,
) -> None:
    async def story() -> LedgerId:
        def ask(*command: str) -> Any:
            return asyncio.to_thread(shell, uri, tmp_path, *command)

        ledger_id, ensemble = await written(uri)
        lost = next(each for each in our_bookies if each.bookie_id == ensemble[0])
        async with candidate(uri, lost_bookie_recovery_delay_s=3_600) as ours:

            async def has_audited() -> bool:
                return ours.auditor.metrics.audits_total > 0

            await until(has_audited)
            assert f"Auditor: {OURS}" in await ask("whoisauditor")
            await asyncio.to_thread(lost.kill)

            async def is_missed() -> bool:
                return ours.auditor.metrics.lost_bookies == 1

            await until(is_missed)
            assert await ours.marks.get(ledger_id) is None  # it is given time
            await ask("triggeraudit")

            async def is_marked() -> bool:
                return await ours.marks.get(ledger_id) is not None

            await until(is_marked)
            listed = await ask("listunderreplicated", "-pmr")
            assert str(ledger_id) in listed
            assert f"MissingReplica : {lost.bookie_id}" in listed
            with JavaAutoRecovery(tmp_path, uri) as daemon:

                async def is_copied() -> bool:
                    daemon.check()
                    return not await is_marked()

                async def is_pruned() -> bool:
                    daemon.check()
                    return not await ours.store.children(ours.paths.ledgers)

                await until(is_copied)
                await until(is_pruned)
                assert await ours.elected() == OURS
                assert lost.bookie_id not in await ours.ensembles(ledger_id)
        return ledger_id

    ledger_id = run(story)
    opened = java.call("open", client=v3, ledger=ledger_id, recovery=False)
    found = java.call("read", handle=opened["handle"], first=0, last=COUNT - 1)
    assert found["entries"] == shown(SEED, 0, COUNT - 1, SIZE)


def test_javas_candidate_and_ours_follow_each_other(
    uri: str, java: JavaClient, tmp_path: Path
) -> None:
    async def story() -> None:
        async with candidate(uri) as ours:

            async def are_two() -> bool:
                return await ours.votes() == 2

            async def is_ours() -> bool:
                return bool(ours.auditor.metrics.elected)

            await until(is_ours)
            with JavaAutoRecovery(tmp_path, uri) as javas:
                await until(are_two)
                assert await ours.elected() == OURS
                javas.check()
                vote = (await read_votes(ours.store, ours.paths))[0]
                await ours.store.delete(vote.path)  # as an operator would who wants another

                async def is_javas() -> bool:
                    javas.check()
                    return await ours.elected() not in (None, OURS)

                await until(is_javas)
                await until(are_two)
                assert not await is_ours()
            await until(is_ours)  # once the session of the process that was killed is over
            assert await ours.elected() == OURS

    run(story)


def test_javas_switch_stops_and_starts_our_auditor(
    uri: str, shell: JavaShell, tmp_path: Path
) -> None:
    async def story() -> None:
        async with candidate(uri) as ours:
            await asyncio.to_thread(shell, uri, tmp_path, "autorecovery", "-disable")
            assert not await ours.marks.is_enabled()
            waiting = asyncio.create_task(ours.marks.wait_until_enabled())
            await asyncio.to_thread(shell, uri, tmp_path, "autorecovery", "-enable")
            await waiting

    run(story)
