"""Raw requests to whichever of several brokers they belong to, as clients find them."""

import time
from collections.abc import Sequence
from typing import Any, Final

from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.api import Api
from tailrace.protocol.kafka.apis import (
    ADD_PARTITIONS_TO_TXN,
    END_TXN,
    FETCH,
    FIND_COORDINATOR,
    INIT_PRODUCER_ID,
    METADATA,
    PRODUCE,
)
from tailrace.protocol.kafka.messages.find_coordinator import FindCoordinatorRequest
from tailrace.protocol.kafka.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.cluster.raw import ANSWER_S, Closed, RawClient
from tests.process import TailraceProcess

TRY_AGAIN: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.NOT_ENOUGH_REPLICAS,
}
_PAUSE_S: Final = 0.05


class RawCluster:
    """Asks like a `RawClient`; looks for who answers, and again when that has moved or died."""

    def __init__(self, brokers: Sequence[TailraceProcess]) -> None:
        """`brokers`: those that are asked; what others own waits until it is theirs."""
        self._brokers = brokers

    def ask(self, api: Api[Any, Any], version: int, message: Any) -> Any:
        """Return the first answer that is final."""
        deadline = time.monotonic() + ANSWER_S
        while True:
            port = self._port_for(api, version, message)
            answer = None if port is None else self._try(port, api, version, message)
            if answer is not None and not _codes(api, version, answer) & TRY_AGAIN:
                return answer
            assert time.monotonic() < deadline, answer
            time.sleep(_PAUSE_S)

    def leader(self, topic: str) -> int | None:
        """Return the port of partition 0's leader."""
        request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
        found = self._any(METADATA, 8, request)
        if found is None or found.topics[0].error_code or not found.topics[0].partitions:
            return None
        ports = {each.node_id: each.port for each in found.brokers}
        return ports.get(found.topics[0].partitions[0].leader_id)

    def coordinator(self, transactional_id: str) -> int | None:
        """Return the port of the coordinator."""
        request = FindCoordinatorRequest(key=transactional_id, key_type=1)
        found = self._any(FIND_COORDINATOR, 2, request)
        return None if found is None or found.error_code else int(found.port)

    def broker_at(self, port: int | None) -> TailraceProcess:
        """Return a broker by its port."""
        return next(each for each in self._brokers if each.port == port)

    def _port_for(self, api: Api[Any, Any], version: int, message: Any) -> int | None:
        if api is PRODUCE:
            return self.leader(message.topic_data[0].name)
        if api is FETCH:
            return self.leader(message.topics[0].topic)
        if api is ADD_PARTITIONS_TO_TXN:
            return self.coordinator(message.v3_and_below_transactional_id)
        if api in (INIT_PRODUCER_ID, END_TXN):
            return self.coordinator(message.transactional_id)
        assert api is FIND_COORDINATOR, f"{api.name} v{version}"
        return next(each.port for each in self._brokers if each.is_running)

    def _any(self, api: Api[Any, Any], version: int, message: Any) -> Any:
        for broker in self._brokers:
            if broker.is_running:
                answer = self._try(broker.port, api, version, message)
                if answer is not None:
                    return answer
        return None

    def _try(self, port: int, api: Api[Any, Any], version: int, message: Any) -> Any:
        """Ask one broker; None if it is not there (any more), or is none of ours."""
        if port not in [each.port for each in self._brokers]:
            return None
        try:
            with RawClient(self.broker_at(port)) as client:
                return client.ask(api, version, message)
        except (OSError, Closed):
            return None


def _codes(api: Api[Any, Any], version: int, answer: Any) -> set[int]:
    if api is PRODUCE:
        return {p.error_code for topic in answer.responses for p in topic.partition_responses}
    if api is FETCH:
        return {p.error_code for topic in answer.responses for p in topic.partitions}
    if api is ADD_PARTITIONS_TO_TXN:
        results = answer.results_by_topic_v3_and_below
        return {p.partition_error_code for topic in results for p in topic.results_by_partition}
    return {answer.error_code}
