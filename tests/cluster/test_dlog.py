"""The embedded log on ZooKeeper and three bookies, from several processes that die in all ways."""

import asyncio
import re
import signal
import sys
from collections.abc import Callable, Coroutine, Iterator
from itertools import count
from typing import Any, Final

import pytest

from tailrace import dlog
from tailrace.dlog import sync
from tests.cluster.three_bookies import ThreeBookies
from tests.dlog_writer import CARELESS, SETTINGS, payload
from tests.server_process import ServerProcess
from tests.zookeeper import ZooKeeperServer

pytestmark = pytest.mark.java  # of ZooKeeper

STORY_WITHIN_S: Final = 60
AT_ONCE: Final = SETTINGS | {"lockTimeoutSeconds": 0}
"""Of a process that waits for no former owner."""
_numbers = count()


@pytest.fixture(scope="module")
def cluster(
    zookeeper: ZooKeeperServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ThreeBookies]:
    with ThreeBookies(zookeeper, tmp_path_factory.mktemp("cluster")) as running:
        assert sync.bind_namespace(running.namespace, running.metadata)
        yield running


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A log of one test."""
    return f"{re.sub('[^a-z]+', '-', request.node.name)}-{next(_numbers)}"


def run(story: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(STORY_WITHIN_S):
            await story()

    asyncio.run(main())


class UserProcess(ServerProcess):
    """`tests.dlog_writer` in a process of its own."""

    ready_line = "owns "

    def __init__(self, cluster: ThreeBookies, name: str, how: str) -> None:
        super().__init__()
        where = ["-m", "tests.dlog_writer", cluster.namespace, name, how]
        self.launch_command([sys.executable, *where])

    @property
    def wrote(self) -> int:
        """The last record that was acknowledged to it."""
        lines = [line for line in self.lines if line.startswith("wrote ")]
        return int(lines[-1].split()[1])


@pytest.fixture
def user_process(cluster: ThreeBookies, name: str) -> Iterator[Callable[[str], UserProcess]]:
    """Make the log, and a process that writes it."""
    made: list[UserProcess] = []
    with sync.open_namespace(cluster.namespace) as namespace:
        namespace.create_log(name)

    def make(how: str) -> UserProcess:
        made.append(UserProcess(cluster, name, how))
        return made[-1]

    yield make
    for process in made:
        process.close()


def check(records: list[dlog.LogRecord]) -> None:
    """Every record is there once and in order, from txid 0 on."""
    assert [record.txid for record in records] == list(range(len(records)))
    assert [record.payload for record in records] == [payload(r.txid) for r in records]
    assert [record.sequence_id for record in records] == list(range(len(records)))
    dlsns = [record.dlsn for record in records]
    assert dlsns == sorted(set(dlsns))


def read_all(log: sync.Log) -> list[dlog.LogRecord]:
    with log.open_reader() as reader:
        found: list[dlog.LogRecord] = []
        while batch := reader.read_bulk(10_000, timeout_s=0):
            found += batch
        return found


def test_a_namespace_is_bound_once(cluster: ThreeBookies) -> None:
    fresh = f"{cluster.namespace}-{next(_numbers)}"
    with pytest.raises(dlog.NoNode, match="not bound"):
        sync.open_namespace(fresh)
    with pytest.raises(dlog.NoNode, match="no cluster"):
        sync.bind_namespace(fresh, f"{cluster.metadata}-elsewhere")
    assert sync.bind_namespace(fresh, cluster.metadata)
    assert not sync.bind_namespace(fresh, cluster.metadata)
    with sync.open_namespace(fresh.replace("distributedlog:", "distributedlog-bk:")) as namespace:
        assert (namespace.uri, namespace.list_logs()) == (fresh, [])


def test_a_reader_elsewhere_follows_over_segments(cluster: ThreeBookies, name: str) -> None:
    async def story() -> None:
        async with (
            dlog.open_namespace(cluster.namespace) as here,
            dlog.open_namespace(cluster.namespace) as there,
        ):
            await here.create_log(name)
            log = await here.open_log(name)
            found: list[dlog.LogRecord] = []

            async def follow() -> None:
                async with there.open_log(name) as theirs, theirs.open_reader() as reader:
                    found.extend([record async for record in reader])

            async with asyncio.TaskGroup() as group:
                group.create_task(follow())
                for first in range(0, 300, 100):
                    async with log.open_writer() as writer:
                        for txid in range(first, first + 50):
                            await writer.submit(payload(txid), txid)
                        bulk = range(first + 50, first + 100)
                        await writer.write_bulk((payload(txid), txid) for txid in bulk)
                async with log.open_writer() as writer:
                    await writer.mark_end_of_stream()
            check(found)
            assert len(found) == 300
            assert len({record.dlsn.lssn for record in found}) == 3

    run(story)


def test_what_is_truncated_and_purged_is_gone_for_all(cluster: ThreeBookies, name: str) -> None:
    with (
        sync.open_namespace(cluster.namespace) as here,
        sync.open_namespace(cluster.namespace) as there,
    ):
        here.create_log(name)
        log, positions = here.open_log(name), []
        for first in (0, 10, 20):
            with log.open_writer() as writer:
                positions += writer.write_bulk((b"", txid) for txid in range(first, first + 10))
        log.truncate(positions[15])
        assert log.purge(positions[15]) == 1
        with there.open_log(name) as theirs:
            assert [record.txid for record in read_all(theirs)] == list(range(15, 30))
            assert theirs.record_count() == 20
            with theirs.open_reader(positions[3]) as reader:
                assert reader.read_next().txid == 15


def test_changes_by_others_arrive(cluster: ThreeBookies) -> None:
    uri = f"{cluster.namespace}-{next(_numbers)}"
    sync.bind_namespace(uri, cluster.metadata)
    with (
        sync.open_namespace(uri) as here,
        sync.open_namespace(uri) as there,
        here.watch_logs() as watch,
    ):
        assert next(watch).names == ()
        there.create_log("a")
        assert watch.read_change() == (("a",), ("a",), ())
        there.rename_log("a", "b")
        names = [watch.read_change()]
        while names[-1] is not None and names[-1].names != ("b",):
            names.append(watch.read_change())
        there.delete_log("b")
        assert watch.read_change() == ((), (), ("b",))


@pytest.mark.crash
@pytest.mark.parametrize("how", ["asyncio", "threads"])
def test_what_was_acknowledged_to_a_killed_process_is_there(
    cluster: ThreeBookies, name: str, how: str, user_process: Callable[[str], UserProcess]
) -> None:
    process = user_process(how)
    process.wait_for("wrote 200")
    process.kill()
    with (
        sync.open_namespace(cluster.namespace, SETTINGS) as namespace,
        namespace.open_log(name) as log,
        log.open_writer() as writer,
    ):
        assert writer.last_txid is not None
        assert writer.last_txid >= process.wrote
        records = read_all(log)
        check(records)
        assert records[-1].txid == writer.last_txid
        writer.write(payload(len(records)), len(records))
        check(read_all(log))


@pytest.mark.crash
def test_a_paused_owner_is_fenced(
    cluster: ThreeBookies, name: str, user_process: Callable[[str], UserProcess]
) -> None:
    process = user_process("asyncio")
    process.wait_for("wrote 50")
    process.pause()
    with (
        sync.open_namespace(cluster.namespace, SETTINGS) as namespace,
        namespace.open_log(name) as log,
        log.open_writer() as writer,
    ):
        assert writer.last_txid is not None
        for txid in range(writer.last_txid + 1, writer.last_txid + 11):
            writer.write(payload(txid), txid)
        process.resume()
        process.wait_for("failed ")
        assert process.end(None) == 0
        last = writer.write(payload(txid + 1), txid + 1)
        records = read_all(log)
        check(records)
        assert records[-1].dlsn == last
    assert process.lines[-1] in ("failed LedgerFenced", "failed OwnershipAcquireFailed")
    assert process.wrote < txid


@pytest.mark.crash
def test_an_interrupted_process_loses_nothing_that_it_submitted(
    cluster: ThreeBookies, name: str, user_process: Callable[[str], UserProcess]
) -> None:
    process = user_process("threads")
    process.wait_for("wrote 100")
    assert process.end(signal.SIGINT) == 0
    submitted = int(process.lines[-1].removeprefix("interrupted "))
    with (
        sync.open_namespace(cluster.namespace, AT_ONCE) as namespace,
        namespace.open_log(name) as log,
    ):
        records = read_all(log)
        check(records)
        assert records[-1].txid >= submitted
        with log.open_writer() as writer:  # at once: it has let go
            assert writer.last_txid == records[-1].txid


@pytest.mark.crash
def test_a_process_that_closes_nothing_is_closed_at_its_end(
    cluster: ThreeBookies, name: str, user_process: Callable[[str], UserProcess]
) -> None:
    process = user_process("careless")
    assert process.end(None) == 0
    with (
        sync.open_namespace(cluster.namespace, AT_ONCE) as namespace,
        namespace.open_log(name) as log,
    ):
        records = read_all(log)
        check(records)
        assert len(records) == CARELESS
        with log.open_writer() as writer:
            assert writer.last_txid == CARELESS - 1


def test_the_owner_of_a_log_is_named(cluster: ThreeBookies, name: str) -> None:
    ours = SETTINGS | {"log.client.id": "the-first"}
    with (
        sync.open_namespace(cluster.namespace, ours) as here,
        sync.open_namespace(cluster.namespace, AT_ONCE) as there,
    ):
        here.create_log(name)
        with here.open_log(name).open_writer(), there.open_log(name) as theirs:
            with pytest.raises(dlog.OwnershipAcquireFailed) as refused:
                theirs.open_writer()
            assert refused.value.current_owner == "the-first"
