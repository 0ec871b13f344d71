"""The transaction coordinator of one broker: every transactional id finds its shard here.

Flow: handler -> TransactionCoordinator -> Runner.ask -> TransactionShard (pure) -> Effects -> a
record through PartitionLog.append -> confirmed -> the reply, and the markers of what was decided
-> MarkerWriter -> every partition has its own -> TransactionShard.on_markers_written -> a record.
"""

import asyncio
import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from tailrace.broker.cluster.admin import AvailableBookies
from tailrace.broker.cluster.topic import Topic
from tailrace.broker.partition.partition_logs import PartitionLogs
from tailrace.broker.partition.producer_ids import ProducerIds
from tailrace.broker.peers.routes import ALONE, Routes, Sender
from tailrace.broker.replicated.alarms import Alarms
from tailrace.broker.replicated.effects import Effects, Now, Ticket
from tailrace.broker.replicated.machine import Answer, Service
from tailrace.broker.replicated.partitions import InternalTopic, Partitions, Topics, answer_now
from tailrace.broker.transactions.config import TransactionConfig
from tailrace.broker.transactions.decisions import Producer
from tailrace.broker.transactions.describing import ListFilter, described, listed, not_described
from tailrace.broker.transactions.marker_places import OffsetGroups, OthersPartitions, OwnPartitions
from tailrace.broker.transactions.markers import MarkerUser, MarkerWriter
from tailrace.broker.transactions.metrics import TransactionMetrics
from tailrace.broker.transactions.records import read_record
from tailrace.broker.transactions.shard import TransactionShard
from tailrace.broker.transactions.values import Add, Markers
from tailrace.broker.transactions.verification import Verification, per_partition
from tailrace.core.errors import CoreError
from tailrace.core.runtime.clock import Clock
from tailrace.core.runtime.forever import Forever
from tailrace.core.runtime.loop_turns import Pace
from tailrace.core.runtime.metrics import Metrics
from tailrace.core.runtime.tasks import Tasks
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.ids import TopicPartition
from tailrace.protocol.kafka.messages.describe_transactions import TransactionState as Described
from tailrace.protocol.kafka.messages.list_transactions import TransactionState as Listed

logger = logging.getLogger(__name__)

TRANSACTIONS_TOPIC = "__transaction_state"
LIST_UNITS = 2
"""What it takes to see whether one transactional id is listed: a pattern may be long."""


class Parts(NamedTuple):
    """What the coordinator stands on."""

    topics: Topics
    partitions: PartitionLogs
    groups: OffsetGroups
    bookies: AvailableBookies
    producer_ids: ProducerIds
    clock: Clock
    routes: Routes = ALONE
    peers: Sender = ALONE


class TransactionCoordinator:
    """Every transactional id; all calls come from the loop."""

    def __init__(self, config: TransactionConfig, parts: Parts, add_wait_ms: int) -> None:
        """`add_wait_ms`: how long taking partitions in waits for an id that is busy."""
        self.metrics = TransactionMetrics()
        self._config = config
        self._topics = parts.topics
        self._producer_ids = parts.producer_ids
        self._add_wait_ms = add_wait_ms
        self._clock = parts.clock
        self._spare_ids: list[int] = []
        self._tasks = Tasks("transactions")
        self._timeouts = Forever("transactions.timeouts")
        self._expiry = Forever("transactions.expiry")
        self._alarms = Alarms("transactions", parts.clock, self._on_due)
        self._routes = parts.routes
        self.verification = Verification(self, parts.routes, parts.peers)
        """Asks the coordinator of any transaction, at whichever broker it is."""
        self._markers = MarkerWriter(
            OwnPartitions(parts.partitions, parts.groups),
            OthersPartitions(parts.peers),
            parts.routes,
            MarkerUser(self._on_written, self._on_fenced, parts.topics.note),
            self.metrics,
        )
        service = Service(
            name="transaction",
            logs=parts.partitions,
            clock=parts.clock,
            make=lambda _partition: TransactionShard(config, self._spare_ids.pop),
            read_record=read_record,
            load_bytes=config.load_buffer_bytes,
            on_wake=self._alarms.schedule,
            on_command=self._on_command,
            metrics=self.metrics,
            is_mine=parts.routes.is_mine,
            catch_up=parts.topics.catch_up,
        )
        self._partitions = Partitions(
            _internal_topic(config), service, parts.topics, parts.bookies, self._tasks
        )

    async def start(self, metrics: Metrics | None = None) -> None:
        """Begin to serve: what was decided before a crash is finished in the background."""
        if metrics is not None:
            metrics.register("broker_transactions", self.metrics)
        self._topics.listen(self)
        self._routes.listen(self.follow_owners)
        self._partitions.make()
        self._partitions.load_soon()
        self._tasks.start(self._alarms.run(), "deadlines")
        self._tasks.start(self._timeouts.run(self._abort_later), "timeouts")
        self._tasks.start(self._expiry.run(self._expire_later), "expiry")

    async def close(self) -> None:
        """Stop; whoever waits is told to find another coordinator. Idempotent."""
        self._partitions.stop()
        self._partitions.drop()  # first: an append that fails now has nobody to load again for
        await self._tasks.close()
        await self.verification.close()
        await self._markers.close()

    def follow_owners(self) -> None:
        """Leave ids to the brokers that coordinate them by now, and take over this one's."""
        self._partitions.follow_owners()
        self._markers.follow_owners(self._is_mine)

    # Requests: each returns a future of the answer, or of an ErrorCode

    async def make_topic(self) -> bool:
        """Create the internal topic unless it is there; False if that failed. Errors: none."""
        return await self._partitions.make_topic()

    async def find(self, transactional_id: str) -> TopicPartition | ErrorCode:
        """Return the partition that an id lives in, whose owner is its coordinator, or 15."""
        return await self._partitions.find(transactional_id)

    async def find_all(
        self, transactional_ids: Iterable[str], pace: Pace
    ) -> Mapping[str, TopicPartition | ErrorCode]:
        """Return the same of many ids, after one wait. `pace`: the request's."""
        return await self._partitions.find_all(transactional_ids, pace)

    def partition_of(self, transactional_id: str) -> TopicPartition | None:
        """Return the partition that an id lives in, once there is `__transaction_state`."""
        runner = self._partitions.runner(transactional_id)
        return None if runner is None else runner.tp

    async def init_producer_id(
        self, transactional_id: str, timeout_ms: int, expected: Producer | None
    ) -> Producer | ErrorCode:
        """InitProducerId with a transactional id; an open transaction is aborted first (51)."""
        self.metrics.inits_total += 1
        if not transactional_id:
            return ErrorCode.INVALID_REQUEST
        if not 0 < timeout_ms <= self._config.timeout_ms_max:
            return ErrorCode.INVALID_TRANSACTION_TIMEOUT
        code = await self._have_spare_id()
        if code is not ErrorCode.NONE:
            return code
        result: Producer | ErrorCode = await self._partitions.ask(
            transactional_id,
            lambda shard, ticket, now: shard.init_producer_id(
                transactional_id, timeout_ms, expected, ticket, now
            ),
        )
        return result

    def add(
        self,
        transactional_id: str,
        producer: Producer,
        partitions: Collection[TopicPartition],
        client_version: int,
    ) -> Answer:
        """Take partitions into a transaction.

        Waits a while for an id that is busy: its client would only ask again, and later than that.
        """
        self.metrics.adds_total += 1
        if not transactional_id:
            return answer_now(ErrorCode.INVALID_REQUEST)
        wanted = frozenset(partitions)

        def event(shard: TransactionShard, ticket: Ticket, now: Now) -> Effects:
            until_ms = now.mono_ms + self._add_wait_ms
            add = Add(transactional_id, producer, wanted, client_version, ticket, until_ms)
            return shard.add(add, now)

        return self._partitions.ask(transactional_id, event)

    def use(self, config: TransactionConfig) -> None:
        """Follow settings that were changed while the broker runs."""
        self._config = config

    @property
    def verifies(self) -> bool:
        """Whether partitions have to be in a transaction before the first batch there."""
        return self._config.verifies_partitions

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
    ) -> "asyncio.Future[Mapping[TopicPartition, ErrorCode]]":
        """Say whether partitions are in the producer's transaction: NONE if they are.

        Without `transaction.partition.verification.enable` they all are, of whoever is a producer.
        """
        self.metrics.verifications_total += 1
        producer, wanted = Producer(producer_id, producer_epoch), frozenset(partitions)
        if not self.verifies:
            code = ErrorCode.NONE if producer_id >= 0 else ErrorCode.INVALID_PRODUCER_ID_MAPPING
            return per_partition(answer_now(code), partitions)
        if not transactional_id:
            return per_partition(answer_now(ErrorCode.INVALID_REQUEST), partitions)
        answer = self._partitions.ask(
            transactional_id,
            lambda shard, ticket, _now: shard.verify(transactional_id, producer, wanted, ticket),
        )
        return per_partition(answer, partitions)

    async def end(
        self, transactional_id: str, producer: Producer, client_version: int, *, committed: bool
    ) -> Producer | ErrorCode:
        """EndTxn: done when the outcome is stored; the markers follow."""
        self.metrics.ends_total += 1
        if not transactional_id:
            return ErrorCode.INVALID_REQUEST
        code = await self._have_spare_id()
        if code is not ErrorCode.NONE:
            return code
        result: Producer | ErrorCode = await self._partitions.ask(
            transactional_id,
            lambda shard, ticket, now: shard.end(
                transactional_id, producer, client_version, ticket, now, committed=committed
            ),
        )
        return result

    def abort(self, transactional_id: str) -> Answer:
        """Abort an open transaction, and shut its producer out, as its timeout would."""
        return self._partitions.ask(
            transactional_id,
            lambda shard, ticket, now: shard.abort(transactional_id, ticket, now),
        )

    def describe(self, transactional_id: str) -> Described:
        """Return one transactional id for DescribeTransactions."""
        if not transactional_id:
            return not_described(transactional_id, ErrorCode.INVALID_REQUEST)
        found = self._partitions.machine(transactional_id)
        if isinstance(found, ErrorCode):
            return not_described(transactional_id, found)
        transaction = found.transactions.get(transactional_id)
        if transaction is None:
            return not_described(transactional_id, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
        return described(transaction.current)

    async def list_transactions(self, wanted: ListFilter, pace: Pace) -> list[Listed] | ErrorCode:
        """Return the transactional ids of all shards that pass; waits a while for loading."""
        if not await self._partitions.all_loaded():
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        now_ms = self._clock.now_ms()
        return [
            listed(transaction.current)
            for shard in list(self._partitions.machines())
            async for transaction in pace.each(list(shard.transactions.values()), LIST_UNITS)
            if wanted.lets_through(transaction.current, now_ms)
        ]

    async def _have_spare_id(self) -> ErrorCode:
        """Have a producer id ready: the shard takes it, if at all, before anything else runs."""
        try:
            while not self._spare_ids:
                self._spare_ids.append(await self._producer_ids.take())
        except CoreError as error:
            logger.warning("producer_id_missing error=%r", error)
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return ErrorCode.NONE

    # Markers

    def _on_command(self, partition: int, command: Any) -> None:
        epoch = self._partitions.runner_of(partition).epoch
        self._markers.write(command, epoch)

    def _is_mine(self, transactional_id: str) -> bool:
        at = self.partition_of(transactional_id)
        return at is not None and self._routes.is_mine(*at)

    def _on_written(self, markers: Markers) -> None:
        runner = self._partitions.runner(markers.transactional_id)
        if runner is not None:
            runner.tell(lambda shard, now: [shard.on_markers_written(markers, now)])

    def _on_fenced(self, markers: Markers) -> bool:
        """Find out whether another coordinator has taken the id over: by a write, which then fails.

        If none has, somebody else wrote a marker under a coordinator epoch of his own: this id
        stays busy, until a later owner of the shard has a higher one. The others are served.
        """
        runner = self._partitions.runner(markers.transactional_id)
        if runner is None or runner.machine is None:
            return False
        runner.tell(lambda shard, _now: [shard.write_again(markers)])
        return True

    # Topics

    def on_topic_changed(self, topic: Topic) -> None:
        """Begin to serve when the internal topic is there."""
        if topic.name == TRANSACTIONS_TOPIC:
            self._partitions.make()

    async def on_topic_deleting(self, topic: Topic) -> None:
        """Forget everything with the internal topic; markers to others end by themselves."""
        if topic.name == TRANSACTIONS_TOPIC:
            self._partitions.drop()

    # Time

    def fire_due(self) -> None:
        """Act on every deadline that has passed."""
        self._alarms.fire_due()

    def abort_timed_out(self) -> None:
        """Abort every transaction that is open for longer than its producer allowed."""

        def event(shard: TransactionShard, now: Now) -> Iterator[Effects]:
            for effects in shard.abort_timed_out(now):
                self.metrics.timeouts_total += 1
                yield effects

        self._partitions.tell(event, self._timeouts.item)

    def remove_expired(self) -> None:
        """Forget transactional ids that have not been used for long."""
        self._partitions.tell(lambda shard, now: shard.remove_expired(now), self._expiry.item)

    def _on_due(self, transactional_id: str) -> None:
        self._partitions.expire(transactional_id)

    async def _abort_later(self) -> None:
        await asyncio.sleep(self._config.abort_interval_ms / 1000)
        self.abort_timed_out()

    async def _expire_later(self) -> None:
        await asyncio.sleep(self._config.expiry_interval_ms / 1000)
        self.remove_expired()


def _internal_topic(config: TransactionConfig) -> InternalTopic:
    configs = {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "segment.bytes": str(config.topic_segment_bytes),
    }
    return InternalTopic(
        TRANSACTIONS_TOPIC,
        config.topic_partitions,
        config.topic_replication_factor,
        configs,
        config.topic_min_isr,
    )
