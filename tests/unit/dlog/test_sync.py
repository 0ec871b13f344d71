"""The blocking face: the same names and signatures, threads, interrupts, ends."""

import asyncio
import inspect
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final

import pytest

from tailrace import dlog
from tailrace.core.metadata.ledger_tree import initialize_layout
from tailrace.core.runtime.tasks import Tasks
from tailrace.dlog import at_end, sync
from tailrace.dlog.loop_thread import LoopThread, _Call
from tests.unit.core.log.world import World
from tests.unit.dlog.world import opened

WITHIN_S: Final = 30
FACES: Final = (
    *("Namespace", "Log", "LogWriter", "LogReader", "LogListWatch"),
    *("ThinClient", "ThinWriter", "ThinReader", "MultiStreamWriter"),
)


@pytest.fixture
def thread() -> Iterator[LoopThread]:
    made = LoopThread()
    made.start()
    yield made
    made.stop()


@pytest.fixture
def world(thread: LoopThread, tmp_path: Path) -> World:
    async def make() -> World:
        made = World(tmp_path)
        await initialize_layout(made.store, instance_id="test")
        return made

    return thread.run(make)


@pytest.fixture
def namespace(thread: LoopThread, world: World) -> Iterator[sync.Namespace]:
    async def make() -> dlog.Namespace:
        stack = AsyncExitStack()
        stack.push_async_callback(world.store.close)
        return dlog.Namespace("sqlite:test", world.namespace(), stack)

    with sync.Namespace(thread.run(make), thread) as made:
        made.create_log("s")
        yield made


@pytest.fixture
def log(namespace: sync.Namespace) -> Iterator[sync.Log]:
    with namespace.open_log("s") as opened:
        yield opened


def test_both_have_the_same_names() -> None:
    assert {*sync.__all__} == {*dlog.__all__} - {"Opening"}
    for name in sync.__all__:
        if name not in (*FACES, "open_namespace", "bind_namespace"):
            assert getattr(sync, name) is getattr(dlog, name)


@pytest.mark.parametrize("name", FACES)
def test_both_have_the_same_methods(name: str) -> None:
    face, original = getattr(sync, name), getattr(dlog, name)

    def public(kind: type) -> dict[str, Any]:
        found = {each: getattr(kind, each) for each in dir(kind) if not each.startswith("_")}
        iterates = {"__aiter__": "__iter__"}
        return found | {iterates.get(each, each): None for each in iterates if hasattr(kind, each)}

    ours = public(face) | {each: None for each in ("__iter__",) if hasattr(face, each)}
    theirs = public(original)
    assert {*ours} == {*theirs}
    for each, theirs_is in theirs.items():
        if callable(theirs_is):
            assert not inspect.iscoroutinefunction(ours[each])
            assert [*inspect.signature(ours[each]).parameters] == [
                *inspect.signature(theirs_is).parameters
            ]
            assert ours[each].__doc__


def test_functions_have_the_same_parameters() -> None:
    for name in ("open_namespace", "bind_namespace"):
        ours, theirs = getattr(sync, name), getattr(dlog, name)
        assert inspect.signature(ours).parameters == inspect.signature(theirs).parameters


def test_it_writes_and_reads(log: sync.Log) -> None:
    with log.open_writer() as writer, log.open_reader() as reader:
        assert not reader.wait_for_more(timeout_s=0)
        first = writer.write(b"0", 0)
        later = [writer.submit(b"%d" % txid, txid) for txid in range(1, 50)]
        positions = writer.write_bulk((b"%d" % txid, txid) for txid in range(50, 2500))
        assert [future.result() for future in later] == sorted(future.result() for future in later)
        assert (writer.last_txid, writer.failure) == (2499, None)
        assert reader.read_next() == (first, 0, 0, b"0")
        found = [next(reader).txid for _ in range(20)]
        found += [record.txid for record in reader.read_bulk(5)]
        assert reader.wait_for_more(timeout_s=0)
        for record in reader:
            assert record.payload == b"%d" % record.txid
            found.append(record.txid)
            if record.txid == 2000:
                break
        while batch := reader.read_bulk(300, timeout_s=0):
            found += [record.txid for record in batch]
        assert found == list(range(1, 2500))
        with pytest.raises(dlog.TransactionIdOutOfOrder):
            writer.submit(b"", 1).result()
        writer.flush()
        writer.commit()
        log.truncate(positions[0])
        writer.mark_end_of_stream()
    assert log.is_sealed()
    with log.open_reader() as reader:
        assert [record.txid for record in reader] == list(range(50, 2500))
    last = log.last_record()
    assert last is not None
    assert (last.txid, log.find(60), log.record_count()) == (2499, positions[10], 2500)


def test_threads_share_a_writer_and_a_reader(log: sync.Log) -> None:
    choosing = threading.Lock()
    txids = iter(range(2000))
    found: list[int] = []
    with log.open_writer() as writer, ThreadPoolExecutor(4) as threads:

        def write() -> None:
            for _ in range(500):
                with choosing:
                    future = writer.submit(b"", next(txids))
                future.result(WITHIN_S)

        for done in [threads.submit(write) for _ in range(4)]:
            done.result(WITHIN_S)
        writer.mark_end_of_stream()
    with log.open_reader() as reader, ThreadPoolExecutor(4) as threads:

        def read() -> None:
            found.extend(record.txid for record in reader)

        for done in [threads.submit(read) for _ in range(4)]:
            done.result(WITHIN_S)
    assert sorted(found) == list(range(2000))


def test_one_more_than_may_be_submitted_waits(
    log: sync.Log, world: World, thread: LoopThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sync, "_SUBMITTED_MAX", 5)
    with log.open_writer() as writer, ThreadPoolExecutor(1) as threads:
        writer.write(b"", 0)
        thread.run(_async(world.bookie.hold))
        futures = [writer.submit(b"", txid) for txid in range(1, 6)]
        more = threads.submit(writer.submit, b"", 6)
        assert not any(future.done() for future in (*futures, more))
        assert not futures[0].cancel()
        thread.run(_async(world.bookie.release))
        more.result(WITHIN_S).result(WITHIN_S)
        assert writer.last_txid == 6


def _async(call: Callable[[], Any]) -> Callable[[], Any]:
    async def work() -> Any:
        return call()

    return work


def test_a_loss_in_a_future_is_raised_by_the_close(
    namespace: sync.Namespace, world: World, thread: LoopThread
) -> None:
    inner = opened(world, ensemble_size=2, write_quorum=2, ack_quorum=2)
    writer = sync.Log(thread.run(lambda: inner.open_log("s")), thread).open_writer()
    future = writer.submit(b"", 1)
    assert isinstance(future.exception(WITHIN_S), dlog.CoreError)
    with pytest.raises(dlog.NotEnoughBookies):
        writer.close()
    writer.close()


def test_what_is_closed_wakes_who_waits(namespace: sync.Namespace, log: sync.Log) -> None:
    reader, watch, writer = log.open_reader(), namespace.watch_logs(), log.open_writer()
    assert next(watch).names == ("s",)
    assert watch.read_change(timeout_s=0.001) is None
    with ThreadPoolExecutor(3) as threads:
        reading = threads.submit(_outcome, reader.read_next)
        watching = threads.submit(list, watch)
        failing = threads.submit(writer.failed)
        namespace.close()
        assert isinstance(reading.result(WITHIN_S), dlog.Unavailable)
        assert watching.result(WITHIN_S) == []
        assert failing.result(WITHIN_S) is None
    with pytest.raises(dlog.Unavailable, match="closed"):
        namespace.list_logs()
    namespace.close()


def _outcome(call: Callable[[], object]) -> object:
    try:
        return call()
    except dlog.CoreError as error:
        return error


class CtrlC:
    """Presses Ctrl-C while the main thread waits for a call."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, thread: LoopThread) -> None:
        self._monkeypatch = monkeypatch
        self._thread = thread

    def interrupts(self, call: Callable[[], object]) -> None:
        begun, main, begin = threading.Event(), threading.main_thread().ident, _Call.begin
        assert main is not None

        def begin_and_set(self: _Call[Any], tasks: Tasks) -> None:
            begin(self, tasks)
            asyncio.get_running_loop().call_soon(begun.set)  # behind its first step

        def press() -> None:
            begun.wait(WITHIN_S)
            signal.pthread_kill(main, signal.SIGINT)

        presser = threading.Thread(target=press)
        self._thread.run(_async(int))  # calls before this one have begun
        with self._monkeypatch.context() as patch:
            patch.setattr(_Call, "begin", begin_and_set)
            presser.start()
            with pytest.raises(KeyboardInterrupt):
                call()
        presser.join(WITHIN_S)


@pytest.fixture
def ctrl_c(monkeypatch: pytest.MonkeyPatch, thread: LoopThread) -> CtrlC:
    return CtrlC(monkeypatch, thread)


def test_an_interrupted_read_loses_nothing(log: sync.Log, ctrl_c: CtrlC) -> None:
    with log.open_reader() as reader, log.open_writer() as writer:
        for read in (reader.read_next, lambda: next(reader), reader.wait_for_more):
            ctrl_c.interrupts(read)
        writer.write_bulk([(b"", 1), (b"", 2)])
        assert [next(reader).txid, reader.read_next().txid] == [1, 2]


def test_an_interrupted_write_is_written(
    log: sync.Log, world: World, thread: LoopThread, ctrl_c: CtrlC
) -> None:
    with log.open_writer() as writer:
        writer.write(b"", 0)
        thread.run(_async(world.bookie.hold))
        later = writer.submit(b"", 1)
        ctrl_c.interrupts(lambda: writer.write(b"", 2))
        thread.run(_async(world.bookie.release))
        later.result(WITHIN_S)
        writer.write(b"", 3)
    with log.open_reader() as reader:
        assert [record.txid for record in reader.read_bulk(9)] == [0, 1, 2, 3]


def test_an_interrupted_opening_leaves_nothing_open(
    log: sync.Log, world: World, thread: LoopThread, ctrl_c: CtrlC
) -> None:
    with log.open_writer() as writer:
        writer.write(b"", 0)
        thread.run(writer._inner.abort)
    thread.run(_async(world.bookie.hold))
    ctrl_c.interrupts(log.open_writer)
    thread.run(_async(world.bookie.release))
    with log.open_writer() as writer:
        assert writer.last_txid == 0


def test_it_is_of_no_use_behind_a_fork(namespace: sync.Namespace) -> None:
    child = os.fork()
    if not child:
        code = 1
        try:
            namespace.list_logs()
        except RuntimeError:
            at_end._close_all()
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    assert namespace.list_logs() == ["s"]


def test_what_is_open_at_the_end_is_closed(log: sync.Log, thread: LoopThread) -> None:
    answer = log.open_writer().submit(b"", 1)
    at_end._close_all()
    assert answer.result(0)
    with pytest.raises(dlog.Unavailable):
        thread.run(_async(int))


AT_ITS_END: Final = """
import asyncio
from tailrace.dlog import sync
from tailrace.dlog.loop_thread import LoopThread

class Inner:
    uri = "u"
    async def close(self):
        found = await asyncio.get_running_loop().getaddrinfo("localhost", 1)
        print("resolved", bool(found))

thread = LoopThread()
thread.start()
sync.Namespace(Inner(), thread)
print("ends")
"""


def test_names_are_resolved_at_the_end() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", AT_ITS_END], timeout=WITHIN_S, check=True, capture_output=True
    )
    assert ran.stdout == b"ends\nresolved True\n"
    assert not ran.stderr


def test_a_call_in_its_own_thread_is_refused(namespace: sync.Namespace, thread: LoopThread) -> None:
    with pytest.raises(RuntimeError, match="wait for itself"):
        thread.run(_async(namespace.list_logs))


def test_a_call_that_runs_at_the_end_is_answered() -> None:
    thread = LoopThread()
    thread.start()
    answer = thread.submit(asyncio.Event().wait)
    thread.stop()
    thread.stop()
    with pytest.raises(dlog.Unavailable, match="meanwhile"):
        answer.result(0)
    with pytest.raises(dlog.Unavailable, match="closed"):
        thread.submit(asyncio.Event().wait)


def test_a_namespace_that_cannot_be_opened_leaves_no_thread(tmp_path: Path) -> None:
    before = {*threading.enumerate()}
    with pytest.raises(dlog.ConfigError):
        sync.open_namespace("sqlite:nowhere", {"nonsense": 1})
    with pytest.raises(dlog.Unavailable):
        sync.open_namespace(f"sqlite:{tmp_path}/nowhere")
    assert {*threading.enumerate()} <= before
