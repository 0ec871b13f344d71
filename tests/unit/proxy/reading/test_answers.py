"""ReadLast and ListSegments."""

from pathlib import Path

import pytest

from tailrace.core import errors
from tailrace.core.errors import CoreError
from tailrace.core.log.log import Log
from tailrace.protocol.proxy.common_pb2 import Dlsn
from tailrace.protocol.proxy.read_proxy_pb2 import (
    ListSegmentsRequest,
    ListSegmentsResponse,
    LogSegment,
    ReadLastRequest,
)
from tailrace.proxy.owner.codes import StatusCode
from tailrace.proxy.reading import read_service
from tailrace.proxy.reading.codes import failure_of, is_retried
from tailrace.proxy.reading.read_service import ReadService
from tests.unit.core.log.world import put, write
from tests.unit.proxy.owner.world import ProxyWorld, run
from tests.unit.proxy.reading.world import direct, service, writing


def test_last_record_is_the_last_of_a_direct_reader(tmp_path: Path) -> None:
    async def story(world: ProxyWorld) -> None:
        log, writer = await writing(world)
        proxy = service(world)
        empty = await proxy.read_last(ReadLastRequest(stream="s"))
        assert empty.header.code == StatusCode.LOG_EMPTY
        for txid in range(1, 30):
            put(writer, txid)
            if txid % 3 == 0:
                await writer.flush()
            if txid % 9 == 0:
                await writer.roll()
            if txid % 5 == 0:
                await writer.commit()
                await check(log, proxy)
        for _ in range(40):
            await writer.keep_alive(29)
        await check(log, proxy)
        await writer.roll()
        await check(log, proxy)
        await writer.mark_end_of_stream()
        await writer.close()
        await check(log, proxy)
        gone = await proxy.read_last(ReadLastRequest(stream="gone"))
        assert gone.header.code == StatusCode.LOG_NOT_FOUND
        await proxy.close()

    async def check(log: Log, proxy: ReadService) -> None:
        expected = (await direct(log))[-1]
        found = await proxy.read_last(ReadLastRequest(stream="s"))
        assert found.header.code == StatusCode.SUCCESS
        assert found.record.payload == expected.payload
        assert found.record.dlsn == Dlsn(
            log_segment_sequence_number=expected.dlsn.lssn,
            entry_id=expected.dlsn.entry_id,
            slot_id=expected.dlsn.slot,
        )
        assert found.record.sequence_id == expected.txid - 1

    run(tmp_path, story)


def test_stream_that_was_truncated_as_a_whole_has_no_last_record(tmp_path: Path) -> None:
    async def story(world: ProxyWorld) -> None:
        log, writer = await writing(world)
        await write(writer, 1, 2, 3)
        await writer.commit()
        kept = (await direct(log))[-1].dlsn
        await log.truncate(kept.next_slot())
        await writer.close()
        proxy = service(world)
        found = await proxy.read_last(ReadLastRequest(stream="s"))
        assert await direct(await world.log("s")) == []
        assert found.header.code == StatusCode.LOG_EMPTY
        await proxy.close()

    run(tmp_path, story)


def test_segments_are_listed_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_service, "SEGMENTS_MAX", 3)

    async def story(world: ProxyWorld) -> None:
        log, writer = await writing(world)
        for txid in range(1, 8):
            await write(writer, txid)
            await writer.roll()
        await write(writer, 8)
        await log.truncate((await direct(log))[2].dlsn)
        proxy = service(world)
        listed: list[LogSegment] = []
        answer = ListSegmentsResponse(has_more=True)
        while answer.has_more:
            first = listed[-1].log_segment_sequence_number + 1 if listed else 0
            answer = await proxy.list_segments(
                ListSegmentsRequest(stream="s", from_log_segment_sequence_number=first)
            )
            assert answer.header.code == StatusCode.SUCCESS
            assert len(answer.segments) <= 3
            listed += answer.segments
        assert [each.log_segment_sequence_number for each in listed] == list(range(1, 9))
        await log.refresh()
        for message, segment in zip(listed, log.segments, strict=True):
            assert message.truncation_status == segment.truncation
            assert message.in_progress == segment.in_progress == (segment.lssn == 8)
            assert message.first_transaction_id == segment.first_txid
            if not segment.in_progress:
                assert message.last_transaction_id == segment.last_txid
                assert message.record_count == segment.record_count == 1
                assert message.completion_time_ms == segment.completion_time_ms
                assert message.last_dlsn.entry_id == segment.last_entry_id
            else:
                assert not message.HasField("record_count")
        gone = await proxy.list_segments(ListSegmentsRequest(stream="gone"))
        assert gone.header.code == StatusCode.LOG_NOT_FOUND
        await writer.close()
        await proxy.close()

    run(tmp_path, story)


@pytest.mark.parametrize(
    ("error", "code", "retried"),
    [
        (errors.BookieUnavailable("x"), StatusCode.RETRYABLE_READ_EXCEPTION, True),
        (errors.NotEnoughBookies("x"), StatusCode.RETRYABLE_READ_EXCEPTION, True),
        (errors.IdleReader("x"), StatusCode.RETRYABLE_READ_EXCEPTION, False),
        (errors.Unavailable("x"), StatusCode.STREAM_UNAVAILABLE, True),
        (errors.ReadCancelled("x"), StatusCode.SERVICE_UNAVAILABLE, False),
        (errors.CorruptData("x"), StatusCode.LOG_READ_ERROR, False),
        (errors.InvalidEnvelopedEntry("x"), StatusCode.LOG_READ_ERROR, False),
        (errors.DLIllegalState("x"), StatusCode.LOG_READ_ERROR, False),
        (errors.EntryNotFound("x"), StatusCode.LOG_READ_ERROR, False),
        (errors.LedgerNotFound("x"), StatusCode.LOG_READ_ERROR, False),
        (errors.LogTruncated("x"), StatusCode.LOG_SEGMENT_IS_TRUNCATED, False),
        (errors.AlreadyTruncatedTransaction("x"), StatusCode.TRUNCATED_TRANSACTION, False),
        (errors.EndOfStream("x"), StatusCode.END_OF_STREAM, False),
        (errors.LogNotFound("x"), StatusCode.LOG_NOT_FOUND, False),
        (errors.OverCapacity("x"), StatusCode.OVER_CAPACITY, False),
    ],
)
def test_errors_of_reading_have_their_codes(
    error: CoreError, code: StatusCode, retried: bool
) -> None:
    assert failure_of(error) == (code, "x")
    assert is_retried(error) is retried
