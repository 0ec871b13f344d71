"""What brokers ask each other about transactions, and what the answers mean. Pure.

Answers are matched by place: brokers answer in the order of the request. What an answer leaves
out, or says about something else, counts as UNKNOWN_SERVER_ERROR.
Source: WriteTxnMarkersRequest, TransactionMarkerRequestCompletionHandler,
AddPartitionsToTxnManager.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import NamedTuple

from tailrace.broker.transactions.values import Marker
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.ids import TopicPartition
from tailrace.protocol.kafka.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from tailrace.protocol.kafka.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

MARKERS_SINCE = 2
"""Version of WriteTxnMarkers that tells the transaction's version (KIP-1228)."""

QUESTIONS_SINCE = 4
"""Version of AddPartitionsToTxn that is for brokers (KIP-890)."""


class Question(NamedTuple):
    """Asks a transaction's coordinator about partitions that a producer writes to."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: tuple[TopicPartition, ...]
    adds: bool
    """Whether to take them in; else whether they are in."""


class MarkerAt(NamedTuple):
    """A marker, and one partition that needs it."""

    marker: Marker
    partition: TopicPartition


def markers_request(wanted: Sequence[MarkerAt]) -> WriteTxnMarkersRequest:
    """Return one request for all: each marker once, with its partitions by topic."""
    return WriteTxnMarkersRequest(
        markers=[
            WritableTxnMarker(
                producer_id=marker.producer_id,
                producer_epoch=marker.producer_epoch,
                transaction_result=marker.committed,
                coordinator_epoch=marker.coordinator_epoch,
                transaction_version=marker.transaction_version,
                topics=[
                    WritableTxnMarkerTopic(name=topic, partition_indexes=partitions)
                    for topic, partitions in _by_topic(partitions).items()
                ],
            )
            for marker, partitions in _by_marker(wanted).items()
        ]
    )


def marker_codes(response: WriteTxnMarkersResponse, wanted: Sequence[MarkerAt]) -> list[ErrorCode]:
    """Return what became of each marker, in the order that `markers_request` was given them.

    UNKNOWN_TOPIC_OR_PARTITION is NOT_LEADER_OR_FOLLOWER here: a broker may hear late of a topic,
    and only its own coordinator may take a partition for gone.
    """
    found: dict[MarkerAt, ErrorCode] = {}
    for marker, result in zip_longest(_by_marker(wanted), response.markers):
        if marker is None or result is None or result.producer_id != marker.producer_id:
            continue
        for topic in result.topics:
            for each in topic.partitions:
                at = MarkerAt(marker, TopicPartition(topic.name, each.partition_index))
                found[at] = _code(each.error_code)
    return [_of_other(found.get(each, ErrorCode.UNKNOWN_SERVER_ERROR)) for each in wanted]


def questions_request(questions: Iterable[Question]) -> AddPartitionsToTxnRequest:
    """Return one request with all questions."""
    return AddPartitionsToTxnRequest(
        transactions=[
            AddPartitionsToTxnTransaction(
                transactional_id=question.transactional_id,
                producer_id=question.producer_id,
                producer_epoch=question.producer_epoch,
                verify_only=not question.adds,
                topics=[
                    AddPartitionsToTxnTopic(name=topic, partitions=partitions)
                    for topic, partitions in _by_topic(question.partitions).items()
                ],
            )
            for question in questions
        ]
    )


def question_codes(
    response: AddPartitionsToTxnResponse, questions: Sequence[Question]
) -> list[Mapping[TopicPartition, ErrorCode]]:
    """Return the answer to each question: a code per partition, in the questions' order.

    INVALID_TXN_STATE where this broker may not ask: a producer can do nothing about that, as in
    Kafka.
    """
    if response.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        return [dict.fromkeys(each.partitions, ErrorCode.INVALID_TXN_STATE) for each in questions]
    otherwise = _code(response.error_code) or ErrorCode.UNKNOWN_SERVER_ERROR
    answers: list[Mapping[TopicPartition, ErrorCode]] = []
    for question, result in zip_longest(questions, response.results_by_transaction):
        if question is None:
            break
        found = {}
        if result is not None and result.transactional_id == question.transactional_id:
            found = {
                TopicPartition(topic.name, each.partition_index): _code(each.partition_error_code)
                for topic in result.topic_results
                for each in topic.results_by_partition
            }
        answers.append({each: found.get(each, otherwise) for each in question.partitions})
    return answers


def _by_marker(wanted: Sequence[MarkerAt]) -> dict[Marker, list[TopicPartition]]:
    found: dict[Marker, list[TopicPartition]] = {}
    for marker, partition in wanted:
        found.setdefault(marker, []).append(partition)
    return found


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for topic, partition in partitions:
        found.setdefault(topic, []).append(partition)
    return found


def _code(number: int) -> ErrorCode:
    try:
        return ErrorCode(number)
    except ValueError:  # of a later release
        return ErrorCode.UNKNOWN_SERVER_ERROR


def _of_other(code: ErrorCode) -> ErrorCode:
    if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    return code
