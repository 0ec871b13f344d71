"""The transactional ids of one partition of `__transaction_state`, as one state machine. Pure.

A change is decided, written, and holds once it is confirmed; until then the id is busy, and what is
asked of it gets CONCURRENT_TRANSACTIONS; partitions to add wait a while before that. An id is busy
as well from the confirmed decision to the last marker. So there is nothing to undo: a
failed write has the runner drop the shard and replay the stream.

Every event returns Effects. Their commands are `Markers`: what must reach partitions before
`on_markers_written`.
"""

from collections.abc import Iterator

from tailrace.broker.replicated.effects import NEVER, Effects, Now, Reply, Ticket, Write
from tailrace.broker.transactions.config import TransactionConfig
from tailrace.broker.transactions.decisions import (
    Decision,
    NewProducerId,
    Producer,
    decide_add,
    decide_end,
    decide_end_version_2,
    decide_init,
    verify,
)
from tailrace.broker.transactions.metadata import (
    AT_REST,
    PREPARED,
    VERSION_2,
    TransactionMetadata,
    TransactionState,
)
from tailrace.broker.transactions.records import TransactionUpdate, tombstone, transaction_record
from tailrace.broker.transactions.values import Add, Expired, Markers, Stored, Then, Transaction
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.ids import TopicPartition

TOMBSTONES_AT_ONCE = 500
"""Expired ids in one write."""

WAITING_MAX = 100
"""Requests that wait for one busy id: its producer sends one at a time."""

RECORD_BYTES_MAX = 900_000
"""A transaction with more partitions than fit is refused: its later records must fit as well."""


class TransactionShard:
    """All transactional ids of one partition. No clock, no socket, no task."""

    def __init__(self, config: TransactionConfig, new_producer_id: NewProducerId) -> None:
        self.transactions: dict[str, Transaction] = {}
        self._config = config
        self._new_producer_id = new_producer_id

    # Requests

    def init_producer_id(
        self,
        transactional_id: str,
        timeout_ms: int,
        expected: Producer | None,
        ticket: Ticket,
        now: Now,
    ) -> Effects:
        """Give the id to a producer. Reply: Producer, or ErrorCode."""
        transaction = self.transactions.get(transactional_id)
        if transaction is None:
            fresh = TransactionMetadata(
                transactional_id=transactional_id,
                producer_id=self._new_producer_id(),
                timeout_ms=timeout_ms,
                last_update_ms=now.wall_ms,
            )
            transaction = self.transactions[transactional_id] = Transaction(fresh)
        if transaction.is_busy:
            return _answer(ticket, ErrorCode.CONCURRENT_TRANSACTIONS)
        decision = decide_init(
            transaction.current, timeout_ms, expected, self._new_producer_id, now.wall_ms
        )
        response: Producer | ErrorCode = ErrorCode.CONCURRENT_TRANSACTIONS
        if isinstance(decision, TransactionMetadata) and decision.state is TransactionState.EMPTY:
            response = Producer(decision.producer_id, decision.producer_epoch)
        return self._follow(transaction, decision, ticket, response)

    def add(self, add: Add, now: Now) -> Effects:
        """Take partitions into a transaction. Reply: ErrorCode."""
        transaction = self.transactions.get(add.transactional_id)
        if transaction is None:
            return _answer(add.ticket, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        if transaction.is_busy:
            if add.wait_until_ms <= now.mono_ms or len(transaction.waiting) >= WAITING_MAX:
                return _answer(add.ticket, ErrorCode.CONCURRENT_TRANSACTIONS)
            transaction.waiting.append(add)
            return Effects(key=add.transactional_id, wake_at_ms=add.wait_until_ms)
        decision = decide_add(
            transaction.current, add.producer, add.partitions, add.client_version, now.wall_ms
        )
        return self._follow(transaction, decision, add.ticket, ErrorCode.NONE)

    def verify(
        self,
        transactional_id: str,
        producer: Producer,
        partitions: frozenset[TopicPartition],
        ticket: Ticket,
    ) -> Effects:
        """Say which partitions are in the transaction. Reply: ErrorCode of each partition."""
        transaction = self.transactions.get(transactional_id)
        if transaction is None:
            code = ErrorCode.INVALID_PRODUCER_ID_MAPPING
            return _answer(ticket, dict.fromkeys(partitions, code))
        return _answer(ticket, verify(transaction.current, producer, partitions))

    def end(
        self,
        transactional_id: str,
        producer: Producer,
        client_version: int,
        ticket: Ticket,
        now: Now,
        *,
        committed: bool,
    ) -> Effects:
        """Decide a transaction. Reply: the Producer to go on as once that is stored, or ErrorCode.

        Markers follow by themselves; until they are all written, the id is busy.
        """
        transaction = self.transactions.get(transactional_id)
        if transaction is None:
            return _answer(ticket, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        decision: Decision
        if client_version >= VERSION_2:
            if transaction.is_busy:  # first of all: the producer may use an id that is to come
                return _answer(ticket, ErrorCode.CONCURRENT_TRANSACTIONS)
            decision = decide_end_version_2(
                transaction.current,
                producer,
                self._new_producer_id,
                committed=committed,
                now_ms=now.wall_ms,
            )
        else:
            decision = decide_end(
                transaction.current, producer, committed=committed, now_ms=now.wall_ms
            )
            is_refused = isinstance(decision, ErrorCode) and decision in _WRONG_PRODUCER
            if transaction.is_busy and not is_refused:
                decision = ErrorCode.CONCURRENT_TRANSACTIONS
        after = transaction.current
        if isinstance(decision, TransactionMetadata):
            after = decision.complete(now.wall_ms)
        response = Producer(after.producer_id, after.producer_epoch)
        if decision is ErrorCode.NONE:
            return _answer(ticket, response)
        return self._follow(transaction, decision, ticket, response)

    def abort(self, transactional_id: str, ticket: Ticket, now: Now) -> Effects:
        """Abort an open transaction as its timeout would. Reply: ErrorCode, once that is stored."""
        transaction = self.transactions.get(transactional_id)
        if transaction is None:
            return _answer(ticket, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
        if transaction.is_busy:
            return _answer(ticket, ErrorCode.CONCURRENT_TRANSACTIONS)
        if transaction.current.state is not TransactionState.ONGOING:
            return _answer(ticket, ErrorCode.INVALID_TXN_STATE)
        after = transaction.current.fence(now.wall_ms)
        return self._follow(transaction, after, ticket, ErrorCode.NONE)

    # What the runtime reports

    def on_written(self, write: Write, now: Now) -> Effects:
        """Let a confirmed change hold, and whoever waited for it go on."""
        then: Then | None = write.then
        if then is None:
            return Effects()
        if isinstance(then, Expired):
            return self._forget(then.transactional_ids, now)
        effects = Effects(replies=list(write.replies))
        transaction = self.transactions[then.metadata.transactional_id]
        transaction.current, transaction.pending = then.metadata, None
        if transaction.current.state in PREPARED:
            effects.commands.append(_markers(transaction.current))
        else:
            self._let_in(transaction, now, effects)
        return effects

    def on_refused(self, write: Write, now: Now) -> Effects:
        """Never happens: `_write` refuses what is too large. Errors: AssertionError."""
        raise AssertionError(f"a record of {write.then!r} at {now} is too large")

    def on_markers_written(self, markers: Markers, now: Now) -> Effects:
        """Complete a transaction; does nothing if that is on its way, or was done long ago."""
        transaction = self._being_ended(markers)
        if transaction is None:
            return Effects()
        return self._write(transaction, transaction.current.complete(now.wall_ms), ())

    def write_again(self, markers: Markers) -> Effects:
        """Write a decision again, which changes nothing: only an owner of the stream can."""
        transaction = self._being_ended(markers)
        if transaction is None:
            return Effects()
        return Effects(writes=[Write((transaction_record(transaction.current),))])

    def _being_ended(self, markers: Markers) -> Transaction | None:
        """Return the id whose outcome the markers are, unless they have been written."""
        transaction = self.transactions.get(markers.transactional_id)
        if transaction is None or transaction.pending is not None:
            return None
        current = transaction.current
        is_its = markers.producer == Producer(current.producer_id, current.producer_epoch)
        return transaction if current.state in PREPARED and is_its else None

    def expire(self, transactional_id: str, now: Now) -> Effects:
        """Refuse those who have waited long enough for a busy id."""
        transaction = self.transactions.get(transactional_id)
        if transaction is None:
            return Effects()
        waiting = transaction.waiting
        late = [add for add in waiting if add.wait_until_ms <= now.mono_ms]
        transaction.waiting = [add for add in waiting if add.wait_until_ms > now.mono_ms]
        return Effects(
            replies=[Reply(add.ticket, ErrorCode.CONCURRENT_TRANSACTIONS) for add in late],
            key=transactional_id,
            wake_at_ms=min((add.wait_until_ms for add in transaction.waiting), default=NEVER),
        )

    # Loading

    def replay(self, update: TransactionUpdate) -> None:
        """Take over what one record of the stream says."""
        if update.metadata is None:
            self.transactions.pop(update.transactional_id, None)
        else:
            self.transactions[update.transactional_id] = Transaction(update.metadata)

    def on_loaded(self, _now: Now) -> Iterator[Effects]:
        """Finish what was decided: markers may be missing anywhere, and do no harm twice.

        The decision is written again before: only an owner of the stream can, so nobody who lost it
        sends markers of an older state.
        """
        for transaction in self.transactions.values():
            if transaction.current.state in PREPARED:
                yield self._write(transaction, transaction.current, ())

    # Upkeep

    def abort_timed_out(self, now: Now) -> Iterator[Effects]:
        """Abort what is open for too long, and shut its producer out by the next epoch."""
        for transaction in self.transactions.values():
            current = transaction.current
            is_late = current.start_ms + current.timeout_ms < now.wall_ms
            if current.state is TransactionState.ONGOING and not transaction.is_busy and is_late:
                yield self._write(transaction, current.fence(now.wall_ms), ())

    def remove_expired(self, now: Now) -> Iterator[Effects]:
        """Forget ids that have not been used for long."""
        before_ms = now.wall_ms - self._config.id_expiration_ms
        expired = [
            transaction
            for transaction in self.transactions.values()
            if not transaction.is_busy
            and transaction.current.state in AT_REST
            and transaction.current.last_update_ms <= before_ms
        ]
        for start in range(0, len(expired), TOMBSTONES_AT_ONCE):
            chunk = expired[start : start + TOMBSTONES_AT_ONCE]
            for transaction in chunk:
                transaction.pending = transaction.current.die()
            names = tuple(transaction.current.transactional_id for transaction in chunk)
            yield Effects(writes=[Write(tuple(map(tombstone, names)), Expired(names))])

    # Changes

    def _follow(
        self, transaction: Transaction, decision: Decision, ticket: Ticket, response: object
    ) -> Effects:
        """Answer a refusal, or write a change and answer when it is confirmed."""
        if isinstance(decision, ErrorCode):
            return _answer(ticket, decision)
        return self._write(transaction, decision, (Reply(ticket, response),))

    def _write(
        self, transaction: Transaction, after: TransactionMetadata, replies: tuple[Reply, ...]
    ) -> Effects:
        record = transaction_record(after)
        is_too_large = len(record.value or b"") > RECORD_BYTES_MAX
        if is_too_large and after.state is TransactionState.ONGOING:
            code = ErrorCode.UNKNOWN_SERVER_ERROR
            return Effects([Reply(reply.ticket, code) for reply in replies])
        transaction.pending = after
        return Effects(writes=[Write((record,), Stored(after), replies)])

    def _forget(self, transactional_ids: tuple[str, ...], now: Now) -> Effects:
        """Drop expired ids; whoever waited for one meanwhile hears that there is none."""
        effects = Effects()
        for transactional_id in transactional_ids:
            self._let_in(self.transactions.pop(transactional_id), now, effects)
        return effects

    def _let_in(self, transaction: Transaction, now: Now, effects: Effects) -> None:
        """Let those go on who waited for the id; who must wait again keeps its deadline."""
        waiting, transaction.waiting = transaction.waiting, []
        for add in waiting:
            more = self.add(add, now)
            effects.replies += more.replies
            effects.writes += more.writes
            if more.wake_at_ms < effects.wake_at_ms:
                effects.key, effects.wake_at_ms = more.key, more.wake_at_ms


_WRONG_PRODUCER = (ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.PRODUCER_FENCED)


def _markers(prepared: TransactionMetadata) -> Markers:
    return Markers(
        prepared.transactional_id,
        Producer(prepared.producer_id, prepared.producer_epoch),
        prepared.state is TransactionState.PREPARE_COMMIT,
        prepared.partitions,
        prepared.client_version,
    )


def _answer(ticket: Ticket, response: object) -> Effects:
    return Effects([Reply(ticket, response)])
