"""A process that rewrites segments is killed (kill -9) in mid-copy, and wherever it stands then.

Readers find the old segments or the new ones, the next process rewrites them, and what the dead
one left is deleted: every ledger has its segment.
"""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from tailrace.core.log.log import Log
from tailrace.core.log.open_namespace import OpenNamespace, open_namespace
from tailrace.core.metadata.bindings import bind_namespace
from tailrace.core.metadata.layout import LogPaths
from tailrace.core.metadata.ledger_tree import ledger_ranges
from tailrace.core.metadata.namespace_binding import BKDLConfig
from tailrace.core.metadata.uri import ledgers_root, open_store
from tests.cluster.three_bookies import ThreeBookies
from tests.interop.distributedlog.ours import Listener
from tests.log_rewriter import ALL, KEPT, RECORDS, SEGMENTS, hasty, held, payload, rewrite_once
from tests.zookeeper import ZooKeeperServer

pytestmark = [pytest.mark.java, pytest.mark.crash]

NAME = "rewritten"
SESSION_MS = 10_000
KILLED_AT = ("began", "copied 1 100", "copied 2 210", "filled", "swapped")
"""What it said last, at least; it goes on until the signal is there."""
_WITHIN_S = 60


def test_a_kill_anywhere_leaves_the_old_or_the_new(
    zookeeper: ZooKeeperServer, tmp_path: Path
) -> None:
    with ThreeBookies(zookeeper, tmp_path) as cluster:
        asyncio.run(_story(cluster))


async def _story(cluster: ThreeBookies) -> None:
    await _bind(cluster)
    chosen = hasty(10_000, "checker")
    async with asyncio.timeout(4 * _WITHIN_S), open_namespace(cluster.namespace, chosen) as opened:
        await opened.logs.create_log(NAME)
        log = await opened.logs.open_log(NAME)
        for lssn in range(SEGMENTS):
            await _write_segment(log, lssn)
        for said in KILLED_AT:
            await asyncio.to_thread(_kill_one, cluster, said)
            await log.refresh(is_forced=True)
            found = await held(log)
            assert [txid for txid, _ in found] in (ALL, KEPT), f"some of each, killed at {said}"
            assert found == [(txid, payload(txid)) for txid, _ in found]
        await rewrite_once(log, say=False)
        assert [txid for txid, _ in await held(log)] == KEPT
        await _check_no_leak(opened, log, ledgers_root(cluster.metadata))


@pytest.mark.parametrize("said", KILLED_AT)
def test_a_kill_in_a_merge_leaves_all_segments_or_one_for_them(
    zookeeper: ZooKeeperServer, tmp_path: Path, said: str
) -> None:
    with ThreeBookies(zookeeper, tmp_path) as cluster:
        asyncio.run(_merge_story(cluster, said))


async def _merge_story(cluster: ThreeBookies, said: str) -> None:
    await _bind(cluster)
    chosen = hasty(10_000, "checker")
    async with asyncio.timeout(4 * _WITHIN_S), open_namespace(cluster.namespace, chosen) as opened:
        await opened.logs.create_log(NAME)
        log = await opened.logs.open_log(NAME)
        for number in range(SEGMENTS):
            await _write_segment(log, number)
        await asyncio.to_thread(_kill_one, cluster, said, "merges")
        await log.refresh(is_forced=True)
        found = [txid for txid, _ in await held(log)]
        numbers = [segment.lssn for segment in log.segments]
        assert (numbers, found) in (([1, 2, 3], ALL), ([2, 3], KEPT)), f"killed at {said}"
        if found == ALL:
            await rewrite_once(log, say=False, merges=True)
        assert [txid for txid, _ in await held(log)] == KEPT
        assert [segment.lssn for segment in log.segments] == [2, 3]
        await (await log.rewrite([3])).abort()  # deletes what was begun and never swapped in
        await _check_no_leak(opened, log, ledgers_root(cluster.metadata))


def test_a_kill_in_cold_storage_leaves_nothing_unknown(
    zookeeper: ZooKeeperServer, tmp_path: Path
) -> None:
    with ThreeBookies(zookeeper, tmp_path) as cluster:
        asyncio.run(_cold_story(cluster, tmp_path / "cold"))


async def _cold_story(cluster: ThreeBookies, folder: Path) -> None:
    await _bind(cluster)
    chosen = hasty(10_000, "checker", str(folder))
    async with asyncio.timeout(4 * _WITHIN_S), open_namespace(cluster.namespace, chosen) as opened:
        await opened.logs.create_log(NAME)
        log = await opened.logs.open_log(NAME)
        for number in range(SEGMENTS):
            await _write_segment(log, number)
        await log.upkeep.copy_to_cold()
        assert len(await log.upkeep.trimmer.release(SEGMENTS)) == SEGMENTS - 1
        for said in KILLED_AT:
            await asyncio.to_thread(_kill_one, cluster, said, f"cold={folder}")
            await log.refresh(is_forced=True)
            found = await held(log)
            assert [txid for txid, _ in found] in (ALL, KEPT), f"some of each, killed at {said}"
            assert found == [(txid, payload(txid)) for txid, _ in found]
        await rewrite_once(log, say=False)
        assert [txid for txid, _ in await held(log)] == KEPT
        await log.upkeep.trimmer.collect()
        store = opened.ledger_store
        there = {
            e async for ids in ledger_ranges(store, ledgers_root(cluster.metadata)) for e in ids
        }
        tiers = await log.upkeep.trimmer.tiers()
        assert [each.on_bookies for each in tiers] == [False, False, True]
        assert there == {each.metadata.ledger_id for each in tiers if each.on_bookies}
        assert opened.cold is not None
        named = {(each.metadata.lssn, each.metadata.ledger_id) for each in tiers if each.in_cold}
        names = await opened.cold.names(LogPaths(opened.uri.root, NAME).log)
        prefixes = [name.rpartition("/")[2].split("-")[:2] for name in names]
        assert sorted((int(lssn), int(ledger)) for lssn, ledger in prefixes) == sorted(named)


async def _bind(cluster: ThreeBookies) -> None:
    store = await open_store(cluster.metadata)
    binding = BKDLConfig(
        bk_zk_servers=cluster.zookeeper.hosts, bk_ledgers_path=ledgers_root(cluster.metadata)
    )
    await bind_namespace(store, cluster.namespace_root, binding)
    await store.close()


async def _write_segment(log: Log, number: int) -> None:
    writer = await log.open_writer(Listener())
    for txid in range(number * RECORDS, (number + 1) * RECORDS):
        data = payload(txid)
        writer.append(txid, (data,), len(data))
    await writer.flush()
    await writer.close()


def _kill_one(cluster: ThreeBookies, said: str, *options: str) -> None:
    """Let a process rewrite until it says a certain thing, then kill it; its session ends."""
    where = [cluster.namespace, NAME, str(SESSION_MS)]
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.log_rewriter", *where, *options],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert child.stdout is not None
        assert any(line.strip() == said for line in child.stdout), f"it ended before {said}"
    finally:
        child.kill()
        child.communicate(timeout=_WITHIN_S)
        cluster.drop_lock(LogPaths(cluster.namespace_root, NAME).rewrite_lock)


async def _check_no_leak(opened: OpenNamespace, log: Log, root: str) -> None:
    """Every ledger has its segment, every segment its ledger."""
    await log.upkeep.trimmer.collect()
    await log.refresh(is_forced=True)
    there = {each async for ids in ledger_ranges(opened.ledger_store, root) for each in ids}
    assert there == {segment.ledger_id for segment in log.segments}
