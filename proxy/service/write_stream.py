"""One call of WriteStream: requests are read ahead of their answers, within bounds.

    requests -> take -> Streams (in flight, in order) -> answers, in the order of the requests

Invariant: records in flight stay below the bounds, one request aside: the next one is read only
when there is room. Behind a request that failed none is begun (`WriteChain`); where its outcome is
not known, as of an entry that failed, that of those on their way with it is not known either. The
call's end, however it comes, ends what it started; records that were taken by their stream stay
taken.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator
from typing import NamedTuple, Protocol

from tailrace.core.runtime.tasks import Tasks
from tailrace.protocol.ids import Buffer
from tailrace.protocol.proxy.write_proxy_pb2 import (
    WriteContext,
    WriteStreamRequest,
    WriteStreamResponse,
)
from tailrace.proxy.owner.codes import StatusCode
from tailrace.proxy.owner.operations import Answer, WriteChain, WriterSequence
from tailrace.proxy.owner.streams import Streams
from tailrace.proxy.service.answers import header_of, stream_response, writer_of
from tailrace.proxy.service.config import WriteServiceConfig
from tailrace.proxy.service.invalid import InvalidRequest


class Refusing(Protocol):
    """What tells whether a request is refused before its stream hears of it."""

    def refusal(self, stream: str, context: WriteContext, *payloads: Buffer) -> Answer | None:
        """Return why a request is refused."""

    async def refusal_of_stream(self, stream: str) -> Answer | None:
        """Return why a stream is not one of this proxy's clients."""

    def too_many(self, records: int) -> Answer | None:
        """Return why so many records at once are refused."""


class _Asked(NamedTuple):
    id: int
    records: int
    """What it counts for: a request without records takes a place, too."""
    size_bytes: int
    answer: "asyncio.Future[Answer]"


class WriteCall:
    """One call, from its opening to its last answer."""

    def __init__(
        self,
        service: Refusing,
        streams: Streams,
        config: WriteServiceConfig,
        opened: "set[WriteCall]",
    ) -> None:
        """Be in `opened` from the opening to the end of the call."""
        self._opened = opened
        self._service = service
        self._streams = streams
        self._config = config
        self._stream = ""
        self._writer: WriterSequence | None = None
        """The number of the next record, if they have numbers."""
        self._last_id = 0
        self._chain = WriteChain()
        self._asked: deque[_Asked] = deque()
        self._records = self._bytes = 0
        """In flight."""
        self._is_read = False
        """Whether no further request will be taken."""
        self._failure: Exception | None = None
        """Why none is read any more, if that is no answer."""
        self._changed = asyncio.Event()
        """Set when there is something to answer."""
        self._has_room = asyncio.Event()

    async def run(
        self, requests: AsyncIterator[WriteStreamRequest]
    ) -> AsyncGenerator[WriteStreamResponse | bytes, None]:
        """Answer the requests of the call.

        Shape: the opening is answered with id 0 once the stream is owned; then each request, in
        order; the first answer other than SUCCESS is the last.
        Errors: InvalidRequest for requests that the contract does not allow, after the answers to
        those before. Cancel: records that were read are written, perhaps.
        Cost: one submission for each request.
        """
        first = await anext(requests, None)
        if first is None:
            return
        answer = await self._open(first)
        yield WriteStreamResponse(header=header_of(answer))
        if answer.code is not StatusCode.SUCCESS:
            return
        tasks = Tasks("proxy.write_stream")
        tasks.start(self._read(requests), "read")
        self._opened.add(self)
        try:
            async for response in self._answers():
                yield response
        finally:
            self._opened.discard(self)
            await tasks.close()

    def end(self) -> None:
        """Wait for no further request: the call ends once those that were read are answered."""
        self._is_read = True
        self._changed.set()

    async def _open(self, first: WriteStreamRequest) -> Answer:
        if first.WhichOneof("request") != "open":
            raise InvalidRequest("the first request of a call must be `open`")
        self._stream = first.open.stream
        context = first.open.context
        if context.is_record_set:
            raise InvalidRequest("`is_record_set` is of Write: here each payload is a record")
        self._writer = writer_of(context)
        refusal = self._service.refusal(self._stream, context)
        problem = "" if self._writer is None else self._writer.problem(0)
        if problem:
            refusal = Answer(StatusCode.REQUEST_DENIED, problem)
        if refusal is None:
            refusal = await self._service.refusal_of_stream(self._stream)
        return await self._streams.heartbeat(self._stream) if refusal is None else refusal

    # ------------------------------------------------------------------ requests

    async def _read(self, requests: AsyncIterator[WriteStreamRequest]) -> None:
        try:
            async for request in requests:
                self._take(request)
                if self._chain.is_broken:
                    break
                while self._is_full():
                    self._has_room.clear()
                    await self._has_room.wait()
        except InvalidRequest as error:
            self._failure = error
        finally:
            self._is_read = True
            self._changed.set()

    def _is_full(self) -> bool:
        config = self._config
        return self._records >= config.stream_records_max or self._bytes >= config.stream_bytes_max

    def _take(self, request: WriteStreamRequest) -> None:
        if request.WhichOneof("request") != "records":
            raise InvalidRequest("`open` comes first and once; all others are `records`")
        records = request.records
        if records.id <= self._last_id:
            raise InvalidRequest(f"id {records.id} after {self._last_id}: they must rise from 1")
        self._last_id = records.id
        count = len(records.payloads)
        refusal = self._service.too_many(count)
        payloads = tuple(records.payloads) if refusal is None else ()
        if refusal is None:
            context = WriteContext(crc32=records.crc32) if records.HasField("crc32") else _EMPTY
            refusal = self._service.refusal(self._stream, context, *payloads)
        if refusal is not None:
            self._chain.fail(self._chain.take())
            answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
            answer.set_result(refusal)
        else:
            answer = self._streams.write_bulk(
                self._stream, payloads, writer=self._writer, chain=self._chain
            )
            if self._writer is not None:
                self._writer = self._writer._replace(sequence=self._writer.sequence + count)
        asked = _Asked(records.id, max(count, 1), sum(map(len, payloads)), answer)
        self._records += asked.records
        self._bytes += asked.size_bytes
        self._asked.append(asked)
        self._changed.set()

    # ------------------------------------------------------------------ answers

    async def _answers(self) -> AsyncGenerator[bytes, None]:
        while self._asked or not self._is_read:
            if not self._asked:
                self._changed.clear()
                await self._changed.wait()
                continue
            await asyncio.wait([self._asked[0].answer])
            asked = self._asked.popleft()
            self._records -= asked.records
            self._bytes -= asked.size_bytes
            self._has_room.set()
            answer = asked.answer.result()
            yield stream_response(asked.id, answer)
            if answer.code is not StatusCode.SUCCESS:
                return
        if self._failure is not None:
            raise self._failure


_EMPTY = WriteContext()
