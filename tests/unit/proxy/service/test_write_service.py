"""Each rpc of WriteProxy: what it refuses, asks of the streams, and answers."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from tailrace.core.errors import Unavailable
from tailrace.protocol.distributedlog.dlsn import DLSN
from tailrace.protocol.distributedlog.record_set import pack_record_set
from tailrace.protocol.proxy.checksum import request_checksum
from tailrace.protocol.proxy.common_pb2 import Dlsn
from tailrace.protocol.proxy.write_proxy_pb2 import (
    HandshakeRequest,
    HeartbeatRequest,
    ServerInfo,
    SetAcceptNewStreamRequest,
    StreamRequest,
    TruncateRequest,
    WriteBulkRequest,
    WriteContext,
    WriteRequest,
    WriterSequence,
)
from tailrace.proxy.owner.codes import StatusCode
from tailrace.proxy.service import write_service
from tailrace.proxy.service.invalid import InvalidRequest
from tests.proxy_client import opening
from tests.unit.proxy.owner.world import Proxy, ProxyWorld, new_stream, payloads_of
from tests.unit.proxy.owner.world import run as run_in_virtual_time
from tests.unit.proxy.service.world import Requests, decoded, service_of

Run = Callable[[Callable[[ProxyWorld], Coroutine[Any, Any, None]]], None]

ONE = Dlsn(log_segment_sequence_number=1)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return lambda story: run_in_virtual_time(tmp_path, story)


def test_a_stream_from_its_creation_to_its_end(run: Run) -> None:
    async def story(world: ProxyWorld) -> None:
        proxy = Proxy(world, 1)
        service, stream = service_of(proxy), StreamRequest(stream="s")
        assert (await service.create(stream)).header.code == 200
        assert (await service.create(stream)).header.code == StatusCode.LOG_EXISTS
        assert (await service.get_owner(stream)).header.code == StatusCode.STREAM_UNAVAILABLE
        assert (await service.heartbeat(HeartbeatRequest(stream="s"))).header.code == 200
        owner = await service.get_owner(stream)
        assert (owner.header.code, owner.header.location) == (200, "1;1;host:4001")
        answer = await service.write(WriteRequest(stream="s", payload=b"a"))
        assert answer.header.code == 200
        assert not answer.HasField("dlsn") or answer.dlsn.log_segment_sequence_number == 1
        values = pack_record_set([b"b", b"c"])
        context = WriteContext(is_record_set=True)
        await service.write(WriteRequest(stream="s", payload=values, context=context))
        bulk = await service.write_bulk(WriteBulkRequest(stream="s", payloads=[b"d", b"e"]))
        assert [each.header.code for each in bulk.responses] == [200, 200]
        truncate = TruncateRequest(stream="s", dlsn=bulk.responses[0].dlsn)
        assert (await service.truncate(truncate)).header.code == 200
        assert (await service.release(stream)).header.code == 200
        assert await payloads_of(world) == [b"d", b"e"]
        assert (await service.delete(stream)).header.code == 200
        assert (await service.delete(stream)).header.code == StatusCode.LOG_NOT_FOUND

    run(story)


def test_an_owner_elsewhere_is_found(run: Run) -> None:
    async def story(world: ProxyWorld) -> None:
        await new_stream(world)
        one, two = Proxy(world, 1), Proxy(world, 2)
        await one.streams.heartbeat("s")
        service = service_of(two)
        bulk = await service.write_bulk(WriteBulkRequest(stream="s", payloads=[b"a"]))
        owner = await service.get_owner(StreamRequest(stream="s"))
        for header in (bulk.header, owner.header):
            assert (header.code, header.location) == (StatusCode.FOUND, "1;1;host:4001")
        assert not bulk.responses

    run(story)


def test_a_checksum_is_of_what_the_contract_says(run: Run) -> None:
    async def story(world: ProxyWorld) -> None:
        await new_stream(world)
        service = service_of(Proxy(world, 1))

        def context(*payloads: bytes, off: int = 0) -> WriteContext:
            return WriteContext(crc32=request_checksum("s", *payloads) ^ off)

        text = DLSN(1, 0, 0).serialize().encode()
        for off, code in ((1, StatusCode.CHECKSUM_FAILED), (0, StatusCode.SUCCESS)):
            record, bulk = context(b"a", off=off), context(b"b", b"c", off=off)
            answers = [
                await service.heartbeat(HeartbeatRequest(stream="s", context=context(off=off))),
                await service.write(WriteRequest(stream="s", payload=b"a", context=record)),
                await service.write_bulk(
                    WriteBulkRequest(stream="s", payloads=[b"b", b"c"], context=bulk)
                ),
                await service.truncate(
                    TruncateRequest(stream="s", dlsn=ONE, context=context(text, off=off))
                ),
                await service.release(StreamRequest(stream="s", context=context(off=off))),
            ]
            assert [each.header.code for each in answers] == [code] * 5  # type: ignore[attr-defined]
        assert await payloads_of(world) == [b"a", b"b", b"c"]

    run(story)


@pytest.mark.parametrize(
    "name", ["", "/", ".write_proxy", "a//b", "/a", "a/../b", "<x", "n" * 1_025]
)
def test_a_name_that_no_stream_can_have_reaches_no_stream(run: Run, name: str) -> None:
    async def story(world: ProxyWorld) -> None:
        proxy = Proxy(world, 1)
        service, stream = service_of(proxy), StreamRequest(stream=name)
        answers = [
            await service.write(WriteRequest(stream=name, payload=b"a")),
            await service.write_bulk(WriteBulkRequest(stream=name, payloads=[b"a"])),
            await service.truncate(TruncateRequest(stream=name, dlsn=ONE)),
            await service.heartbeat(HeartbeatRequest(stream=name)),
            *[
                await method(stream)
                for method in (service.create, service.delete, service.release, service.get_owner)
            ],
        ]
        codes = {each.header.code for each in answers}  # type: ignore[attr-defined]
        assert codes == {StatusCode.INVALID_STREAM_NAME}
        assert proxy.metrics.claims_total == proxy.metrics.requests_total == 0

    run(story)


def test_a_stream_of_others_is_left_alone(run: Run) -> None:
    async def story(world: ProxyWorld) -> None:
        await new_stream(world, "topic-0")
        proxy = Proxy(world, 1)

        async def of_a_topic(name: str) -> str | None:
            if name == "unknown":
                raise Unavailable("no answer")
            return "of a topic" if name == "topic-0" else None

        service = service_of(proxy, of_a_topic)
        for method, request in (
            (service.write, WriteRequest(stream="topic-0", payload=b"a")),
            (service.truncate, TruncateRequest(stream="topic-0", dlsn=ONE)),
            (service.delete, StreamRequest(stream="topic-0")),
        ):
            header = (await method(request)).header  # type: ignore[operator]
            assert (header.code, header.error) == (StatusCode.REQUEST_DENIED, "of a topic")
        stream = [
            each async for each in service.write_stream(aiter(Requests([opening("topic-0")])))
        ]
        assert [decoded(each).header.code for each in stream] == [StatusCode.REQUEST_DENIED]
        answer = await service.write(WriteRequest(stream="unknown", payload=b"a"))
        assert answer.header.code == StatusCode.STREAM_UNAVAILABLE
        assert proxy.metrics.claims_total == 0

    run(story)


def test_what_is_too_much_or_not_there_is_refused(run: Run) -> None:
    async def story(world: ProxyWorld) -> None:
        await new_stream(world)
        service = service_of(Proxy(world, 1), request_records_max=2)
        bulk = await service.write_bulk(WriteBulkRequest(stream="s", payloads=[b"", b"", b""]))
        assert bulk.header.code == StatusCode.REQUEST_DENIED
        assert "proxy.request.records.max" in bulk.header.error
        for dlsn in (None, Dlsn(log_segment_sequence_number=1, entry_id=-1)):
            with pytest.raises(InvalidRequest, match="dlsn"):
                await service.truncate(TruncateRequest(stream="s", dlsn=dlsn))
        writer = WriteContext(writer=WriterSequence(writer_id=b"w" * 65))
        answer = await service.write(WriteRequest(stream="s", payload=b"a", context=writer))
        assert answer.header.code == StatusCode.REQUEST_DENIED
        assert await payloads_of(world) == []

    run(story)


def test_a_numbered_record_is_written_once(run: Run) -> None:
    async def story(world: ProxyWorld) -> None:
        await new_stream(world)
        proxy = Proxy(world, 1)
        service = service_of(proxy)

        def numbered(number: int) -> WriteContext:
            return WriteContext(writer=WriterSequence(writer_id=b"w", sequence=number))

        one = WriteRequest(stream="s", payload=b"a", context=numbered(0))
        answers = [await service.write(one) for _ in range(2)]
        assert answers[0] == answers[1]
        bulk = WriteBulkRequest(stream="s", payloads=[b"b", b"c"], context=numbered(1))
        both = [await service.write_bulk(bulk) for _ in range(2)]
        assert both[0] == both[1]
        assert [each.header.code for each in both[0].responses] == [200, 200]
        gap = WriteRequest(stream="s", payload=b"d", context=numbered(4))
        answer = await service.write(gap)
        assert answer.header.code == StatusCode.TRANSACTION_OUT_OF_ORDER
        await proxy.streams.close()
        assert await payloads_of(world) == [b"a", b"b", b"c"]

    run(story)


def test_a_record_set_is_refused_by_its_header(run: Run) -> None:
    async def story(world: ProxyWorld) -> None:
        await new_stream(world)
        proxy = Proxy(world, 1)
        service = service_of(proxy, set_records_max=3)
        sets = [
            (pack_record_set([b"a"] * 3, 1), StatusCode.SUCCESS),
            (pack_record_set([b"a"] * 4), StatusCode.REQUEST_DENIED),
            (pack_record_set([b"a" * 2**22], 1), StatusCode.REQUEST_DENIED),
            (b"short", StatusCode.REQUEST_DENIED),
            (pack_record_set([b"a"])[:-1], StatusCode.REQUEST_DENIED),
        ]
        context = WriteContext(is_record_set=True)
        for payload, code in sets:
            request = WriteRequest(stream="s", payload=payload, context=context)
            assert (await service.write(request)).header.code == code
        await proxy.streams.close()
        assert await payloads_of(world) == [b"a"] * 3

    run(story)


def test_a_handshake_tells_what_is_owned(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(world: ProxyWorld) -> None:
        proxy = Proxy(world, 1)
        service = service_of(proxy)
        names = ["ab", "abc", "b", *(f"n{number}" for number in range(60))]
        for name in names:
            await proxy.streams.create(name)
            await proxy.streams.heartbeat(name)
        location = "1;1;host:4001"
        assert await service.handshake(HandshakeRequest()) == ServerInfo(server_status=100)
        all_of_them = await service.handshake(HandshakeRequest(get_ownerships=True))
        assert dict(all_of_them.ownerships) == dict.fromkeys(names, location)
        request = HandshakeRequest(get_ownerships=True, stream_name_regex="ab?|n[0-9]")
        some = await service.handshake(request)
        assert sorted(some.ownerships) == ["ab", *(f"n{number}" for number in range(10))]
        for regex in ("(", "a" * 5_000, "(?=a)"):
            with pytest.raises(InvalidRequest, match="stream_name_regex"):
                await service.handshake(HandshakeRequest(stream_name_regex=regex))
        monkeypatch.setattr(write_service, "OWNERSHIPS_BYTES_MAX", 60)
        bounded = await service.handshake(HandshakeRequest(get_ownerships=True))
        assert sorted(bounded.ownerships) == ["ab", "abc"]
        assert bounded.ByteSize() <= 60

    run(story)


def test_a_handshake_with_many_streams_lets_others_have_their_turn(run: Run) -> None:
    async def story(world: ProxyWorld) -> None:
        proxy = Proxy(world, 1)
        for number in range(60):
            await proxy.streams.create(f"{number}")
            await proxy.streams.heartbeat(f"{number}")
        request = HandshakeRequest(get_ownerships=True)
        asking = asyncio.ensure_future(service_of(proxy).handshake(request))
        turns = 0
        while not asking.done():
            turns += 1
            await asyncio.sleep(0)
        assert turns > 1
        assert len(asking.result().ownerships) == 60

    run(story)


def test_a_proxy_that_takes_no_new_stream_says_so(run: Run) -> None:
    async def story(world: ProxyWorld) -> None:
        await new_stream(world)
        service = service_of(Proxy(world, 1))
        for enabled, status, code in ((False, 200, 503), (True, 100, 200)):
            answer = await service.set_accept_new_stream(SetAcceptNewStreamRequest(enabled=enabled))
            assert answer.server_status == status
            written = await service.write(WriteRequest(stream="s", payload=b"a"))
            assert written.header.code == code

    run(story)
