"""Drives a TransactionShard as the runtime does: writes that tests confirm, markers they write."""

from collections import deque
from itertools import count
from typing import Any

from tailrace.broker.replicated.effects import Effects, Now, StateRecord, Ticket, Write
from tailrace.broker.transactions.config import TransactionConfig
from tailrace.broker.transactions.decisions import Producer
from tailrace.broker.transactions.metadata import TransactionMetadata
from tailrace.broker.transactions.records import read_record
from tailrace.broker.transactions.shard import TransactionShard
from tailrace.broker.transactions.values import Add, Markers
from tailrace.protocol.ids import TopicPartition

START_MS = 1_700_000_000_000
TIMEOUT_MS = 1_000
ID = "x"


class Driver:
    """One shard with one id of interest, a clock and a stream; `crash` keeps only the stream."""

    def __init__(self, config: TransactionConfig | None = None) -> None:
        self.config = config or TransactionConfig(id_expiration_ms=1_000_000)
        self.mono_ms = 0
        self.stream: list[StateRecord] = []
        """Confirmed records."""
        self.unconfirmed: deque[Write] = deque()
        self.markers: deque[Markers] = deque()
        """Markers that were asked for and not written yet."""
        self.replies: dict[Ticket, Any] = {}
        self.asked: set[Ticket] = set()
        self._tickets = count(1)
        self._ids = count(1_000)
        self.shard = self._new_shard()

    def _new_shard(self) -> TransactionShard:
        return TransactionShard(self.config, lambda: next(self._ids))

    @property
    def now(self) -> Now:
        return Now(START_MS + self.mono_ms, self.mono_ms)

    @property
    def current(self) -> TransactionMetadata | None:
        found = self.shard.transactions.get(ID)
        return None if found is None else found.current

    def ticket(self) -> Ticket:
        ticket = next(self._tickets)
        self.asked.add(ticket)
        return ticket

    def act(self, effects: Effects) -> None:
        for ticket, response in effects.replies:
            assert ticket in self.asked, "a reply to nobody"
            assert ticket not in self.replies, "two replies to one request"
            self.replies[ticket] = response
        self.unconfirmed.extend(effects.writes)
        self.markers.extend(effects.commands)

    def confirm(self) -> None:
        write = self.unconfirmed.popleft()
        self.stream += write.records
        self.act(self.shard.on_written(write, self.now))

    def write_markers(self) -> Markers:
        markers = self.markers.popleft()
        self.act(self.shard.on_markers_written(markers, self.now))
        return markers

    def settle(self) -> None:
        """Confirm and mark until nothing is under way."""
        while self.unconfirmed or self.markers:
            if self.unconfirmed:
                self.confirm()
            else:
                self.write_markers()

    def crash(self, keep_unconfirmed: int = 0) -> None:
        """Lose everything but the stream, on which some that nobody heard of may have landed."""
        for write in list(self.unconfirmed)[:keep_unconfirmed]:
            self.stream += write.records
        self.unconfirmed.clear()
        self.markers.clear()
        self.asked.clear()
        self.shard = self.replayed()
        for effects in self.shard.on_loaded(self.now):
            self.act(effects)

    def replayed(self) -> TransactionShard:
        """Return a shard that read the stream: the newest record of each key."""
        shard = self._new_shard()
        newest = {record.key: record.value for record in self.stream}
        for key, value in newest.items():
            update = read_record(key, value)
            assert update is not None
            if value is not None:
                shard.replay(update)
        return shard

    # Requests

    def init(self, expected: Producer | None = None) -> Ticket:
        ticket = self.ticket()
        self.act(self.shard.init_producer_id(ID, TIMEOUT_MS, expected, ticket, self.now))
        return ticket

    def add(self, producer: Producer, partition: int, version: int, wait_ms: int = -1) -> Ticket:
        ticket = self.ticket()
        partitions = frozenset({TopicPartition("t", partition)})
        until_ms = self.mono_ms + wait_ms
        self.act(self.shard.add(Add(ID, producer, partitions, version, ticket, until_ms), self.now))
        return ticket

    def end(self, producer: Producer, version: int, *, committed: bool) -> Ticket:
        ticket = self.ticket()
        self.act(self.shard.end(ID, producer, version, ticket, self.now, committed=committed))
        return ticket
