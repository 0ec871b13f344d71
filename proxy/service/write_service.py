"""What `WriteProxy` answers: each rpc checks its request and asks the proxy's streams.

    request -> refusal (name, checksum, reserved stream) -> Streams -> Answer -> response

Source: reference DistributedLog 9.1; DistributedLogServiceImpl.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import TYPE_CHECKING, Any, Final

from tailrace.core.errors import CoreError, InvalidStreamName
from tailrace.core.log.names import check_log_name
from tailrace.core.runtime.expressions import BadExpression, expression
from tailrace.protocol.distributedlog.record_set import announced_size
from tailrace.protocol.errors import DecodeError
from tailrace.protocol.proxy.checksum import request_checksum
from tailrace.protocol.proxy.write_proxy_pb2 import (
    HandshakeRequest,
    HeartbeatRequest,
    ServerInfo,
    SetAcceptNewStreamRequest,
    StreamRequest,
    TruncateRequest,
    WriteBulkRequest,
    WriteBulkResponse,
    WriteContext,
    WriteRequest,
    WriteResponse,
    WriteStreamRequest,
    WriteStreamResponse,
)
from tailrace.proxy.owner.codes import StatusCode
from tailrace.proxy.owner.context import ReservedStream, none_reserved
from tailrace.proxy.owner.location import ProxyLocation
from tailrace.proxy.owner.operations import Answer, answer_of
from tailrace.proxy.owner.streams import Streams
from tailrace.proxy.service.answers import bulk_response, dlsn_of, write_response, writer_of
from tailrace.proxy.service.config import WriteServiceConfig
from tailrace.proxy.service.invalid import InvalidRequest
from tailrace.proxy.service.write_stream import WriteCall

if TYPE_CHECKING:
    from tailrace.protocol.ids import Buffer

OWNERSHIPS_BYTES_MAX: Final = 1024 * 1024
"""Of a handshake's answer: clients of gRPC take 4 MiB. Owners are found without it too."""
NAMES_A_TURN: Final = 50
"""Names that are matched before others have their turn: 0.4 ms each, at most."""
SET_BYTES_MAX: Final = 2 * 1024 * 1024
"""Of a record set, unpacked. DistributedLog's writers fill sets of 1 MiB."""
STREAM_NAME_MAX: Final = 1_024
"""Characters. The metadata store refuses longer paths later, with a worse text."""


class WriteService:
    """One write proxy's service (WRITE_PROXY). All calls come from the loop."""

    def __init__(
        self,
        streams: Streams,
        location: ProxyLocation,
        config: WriteServiceConfig,
        reserved: ReservedStream = none_reserved,
    ) -> None:
        """`location`: where clients reach this proxy, as its locks say.

        `reserved`: asked when a request comes, and by `streams` behind the stream's lock.
        """
        streams.reserve(reserved)
        self._streams = streams
        self._location = location
        self._config = config
        self._reserved = reserved
        self._opened: set[WriteCall] = set()

    # ------------------------------------------------------------------ the proxy

    async def handshake(self, request: HandshakeRequest) -> ServerInfo:
        """Tell which requests the proxy takes, and on demand the streams that it owns.

        Shape: streams up to 1 MiB of names and locations, in the order of their claims.
        Errors: InvalidRequest for an expression that RE2 or this proxy does not take.
        Cost: 4 us a stream usually, 0.4 ms at most; others have turns between.
        Source: DistributedLogServiceImpl.handshakeWithClientInfo.
        """
        info = self._server_info()
        matches = name_matcher(request.stream_name_regex)
        if not request.get_ownerships:
            return info
        text, left = self._location.text, OWNERSHIPS_BYTES_MAX
        for number, stream in enumerate(self._streams.owned):
            if number % NAMES_A_TURN == NAMES_A_TURN - 1:
                await asyncio.sleep(0)
            if matches(stream):
                left -= len(stream.encode()) + len(text) + _MAP_ENTRY_BYTES
                if left < 0:
                    break
                info.ownerships[stream] = text
        return info

    async def set_accept_new_stream(self, request: SetAcceptNewStreamRequest) -> ServerInfo:
        """Take new streams, or not. Source: DistributedLogServiceImpl.setAcceptNewStream."""
        self._streams.set_accept_new_stream(accepts=request.enabled)
        return self._server_info()

    def _server_info(self) -> ServerInfo:
        return ServerInfo(server_status=self._streams.status.name)

    # ------------------------------------------------------------------ writes

    async def write(self, request: WriteRequest) -> WriteResponse:
        """Write a record or a record set; the answer comes when it is durable.

        Shape, cancel: as `Streams.write`. Errors: none.
        Source: DistributedLogServiceImpl.writeWithContext.
        """
        payload = request.payload
        refusal = await self._refusal_of_all(request.stream, request.context, payload)
        if refusal is not None:
            return write_response(refusal)
        is_record_set = request.context.is_record_set
        if is_record_set:
            refusal = set_refusal(payload, self._config.set_records_max)
            if refusal is not None:
                return write_response(refusal)
        writer = writer_of(request.context)
        written = self._streams.write(
            request.stream, payload, is_record_set=is_record_set, writer=writer
        )
        return write_response(await written)

    async def write_bulk(self, request: WriteBulkRequest) -> WriteBulkResponse:
        """Write several records; the answer says what became of each.

        Shape, cancel: as `Streams.write_bulk`; REQUEST_DENIED for more than
        `proxy.request.records.max`. Errors: none.
        Source: DistributedLogServiceImpl.writeBulkWithContext.
        """
        refusal = self.too_many(len(request.payloads))
        if refusal is None:
            payloads = tuple(request.payloads)
            refusal = await self._refusal_of_all(request.stream, request.context, *payloads)
            if refusal is None:
                writer = writer_of(request.context)
                written = self._streams.write_bulk(request.stream, payloads, writer=writer)
                return bulk_response(await written)
        return bulk_response(refusal)

    def write_stream(
        self, requests: AsyncIterator[WriteStreamRequest]
    ) -> AsyncGenerator[WriteStreamResponse | bytes, None]:
        """Write many records of one stream, many of them in flight; see `WriteCall`."""
        return WriteCall(self, self._streams, self._config, self._opened).run(requests)

    def end_write_streams(self) -> None:
        """End the write streams whose clients send nothing now: else a stop waits for them.

        For a proxy whose streams are closed. What was read is answered first.
        """
        for call in self._opened:
            call.end()

    # ------------------------------------------------------------------ one stream

    async def get_owner(self, request: StreamRequest) -> WriteResponse:
        """Tell which proxy owns a stream, as far as this one knows.

        Shape: SUCCESS: this proxy, whose location comes too; FOUND: another; STREAM_UNAVAILABLE.
        Source: DistributedLogServiceImpl.getOwner.
        """
        refusal = self.refusal_of_name(request.stream)
        if refusal is not None:
            return write_response(refusal)
        answer = self._streams.owner_of(request.stream)
        if answer.code is StatusCode.FOUND and answer.location == self._location.text:
            answer = Answer(StatusCode.SUCCESS, location=answer.location)
        return write_response(answer)

    async def heartbeat(self, request: HeartbeatRequest) -> WriteResponse:
        """Keep a stream owned, or have it claimed.

        Source: DistributedLogServiceImpl.heartbeatWithOptions.
        """
        refusal = await self._refusal_of_all(request.stream, request.context)
        if refusal is not None:
            return write_response(refusal)
        to_readers = request.send_heartbeat_to_reader
        return write_response(await self._streams.heartbeat(request.stream, to_readers=to_readers))

    async def truncate(self, request: TruncateRequest) -> WriteResponse:
        """Give up the records before a position.

        Errors: InvalidRequest for a missing or negative position.
        Source: DistributedLogServiceImpl.truncate.
        """
        before = dlsn_of(request.dlsn)
        if min(before) < 0 or not request.HasField("dlsn"):
            raise InvalidRequest("dlsn is missing, or has a number below 0")
        text = before.serialize().encode()
        refusal = await self._refusal_of_all(request.stream, request.context, text)
        if refusal is not None:
            return write_response(refusal)
        return write_response(await self._streams.truncate(request.stream, before))

    async def create(self, request: StreamRequest) -> WriteResponse:
        """Make a stream. Source: DistributedLogServiceImpl.create."""
        return await self._change(request, self._streams.create)

    async def delete(self, request: StreamRequest) -> WriteResponse:
        """Delete a stream. Source: DistributedLogServiceImpl.delete."""
        return await self._change(request, self._streams.delete)

    async def release(self, request: StreamRequest) -> WriteResponse:
        """Let a stream go. Source: DistributedLogServiceImpl.release."""
        return await self._change(request, self._streams.release)

    async def _change(self, request: StreamRequest, change: Callable[[str], Any]) -> WriteResponse:
        refusal = await self._refusal_of_all(request.stream, request.context)
        if refusal is not None:
            return write_response(refusal)
        return write_response(await change(request.stream))

    # ------------------------------------------------------------------ refusals

    def refusal(self, stream: str, context: WriteContext, *payloads: "Buffer") -> Answer | None:
        """Return why a request is refused before its stream hears of it; None: it is not."""
        refusal = self.refusal_of_name(stream)
        if refusal is None and context.HasField("crc32"):
            refusal = checksum_refusal(context.crc32, stream, *payloads)
        return refusal

    def too_many(self, records: int) -> Answer | None:
        """Return why so many records at once are refused; None: they are not."""
        limit = self._config.request_records_max
        if records <= limit:
            return None
        text = f"{records} records, {limit} are taken at once (proxy.request.records.max)"
        return Answer(StatusCode.REQUEST_DENIED, text)

    def refusal_of_name(self, stream: str) -> Answer | None:
        """Return why nothing may be asked of a stream of this name; None: it may."""
        if len(stream) > STREAM_NAME_MAX:
            text = f"a name of {len(stream)} characters, {STREAM_NAME_MAX} are taken"
            return Answer(StatusCode.INVALID_STREAM_NAME, text)
        try:
            if check_log_name(stream) != stream:  # else one log had two owners here
                text = f"{stream!r} begins with '/': a stream has one name"
                return Answer(StatusCode.INVALID_STREAM_NAME, text)
        except InvalidStreamName as error:
            return Answer(StatusCode.INVALID_STREAM_NAME, str(error))
        return None

    async def refusal_of_stream(self, stream: str) -> Answer | None:
        """Return why a stream is not one of this proxy's clients; None: it may be written.

        One that the proxy owns was asked about when it was claimed.
        """
        if self._streams.is_owned(stream):
            return None
        try:
            reason = await self._reserved(stream)
        except CoreError as error:
            return answer_of(error, self._location)
        return None if reason is None else Answer(StatusCode.REQUEST_DENIED, reason)

    async def _refusal_of_all(
        self, stream: str, context: WriteContext, *payloads: "Buffer"
    ) -> Answer | None:
        refusal = self.refusal(stream, context, *payloads)
        return await self.refusal_of_stream(stream) if refusal is None else refusal


_MAP_ENTRY_BYTES: Final = 10


def checksum_refusal(crc32: int, stream: str, *payloads: "Buffer") -> Answer | None:
    """Return why a request is refused whose checksum is not that of what came; None: it is."""
    found = request_checksum(stream, *payloads)
    if found == crc32:
        return None
    text = f"the request says CRC32 {crc32:#010x}, what came has {found:#010x}"
    return Answer(StatusCode.CHECKSUM_FAILED, text)


def set_refusal(payload: bytes, values_max: int) -> Answer | None:
    """Return why a record set is refused before it is decoded; None: it is not.

    Its 15 KB may be a million values, which took 6 s to decode.
    """
    try:
        values, size_bytes = announced_size(payload)
    except DecodeError as error:
        return Answer(StatusCode.REQUEST_DENIED, str(error))
    text = ""
    if values > values_max:
        text = f"{values} values, {values_max} are taken (proxy.record.set.records.max)"
    elif size_bytes > SET_BYTES_MAX:
        text = f"{size_bytes} bytes of values, {SET_BYTES_MAX} are taken"
    return Answer(StatusCode.REQUEST_DENIED, text) if text else None


def name_matcher(regex: str) -> Callable[[str], Any]:
    """Return what tells whether a whole name matches. Errors: InvalidRequest."""
    if not regex:
        return lambda _: True
    try:
        return expression(regex).fullmatch  # type: ignore[no-any-return]
    except BadExpression as error:
        raise InvalidRequest(f"stream_name_regex: {error}") from None
