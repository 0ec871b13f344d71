import pytest

from tailrace.broker.coordinator.partitioning import OFFSETS_TOPIC
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.apis import FIND_COORDINATOR
from tailrace.protocol.kafka.messages.find_coordinator import FindCoordinatorRequest
from tests.unit.broker.coordinator.runtime_support import running_groups
from tests.unit.broker.handlers.group_support import ask, versions
from tests.unit.broker.loops import in_loop

NONE = ErrorCode.NONE
HERE = (1, "broker.test", 9092)


@pytest.mark.parametrize("version", versions(FIND_COORDINATOR))
def test_a_group_is_found_here_and_its_topic_is_made(version: int) -> None:
    @in_loop
    async def body() -> None:
        async with running_groups(prepared=False) as groups:
            request = FindCoordinatorRequest(key="g", coordinator_keys=["g", "h"])
            response = await ask(groups, FIND_COORDINATOR, version, request)
            if version < 4:
                assert (response.node_id, response.host, response.port) == HERE
                assert response.error_code == NONE
            else:
                found = response.coordinators
                assert [c.key for c in found] == ["g", "h"]
                assert {(c.node_id, c.host, c.port) for c in found} == {HERE}
                assert {c.error_code for c in found} == {NONE}
            assert groups.world.topics.get(OFFSETS_TOPIC) is not None

    body()


@pytest.mark.parametrize("version", versions(FIND_COORDINATOR)[1:])
@pytest.mark.parametrize(
    ("key_type", "expected"),
    [(1, NONE), (2, ErrorCode.INVALID_REQUEST), (-1, ErrorCode.INVALID_REQUEST)],
)
def test_other_kinds_of_keys(version: int, key_type: int, expected: ErrorCode) -> None:
    @in_loop
    async def body() -> None:
        async with running_groups(prepared=False) as groups:
            request = FindCoordinatorRequest(key="k", coordinator_keys=["k"], key_type=key_type)
            response = await ask(groups, FIND_COORDINATOR, version, request)
            place = response if version < 4 else response.coordinators[0]
            assert place.error_code == expected
            assert place.node_id == (1 if expected is NONE else -1)
            if expected is NONE:
                assert place.error_message == ("NONE" if version < 4 else "")  # Kafka's own
            else:
                assert place.error_message
            assert groups.world.topics.get(OFFSETS_TOPIC) is None

    body()


@in_loop
async def test_without_the_topic_the_coordinator_is_not_available() -> None:
    from tailrace.core.errors import NotEnoughBookies

    async with running_groups(prepared=False) as groups:

        async def refuse(*_: object) -> None:
            raise NotEnoughBookies

        groups.world.topics.create = refuse  # type: ignore[method-assign,assignment]
        response = await ask(groups, FIND_COORDINATOR, 2, FindCoordinatorRequest(key="g"))
        assert response.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert response.node_id == -1
