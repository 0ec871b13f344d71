"""A request in two parts is the request again; both parts keep all that is not of topics."""

import dataclasses
from random import Random
from typing import Any

import pytest

import tailrace.broker.handlers.registry  # noqa: F401 - fills the table of handlers
from tailrace.broker.handlers import HANDLERS
from tailrace.faults.failures import failed, joined
from tailrace.faults.requests import narrowed
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.api import Api
from tailrace.protocol.kafka.messages.fetch import FetchRequest
from tests.unit.protocol.kafka.samples import sample

WITH_PARTITIONS = {
    "Produce", "Fetch", "ListOffsets", "OffsetCommit", "OffsetFetch", "DeleteRecords",
    "OffsetForLeaderEpoch", "AddPartitionsToTxn", "WriteTxnMarkers", "TxnOffsetCommit",
    "ElectLeaders", "AlterPartitionReassignments", "OffsetDelete", "DescribeProducers",
}  # fmt: skip
APIS = [handler.api for handler in HANDLERS.values()]
TOPIC = ("name", "topic", "topic_id")
LISTS = ("partition_data", "partitions", "partition_indexes", "partition_responses",
         "results_by_partition", "partition_result")  # fmt: skip
INDEX = ("index", "partition_index", "partition", "partition_id")


def places(message: Any) -> list[tuple[object, object]]:
    """Return what a request or response names: pairs of topic and partition, with repeats."""
    named: list[tuple[object, object]] = []
    for field in dataclasses.fields(message):
        listed = getattr(message, field.name)
        for each in listed if isinstance(listed, list | tuple) else ():
            topic = next((getattr(each, n) for n in TOPIC if getattr(each, n, None)), None)
            partitions = next((getattr(each, n) for n in LISTS if hasattr(each, n)), None)
            if partitions is not None:
                named += [(topic, index(partition)) for partition in partitions]
            elif dataclasses.is_dataclass(each):
                named += places(each)
    return named


def index(partition: Any) -> object:
    names = (n for n in INDEX if hasattr(partition, n))
    return getattr(partition, next(names)) if dataclasses.is_dataclass(partition) else partition


@pytest.mark.parametrize(
    "api", [api for api in APIS if api.name in WITH_PARTITIONS], ids=lambda api: api.name
)
def test_two_parts_make_the_whole(api: Api[Any, Any]) -> None:
    for version in api.versions:
        for seed in range(20):
            request = sample(api.request, version, Random(seed), plain=True)
            if isinstance(request, FetchRequest):
                request.forgotten_topics_data = ()  # of those nothing is asked
            all_places = places(request)
            wanted = Random(seed).choice([None, *{index for _, index in all_places}])

            def is_meant(_topic: object, index: object, wanted: object = wanted) -> bool:
                return index == wanted

            part = narrowed(request, is_meant, lambda _: None)
            rest = narrowed(request, lambda *each: not is_meant(*each), lambda _: None)
            mine = [] if part is None else places(part)
            others = [] if rest is None else places(rest)
            assert mine == [each for each in all_places if each[1] == wanted]
            assert others == [each for each in all_places if each[1] != wanted]
            assert (part is None, rest is None) == (not mine, not others)
            if part is not None and rest is not None:
                answered = joined(
                    failed(api, rest, ErrorCode.NONE, whole=False),
                    failed(api, part, ErrorCode.INVALID_REQUEST, whole=False),
                )
                assert set(places(answered)) == set(all_places)
