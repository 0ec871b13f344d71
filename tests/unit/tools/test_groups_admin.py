"""What the `group` commands make of answers that our own broker does not give."""

from typing import Any, Self

import pytest
from typer.testing import CliRunner

from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.ids import TopicPartition
from tailrace.protocol.kafka.apis import (
    CONSUMER_GROUP_DESCRIBE,
    DESCRIBE_GROUPS,
    OFFSET_COMMIT,
    OFFSET_FETCH,
)
from tailrace.protocol.kafka.messages.consumer_group_describe import ConsumerGroupDescribeResponse
from tailrace.protocol.kafka.messages.consumer_group_describe import (
    DescribedGroup as NewDescribedGroup,
)
from tailrace.protocol.kafka.messages.describe_groups import DescribedGroup, DescribeGroupsResponse
from tailrace.protocol.kafka.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from tailrace.protocol.kafka.messages.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)
from tailrace.tools.errors import CliError
from tailrace.tools.groups import groups_admin
from tailrace.tools.groups.group import app

T0, T1, T2 = (TopicPartition("t", partition) for partition in range(3))


class OtherBroker:
    """A broker that gives these answers; it is the whole cluster."""

    def __init__(self, answers: dict[Any, Any]) -> None:
        self.answers = answers

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def coordinator(self, *_: object) -> int:
        return 1

    def to(self, _: int) -> Self:
        return self

    def serves(self, api: Any) -> bool:
        return api.key in self.answers

    def ask(self, api: Any, _request: Any, _version_max: int | None = None) -> Any:
        return self.answers[api.key]


def consumer_group(code: ErrorCode) -> ConsumerGroupDescribeResponse:
    group = NewDescribedGroup(error_code=code, group_id="g")
    return ConsumerGroupDescribeResponse(groups=[group])


CLASSIC = {
    DESCRIBE_GROUPS.key: DescribeGroupsResponse(
        groups=[DescribedGroup(group_id="g", group_state="Empty")]
    ),
    OFFSET_FETCH.key: OffsetFetchResponse(groups=[OffsetFetchResponseGroup(group_id="g")]),
}


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> dict[Any, Any]:
    """What the broker answers, by API: as one that knows classic groups only."""
    given = dict(CLASSIC)
    monkeypatch.setattr(groups_admin, "Brokers", lambda _: OtherBroker(given))

    def positions(_: object, chosen: Any, __: object) -> dict[TopicPartition, int]:
        return dict.fromkeys(chosen, 5)

    monkeypatch.setattr(groups_admin.PartitionOffsets, "positions", positions)
    monkeypatch.setattr(groups_admin.PartitionOffsets, "named", lambda *_: [T0, T1, T2])
    monkeypatch.setattr(groups_admin.PartitionOffsets, "known_ranges", lambda *_: {})
    return given


@pytest.mark.parametrize(
    "code", [None, ErrorCode.UNSUPPORTED_VERSION, ErrorCode.GROUP_ID_NOT_FOUND]
)
def test_a_broker_without_the_new_groups_describes_the_classic_ones(
    answers: dict[Any, Any], code: ErrorCode | None
) -> None:
    if code is not None:
        answers[CONSUMER_GROUP_DESCRIBE.key] = consumer_group(code)
    done = CliRunner().invoke(app, ["describe", "g"])
    assert done.exception is None
    assert "type         classic" in done.output


@pytest.mark.parametrize("refused", [{T1: 25, T2: 25}, {T0: 25, T1: 3, T2: 25}])
def test_what_moved_is_shown_though_the_rest_was_refused(
    answers: dict[Any, Any], refused: dict[TopicPartition, int]
) -> None:
    partitions = [
        OffsetCommitResponsePartition(partition_index=at.partition, error_code=refused.get(at, 0))
        for at in (T0, T1, T2)
    ]
    topic = OffsetCommitResponseTopic(name="t", partitions=partitions)
    answers[OFFSET_COMMIT.key] = OffsetCommitResponse(topics=[topic])
    done = CliRunner().invoke(app, ["reset", "g", "t", "--to", "5", "--execute"])
    assert isinstance(done.exception, CliError)
    told = {2: "t-1, t-2: UNKNOWN_MEMBER_ID (25)", 3: "t-0, t-2: UNKNOWN_MEMBER_ID (25); t-1: "}
    assert f"{len(refused)} of 3 partitions of group g were not moved: " in done.exception.cause
    assert told[len(refused)] in done.exception.cause
    rows = [line.split() for line in done.output.splitlines()[1:]]
    assert rows == ([["t", "0", "-", "5"]] if T0 not in refused else [])
