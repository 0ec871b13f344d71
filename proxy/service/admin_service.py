"""What `ProxyAdmin` answers: the streams of a proxy with their loads, and moves."""

import asyncio
from collections.abc import AsyncGenerator

from tailrace.protocol.proxy.proxy_admin_pb2 import (
    ListStreamsRequest,
    ListStreamsResponse,
    ReleaseToRequest,
    ReleaseToResponse,
    StreamLoad,
)
from tailrace.proxy.owner.location import parse_location
from tailrace.proxy.owner.streams import Streams
from tailrace.proxy.service.answers import header_of
from tailrace.proxy.service.invalid import InvalidRequest
from tailrace.proxy.service.write_service import NAMES_A_TURN, WriteService, name_matcher


class AdminService:
    """One write proxy's service for operators (PROXY_ADMIN). All calls come from the loop."""

    def __init__(self, streams: Streams, writes: WriteService) -> None:
        """Refuse what `writes` refuses of clients: names, and streams that are reserved."""
        self._streams = streams
        self._writes = writes

    async def list_streams(
        self, request: ListStreamsRequest
    ) -> AsyncGenerator[ListStreamsResponse, None]:
        """Tell which streams the proxy owns, by name, and how much is written to each.

        Shape: at most `NAMES_A_TURN` names are gone through for a response; no empty response.
        Errors: InvalidRequest for an expression that RE2 or this proxy does not take.
        Cost: as a handshake, and a sort of the names.
        """
        matches = name_matcher(request.stream_name_regex)
        owned = sorted(self._streams.owned)
        for at in range(0, len(owned), NAMES_A_TURN):
            response = ListStreamsResponse()
            for stream in owned[at : at + NAMES_A_TURN]:
                if matches(stream):
                    response.streams.append(self._load(stream))
            if response.streams:
                yield response
            await asyncio.sleep(0)

    async def release_to(self, request: ReleaseToRequest) -> ReleaseToResponse:
        """Let a stream go, and redirect its requests to the proxy that is to claim it.

        Shape: as `Streams.release_to`. Errors: InvalidRequest for what is not a location.
        """
        target = parse_location(request.location)
        if target is None:
            raise InvalidRequest(f"{request.location[:100]!r} is not 1;SHARD;HOST:PORT")
        answer = self._writes.refusal_of_name(request.stream)
        if answer is None:
            answer = await self._writes.refusal_of_stream(request.stream)
        if answer is None:
            answer = await self._streams.release_to(request.stream, target)
        return ReleaseToResponse(header=header_of(answer))

    def _load(self, stream: str) -> StreamLoad:
        load = self._streams.load_of(stream)
        return StreamLoad(
            stream=stream, records_per_second=load.records, bytes_per_second=load.size_bytes
        )
