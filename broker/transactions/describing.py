"""What DescribeTransactions and ListTransactions say of a transactional id. Pure.

Source: TransactionCoordinator.handleDescribeTransactions,
TransactionStateManager.listTransactionStates.
"""

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import NamedTuple, Protocol

from tailrace.broker.transactions.metadata import TransactionMetadata, TransactionState
from tailrace.broker.transactions.records import by_topic
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.messages.describe_transactions import TopicData
from tailrace.protocol.kafka.messages.describe_transactions import TransactionState as Described
from tailrace.protocol.kafka.messages.list_transactions import ListTransactionsRequest
from tailrace.protocol.kafka.messages.list_transactions import TransactionState as Listed

_BY_TITLE = {state.title: state for state in TransactionState}


class Pattern(Protocol):
    """A compiled regular expression, in linear time: RE2's."""

    def fullmatch(self, text: str, /) -> object | None:
        """Return something if the whole of `text` matches."""


class ListFilter(NamedTuple):
    """Which transactional ids are listed; what is empty or None lets all through."""

    states: AbstractSet[TransactionState] | None
    producer_ids: AbstractSet[int]
    duration_ms: int
    """Only transactions that have been open for longer; -1 for all."""
    pattern: Pattern | None

    def lets_through(self, metadata: TransactionMetadata, now_ms: int) -> bool:
        """Say whether a transactional id is listed."""
        if self.producer_ids and metadata.producer_id not in self.producer_ids:
            return False
        if self.states is not None and metadata.state not in self.states:
            return False
        if self.duration_ms >= 0 and now_ms - metadata.start_ms <= self.duration_ms:
            return False
        return self.pattern is None or bool(self.pattern.fullmatch(metadata.transactional_id))


def list_filter(request: ListTransactionsRequest, pattern: Pattern | None) -> ListFilter:
    """Return the filter that a request asks for; unknown states let nothing through."""
    names = request.state_filters
    states = {_BY_TITLE[name] for name in names if name in _BY_TITLE} if names else None
    return ListFilter(states, set(request.producer_id_filters), request.duration_filter, pattern)


def unknown_states(names: Iterable[str]) -> list[str]:
    """Return the names that are no state's."""
    return [name for name in names if name not in _BY_TITLE]


def listed(metadata: TransactionMetadata) -> Listed:
    """Return one transactional id for ListTransactions."""
    return Listed(
        transactional_id=metadata.transactional_id,
        producer_id=metadata.producer_id,
        transaction_state=metadata.state.title,
    )


def described(metadata: TransactionMetadata) -> Described:
    """Return one transactional id for DescribeTransactions."""
    return Described(
        transactional_id=metadata.transactional_id,
        transaction_state=metadata.state.title,
        transaction_timeout_ms=metadata.timeout_ms,
        transaction_start_time_ms=metadata.start_ms,
        producer_id=metadata.producer_id,
        producer_epoch=metadata.producer_epoch,
        topics=[
            TopicData(topic=topic, partitions=partitions)
            for topic, partitions in by_topic(metadata.partitions).items()
        ],
    )


def not_described(transactional_id: str, code: ErrorCode) -> Described:
    """Return why there is nothing to say of a transactional id."""
    return Described(transactional_id=transactional_id, error_code=code)
