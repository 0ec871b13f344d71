"""When a machine is loaded again whose log refuses what it writes; on a virtual clock."""

import asyncio
from collections.abc import Iterable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from tailrace.broker.replicated.effects import Effects, Now, Reply, StateRecord, Ticket, Write
from tailrace.broker.replicated.machine import Service
from tailrace.broker.replicated.runner import RELOAD_DELAYS_S, Runner
from tailrace.core.runtime.clock import ManualClock
from tailrace.core.runtime.tasks import Tasks
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.ids import TopicPartition
from tests.unit.broker.virtual import in_virtual_time

WRITE = Write((StateRecord(b"k", b"v"),))


class Log:
    """Keeps nothing; refuses the first so many appends, as bookies without room do."""

    leader_epoch = 1
    failure = None
    log_start_offset = log_end_offset = 0

    def __init__(self, refusals: int) -> None:
        self.refusals = refusals
        self.loaded_s: list[float] = []
        """When it was opened, each time to load it."""

    def get(self, _: TopicPartition) -> None:
        return None

    async def open(self, _: TopicPartition) -> "Log":
        self.loaded_s.append(asyncio.get_running_loop().time())
        return self

    def append(self, _batch: memoryview) -> asyncio.Future[object]:
        self.refusals -= 1
        outcome: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        outcome.set_result(ErrorCode.NOT_ENOUGH_REPLICAS if self.refusals >= 0 else object())
        return outcome

    @property
    def gaps_s(self) -> Sequence[float]:
        """Between each load and the next."""
        pairs = zip(self.loaded_s, self.loaded_s[1:], strict=False)
        return [round(later - earlier, 6) for earlier, later in pairs]


class Machine:
    """Writes when it is loaded, and when it is asked to."""

    def __init__(self, *, writes_unasked: bool) -> None:
        self._writes_unasked = writes_unasked

    def on_loaded(self, _: Now) -> Iterable[Effects]:
        return [Effects(writes=[WRITE])] if self._writes_unasked else []

    def on_written(self, write: Write, _: Now) -> Effects:
        return Effects(replies=list(write.replies))

    def write(self, ticket: Ticket, _: Now) -> Effects:
        return Effects(writes=[WRITE._replace(replies=(Reply(ticket, ErrorCode.NONE),))])


def runner_of(log: Log, *, writes_unasked: bool) -> Runner[Any]:
    metrics: Any = SimpleNamespace(
        records_written_total=0,
        records_loaded_total=0,
        shard_failures_total=0,
        shards_loaded=0,
        requests_waiting=0,
    )

    async def catch_up() -> None:
        """Know all topics: there are none."""

    logs: Any = log
    service: Service[Any] = Service(
        name="test",
        logs=logs,
        clock=ManualClock(),
        make=lambda _: Machine(writes_unasked=writes_unasked),
        read_record=lambda _key, _value: None,
        load_bytes=1,
        on_wake=lambda _key, _at: None,
        on_command=lambda _partition, _command: None,
        metrics=metrics,
        is_mine=lambda _topic, _partition: True,
        catch_up=catch_up,
    )
    return Runner(TopicPartition("t", 0), service, Tasks("test"))


@in_virtual_time
async def test_a_machine_that_writes_unasked_what_fails_is_loaded_more_and_more_rarely() -> None:
    log = Log(refusals=7)
    runner = runner_of(log, writes_unasked=True)
    runner.load_soon()
    await asyncio.sleep(60)
    assert log.gaps_s == [0.0, *RELOAD_DELAYS_S, RELOAD_DELAYS_S[-1], RELOAD_DELAYS_S[-1]]
    assert runner.machine is not None


@pytest.mark.parametrize("refusals", [1, 3, 9])
@in_virtual_time
async def test_what_clients_write_is_tried_at_once_however_often_it_fails(refusals: int) -> None:
    log = Log(refusals)
    runner = runner_of(log, writes_unasked=False)
    await runner.loaded()
    for _ in range(refusals):
        assert await runner.ask(Machine.write) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert await runner.loaded()
    assert await runner.ask(Machine.write) is ErrorCode.NONE
    assert set(log.gaps_s) == {0.0}


@in_virtual_time
async def test_a_write_that_is_confirmed_ends_the_pauses() -> None:
    log = Log(refusals=4)
    runner = runner_of(log, writes_unasked=True)
    runner.load_soon()
    await asyncio.sleep(60)
    assert log.gaps_s == [0.0, *RELOAD_DELAYS_S[:3]]
    log.refusals = 3
    failed_s = asyncio.get_running_loop().time()
    runner.tell(Machine.on_loaded)
    await asyncio.sleep(60)
    assert [round(each - failed_s, 6) for each in log.loaded_s[5:]] == [0.0, 0.1, 0.6]
