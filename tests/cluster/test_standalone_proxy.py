"""`tailrace start --set proxy.enable=true`: thin clients beside Kafka's."""

import asyncio
import re
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from tailrace.protocol.proxy.common_pb2 import REQUEST_DENIED, SUCCESS
from tailrace.protocol.proxy.read_proxy_pb2 import ReadRequest
from tailrace.protocol.proxy.write_proxy_pb2 import StreamRequest, WriteRequest
from tests.process import TailraceProcess
from tests.proxy_client import READ_PROXY, ProxyCalls, calls, opening, records

ENABLED = ("--set", "proxy.enable=true", "--set", "proxy.listener=127.0.0.1:0")
WITHIN_S = 60


def test_thin_clients_write_streams_and_no_partitions(
    broker_factory: Callable[..., TailraceProcess],
) -> None:
    broker = broker_factory(*ENABLED).start()
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce("t", b"of Kafka")
    assert producer.flush(30) == 0

    async def read(reads: ProxyCalls, stream: str, count: int) -> list[bytes]:
        request = ReadRequest(stream=stream, records_max=count, tail=True)
        answers = [each async for each in reads.stream("read", request)]
        assert {each.header.code for each in answers} == {SUCCESS}
        return [record.payload for each in answers for record in each.records]

    async def story(first: bytes, runs: int) -> None:
        (at,) = re.findall(r"^proxy: grpc=(\S+)$", broker.output, re.MULTILINE)
        async with asyncio.timeout(WITHIN_S), calls(at) as ask:
            if first == b"a":
                assert (await ask("create", StreamRequest(stream="s-0"))).header.code == SUCCESS
            header = (await ask("write", WriteRequest(stream="s-0", payload=first))).header
            assert header.code == SUCCESS, header
            requests = [opening("s-0"), records(1, [b"b", b"c"])]
            answers = [each async for each in ask.stream("write_stream", requests)]
            assert [len(each.dlsns) for each in answers] == [0, 2]
            for name in ("t-0", "t-7", "__consumer_offsets-0"):
                denied = [
                    await ask("write", WriteRequest(stream=name, payload=b"x")),
                    await ask("create", StreamRequest(stream=name)),
                    await ask("delete", StreamRequest(stream=name)),
                    await ask("release", StreamRequest(stream=name)),
                    *[each async for each in ask.stream("write_stream", [opening(name)])],
                ]
                assert {each.header.code for each in denied} == {REQUEST_DENIED}
                assert "Kafka's clients write it" in denied[0].header.error
            async with calls(at, READ_PROXY) as reads:
                written = [b"a", b"b", b"c", b"d", b"b", b"c"][: 3 * runs]
                assert await read(reads, "s-0", len(written)) == written
                (batch,) = await read(reads, "t-0", 1)
                assert b"of Kafka" in batch

    asyncio.run(story(b"a", 1))
    broker.kill()
    broker.lines.clear()
    broker.restart()
    asyncio.run(story(b"d", 2))
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g"})
    consumer.subscribe(["t"])
    consumer.close()
    assert broker.stop() == 0
    assert "Traceback" not in broker.output


def test_a_topic_takes_no_stream_of_thin_clients(
    broker_factory: Callable[..., TailraceProcess],
) -> None:
    broker = broker_factory(*ENABLED).start()
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    (at,) = re.findall(r"^proxy: grpc=(\S+)$", broker.output, re.MULTILINE)

    def thin(method: str, *requests: StreamRequest | WriteRequest) -> list[int]:
        async def story() -> list[int]:
            async with asyncio.timeout(WITHIN_S), calls(at) as ask:
                return [(await ask(method, request)).header.code for request in requests]

        return asyncio.run(story())

    def refused(asked: dict[str, Any], code: int, stream: str) -> None:
        (future,) = asked.values()
        with pytest.raises(KafkaException) as caught:
            future.result(30)
        assert caught.value.args[0].code() == code
        assert repr(stream) in caught.value.args[0].str()

    def made(asked: dict[str, Any]) -> None:
        for future in asked.values():
            future.result(30)

    streams = [StreamRequest(stream=name) for name in ("t-1", "u-1")]
    first, second = (
        [WriteRequest(stream=each.stream, payload=payload) for each in streams]
        for payload in (b"a", b"b")
    )
    assert thin("create", *streams) == [SUCCESS, SUCCESS]
    assert thin("write", *first) == [SUCCESS, SUCCESS]
    invalid = KafkaError.TOPIC_EXCEPTION
    refused(admin.create_topics([NewTopic("t", 2)]), invalid, "t-1")
    made(admin.create_topics([NewTopic("u", 1)]))
    refused(admin.create_partitions([NewPartitions("u", 2)]), KafkaError.INVALID_REQUEST, "u-1")
    assert thin("write", *second) == [SUCCESS, SUCCESS]  # as before

    broker.kill()
    broker.lines.clear()
    broker.restart()
    (at,) = re.findall(r"^proxy: grpc=(\S+)$", broker.output, re.MULTILINE)
    assert thin("write", *second) == [SUCCESS, SUCCESS]
    assert thin("delete", streams[0]) == [SUCCESS]
    made(admin.create_topics([NewTopic("t", 2)]))
    assert thin("write", second[0]) == [REQUEST_DENIED]
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for topic, partition in (("t", 0), ("t", 1), ("u", 0)):
        producer.produce(topic, b"of Kafka", partition=partition)
    assert producer.flush(30) == 0

    async def read() -> list[bytes]:
        async with asyncio.timeout(WITHIN_S), calls(at, READ_PROXY) as reads:
            request = ReadRequest(stream="u-1", records_max=3, tail=True)
            answers = [each async for each in reads.stream("read", request)]
            return [record.payload for each in answers for record in each.records]

    assert asyncio.run(read()) == [b"a", b"b", b"b"]
    assert broker.stop() == 0
    assert "Traceback" not in broker.output
