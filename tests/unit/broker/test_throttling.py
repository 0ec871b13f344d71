"""Clients over their quotas: what they are told, how long they wait, who pays and who does not."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace

import pytest

from tailrace.broker.config import BrokerConfig, NetworkConfig
from tailrace.broker.handlers import HANDLERS
from tailrace.broker.quotas.entity import entity_of
from tailrace.broker.quotas.table import Quotas
from tailrace.broker.throttle import Throttle
from tailrace.protocol.kafka.apis import API_VERSIONS, FETCH, METADATA, PRODUCE
from tailrace.protocol.kafka.messages.api_versions import ApiVersionsRequest
from tailrace.protocol.kafka.messages.fetch import FetchRequest, FetchResponse
from tailrace.protocol.kafka.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.unit.broker.fakes import batch
from tests.unit.broker.test_connection import fetch_of, produce_of
from tests.unit.broker.virtual import VirtualBroker, in_virtual_time

HELLO = ApiVersionsRequest(client_software_name="x", client_software_version="1")
PRODUCED_BYTES = 1000


def quota(key: str, value: float, **names: str | None) -> Quotas:
    parts = names or {"client_id": None}
    return {entity_of((kind.replace("_", "-"), parts[kind]) for kind in parts): {key: value}}


def data(records: int = 1) -> memoryview:
    return batch(records, size=PRODUCED_BYTES)


async def fetched(response: FetchResponse) -> int:
    return sum(
        len(part.records or b"") for topic in response.responses for part in topic.partitions
    )


@in_virtual_time
async def test_a_produce_is_appended_and_its_client_waits() -> None:
    broker = VirtualBroker()
    broker.world.topics.add("t")
    log = await broker.world.open("t")
    broker.quotas.apply(quota("producer_byte_rate", 10))
    client = broker.client()
    answer = await client.ask(PRODUCE, 8, produce_of(0, data=data()))
    size = 10 * answer.throttle_time_ms / 1000 + 10 * 10  # rate over ten windows, back to the bound
    assert PRODUCED_BYTES < size < PRODUCED_BYTES + 200
    assert log.log_end_offset == 1
    assert not client.is_read
    assert broker.quotas.metrics.connections_throttled == 1
    began_ms = broker.now_ms
    await client.ask(API_VERSIONS, 3, HELLO)
    assert broker.now_ms - began_ms == answer.throttle_time_ms
    assert client.is_read
    metrics = broker.quotas.metrics
    assert metrics.connections_throttled == 0
    assert metrics.produce_throttled_total == 1
    assert metrics.throttle_ms_total == answer.throttle_time_ms


@in_virtual_time
async def test_a_produce_without_answer_is_charged_by_not_reading() -> None:
    broker = VirtualBroker()
    broker.world.topics.add("t")
    log = await broker.world.open("t")
    broker.quotas.apply(quota("producer_byte_rate", 10))
    client = broker.client()
    client.send(PRODUCE, 8, produce_of(0, acks=0, data=data()), "app")
    client.send(API_VERSIONS, 3, HELLO, "app")
    await client.receive(API_VERSIONS, 3)
    assert log.log_end_offset == 1
    assert broker.now_ms == broker.quotas.metrics.throttle_ms_total > 0


@in_virtual_time
async def test_a_fetch_over_its_quota_brings_nothing_and_costs_nothing() -> None:
    broker = VirtualBroker()
    broker.world.topics.add("t")
    log = await broker.world.open("t")
    client = broker.client()
    for _ in range(2):
        assert (await client.ask(PRODUCE, 8, produce_of(0, data=data()))).throttle_time_ms == 0
    await asyncio.sleep(60)
    assert log.high_watermark == 2
    broker.quotas.apply(quota("consumer_byte_rate", 150))
    first = await client.ask(FETCH, 11, fetch_of(0, max_bytes=1))
    assert (first.throttle_time_ms, await fetched(first) > PRODUCED_BYTES) == (0, True)
    began_ms = broker.now_ms
    second = await client.ask(FETCH, 11, fetch_of(1, max_bytes=1))
    assert second.throttle_time_ms > 0
    assert (second.error_code, list(second.responses)) == (0, [])
    third = await client.ask(FETCH, 11, fetch_of(1, max_bytes=1))
    assert broker.now_ms - began_ms >= second.throttle_time_ms
    assert third.throttle_time_ms > 0  # the windows have not passed yet, as in Kafka
    await asyncio.sleep(11)
    again = await client.ask(FETCH, 11, fetch_of(1, max_bytes=1))
    assert (again.throttle_time_ms, await fetched(again) > PRODUCED_BYTES) == (0, True)
    assert broker.quotas.metrics.fetch_throttled_total == 2


@in_virtual_time
async def test_a_throttled_first_fetch_leaves_no_session() -> None:
    """Its client knows of none, and would take the place of others' with every attempt."""
    broker = VirtualBroker()
    broker.world.topics.add("t")
    await broker.world.open("t")
    client = broker.client()
    await client.ask(PRODUCE, 8, produce_of(0, data=data()))
    broker.quotas.apply(quota("consumer_byte_rate", 1))
    asked = replace(fetch_of(0), session_epoch=0)
    answer = await client.ask(FETCH, 11, asked)
    assert answer.throttle_time_ms > 0
    assert (answer.error_code, answer.session_id) == (0, 0)
    assert len(broker.world.broker.fetch_sessions) == 0


@in_virtual_time
async def test_what_a_throttled_poll_would_have_told_the_next_one_tells() -> None:
    broker = VirtualBroker()
    broker.world.topics.add("t")
    log = await broker.world.open("t")
    client = broker.client()
    session = (await client.ask(FETCH, 11, replace(fetch_of(0), session_epoch=0))).session_id
    for _ in range(2):
        await client.ask(PRODUCE, 8, produce_of(0, data=data()))
    log.move_start(2)
    broker.quotas.apply(quota("consumer_byte_rate", 1))
    moved = replace(fetch_of(2), session_id=session, session_epoch=1)
    throttled = await client.ask(FETCH, 11, moved)
    assert throttled.throttle_time_ms > 0
    assert (throttled.session_id, list(throttled.responses)) == (session, [])
    broker.quotas.apply({})
    poll = FetchRequest(max_wait_ms=0, min_bytes=1, session_id=session, session_epoch=2)
    told = await client.ask(FETCH, 11, poll)
    (part,) = told.responses[0].partitions
    assert (part.high_watermark, part.log_start_offset) == (2, 2)


@in_virtual_time
async def test_a_fetch_brings_no_more_than_its_quota_allows_at_once() -> None:
    """Else it would be throttled for ever."""
    broker = VirtualBroker()
    broker.world.topics.add("t")
    await broker.world.open("t")
    client = broker.client()
    for _ in range(5):
        await client.ask(PRODUCE, 8, produce_of(0, data=data()))
    broker.quotas.apply(quota("consumer_byte_rate", 250))
    answer = await client.ask(FETCH, 11, fetch_of(0))
    assert answer.throttle_time_ms == 0
    assert 2 * PRODUCED_BYTES < await fetched(answer) < 250 * 10


@in_virtual_time
async def test_time_of_requests_is_waited_for_one_window_at_most(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker = VirtualBroker()
    monkeypatch.setitem(HANDLERS, API_VERSIONS.key, broker.spending(API_VERSIONS, 0.011))
    broker.quotas.apply(quota("request_percentage", 0.1, user=None))
    client, other = broker.client(), broker.client()
    assert (await client.ask(API_VERSIONS, 3, HELLO)).throttle_time_ms == 1000
    assert broker.quotas.metrics.request_throttled_total == 1
    assert (await other.ask(API_VERSIONS, 3, HELLO, "another")).throttle_time_ms == 1000  # one user


@in_virtual_time
async def test_a_request_that_waits_is_charged_for_its_own_steps_alone() -> None:
    broker = VirtualBroker()
    broker.quotas.apply(quota("request_percentage", 0.001))
    broker.world.topics.add("t")
    client = broker.client()
    answer = await client.ask(FETCH, 11, fetch_of(0, wait_ms=30_000))
    assert (broker.now_ms, answer.throttle_time_ms) == (30_000, 0)


@in_virtual_time
async def test_requests_that_came_already_wait_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = VirtualBroker()
    broker.world.topics.add("t")
    monkeypatch.setitem(HANDLERS, METADATA.key, broker.spending(METADATA, 0.05))
    broker.quotas.apply(quota("request_percentage", 0.1))
    client = broker.client()
    client.send(FETCH, 11, fetch_of(0, wait_ms=500), "app")
    for _ in range(3):
        client.send(METADATA, 4, MetadataRequest(topics=()), "app")
    await client.receive(FETCH, 11)
    moments = []
    for _ in range(3):
        assert (await client.receive(METADATA, 4)).throttle_time_ms == 1000
        moments.append(broker.now_ms)
    assert moments == [500, 1500, 2500]


@pytest.mark.parametrize("client_id", ["other", "", None])
@in_virtual_time
async def test_who_has_no_quota_is_charged_nothing(client_id: str | None) -> None:
    broker = VirtualBroker()
    broker.world.topics.add("t")
    broker.quotas.apply(quota("producer_byte_rate", 1, client_id="app"))
    client = broker.client()
    for _ in range(3):
        answer = await client.ask(PRODUCE, 8, produce_of(0, data=data()), client_id)
        assert answer.throttle_time_ms == 0
    assert (broker.now_ms, broker.quotas.metrics.accounts) == (0, 0)


@in_virtual_time
async def test_a_quota_that_goes_or_changes_acts_at_once() -> None:
    broker = VirtualBroker()
    broker.world.topics.add("t")

    async def waits(bound: Mapping[str, float] | None) -> bool:
        everybody = entity_of([("client-id", None)])
        broker.quotas.apply({everybody: bound} if bound else {})
        answer = await broker.client().ask(PRODUCE, 8, produce_of(0, data=data()))
        return answer.throttle_time_ms > 0

    assert await waits({"producer_byte_rate": 1})
    assert not await waits({"producer_byte_rate": 1_000_000})
    assert await waits({"producer_byte_rate": 1})
    assert not await waits({"consumer_byte_rate": 1})
    assert not await waits(None)


@in_virtual_time
async def test_a_shorter_wait_does_not_end_a_longer_one() -> None:
    broker = VirtualBroker()
    client, is_over = broker.client(), asyncio.Event()
    channel = client.transport.channel
    assert channel is not None
    throttle = Throttle(broker.quotas.metrics, is_over.set)
    for wait_ms in (1500, 10):
        throttle.extend(channel, wait_ms)
    assert not client.is_read
    await is_over.wait()
    assert (broker.now_ms, client.is_read) == (1500, True)
    assert broker.quotas.metrics.throttle_ms_total == 1500


@in_virtual_time
async def test_a_client_that_goes_while_it_waits_is_forgotten() -> None:
    broker = VirtualBroker()
    broker.world.topics.add("t")
    broker.quotas.apply(quota("producer_byte_rate", 1))
    client = broker.client()
    await client.ask(PRODUCE, 8, produce_of(0, data=data()))
    assert broker.quotas.metrics.connections_throttled == 1
    client.transport.close()
    await asyncio.sleep(0)
    assert broker.quotas.metrics.connections_throttled == 0


@in_virtual_time
async def test_who_fills_the_budget_while_it_waits_is_cut(caplog: pytest.LogCaptureFixture) -> None:
    broker = VirtualBroker(
        BrokerConfig(network=NetworkConfig(queued_bytes_max=100_000, idle_ms_max=1 << 40))
    )
    broker.world.topics.add("t")
    broker.quotas.apply(quota("producer_byte_rate", 1))
    client = broker.client()
    client.send(FETCH, 11, fetch_of(0, wait_ms=500), "app")
    topics = [MetadataRequestTopic(name="x" * 30_000) for _ in range(3)]
    client.send(METADATA, 4, MetadataRequest(topics=topics), "app")
    client.send(PRODUCE, 8, produce_of(0, data=batch(1, size=20_000)), "app")
    await client.receive(FETCH, 11)
    (connection,) = broker.server._connections
    for _ in range(2):
        connection.check(broker.now_ms / 1000)
        assert not client.transport.closed.is_set()
        await asyncio.sleep(2)
    connection.check(broker.now_ms / 1000)
    assert client.transport.closed.is_set()
    assert "too much waits" in caplog.text
    await asyncio.sleep(0)
    assert broker.quotas.metrics.connections_throttled == 0


# ---- new connections


@in_virtual_time
async def test_the_rate_of_connections_may_change_while_the_broker_runs() -> None:
    broker = VirtualBroker()
    clients = [broker.client() for _ in range(5)]
    config = broker.world.broker.config.network
    broker.server._gate.use(replace(config, connection_rate_max=1))
    clients += [broker.client() for _ in range(6)]
    assert [client.is_read for client in clients] == [True] * 10 + [False]


@in_virtual_time
async def test_an_address_that_connects_too_fast_is_closed_after_a_while() -> None:
    broker = VirtualBroker()
    broker.quotas.apply(quota("connection_creation_rate", 1, ip="10.0.0.1"))
    taken = [broker.client() for _ in range(10)]
    one_more, another = broker.client(), broker.client("10.0.0.2")
    assert not one_more.is_read
    assert not one_more.transport.closed.is_set()
    await another.ask(API_VERSIONS, 3, HELLO)
    assert broker.now_ms == 0
    await one_more.transport.closed.wait()
    assert broker.now_ms == 1000
    await asyncio.sleep(0)
    assert all(client.is_read for client in taken)
    assert broker.quotas.metrics.connections_turned_away_total == 1
    assert broker.world.broker.metrics.connections == 11


@in_virtual_time
async def test_who_goes_before_its_turn_leaves_nothing_behind() -> None:
    broker = VirtualBroker(BrokerConfig(network=NetworkConfig(connection_rate_max=1)))
    broker.quotas.apply(quota("connection_creation_rate", 1, ip=None))
    clients = [broker.client() for _ in range(12)]
    clients[10].transport.close()
    clients[11].transport.close()
    await asyncio.sleep(60)
    gate = broker.server._gate
    assert (list(gate._line), gate._leaving) == ([], {})
    assert broker.world.broker.metrics.connections == 10


@in_virtual_time
async def test_too_many_new_connections_are_let_in_one_after_the_other() -> None:
    network = NetworkConfig(connection_rate_max=1)
    broker = VirtualBroker(BrokerConfig(network=network))
    clients = [broker.client(f"10.0.0.{n}") for n in range(13)]
    moments = []
    for client in clients:
        await client.ask(API_VERSIONS, 3, HELLO)
        moments.append(broker.now_ms)
    assert moments == [0] * 10 + [1000, 2000, 3000]
    assert broker.quotas.metrics.connections_delayed_total == 3


@in_virtual_time
async def test_the_line_of_those_that_wait_has_an_end() -> None:
    network = NetworkConfig(connection_rate_max=1, backlog=2)
    broker = VirtualBroker(BrokerConfig(network=network))
    clients = [broker.client() for _ in range(13)]
    await clients[-1].transport.closed.wait()
    assert broker.now_ms == 0
    assert broker.world.broker.metrics.connections_refused_total == 1


@in_virtual_time
async def test_an_address_may_have_its_own_number_of_connections() -> None:
    network = NetworkConfig(
        connections_per_ip_max=1, connections_per_ip_overrides=("10.0.0.2:2", "[::1]:0")
    )
    broker = VirtualBroker(BrokerConfig(network=network))
    hosts = ["10.0.0.1", "10.0.0.2", "10.0.0.2", "10.0.0.1", "10.0.0.2", "::1"]
    clients = [broker.client(host) for host in hosts]
    await asyncio.sleep(1)
    closed = [client.transport.closed.is_set() for client in clients]
    assert closed == [False, False, False, True, True, True]
