"""Any history of one transactional id, with crashes anywhere, against what must never happen.

The oracle knows nothing of the rules. It writes down, per transaction (from its first confirmed
partition to its confirmed outcome), what was decided on the stream, and holds everything else
against that: answers, markers, what a copy from the stream says.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tailrace.broker.transactions.decisions import Producer
from tailrace.broker.transactions.metadata import (
    EPOCH_MAX,
    PREPARED,
    TransactionMetadata,
    TransactionState,
)
from tailrace.broker.transactions.records import read_record
from tailrace.protocol.errors import ErrorCode
from tests.unit.broker.transactions.support import ID, TIMEOUT_MS, Driver

S = TransactionState
VERSIONS = st.sampled_from([0, 2])
COMMITS = {S.PREPARE_COMMIT: True, S.PREPARE_ABORT: False}


class Decided(NamedTuple):
    """One transaction's outcome on the stream."""

    producer: Producer
    """With the epoch that its markers have."""
    committed: bool
    partitions: frozenset[object]


class Ended(NamedTuple):
    """An EndTxn that was sent, and may come again, late."""

    producer: Producer
    version: int
    committed: bool
    transaction: int
    """How many outcomes were on the stream when it was sent."""


class TransactionMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.driver = Driver()
        self.producers = [Producer(1, 0)]
        """Everybody who was ever given the id, the newest last."""
        self.sent: dict[int, Ended] = {}
        self.inits: set[int] = set()
        self.old: list[Ended] = []

    # What clients do

    @rule(at=st.integers(0, 3), recovers=st.booleans())
    def init(self, at: int, recovers: bool) -> None:
        expected = self.producers[-1 - at % len(self.producers)] if recovers else None
        self.inits.add(self.driver.init(expected))
        self.collect()

    @rule(at=st.integers(0, 2), partition=st.integers(0, 2), version=VERSIONS, waits=st.booleans())
    def add(self, at: int, partition: int, version: int, waits: bool) -> None:
        producer = self.producers[-1 - at % len(self.producers)]
        with self.nothing_for_zombies(producer):
            self.driver.add(producer, partition, version, 100 if waits else -1)
        self.collect()

    @rule(at=st.integers(0, 2), version=VERSIONS, committed=st.booleans())
    def end(self, at: int, version: int, committed: bool) -> None:
        producer = self.producers[-1 - at % len(self.producers)]
        self.send(Ended(producer, version, committed, len(self.decided())))

    @precondition(lambda self: self.old)
    @rule(at=st.integers(0, 3))
    def a_late_end_of_version_2_decides_nothing(self, at: int) -> None:
        ended = self.old[at % len(self.old)]
        current = self.driver.current
        if ended.version < 2 or len(self.decided()) == ended.transaction:
            return  # nothing was decided since: it is not late
        writes = len(self.driver.unconfirmed)
        assert current is not None
        self.send(ended)
        assert len(self.driver.unconfirmed) == writes

    def send(self, ended: Ended) -> None:
        with self.nothing_for_zombies(ended.producer):
            ticket = self.driver.end(ended.producer, ended.version, committed=ended.committed)
        self.sent[ticket] = ended
        self.old.append(ended)
        self.collect()

    @contextmanager
    def nothing_for_zombies(self, producer: Producer) -> Iterator[None]:
        """Have a producer that is not the id's (any more) change nothing."""
        current, writes = self.driver.current, len(self.driver.unconfirmed)
        yield
        if current is None or producer != Producer(current.producer_id, current.producer_epoch):
            assert len(self.driver.unconfirmed) == writes

    # What happens to them

    @precondition(lambda self: self.driver.unconfirmed)
    @rule()
    def confirm(self) -> None:
        self.driver.confirm()
        self.collect()

    @precondition(lambda self: self.driver.markers)
    @rule()
    def write_markers(self) -> None:
        markers = self.driver.markers[0]
        outcomes = [each for each in self.decided() if each.producer == markers.producer]
        assert (markers.committed, markers.partitions) == outcomes[-1][1:]
        self.driver.write_markers()

    @rule(landed=st.integers(0, 2))
    def crash(self, landed: int) -> None:
        self.driver.crash(landed)
        self.sent.clear()
        self.inits.clear()

    @rule()
    def time_out(self) -> None:
        self.driver.mono_ms += TIMEOUT_MS + 1
        for effects in self.driver.shard.abort_timed_out(self.driver.now):
            self.driver.act(effects)
        self.driver.act(self.driver.shard.expire(ID, self.driver.now))
        self.collect()

    @rule()
    def use_up_the_epochs(self) -> None:
        """Have the id go on near the end of its epochs, where nothing is under way."""
        self.driver.settle()
        self.collect()
        transaction = self.driver.shard.transactions.get(ID)
        if transaction is None or transaction.current.producer_epoch not in range(32_000):
            return
        self.driver.mono_ms += 1
        state = S.ONGOING if transaction.current.state is S.ONGOING else S.EMPTY
        worn = replace(
            transaction.current, state=state, producer_epoch=32_764, last_producer_epoch=-1
        )
        self.driver.act(self.driver.shard._write(transaction, worn, ()))
        self.driver.settle()
        self.producers.append(Producer(worn.producer_id, 32_764))

    # What is held against the stream

    def history(self) -> list[TransactionMetadata]:
        found = [read_record(record.key, record.value) for record in self.driver.stream]
        return [each.metadata for each in found if each is not None and each.metadata is not None]

    def decided(self) -> list[Decided]:
        return [
            Decided(
                Producer(each.producer_id, each.producer_epoch),
                COMMITS[each.state],
                each.partitions,
            )
            for each in self.history()
            if each.state in PREPARED
        ]

    def collect(self) -> None:
        """Take what was answered to clients."""
        for ticket in [each for each in self.inits if each in self.driver.replies]:
            self.inits.discard(ticket)
            answer = self.driver.replies[ticket]
            if isinstance(answer, Producer):
                self.give(answer)
        for ticket in [each for each in self.sent if each in self.driver.replies]:
            ended, answer = self.sent.pop(ticket), self.driver.replies[ticket]
            if isinstance(answer, ErrorCode):
                continue
            outcomes = [
                each.committed
                for each in self.decided()
                if each.producer.producer_id == ended.producer.producer_id
                and each.producer.epoch in (ended.producer.epoch, ended.producer.epoch + 1)
            ]
            assert ended.committed in outcomes, "an end was answered that nobody decided"
            if ended.version == 2:
                self.give(answer)

    def give(self, producer: Producer) -> None:
        """Have a producer go on as it was told."""
        assert producer.epoch < EPOCH_MAX, "nothing could fence this one"
        self.producers.append(producer)

    @invariant()
    def a_copy_from_the_stream_is_the_state(self) -> None:
        held = {
            name: replace(each.current, last_producer_epoch=-1)
            for name, each in self.driver.shard.transactions.items()
            if each.current.producer_epoch >= 0
        }
        copy = {name: each.current for name, each in self.driver.replayed().transactions.items()}
        assert held == copy

    @invariant()
    def epochs_never_go_back(self) -> None:
        seen: list[Producer] = []
        for each in self.history():
            producer = Producer(each.producer_id, each.producer_epoch)
            if seen and seen[-1].producer_id == producer.producer_id:
                assert producer.epoch >= seen[-1].epoch
            assert seen == [] or producer == seen[-1] or producer not in seen
            seen.append(producer)

    @invariant()
    def each_transaction_has_one_outcome_and_ends_with_it(self) -> None:
        before: TransactionMetadata | None = None
        for each in self.history():
            if before is not None and before.state in PREPARED:
                done = S.COMPLETE_COMMIT if before.state is S.PREPARE_COMMIT else S.COMPLETE_ABORT
                assert each.state is done or each == before  # a load writes it again
            if each.state in PREPARED and before is not None and before.state is S.ONGOING:
                assert each.partitions == before.partitions
            before = each

    @invariant()
    def what_is_decided_is_on_its_way_to_the_partitions(self) -> None:
        current = self.driver.current
        if current is not None and current.state in PREPARED:
            is_marking = any(each.transactional_id == ID for each in self.driver.markers)
            assert is_marking or self.driver.unconfirmed

    def teardown(self) -> None:
        self.driver.settle()
        self.driver.mono_ms += 200
        self.driver.act(self.driver.shard.expire(ID, self.driver.now))
        transaction = self.driver.shard.transactions.get(ID)
        assert transaction is None or not transaction.is_busy
        assert self.driver.asked <= self.driver.replies.keys(), "somebody was never answered"


TestTransactionMachine = TransactionMachine.TestCase
TestTransactionMachine.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
