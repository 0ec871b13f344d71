"""Groups whose partition goes to another broker, and comes from one."""

from tailrace.broker.coordinator.partitioning import OFFSETS_TOPIC
from tailrace.protocol.errors import ErrorCode as E
from tailrace.protocol.ids import TopicPartition
from tests.unit.broker.coordinator.runtime_support import GROUP, Groups, running_groups
from tests.unit.broker.loops import in_loop, turns, until


def home(groups: Groups) -> TopicPartition:
    partition = groups.coordinator.partition_for_group(GROUP)
    assert partition is not None
    return TopicPartition(OFFSETS_TOPIC, partition)


@in_loop
async def test_members_in_a_barrier_hear_that_their_group_moved() -> None:
    async with running_groups() as groups:
        joining = groups.join()
        groups.routes.give(2, home(groups))
        assert joining.result() is E.NOT_COORDINATOR
        assert groups.join().result() is E.NOT_COORDINATOR
        assert await groups.committed() is E.NOT_COORDINATOR
        assert groups.coordinator.metrics.requests_waiting == 0


@in_loop
async def test_a_group_that_comes_back_goes_on_without_a_rebalance() -> None:
    async with running_groups() as groups:
        joined = await groups.stable()
        groups.routes.give(2, home(groups))
        assert groups.heartbeat(joined) is E.NOT_COORDINATOR
        groups.routes.give(1, home(groups))
        loaded = groups.coordinator.metrics
        await until(lambda: loaded.shards_loaded == groups.config.offsets_topic_partitions)
        assert groups.heartbeat(joined) is E.NONE


@in_loop
async def test_a_topic_that_goes_meanwhile_is_the_other_brokers_to_forget() -> None:
    """Else its deletion would be done again after the return, to the topic's successor."""
    async with running_groups() as groups:
        await groups.commit(7)
        groups.routes.give(2, home(groups))
        await groups.world.topics.delete("t")
        groups.world.topics.add("t", 5)
        groups.routes.give(1, home(groups))
        await groups.coordinator.find(GROUP)
        await turns()
        assert await groups.committed() == 7


@in_loop
async def test_topics_that_this_broker_has_not_heard_of_are_looked_for_before_a_load() -> None:
    """Else what was committed for them would be deleted, as of topics that are gone."""
    async with running_groups() as groups:
        await groups.commit(7)
        await groups.coordinator.close()
        topics = groups.world.topics
        unheard = topics._topics.pop("t")

        async def catch_up() -> None:
            topics._topics["t"] = unheard

        topics.catch_up = catch_up  # type: ignore[method-assign]
        groups.coordinator = groups.make()
        await groups.coordinator.start()
        await groups.coordinator.find(GROUP)
        await turns()  # what was to be deleted is confirmed by now
        assert await groups.committed() == 7
