"""Bugs in groups that other brokers shipped: ours must pass each of them."""

from tailrace.broker.coordinator.config import GroupConfig
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.apis import FIND_COORDINATOR, SYNC_GROUP
from tailrace.protocol.kafka.messages.find_coordinator import FindCoordinatorRequest
from tailrace.protocol.kafka.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.unit.broker.coordinator.runtime_support import GROUP, running_groups
from tests.unit.broker.coordinator.support import Driver
from tests.unit.broker.handlers.group_support import ask
from tests.unit.broker.loops import in_loop

NONE = ErrorCode.NONE
EAGER = GroupConfig(initial_rebalance_delay_ms=0)


def test_tansu_625_a_second_consumer_does_not_make_the_first_unknown() -> None:
    driver = Driver(EAGER)
    (first,) = driver.stable()
    second = driver.new_id()
    joining = driver.join(second)
    assert driver.heartbeat(first) is ErrorCode.REBALANCE_IN_PROGRESS
    again = driver.join(first)
    assert driver.joined(again).error_code == driver.joined(joining).error_code == NONE
    assert driver.joined(again).generation_id == driver.joined(joining).generation_id == 2
    driver.sync_all([first, second])
    assert driver.heartbeat(first) is driver.heartbeat(second) is NONE


def test_tansu_findings_a_member_that_joins_costs_one_rebalance() -> None:
    driver = Driver(EAGER)
    (first,) = driver.stable()
    second = driver.new_id()
    driver.join(second)
    driver.join(first)
    driver.sync_all([first, second])
    before = driver.group.generation
    driver.advance(9_000)
    assert driver.heartbeat(first) is driver.heartbeat(second) is NONE
    driver.advance(9_000)
    assert driver.heartbeat(first) is driver.heartbeat(second) is NONE
    assert driver.group.generation == before == 2


@in_loop
async def test_tansu_679_the_answer_to_sync_holds_the_assignment_in_every_version() -> None:
    async with running_groups() as groups:
        joined = await groups.stable()
        for version in SYNC_GROUP.versions:
            request = SyncGroupRequest(
                group_id=GROUP,
                generation_id=joined.generation_id,
                member_id=joined.member_id,
                protocol_type="consumer",
                protocol_name="range",
                assignments=[SyncGroupRequestAssignment(member_id="x", assignment=b"late")],
            )
            answer = await ask(groups, SYNC_GROUP, version, request)
            assert (answer.error_code, bytes(answer.assignment)) == (NONE, b"mine")


@in_loop
async def test_kop_1140_whoever_is_named_as_coordinator_is_one() -> None:
    async with running_groups(prepared=False) as groups:
        for version in FIND_COORDINATOR.versions:
            request = FindCoordinatorRequest(key=GROUP, coordinator_keys=[GROUP])
            answer = await ask(groups, FIND_COORDINATOR, version, request)
            found = answer.coordinators[0] if version >= 4 else answer
            assert (found.error_code, found.node_id) == (NONE, groups.world.broker.node_id)
            assert groups.coordinator.describe(GROUP, 5).error_code == NONE  # not 14, not 16


@in_loop
async def test_aiokafka_1154_nobody_hangs_when_the_coordinator_goes() -> None:
    async with running_groups(auto=False) as groups:
        asked = [groups.join(), groups.commit(1), groups.coordinator.settle(GROUP)]
        await groups.coordinator.close()
        for answer in asked:
            assert answer.done()
        assert groups.join().result() is ErrorCode.NOT_COORDINATOR
