"""A log in memory with tailrace.core.log's contract, topics without a store, and a broker of both.

Confirmation is by hand (`confirm`) or, with `auto`, in the next turn of the loop. What was not
confirmed is lost when a log is opened again, unless `keep_unconfirmed` says that it had landed.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any, NamedTuple

from tailrace.broker.authentication.authentication import Authentication
from tailrace.broker.broker import Broker
from tailrace.broker.cluster.config_entities import ConfigEntities
from tailrace.broker.cluster.dynamic_configs import DynamicConfigs
from tailrace.broker.cluster.live_brokers import LiveBroker, LiveBrokers
from tailrace.broker.cluster.quorums import quorums_of
from tailrace.broker.cluster.routes import Routes
from tailrace.broker.cluster.settings import TopicDefaults
from tailrace.broker.cluster.topic import Topic
from tailrace.broker.config import BrokerConfig
from tailrace.broker.context import RequestContext
from tailrace.broker.errors import KafkaError
from tailrace.broker.fetching.session_cache import SESSION_ID_MAX, FetchSessionCache
from tailrace.broker.following.followed_partitions import FollowedPartitions
from tailrace.broker.listeners import Advertised, ConnectionInfo, Endpoint, Listener
from tailrace.broker.partition.partition_log import PartitionLog
from tailrace.broker.partition.partition_logs import PartitionLogs
from tailrace.broker.partition.producer_ids import ProducerIds
from tailrace.broker.peers.peers import Peers
from tailrace.broker.quotas.client_quotas import ClientQuotas
from tailrace.broker.quotas.registry import QuotaRegistry
from tailrace.broker.transactions.coordinator import Parts, TransactionCoordinator
from tailrace.core.access.tokens.codec import TOKEN_CODEC
from tailrace.core.access.tokens.tokens import DelegationTokens
from tailrace.core.access.users.codec import USER_CODEC
from tailrace.core.errors import (
    CannotRewrite,
    CoreError,
    LogNotFound,
    LogRecordTooLong,
    Unavailable,
)
from tailrace.core.log.entries import EntryRecords, LogRecordWithDLSN
from tailrace.core.log.reader_settings import READ_ALL, ReadRules
from tailrace.core.log.resume import Place
from tailrace.core.log.rolling import RollingPolicy
from tailrace.core.log.trimmer import SegmentTier
from tailrace.core.metadata.segment_metadata import SegmentMetadata
from tailrace.core.metadata.stored_entities import StoredEntities
from tailrace.core.runtime.budget import Budget
from tailrace.core.runtime.clock import ManualClock
from tailrace.protocol.bookkeeper.messages import BookieInfoRequest, BookieInfoResponse, StatusCode
from tailrace.protocol.distributedlog.dlsn import DLSN
from tailrace.protocol.distributedlog.record import LogRecord, RecordColumns, record_parts
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.ids import BookieId, Buffer, LedgerId
from tailrace.protocol.kafka.header import RequestHeader
from tailrace.protocol.records.record import Producer, Record, build_batch


class FakeSegment:
    """One segment: its records, each an entry of its own."""

    def __init__(self, lssn: int) -> None:
        self.lssn = lssn
        self.in_progress = True
        self.completion_time_ms = 0
        self.ledger_id = LedgerId(lssn)
        self.records: list[LogRecordWithDLSN] = []
        self.snapshot: bytes | None = None
        self.end_snapshot: bytes | None = None
        self.index: bytes | None = None

    @property
    def last_txid(self) -> int:
        return self.records[-1].record.txid if self.records else -999

    @property
    def first_txid(self) -> int:
        return self.records[0].record.txid if self.records else -999

    @property
    def record_count(self) -> int:
        return len(self.records)


class FakeSegments(list[FakeSegment]):
    """The segments of a `FakeLog`, oldest first."""

    def find(self, lssn: int) -> FakeSegment | None:
        return next((each for each in self if each.lssn == lssn), None)

    def first_not_less(self, txid: int) -> FakeSegment | None:
        for segment in self:
            records = segment.records
            if segment.in_progress or (records and records[-1].record.txid >= txid):
                return segment
        return None


class FakeTrimmer:
    """Nothing of a `FakeLog` waits for its deletion; where its segments are, a test says."""

    def __init__(self) -> None:
        self.told: list[SegmentTier] = []

    async def has_cold(self) -> bool:
        return any(each.in_cold for each in self.told)

    async def tiers(self) -> list[SegmentTier]:
        return self.told

    async def collect(self) -> int:
        return 0


class FakeUpkeep:
    """What a `FakeLog` has to keep it short."""

    def __init__(self) -> None:
        self.trimmer = FakeTrimmer()


class FakeLog:
    """A log stream in memory; survives its writers."""

    def __init__(self, name: str, *, auto: bool = True) -> None:
        self.name = name
        self.auto = auto
        self.data = b""
        self.segments = FakeSegments()
        self.next_lssn = 1
        self.writer: FakeWriter | None = None
        self.keep_unconfirmed = False
        self.record_bytes_max = 2_000_000
        self.open_error: CoreError | None = None
        self.opening: asyncio.Event | None = None
        self.closing: asyncio.Event | None = None
        self.readers_opened = 0
        self.readers_ahead = 0
        """Of those that were opened, how many read ahead."""
        self.asked_ahead: list[int] = []
        """The last entry of readers that were told to, as often as they were."""
        self.located_by_reader: list[int] = []
        """The entry at which each began."""
        self.rewrites = 0
        self.owners = 0
        """Those so far: the writer's number."""
        self.upkeep = FakeUpkeep()
        self.readers_closed = 0
        self.reads = 0
        self.truncated: DLSN | None = None
        self.indexes_read = 0
        self.scanned: list[int] = []
        """Segments that were read through, as often as that began."""
        self.switching: asyncio.Event | None = None
        """Set once a writer that rolls may go on in the segment that it has begun."""

    async def refresh(self) -> None:
        pass

    async def get_data(self) -> bytes:
        return self.data

    async def set_data(self, data: bytes) -> None:
        await asyncio.sleep(0)
        self.data = data

    async def open_writer(self, listener: Any, state: Any = None) -> "FakeWriter":
        if self.opening is not None:
            await self.opening.wait()
        if self.open_error is not None:
            raise self.open_error
        if self.writer is not None:
            await self.writer.abort()
        self._recover()
        self._restore(state)
        self.writer = FakeWriter(self, listener, state)
        self.owners += 1
        return self.writer

    def _recover(self) -> None:
        if not self.segments or not self.segments[-1].in_progress:
            return
        segment = self.segments[-1]
        confirmed = self.writer.confirmed_txid if self.writer else -999
        if not self.keep_unconfirmed:
            segment.records = [r for r in segment.records if r.record.txid <= confirmed]
        segment.in_progress = False
        if not segment.records:
            self.segments.pop()

    def _restore(self, state: Any) -> None:
        last = self.segments[-1] if self.segments else None
        if last is None or last.end_snapshot is not None:
            state.restore(last.end_snapshot if last else None)
            return
        state.restore(last.snapshot)
        state.begin_segment(last.lssn, LedgerId(last.lssn))
        for dlsn, record in last.records:
            state.replay(dlsn, record)

    def all_records(self) -> list[LogRecordWithDLSN]:
        return [record for segment in self.segments for record in segment.records]

    def readable(self) -> list[LogRecordWithDLSN]:
        confirmed = self.writer.confirmed_txid if self.writer else 1 << 62
        return [each for each in self.all_records() if each.record.txid <= confirmed]

    async def open_reader(
        self,
        start: DLSN | int,
        near: Place | None = None,
        *,
        reads_ahead: bool = True,
        rules: ReadRules = READ_ALL,
    ) -> "FakeReader":
        self.readers_opened += 1
        self.readers_ahead += reads_ahead
        if not isinstance(start, DLSN):
            assert near is not None
            segment = self.segments.find(near.dlsn.lssn)
            is_there = segment is not None and segment.ledger_id == near.ledger_id
            start = near.dlsn if is_there else await self.locate(start) or near.dlsn
        self.located_by_reader.append(start.entry_id)
        if rules.through_lssn < READ_ALL.through_lssn:
            self.scanned.append(rules.through_lssn)
        return FakeReader(self, start, rules)

    async def find(self, txid: int) -> Place | None:
        dlsn = await self.locate(txid)
        segment = None if dlsn is None else self.segments.find(dlsn.lssn)
        return None if dlsn is None or segment is None else Place(dlsn, segment.ledger_id)

    async def locate(self, txid: int, hint: DLSN | None = None) -> DLSN | None:
        return next((each.dlsn for each in self.readable() if each.record.txid >= txid), None)

    async def read_index(self, lssn: int) -> bytes | None:
        return next(each.index for each in self.segments if each.lssn == lssn)

    async def read_snapshot(self, lssn: int) -> bytes | None:
        return next(each.snapshot for each in self.segments if each.lssn == lssn)

    async def truncate_before(self, txid: int, check_may: Callable[[], None]) -> None:
        found = await self.locate(txid)
        check_may()
        self.truncated = found or self.truncated

    async def rewrite(self, lssns: Sequence[int], *, merges: bool = False) -> "FakeRewrite":
        if merges:
            raise CannotRewrite("only segments of a real log are merged")
        return FakeRewrite(self, lssns)

    async def purge_segments(self, before_lssn: int) -> list[FakeSegment]:
        completed = [each for each in self.segments if not each.in_progress]
        gone = [each for each in completed[:-1] if each.lssn < before_lssn]
        self.segments = FakeSegments(each for each in self.segments if each not in gone)
        return gone


class FakeSource(NamedTuple):
    """What `FakeRewrite.source` says."""

    end: bytes | None


class FakeRewrite:
    """Segments of a `FakeLog` that are written anew."""

    def __init__(self, log: FakeLog, lssns: Sequence[int]) -> None:
        self._log = log
        found = [log.segments.find(lssn) for lssn in lssns]
        self._sources = {each.lssn: each for each in found if each is not None}
        self._new = {lssn: FakeSegment(lssn) for lssn in lssns}
        self._is_over = False

    def source(self, lssn: int) -> FakeSource:
        return FakeSource(self._sources[lssn].end_snapshot)

    async def append(self, lssn: int, txid: int, parts: Sequence[Buffer], length: int) -> int:
        await asyncio.sleep(0)
        assert not self._is_over
        payload = b"".join(parts)
        assert len(payload) == length
        records = self._new[lssn].records
        assert not records or records[-1].record.txid < txid
        dlsn = DLSN(lssn, len(records), 0)
        records.append(LogRecordWithDLSN(dlsn, LogRecord(txid, payload)))
        return dlsn.entry_id

    async def finish(self, lssn: int, end_snapshot: bytes | None, index: bytes) -> None:
        new = self._new[lssn]
        new.in_progress = False
        new.index = index
        new.end_snapshot = end_snapshot or self._sources[lssn].end_snapshot

    async def commit(self) -> None:
        for lssn, new in self._new.items():
            assert not new.in_progress
            old = self._sources[lssn]
            old.ledger_id = LedgerId(old.ledger_id + 1000)
            old.records, old.index, old.end_snapshot = new.records, new.index, new.end_snapshot
        self._log.rewrites += 1
        self._is_over = True

    async def abort(self) -> None:
        self._is_over = True


class FakeWriter:
    """The writer of a `FakeLog`: each record is an entry."""

    def __init__(self, log: FakeLog, listener: Any, state: Any) -> None:
        records = log.all_records()
        self.log = log
        self.last_txid = records[-1].record.txid if records else -999
        self.confirmed_txid = self.last_txid
        self.rolling = RollingPolicy(0, 0)
        self.error: CoreError | None = None
        self.is_closed = False
        self.record_bytes_wanted = 0
        self.number = log.owners
        self.segment: FakeSegment | None = None
        self._listener = listener
        self._state = state
        self._loop = asyncio.get_running_loop()
        self._planned = False

    @property
    def lssn(self) -> int:
        return self.segment.lssn if self.segment else self.log.next_lssn

    def take_records(self, bytes_max: int) -> None:
        self.record_bytes_wanted = bytes_max

    def append(
        self, txid: int, payload: Sequence[Buffer], length: int, *, time_ms: int = -1
    ) -> None:
        if self.error is not None or self.is_closed:
            raise self.error or Unavailable("closed")
        if length > self.log.record_bytes_max:
            raise LogRecordTooLong(str(length))
        assert txid >= self.last_txid
        if self.segment is None:
            self._start()
        segment = self.segment
        assert segment is not None
        dlsn = DLSN(segment.lssn, len(segment.records), 0)
        self._state.observe(dlsn.lssn, dlsn.entry_id, [record_parts(txid, payload, length)])
        record = LogRecord(txid, payload[0] if len(payload) == 1 else b"".join(payload))
        segment.records.append(LogRecordWithDLSN(dlsn, record))
        self.last_txid = txid
        if self.log.auto and not self._planned:
            self._planned = True
            self._loop.call_soon(self.confirm)

    def confirm(self, txid: int | None = None) -> None:
        """Confirm everything, or up to `txid`."""
        self._planned = False
        if self.error is None:
            self.confirmed_txid = self.last_txid if txid is None else txid
            self._listener.on_confirmed(self.confirmed_txid)

    def fail(self, error: CoreError) -> None:
        self.error = error
        self._listener.on_failed(error)

    async def roll(self) -> None:
        segment = self._list()
        if self.log.switching is not None:
            await self.log.switching.wait()
        self._complete()
        self._switch(segment)

    async def close(self) -> None:
        if self.log.closing is not None:
            await self.log.closing.wait()
        self.confirm()
        self._complete()
        self.is_closed = True

    async def abort(self) -> None:
        self.is_closed = True

    def _start(self) -> None:
        self._switch(self._list())

    def _list(self) -> FakeSegment:
        segment = FakeSegment(self.log.next_lssn)
        self.log.next_lssn += 1
        self.log.segments.append(segment)
        return segment

    def _switch(self, segment: FakeSegment) -> None:
        self.segment = segment
        segment.snapshot = self._state.snapshot()
        self._state.begin_segment(segment.lssn, LedgerId(segment.lssn))

    def _complete(self) -> None:
        if self.segment is not None:
            self.segment.index = self._state.index()
            self.segment.end_snapshot = self._state.snapshot()
            self.segment.in_progress = False
            self.segment = None


class FakeReader:
    """Reads a `FakeLog` up to what is confirmed."""

    def __init__(self, log: FakeLog, start: DLSN, rules: ReadRules) -> None:
        self._log = log
        self._next = start
        self._rules = rules

    async def read_entries(self, max_bytes: int) -> list[EntryRecords]:
        await asyncio.sleep(0)
        self._log.reads += 1
        found: list[EntryRecords] = []
        for dlsn, record in self._log.readable():
            if dlsn < self._next:
                continue
            is_over = dlsn.lssn > self._rules.through_lssn
            if is_over or sum(each.size_bytes for each in found) >= max_bytes:
                break
            columns = RecordColumns([0], [record.txid], [record.payload], 0)
            size = record.size_bytes
            found.append(
                EntryRecords(
                    dlsn.lssn,
                    dlsn.entry_id,
                    (0,),
                    columns,
                    size,
                    is_last=False,
                    ledger_id=LedgerId(0),
                )
            )
            self._next = dlsn.next_slot()
        return found

    async def close(self) -> None:
        self._log.readers_closed += 1

    def ask_ahead(self) -> None:
        self._log.asked_ahead.append(self._next.entry_id)


class FakeStoredLog:
    """A look at a `FakeLog`; each segment's ledger has the segment's number."""

    def __init__(self, log: FakeLog) -> None:
        self._log = log

    @property
    def name(self) -> str:
        return self._log.name

    async def segments(self) -> list[Any]:
        return [
            SegmentMetadata(
                lssn=each.lssn,
                ledger_id=LedgerId(each.lssn),
                first_txid=each.records[0].record.txid if each.records else 0,
                in_progress=each.in_progress,
            )
            for each in self._log.segments
        ]

    async def get_data(self) -> bytes:
        return self._log.data

    async def has_owner(self) -> bool:
        return self._log.writer is not None and not self._log.writer.is_closed

    async def is_being_purged(self) -> bool:
        return False

    async def index_of(self, segment: SegmentMetadata) -> tuple[bytes | None, int]:
        (found,) = (each for each in self._log.segments if each.lssn == segment.lssn)
        self._log.indexes_read += 1
        return found.index, sum(len(each.record.payload) for each in found.records)


class FakeNamespace:
    """Logs by name."""

    def __init__(self, *, auto: bool = True) -> None:
        self.auto = auto
        self.logs: dict[str, FakeLog] = {}

    def add(self, name: str) -> FakeLog:
        return self.logs.setdefault(name, FakeLog(name, auto=self.auto))

    async def open_log(self, name: str, overrides: Mapping[str, str] | None = None) -> FakeLog:
        if name not in self.logs:
            raise LogNotFound(name)
        return self.logs[name]

    async def close_log(self, name: str) -> None:
        pass

    def stored_log(self, name: str) -> FakeStoredLog:
        return FakeStoredLog(self.logs[name])


class FakeTopics:
    """Topics without a store: `create` makes the streams."""

    def __init__(self, namespace: FakeNamespace) -> None:
        self._namespace = namespace
        self._topics: dict[str, Topic] = {}
        self._listeners: list[Any] = []
        self._made = 0
        self.defaults = TopicDefaults({})

    def listen(self, listener: Any) -> None:
        self._listeners.append(listener)

    def get(self, name: str) -> Topic | None:
        return self._topics.get(name)

    def by_id(self, topic_id: bytes) -> Topic | None:
        return next((t for t in self._topics.values() if t.topic_id == topic_id), None)

    def all(self) -> list[Topic]:
        return [self._topics[name] for name in sorted(self._topics)]

    def add(
        self,
        name: str,
        partitions: int = 1,
        configs: Mapping[str, str] | None = None,
        replication_factor: int = 1,
    ) -> Topic:
        configs = configs or {}
        settings = self.defaults.resolve(configs)
        known = self._topics.get(name)
        self._made += known is None
        topic = Topic(
            name=name,
            topic_id=known.topic_id if known else self._made.to_bytes(16, "big"),
            partition_count=partitions,
            configs=configs,
            settings=settings,
            replication_factor=replication_factor,
            quorums=quorums_of(replication_factor, settings),
            internal=name.startswith("__"),
            created_ms=0,
        )
        for partition in range(partitions):
            self._namespace.add(f"{name}-{partition}")
        self._topics[name] = topic
        for listener in self._listeners:
            listener.on_topic_changed(topic)
        return topic

    def assign(self, name: str, assignments: Mapping[int, tuple[int, ...]]) -> None:
        """Prefer brokers for partitions."""
        topic = replace(self._topics[name], assignments=assignments)
        self._topics[name] = topic
        for listener in self._listeners:
            listener.on_topic_changed(topic)

    async def delete(self, name: str) -> None:
        topic = self._topics.pop(name)
        for listener in self._listeners:
            await listener.on_topic_deleting(topic)
        for partition in range(topic.partition_count):
            del self._namespace.logs[f"{name}-{partition}"]

    async def catch_up(self) -> None:
        await asyncio.sleep(0)

    async def note(self, _name: str) -> None:
        await asyncio.sleep(0)

    def replace(self, name: str) -> Topic:
        """Put another topic in the place of one at once, as another broker may have done."""
        topic = self._topics.pop(name)
        return self.add(name, topic.partition_count, topic.configs)

    async def create(
        self,
        name: str,
        partitions: int,
        configs: Mapping[str, str] | None = None,
        replication_factor: int = 1,
    ) -> Topic:
        await asyncio.sleep(0)
        if name in self._topics:
            raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, name)
        return self.add(name, partitions, configs, replication_factor)


class Bookies:
    """So many bookies that can be written to, and others that are read-only."""

    def __init__(self, count: int) -> None:
        self.ids = [BookieId(f"b{number}") for number in range(count)]
        self.read_only: list[BookieId] = []

    async def available(self) -> list[BookieId]:
        return self.ids

    async def registered(self) -> list[BookieId]:
        return self.ids + self.read_only

    def client(self, bookie_id: BookieId) -> "RoomyBookie":
        return RoomyBookie(bookie_id)


class RoomyBookie:
    """Tells its room, 1000 bytes of which 100 are free, and nothing else."""

    reads_batches = False
    losses = 0

    def __init__(self, bookie_id: BookieId) -> None:
        self.bookie_id = bookie_id

    def submit(self, request: Any, reply: Any) -> None:
        assert isinstance(request, BookieInfoRequest)
        answer = BookieInfoResponse(StatusCode.EOK, 1000, 100)
        asyncio.get_running_loop().call_soon(reply, answer)

    async def close(self) -> None:
        pass


class World(NamedTuple):
    """A broker over fakes, and the fakes."""

    broker: Broker
    topics: FakeTopics
    namespace: FakeNamespace
    clock: ManualClock
    bookies: Bookies

    def log(self, name: str, partition: int = 0) -> FakeLog:
        return self.namespace.logs[f"{name}-{partition}"]

    def context(self, api_key: int, version: int, client_id: str = "test") -> RequestContext:
        header = RequestHeader(api_key, version, 1, client_id)
        return RequestContext(self.broker, header, ConnectionInfo("127.0.0.1", 5, "PLAINTEXT"))

    def let_live(self, *node_ids: int, listener: str = "PLAINTEXT") -> None:
        """Have these brokers be alive; the others than ours have one listener."""
        at = {listener: Endpoint("other.test", 9092)}
        self.broker.routes.use(
            LiveBrokers(LiveBroker(each, at, at[listener], None) for each in node_ids)
        )

    async def open(self, name: str, partition: int = 0) -> PartitionLog:
        from tailrace.protocol.ids import TopicPartition

        return await self.broker.partitions.open(TopicPartition(name, partition))


def make_world(
    *,
    auto: bool = True,
    config: BrokerConfig | None = None,
    store: Any = None,
    bookies: int = 1,
    clock: ManualClock | None = None,
) -> World:
    """Return a broker without sockets; needs a running loop."""
    config = config or BrokerConfig()
    namespace = FakeNamespace(auto=auto)
    topics = FakeTopics(namespace)
    clock = clock or ManualClock()
    anything: Any = topics
    logs: Any = namespace
    there = Bookies(bookies)
    random = Random(1)
    routes = Routes(anything, config.node_id, serves_racks=config.serves_racks)
    partitions = PartitionLogs(logs, anything, clock, config.partitions, routes)
    routes.listen(partitions.let_go)
    producer_ids = ProducerIds(store)
    nobody: Any = None
    parts = Parts(anything, partitions, nobody, there, producer_ids, clock)
    users = StoredEntities(store, "/users", USER_CODEC)
    stored_tokens = StoredEntities(store, "/tokens", TOKEN_CODEC)
    tokens = DelegationTokens(config.tokens, stored_tokens, clock, random)
    broker = Broker(
        config=config,
        configs=DynamicConfigs(config, config.node_id, ConfigEntities(anything), anything),
        clock=clock,
        store=store,
        topics=anything,
        routes=routes,
        peers=Peers(routes, "broker-1"),
        partitions=partitions,
        followed=FollowedPartitions(logs, anything, partitions, nobody, config.following),
        groups=None,  # type: ignore[arg-type]
        transactions=TransactionCoordinator(config.transactions, parts, add_wait_ms=100),
        producer_ids=producer_ids,
        bookies=there,
        cluster_id="cluster-of-tests-00000",
        advertised=Advertised((Listener("PLAINTEXT", "broker.test", 9092),)),
        log_dir="/data",
        fetch_sessions=FetchSessionCache(
            config.fetch_session_slots, lambda: random.randint(1, SESSION_ID_MAX)
        ),
        quotas=QuotaRegistry(
            store,
            "/quotas",
            ClientQuotas(config.quotas, clock),
        ),
        tokens=tokens,
        users=users,
        authentication=Authentication(config.network, users, b"of tests", tokens, clock),
        unsent=Budget("unsent bytes", config.network.response_bytes_max),
    )
    routes.listen(broker.epochs.clear)
    return World(broker, topics, namespace, clock, there)


async def restarted(before: World) -> World:
    """End a broker without a word; return another over the same streams and topics, at its time."""
    await before.broker.partitions.close()
    world = make_world(auto=before.namespace.auto, config=before.broker.config)
    world.namespace.logs.update(before.namespace.logs)
    for topic in before.topics.all():
        world.topics.add(topic.name, topic.partition_count, topic.configs)
    world.clock.advance_ms(before.clock.now_ms() - world.clock.now_ms())
    return world


def batch(
    count: int = 1, *, producer: Producer | None = None, size: int = 10, timestamp: int = 0
) -> memoryview:
    """Return a produced batch of `count` records."""
    records = [
        Record(offset=i, timestamp=timestamp, key=b"k%d" % i, value=b"v" * size)
        for i in range(count)
    ]
    built = build_batch(records, producer=producer) if producer else build_batch(records)
    return memoryview(bytearray(built))
