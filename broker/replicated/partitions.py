"""All partitions of one internal topic at work: which one a name lives in, and their whole life.

The topic is created for the first name of all. Partitions load when somebody asks for a name of
theirs, and one after the other in the background after a start.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any, Generic, NamedTuple, Protocol, TypeAlias

from tailrace.broker.cluster.admin import AvailableBookies
from tailrace.broker.cluster.topic import Topic, TopicListener
from tailrace.broker.errors import KafkaError
from tailrace.broker.replicated.machine import Answer, Event, M, Quiet, Service
from tailrace.broker.replicated.partitioning import partition_for
from tailrace.broker.replicated.runner import Runner
from tailrace.core.errors import CoreError
from tailrace.core.runtime.loop_turns import LoopTurns, Pace
from tailrace.core.runtime.tasks import Tasks
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.ids import TopicPartition

logger = logging.getLogger(__name__)

LOAD_WAIT_S = 5.0
"""How long a request that needs a loaded partition may wait for one that is being read."""


Alone: TypeAlias = Callable[[object], AbstractContextManager[Any]]
"""Makes a block for one of several, by its name."""


class Topics(Protocol):
    """What is needed of the topics; `broker.cluster.TopicRegistry` is one."""

    def get(self, name: str) -> Topic | None:
        """Return a topic that can be used."""

    async def create(
        self,
        name: str,
        partitions: int,
        configs: Mapping[str, str | None] | None = None,
        replication_factor: int = 1,
    ) -> Topic:
        """Create a topic. Errors: KafkaError, CoreError."""

    def listen(self, listener: TopicListener) -> None:
        """Tell `listener` about every later change."""

    async def catch_up(self) -> None:
        """Know all topics that there are by now. Errors: CoreError."""

    async def note(self, name: str) -> None:
        """Know what one topic is by now. Errors: CoreError."""


class InternalTopic(NamedTuple):
    """How the topic is made, if it is not there."""

    name: str
    partitions: int
    replication_factor: int
    """At most; fewer if there are fewer bookies, read-only ones included."""
    configs: Mapping[str, str | None]
    min_isr: int | None = None
    """At most; fewer if fewer copies are confirmed. None: the broker's default."""


class Partitions(Generic[M]):
    """The runners of one internal topic. All calls come from the loop."""

    def __init__(
        self,
        internal: InternalTopic,
        service: Service[M],
        topics: Topics,
        bookies: AvailableBookies,
        tasks: Tasks,
    ) -> None:
        self._internal = internal
        self._service = service
        self._topics = topics
        self._bookies = bookies
        self._tasks = tasks
        self._runners: list[Runner[M]] = []
        self._is_stopping = False
        self._loading: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        """Return how many there are; 0 without the topic."""
        return len(self._runners)

    def __iter__(self) -> Iterator[Runner[M]]:
        return iter(self._runners)

    def machines(self) -> Iterator[M]:
        """Return those that are loaded."""
        return (runner.machine for runner in self._runners if runner.machine is not None)

    # One name

    def runner(self, name: str) -> Runner[M] | None:
        """Return the partition that `name` lives in; None without the topic."""
        if not self._runners:
            return None
        return self._runners[partition_for(name, len(self._runners))]

    def runner_of(self, partition: int) -> Runner[M]:
        """Return one partition by its number. Errors: IndexError."""
        return self._runners[partition]

    def machine(self, name: str) -> M | ErrorCode:
        """Return the state that `name` lives in, or why there is none here now."""
        runner = self.runner(name)
        if runner is None:
            return ErrorCode.NOT_COORDINATOR
        code = runner.check()
        return code if runner.machine is None else runner.machine

    def ask(self, name: str, event: Event[M]) -> Answer:
        """Give an event to the state that `name` lives in."""
        runner = self.runner(name)
        return answer_now(ErrorCode.NOT_COORDINATOR) if runner is None else runner.ask(event)

    def ask_partition(self, partition: int, event: Event[M]) -> Answer:
        """Give an event to the state of one partition."""
        if not 0 <= partition < len(self._runners):
            return answer_now(ErrorCode.NOT_COORDINATOR)
        return self._runners[partition].ask(event)

    def expire(self, name: str) -> None:
        """Tell the state that a deadline of `name` has come."""
        runner = self.runner(name)
        if runner is not None:
            runner.expire(name)

    async def make_topic(self) -> bool:
        """Create the internal topic unless it is there; False if that failed. Errors: none."""
        if self._topics.get(self._internal.name) is None and not self._is_stopping:
            try:
                await self._create_topic()
            except (KafkaError, CoreError) as error:
                logger.warning(
                    "internal_topic_not_created topic=%s error=%r", self._internal.name, error
                )
                return False
        return True

    async def find(self, name: str) -> TopicPartition | ErrorCode:
        """Return the partition that `name` lives in: whoever owns it is the coordinator.

        Creates the internal topic for the first name of all. If it is this broker's, waits a while
        for it, so that the client's next request finds it loaded. Errors: 15 without the topic.
        """
        return (await self.find_all([name], Pace(LoopTurns())))[name]

    async def find_all(
        self, names: Iterable[str], pace: Pace
    ) -> Mapping[str, TopicPartition | ErrorCode]:
        """Return the same of many names; one wait is for all of them. `pace`: the request's."""
        if not await self.make_topic() or not self._runners:
            return {name: ErrorCode.COORDINATOR_NOT_AVAILABLE async for name in pace.each(names)}
        runners = self._runners
        living = {name: partition_for(name, len(runners)) async for name in pace.each(names)}
        loads = {runners[partition].begin_load() for partition in set(living.values())}
        if loading := [load for load in loads if load is not None]:
            await asyncio.wait(loading, timeout=LOAD_WAIT_S)
        return {name: runners[partition].tp async for name, partition in pace.each(living.items())}

    # All of them

    def tell(self, event: Quiet[M], alone: Alone = nullcontext) -> None:
        """Give an event to each state that is loaded.

        `alone`: the block for each of them, which keeps a failure from the others.
        One whose log died since it was asked last is read again instead: another broker may have
        had it, and decided what has to be brought about.
        """
        for runner in self._runners:
            with alone(runner.tp):
                if runner.machine is not None and runner.check() is ErrorCode.NONE:
                    runner.tell(event)

    async def all_loaded(self) -> bool:
        """Return whether all partitions of this broker serve; waits a while for their loads."""
        try:
            async with asyncio.timeout(LOAD_WAIT_S):
                mine = [runner for runner in self._runners if runner.is_mine]
                return all([await runner.loaded() for runner in mine])
        except TimeoutError:
            return False

    async def _load_all(self) -> None:
        """Load one after the other; one that cannot be read does not hold up the others."""
        for runner in [each for each in self._runners if each.is_mine]:
            with suppress(TimeoutError):
                async with asyncio.timeout(LOAD_WAIT_S):
                    await runner.loaded()

    def make(self) -> None:
        """Have a runner for each partition that the topic has by now."""
        topic = self._topics.get(self._internal.name)
        if topic is None or self._is_stopping:
            return
        for partition in range(len(self._runners), topic.partition_count):
            tp = TopicPartition(self._internal.name, partition)
            self._runners.append(Runner(tp, self._service, self._tasks))

    def follow_owners(self) -> None:
        """Give up what others serve by now, and load what this broker does."""
        if self._is_stopping:
            return
        for runner in self._runners:
            if not runner.is_mine:
                runner.yield_to_owner()
        self.load_soon()

    def load_soon(self) -> None:
        """Begin to load this broker's partitions, one after the other."""
        if self._loading is not None:
            self._loading.cancel()  # what it began goes on
        self._loading = self._tasks.spawn(self._load_all(), "load")

    def drop(self) -> None:
        """Give everything up: the topic goes, or this broker does. Whoever waits is told."""
        runners, self._runners = self._runners, []
        for runner in runners:
            runner.close(ErrorCode.NOT_COORDINATOR)

    def stop(self) -> None:
        """Make no topic and no runner any more."""
        self._is_stopping = True

    async def _create_topic(self) -> None:
        internal = self._internal
        bookies = len(await self._bookies.registered())
        copies = min(internal.replication_factor, max(bookies, 1))
        writable = len(await self._bookies.available())
        if writable < copies:  # for good: the first request must not decide it on a bad day
            message = f"{copies} copies are wanted, {writable} of {bookies} bookies can be written"
            raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, message)
        configs = dict(internal.configs)
        if internal.min_isr is not None:
            configs["min.insync.replicas"] = str(min(internal.min_isr, copies // 2 + 1))
        try:
            await self._topics.create(internal.name, internal.partitions, configs, copies)
        except KafkaError as error:
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise
        self.make()


def answer_now(response: object) -> Answer:
    """Return an answer that is there already."""
    answer: Answer = asyncio.get_running_loop().create_future()
    answer.set_result(response)
    return answer
