"""Administration with and without what it needs; topics and ids that may not be known."""

from pathlib import Path

import pytest

from tailrace.core.access.acls.model import Operation as Op
from tailrace.core.access.acls.model import ResourceType as Of
from tailrace.protocol.errors import ErrorCode as E
from tailrace.protocol.kafka.apis import CREATE_TOPICS, DELETE_TOPICS
from tailrace.protocol.kafka.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
)
from tailrace.protocol.kafka.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.unit.broker.authorization.admin_cases import ADMIN_CASES, SEES, created
from tests.unit.broker.authorization.cases import T29, Case
from tests.unit.broker.authorization.support import DENIALS, SetAuthorizer, codes
from tests.unit.broker.handlers.admin_support import Admin, admin, run

NO_ID = bytes(16)


def guarded(to: Admin) -> SetAuthorizer:
    authorizer = to.broker.authorizer = SetAuthorizer()
    return authorizer


@pytest.mark.parametrize("case", ADMIN_CASES, ids=lambda case: f"{case.api.name}-{case.version}")
def test_a_request_needs_each_of_its_permissions(tmp_path: Path, case: Case) -> None:
    async def story() -> None:
        async with admin(tmp_path) as to:
            await to.topics.create("t", 3)
            authorizer = guarded(to)
            for need, code in case.needs.items():
                authorizer.change(*(case.needs.keys() - {need}))
                answer = await to.ask(case.api, case.version, case.request())
                assert code in codes(answer), (need, answer)
            *others, last = case.needs
            for enough in (last, *case.instead):
                authorizer.change(*others, enough)
                answer = await to.ask(case.api, case.version, case.request())
                assert not codes(answer) & DENIALS, (enough, answer)

    run(story)


def test_a_topic_is_deleted_by_who_may_and_nothing_else_is_told(tmp_path: Path) -> None:
    async def story() -> None:
        async with admin(tmp_path) as to:
            topic = await to.topics.create("t", 3)
            authorizer = guarded(to)

            async def delete(*states: DeleteTopicState) -> list[tuple[str | None, bytes, E]]:
                answer = await to.ask(DELETE_TOPICS, 6, DeleteTopicsRequest(topics=states))
                return [(r.name, r.topic_id, E(r.error_code)) for r in answer.responses]

            named = (DeleteTopicState(name="t"), DeleteTopicState(name="gone"))
            by_id = DeleteTopicState(name=None, topic_id=topic.topic_id)
            assert await delete(*named) == [("t", NO_ID, T29), ("gone", NO_ID, T29)]
            assert await delete(by_id) == [(None, topic.topic_id, T29)]
            assert await delete(named[0], by_id) == [  # that both are one is not told
                ("t", NO_ID, T29),
                (None, topic.topic_id, T29),
            ]
            authorizer.change(SEES, (Op.DESCRIBE, Of.TOPIC, "gone"))
            assert await delete(*named) == [
                ("t", NO_ID, T29),
                ("gone", NO_ID, E.UNKNOWN_TOPIC_OR_PARTITION),
            ]
            assert await delete(by_id) == [("t", topic.topic_id, T29)]
            authorizer.change(SEES, (Op.DELETE, Of.TOPIC, "t"))
            assert await delete(by_id) == [("t", topic.topic_id, E.NONE)]

    run(story)


def test_one_topic_of_two_may_be_made(tmp_path: Path) -> None:
    async def story() -> None:
        async with admin(tmp_path) as to:
            guarded(to).change((Op.CREATE, Of.TOPIC, "mine"))
            topics = [
                CreatableTopic(name=name, num_partitions=2, replication_factor=1)
                for name in ("mine", "other")
            ]
            answer = await to.ask(CREATE_TOPICS, 7, CreateTopicsRequest(topics=topics))
            mine, other = answer.topics
            assert (mine.error_code, mine.topic_config_error_code) == (E.NONE, T29)
            assert (mine.num_partitions, mine.replication_factor, mine.configs) == (-1, -1, ())
            assert (other.error_code, other.error_message) == (T29, "Authorization failed.")
            assert to.topics.get("mine") is not None
            assert to.topics.get("other") is None

    run(story)


def test_a_topic_that_is_there_is_not_told_from_one_that_is_not(tmp_path: Path) -> None:
    async def story() -> None:
        async with admin(tmp_path) as to:
            await to.topics.create("t", 3)
            guarded(to)
            answers = [await to.ask(CREATE_TOPICS, 7, created(name)) for name in ("t", "new")]
            assert {each.topics[0].error_code for each in answers} == {T29}

    run(story)
