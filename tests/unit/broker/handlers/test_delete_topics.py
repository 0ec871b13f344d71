from pathlib import Path

import pytest

from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.apis import DELETE_TOPICS
from tailrace.protocol.kafka.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.unit.broker.handlers.admin_support import admin, run


@pytest.mark.parametrize("version", list(DELETE_TOPICS.versions))
def test_by_name_in_every_version(tmp_path: Path, version: int) -> None:
    async def story() -> None:
        async with admin(tmp_path) as to:
            made = await to.topics.create("orders", 2)
            names = ("orders", "nobody", "a/b")
            request = (
                DeleteTopicsRequest(topics=[DeleteTopicState(name=n) for n in names])
                if version >= 6
                else DeleteTopicsRequest(topic_names=names)
            )
            answer = await to.ask(DELETE_TOPICS, version, request)
            assert {r.name: r.error_code for r in answer.responses} == {
                "orders": ErrorCode.NONE,
                "nobody": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                "a/b": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            }
            if version >= 6:
                assert answer.responses[0].topic_id == made.topic_id
                assert answer.responses[0].error_message is None
            assert to.streams.names == set()

    run(story)


def test_by_id_both_and_neither(tmp_path: Path) -> None:
    async def story() -> None:
        async with admin(tmp_path) as to:
            one = await to.topics.create("one", 1)
            await to.topics.create("two", 1)
            states = [
                DeleteTopicState(topic_id=one.topic_id),
                DeleteTopicState(topic_id=b"x" * 16),
                DeleteTopicState(name="two", topic_id=one.topic_id),
                DeleteTopicState(),
            ]
            answer = await to.ask(DELETE_TOPICS, 6, DeleteTopicsRequest(topics=states))
            assert [(r.name, r.error_code) for r in answer.responses] == [
                ("one", ErrorCode.NONE),
                (None, ErrorCode.UNKNOWN_TOPIC_ID),
                ("two", ErrorCode.INVALID_REQUEST),
                (None, ErrorCode.INVALID_REQUEST),
            ]
            assert [topic.name for topic in to.topics.all()] == ["two"]

    run(story)


def test_a_topic_named_twice_stays(tmp_path: Path) -> None:
    async def story() -> None:
        async with admin(tmp_path) as to:
            one = await to.topics.create("one", 1)
            states = [DeleteTopicState(name="one"), DeleteTopicState(topic_id=one.topic_id)]
            answer = await to.ask(DELETE_TOPICS, 6, DeleteTopicsRequest(topics=states))
            assert [r.error_code for r in answer.responses] == [ErrorCode.INVALID_REQUEST]
            assert to.topics.get("one") is one

    run(story)


def test_deletion_can_be_switched_off(tmp_path: Path) -> None:
    async def story() -> None:
        async with admin(tmp_path, delete_enabled=False) as to:
            one = await to.topics.create("one", 1)
            answer = await to.ask(DELETE_TOPICS, 5, DeleteTopicsRequest(topic_names=["one"]))
            assert answer.responses[0].error_code == ErrorCode.TOPIC_DELETION_DISABLED
            assert to.topics.get("one") is one

    run(story)


def test_an_id_named_twice_is_one_refusal(tmp_path: Path) -> None:
    async def story() -> None:
        async with admin(tmp_path) as to:
            one = await to.topics.create("one", 1)
            states = [DeleteTopicState(topic_id=one.topic_id)] * 2
            answer = await to.ask(DELETE_TOPICS, 6, DeleteTopicsRequest(topics=states))
            assert [(r.name, r.topic_id, r.error_code) for r in answer.responses] == [
                (None, one.topic_id, ErrorCode.INVALID_REQUEST)
            ]
            assert to.topics.get("one") is one

    run(story)
