"""Requests between brokers over real sockets: versions, turns, and every way to get no answer."""

import asyncio
from typing import Any

import pytest

from tailrace.broker.peers import peers as module
from tailrace.broker.peers.errors import (
    PeerBusy,
    PeerError,
    PeerLost,
    PeerTimeout,
    PeerUnavailable,
    PeerUnsupported,
)
from tailrace.broker.peers.peers import Peers
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.apis import FIND_COORDINATOR, HEARTBEAT
from tailrace.protocol.kafka.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from tailrace.protocol.kafka.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tests.ports import free_port
from tests.unit.broker.loops import in_loop, turns
from tests.unit.broker.peers.support import At, MovingPlaces, OtherBroker

SOON_S = 15.0
"""Longer than any answer takes here."""


class World:
    """This broker's side; broker 2 is where the test says."""

    def __init__(self, other: OtherBroker | None = None) -> None:
        self.places = MovingPlaces()
        self.peers = Peers(self.places, "broker-1")
        if other is not None:
            self.places.move(2, other.at)

    def ask(self, key: str = "g", timeout_s: float = SOON_S, version_min: int = 0) -> Any:
        request = FindCoordinatorRequest(key=key, coordinator_keys=[key])
        work = self.peers.send(2, FIND_COORDINATOR, request, timeout_s, version_min)
        return asyncio.create_task(work)


def found(node_id: int) -> FindCoordinatorResponse:
    return FindCoordinatorResponse(node_id=node_id, coordinators=[Coordinator(node_id=node_id)])


@in_loop
async def test_a_request_is_asked_in_the_newest_version_of_both() -> None:
    async with OtherBroker(version_max=3) as other:
        world = World(other)
        answer = world.ask("group")
        asked = await other.asked.get()
        assert (asked.version, asked.request.key) == (3, "group")
        asked.answer(found(7))
        assert (await answer).node_id == 7
        await world.peers.close()
    async with OtherBroker() as newer:
        world = World(newer)
        answer = world.ask("group")
        asked = await newer.asked.get()
        assert (asked.version, asked.request.coordinator_keys) == (6, ("group",))
        asked.answer(found(8))
        assert (await answer).coordinators[0].node_id == 8
        await world.peers.close()


@in_loop
async def test_what_the_other_does_not_speak_is_not_sent() -> None:
    async with OtherBroker(version_max=3) as other:
        world = World(other)
        with pytest.raises(PeerUnsupported):
            await world.ask(version_min=4)
        answer = world.ask()  # the connection is as good as before
        (await other.asked.get()).answer(found(7))
        assert (await answer).node_id == 7
        assert (other.connections, world.peers.metrics.failures_total) == (1, 1)
        await world.peers.close()


@in_loop
async def test_requests_for_one_api_go_in_turn_and_others_beside_them() -> None:
    async with OtherBroker() as other:
        world = World(other)
        answers = [world.ask(str(number)) for number in range(3)]
        beside = world.peers.send(2, HEARTBEAT, HeartbeatRequest(group_id="g"), SOON_S)
        both = asyncio.create_task(beside)
        first, second = await other.asked.get(), await other.asked.get()
        held = {each.api.key: each for each in (first, second)}
        held[HEARTBEAT.key].answer(HeartbeatResponse(error_code=5))
        assert (await both).error_code == 5
        for number in range(3):
            asked = held.pop(FIND_COORDINATOR.key, None) or await other.asked.get()
            assert asked.request.coordinator_keys == (str(number),)
            assert other.asked.empty(), "one request at a time"
            asked.answer(found(number))
            assert (await answers[number]).coordinators[0].node_id == number
        assert other.connections == 2
        await world.peers.close()


@in_loop
async def test_who_is_not_alive_or_does_not_listen_is_not_asked() -> None:
    world = World()
    with pytest.raises(PeerUnavailable, match="not alive"):
        await world.ask()
    world.places.move(2, At("127.0.0.1", free_port()))
    with pytest.raises(PeerUnavailable, match="cannot be reached"):
        await world.ask()
    assert world.peers.metrics.failures_total == 2
    await world.peers.close()


@in_loop
async def test_a_broker_that_may_not_ask_says_so_once_until_it_may(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World()
    denied = FindCoordinatorResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    async with OtherBroker(version_max=3) as other:
        world.places.move(2, other.at)
        for response, count in ((denied, 1), (denied, 1), (found(7), 1), (denied, 2)):
            answer = world.ask()
            (await other.asked.get()).answer(response)
            await answer
            texts = [each.getMessage() for each in caplog.records]
            assert (
                len([each for each in texts if each.startswith("peer_refuses broker=2")]) == count
            )
    await world.peers.close()


@in_loop
async def test_a_broker_that_does_not_answer_is_logged_once_until_it_does(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", "tailrace.broker.peers")

    def logged() -> list[str]:
        records = list(caplog.records)
        caplog.clear()
        return [each.getMessage() for each in records if each.name == module.__name__]

    world = World()
    for _ in range(3):
        with pytest.raises(PeerUnavailable):
            await world.ask()
    assert logged() == ["peer_failed broker=2 api=FindCoordinator error=broker 2 is not alive"]
    async with OtherBroker() as other:
        world.places.move(2, other.at)
        for _ in range(2):
            answer = world.ask()
            (await other.asked.get()).answer(found(7))
            await answer
        assert logged() == ["peer_answers broker=2 api=FindCoordinator failures=3"]
        with pytest.raises(PeerTimeout) as late:
            await world.ask(timeout_s=0.1)
        assert logged() == [f"peer_failed broker=2 api=FindCoordinator error={late.value}"]
        await world.peers.close()
        await other.lost.wait()


@in_loop
async def test_after_a_time_out_the_connection_is_another_one() -> None:
    async with OtherBroker() as other:
        world = World(other)
        first = world.ask()  # so that the next one's time does not go into connecting
        (await other.asked.get()).answer(found(0))
        await first
        with pytest.raises(PeerTimeout, match=r"broker 2.*FindCoordinator"):
            await world.ask("late", timeout_s=0.1)
        answer = world.ask("again")
        late = await other.asked.get()
        assert late.request.coordinator_keys == ("late",)
        asked = await other.asked.get()
        late.answer(found(1))  # which must not be taken for the answer to the next
        asked.answer(found(2))
        assert (await answer).coordinators[0].node_id == 2
        assert other.connections == 2
        await world.peers.close()


@in_loop
async def test_a_lost_connection_is_told_and_made_again() -> None:
    async with OtherBroker() as other:
        world = World(other)
        answer = world.ask()
        await other.asked.get()
        other.hang_up()
        with pytest.raises(PeerLost):
            await answer
        again = world.ask()
        (await other.asked.get()).answer(found(3))
        assert (await again).coordinators[0].node_id == 3
        await world.peers.close()


@pytest.mark.parametrize("is_garbage", [True, False])
def test_an_answer_that_is_none_ends_the_connection(*, is_garbage: bool) -> None:
    @in_loop
    async def body() -> None:
        async with OtherBroker() as other:
            world = World(other)
            answer = world.ask()
            asked = await other.asked.get()
            if is_garbage:
                number = asked.correlation_id.to_bytes(4, "big")
                asked.writer.write(b"\0\0\0\x06" + number + b"\0\xff")
            else:
                asked.answer(found(1), correlation_id=asked.correlation_id + 1)
            with pytest.raises(PeerLost):
                await answer
            await other.lost.wait()
            await world.peers.close()

    body()


@in_loop
async def test_nobody_waits_for_a_broker_that_died_or_moved() -> None:
    async with OtherBroker() as other, OtherBroker() as elsewhere:
        world = World(other)
        answer, behind = world.ask("a"), world.ask("b")
        await other.asked.get()
        world.places.move(2, elsewhere.at)
        with pytest.raises(PeerLost, match="not there any more"):
            await answer
        (await elsewhere.asked.get()).answer(found(4))
        assert (await behind).coordinators[0].node_id == 4
        answer = world.ask("c")
        await elsewhere.asked.get()
        world.places.move(2, None)
        with pytest.raises(PeerLost):
            await answer
        with pytest.raises(PeerUnavailable):
            await world.ask("d")
        await world.peers.close()


@in_loop
async def test_a_change_that_concerns_others_disturbs_nobody() -> None:
    async with OtherBroker() as other:
        world = World(other)
        answer = world.ask()
        asked = await other.asked.get()
        world.places.move(3, At("127.0.0.1", 1))
        asked.answer(found(4))
        assert (await answer).coordinators[0].node_id == 4
        await world.peers.close()


@in_loop
async def test_so_many_wait_and_the_next_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WAITING_MAX", 2)
    async with OtherBroker() as other:
        world = World(other)
        answers = [world.ask(str(number)) for number in range(3)]
        await turns()
        with pytest.raises(PeerBusy):
            await world.ask()
        for number in range(3):
            (await other.asked.get()).answer(found(number))
        assert [(await each).coordinators[0].node_id for each in answers] == [0, 1, 2]
        assert world.peers.metrics.requests_waiting == 0
        await world.peers.close()


@in_loop
async def test_who_gives_up_leaves_nothing_for_the_next() -> None:
    async with OtherBroker() as other:
        world = World(other)
        given_up, next_one = world.ask("first"), world.ask("second")
        first = await other.asked.get()
        given_up.cancel()
        second = await other.asked.get()
        first.answer(found(1))
        second.answer(found(2))
        assert (await next_one).coordinators[0].node_id == 2
        assert given_up.cancelled()
        await world.peers.close()


@in_loop
async def test_the_end_tells_who_waits() -> None:
    async with OtherBroker() as other:
        world = World(other)
        answers = [world.ask(), world.ask()]
        await other.asked.get()
        await world.peers.close()
        for answer in answers:
            with pytest.raises(PeerError):
                await answer
        with pytest.raises(PeerUnavailable):
            await world.ask()
