"""What brokers ask each other, through the wire's own codec: against what was asked for."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.broker.transactions.peer_requests import (
    MARKERS_SINCE,
    QUESTIONS_SINCE,
    MarkerAt,
    Question,
    marker_codes,
    markers_request,
    question_codes,
    questions_request,
)
from tailrace.broker.transactions.values import Marker
from tailrace.protocol.errors import ErrorCode as E
from tailrace.protocol.ids import TopicPartition
from tailrace.protocol.kafka.apis import ADD_PARTITIONS_TO_TXN, WRITE_TXN_MARKERS
from tailrace.protocol.kafka.codec import (
    decode_request,
    decode_response,
    encode_request,
    encode_response,
)
from tailrace.protocol.kafka.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from tailrace.protocol.kafka.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

partitions = st.builds(TopicPartition, st.sampled_from("ab"), st.integers(0, 3))
markers = st.builds(
    Marker, st.integers(0, 2), st.integers(0, 1), st.just(3), st.booleans(), st.just(2)
)
wanted_markers = st.lists(st.builds(MarkerAt, markers, partitions), max_size=12, unique=True)
codes = st.sampled_from([E.NONE, E.NOT_LEADER_OR_FOLLOWER, E.TRANSACTION_COORDINATOR_FENCED])
questions = st.lists(
    st.builds(
        Question,
        st.sampled_from("xy"),
        st.integers(0, 2),
        st.just(1),
        st.lists(partitions, min_size=1, max_size=4, unique=True).map(tuple),
        st.booleans(),
    ),
    max_size=6,
)


def over_the_wire(api: Any, version: int, message: Any, *, is_request: bool) -> Any:
    if is_request:
        return decode_request(api, version, memoryview(encode_request(api, version, message)))
    return decode_response(api, version, b"".join(encode_response(api, version, message)))


def write(request: WriteTxnMarkersRequest, found: dict[MarkerAt, E]) -> WriteTxnMarkersResponse:
    """Answer as a broker does: each marker in its order, each partition with its code."""
    results = []
    for each in request.markers:
        marker = Marker(
            each.producer_id,
            each.producer_epoch,
            each.coordinator_epoch,
            each.transaction_result,
            each.transaction_version,
        )
        topics = [
            WritableTxnMarkerTopicResult(
                name=topic.name,
                partitions=[
                    WritableTxnMarkerPartitionResult(
                        partition_index=index,
                        error_code=found.pop(MarkerAt(marker, TopicPartition(topic.name, index))),
                    )
                    for index in topic.partition_indexes
                ],
            )
            for topic in each.topics
        ]
        results.append(WritableTxnMarkerResult(producer_id=each.producer_id, topics=topics))
    assert not found, "never asked"
    return WriteTxnMarkersResponse(markers=results)


@given(st.data(), wanted_markers)
def test_each_marker_is_asked_for_once_and_hears_its_own_code(
    data: st.DataObject, wanted: list[MarkerAt]
) -> None:
    found = {each: data.draw(codes) for each in wanted}
    request = over_the_wire(
        WRITE_TXN_MARKERS, MARKERS_SINCE, markers_request(wanted), is_request=True
    )
    answer = over_the_wire(
        WRITE_TXN_MARKERS, MARKERS_SINCE, write(request, dict(found)), is_request=False
    )
    assert marker_codes(answer, wanted) == [found[each] for each in wanted]


@given(st.data(), wanted_markers.filter(bool))
def test_what_an_answer_leaves_out_is_not_taken_for_written(
    data: st.DataObject, wanted: list[MarkerAt]
) -> None:
    answer = write(markers_request(wanted), dict.fromkeys(wanted, E.NONE))
    kept = answer.markers[: data.draw(st.integers(0, len(answer.markers) - 1))]
    told = marker_codes(WriteTxnMarkersResponse(markers=kept), wanted)
    assert E.UNKNOWN_SERVER_ERROR in told
    assert set(told) <= {E.NONE, E.UNKNOWN_SERVER_ERROR}
    other = [WritableTxnMarkerResult(producer_id=77, topics=each.topics) for each in answer.markers]
    told = marker_codes(WriteTxnMarkersResponse(markers=other), wanted)
    assert set(told) == {E.UNKNOWN_SERVER_ERROR}


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        (E.UNKNOWN_TOPIC_OR_PARTITION, E.NOT_LEADER_OR_FOLLOWER),
        (E.INVALID_PRODUCER_EPOCH, E.INVALID_PRODUCER_EPOCH),
        (12345, E.UNKNOWN_SERVER_ERROR),
    ],
)
def test_a_broker_that_does_not_know_a_topic_has_not_written(said: int, meant: E) -> None:
    at = MarkerAt(Marker(1, 2, 3, True, 2), TopicPartition("t", 0))
    assert marker_codes(write(markers_request([at]), {at: said}), [at]) == [meant]  # type: ignore[dict-item]


def answer_questions(
    request: AddPartitionsToTxnRequest, codes: list[dict[TopicPartition, E]]
) -> AddPartitionsToTxnResponse:
    return AddPartitionsToTxnResponse(
        results_by_transaction=[
            AddPartitionsToTxnResult(
                transactional_id=each.transactional_id,
                topic_results=[
                    AddPartitionsToTxnTopicResult(
                        name=topic.name,
                        results_by_partition=[
                            AddPartitionsToTxnPartitionResult(
                                partition_index=index,
                                partition_error_code=found[TopicPartition(topic.name, index)],
                            )
                            for index in topic.partitions
                        ],
                    )
                    for topic in each.topics
                ],
            )
            for each, found in zip(request.transactions, codes, strict=True)
        ]
    )


@given(st.data(), questions)
def test_each_question_hears_its_own_answer(data: st.DataObject, asked: list[Question]) -> None:
    expected = [{at: data.draw(codes) for at in each.partitions} for each in asked]
    request = over_the_wire(
        ADD_PARTITIONS_TO_TXN, QUESTIONS_SINCE, questions_request(asked), is_request=True
    )
    assert [each.verify_only for each in request.transactions] == [not q.adds for q in asked]
    assert [each.producer_id for each in request.transactions] == [q.producer_id for q in asked]
    answer = over_the_wire(
        ADD_PARTITIONS_TO_TXN,
        QUESTIONS_SINCE,
        answer_questions(request, expected),
        is_request=False,
    )
    assert question_codes(answer, asked) == expected


@given(questions.filter(bool))
def test_what_is_not_answered_is_not_allowed(asked: list[Question]) -> None:
    for error, meant in (
        (E.NONE, E.UNKNOWN_SERVER_ERROR),
        (E.CLUSTER_AUTHORIZATION_FAILED, E.INVALID_TXN_STATE),
        (E.UNSUPPORTED_VERSION, E.UNSUPPORTED_VERSION),
    ):
        told = question_codes(AddPartitionsToTxnResponse(error_code=error), asked)
        assert told == [dict.fromkeys(each.partitions, meant) for each in asked]


def test_an_answer_about_another_id_is_none() -> None:
    asked = Question("x", 1, 2, (TopicPartition("t", 0),), adds=True)
    other = AddPartitionsToTxnResult(
        transactional_id="y",
        topic_results=[
            AddPartitionsToTxnTopicResult(
                name="t", results_by_partition=[AddPartitionsToTxnPartitionResult()]
            )
        ],
    )
    response = AddPartitionsToTxnResponse(results_by_transaction=[other])
    assert question_codes(response, [asked]) == [{TopicPartition("t", 0): E.UNKNOWN_SERVER_ERROR}]
