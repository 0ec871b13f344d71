"""Writes of one call each, without numbers: DistributedLog's own way, which may write twice."""

from collections.abc import Sequence

from tailrace.protocol.distributedlog.dlsn import DLSN, INVALID
from tailrace.protocol.proxy.methods import WRITE_PROXY
from tailrace.protocol.proxy.write_proxy_pb2 import WriteBulkRequest, WriteRequest, WriteResponse
from tailrace.proxy.client.caller import Caller
from tailrace.proxy.client.errors import proxy_error
from tailrace.proxy.client.messages import code_of, dlsn_of, write_context
from tailrace.proxy.owner.codes import StatusCode

_WRITE = WRITE_PROXY.methods["write"]
_WRITE_BULK = WRITE_PROXY.methods["write_bulk"]


class UnaryWrites:
    """Writes through a caller. After an unknown outcome a record is sent again."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def write(
        self,
        stream: str,
        payload: bytes,
        *,
        is_record_set: bool = False,
        timeout_ms: int | None = None,
    ) -> DLSN:
        """Write a record, or a set; return its position, or the first one's. Errors: ProxyError."""

        def build(tried: list[str]) -> WriteRequest:
            context = write_context(stream, tried, payload)
            context.is_record_set = is_record_set
            return WriteRequest(stream=stream, payload=payload, context=context)

        answer: WriteResponse = await self._caller.ask(_WRITE, stream, build, timeout_ms)
        return _position(answer)

    async def write_bulk(self, stream: str, payloads: Sequence[bytes]) -> list[DLSN]:
        """Write records in their order. Errors: ProxyError of the first that was not written."""

        def build(tried: list[str]) -> WriteBulkRequest:
            context = write_context(stream, tried, *payloads)
            return WriteBulkRequest(stream=stream, payloads=payloads, context=context)

        answer = await self._caller.ask(_WRITE_BULK, stream, build)
        found: list[DLSN] = []
        for each in answer.responses:
            code = code_of(each.header)
            if code is not StatusCode.SUCCESS:
                done = len(found)
                text = f"{done} of {len(payloads)} records are written; {each.header.error}"
                raise proxy_error(code, text, stream, is_unknown=True)
            found.append(_position(each))
        return found


def _position(answer: WriteResponse) -> DLSN:
    return dlsn_of(answer.dlsn) if answer.HasField("dlsn") else INVALID
