"""A broker that answers as the test says, and places that the test changes."""

import asyncio
import ssl
from collections.abc import Callable
from typing import Any, NamedTuple, Self

from tailrace.protocol.ids import TopicPartition
from tailrace.protocol.kafka.api import Api
from tailrace.protocol.kafka.apis import API_VERSIONS, APIS
from tailrace.protocol.kafka.codec import decode_request
from tailrace.protocol.kafka.header import decode_request_header, response_frame
from tailrace.protocol.kafka.messages.api_versions import ApiVersion, ApiVersionsResponse


class At(NamedTuple):
    host: str
    port: int


class MovingPlaces:
    """Where brokers are: `move` tells who listens."""

    def __init__(self) -> None:
        self.at: dict[int, At] = {}
        self.listeners: list[Callable[[], None]] = []

    def endpoint(self, broker_id: int) -> At | None:
        return self.at.get(broker_id)

    def listen(self, callback: Callable[[], None]) -> None:
        self.listeners.append(callback)

    def move(self, broker_id: int, at: At | None) -> None:
        self.at.pop(broker_id, None)
        if at is not None:
            self.at[broker_id] = at
        for callback in self.listeners:
            callback()


class FakeRoutes(MovingPlaces):
    """Partitions are this broker's, 1, until a test gives them away."""

    def __init__(self) -> None:
        super().__init__()
        self.owners: dict[TopicPartition, int | None] = {}

    def owner(self, topic: str, partition: int) -> int | None:
        return self.owners.get(TopicPartition(topic, partition), 1)

    def is_mine(self, topic: str, partition: int) -> bool:
        return self.owner(topic, partition) == 1

    def give(self, owner: int | None, *partitions: TopicPartition) -> None:
        self.owners.update(dict.fromkeys(partitions, owner))
        for callback in self.listeners:
            callback()


class Sent(NamedTuple):
    """One request on its way."""

    broker_id: int
    api: Api[Any, Any]
    request: Any
    answer: asyncio.Future[Any]


class FakePeers:
    """Other brokers; a test answers what was sent, or has it fail."""

    def __init__(self) -> None:
        self.sent: list[Sent] = []

    async def send(
        self, broker_id: int, api: Any, request: Any, _timeout_s: float, version_min: int = 0
    ) -> Any:
        assert version_min in api.versions
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.sent.append(Sent(broker_id, api, request, answer))
        return await answer


class OtherBroker:
    """Listens on a port of its own; what is asked waits in `asked` until the test answers."""

    def __init__(
        self, *, version_max: int | None = None, tls: ssl.SSLContext | None = None
    ) -> None:
        self.version_max = version_max
        self._tls = tls
        self.asked: asyncio.Queue[Asked] = asyncio.Queue()
        self.connections = 0
        self.lost = asyncio.Event()
        self._writers: list[asyncio.StreamWriter] = []

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._tls)
        self.at = At("127.0.0.1", self._server.sockets[0].getsockname()[1])
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        self.hang_up()
        await self._server.wait_closed()

    def hang_up(self) -> None:
        for writer in self._writers:
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.append(writer)
        try:
            while True:
                size = int.from_bytes(await reader.readexactly(4), "big")
                frame = memoryview(await reader.readexactly(size))
                header, at = decode_request_header(frame)
                api = APIS[header.api_key]
                asked = Asked(writer, api, header.api_version, header.correlation_id, frame[at:])
                if api is API_VERSIONS:
                    asked.answer(ApiVersionsResponse(api_keys=self._spoken()))
                else:
                    self.asked.put_nowait(asked)
        except (asyncio.IncompleteReadError, ConnectionError):
            self.lost.set()
        finally:
            writer.close()

    def _spoken(self) -> list[ApiVersion]:
        return [
            ApiVersion(
                api_key=api.key,
                min_version=api.versions[0],
                max_version=api.versions[-1] if self.version_max is None else self.version_max,
            )
            for api in APIS.values()
        ]


class Asked(NamedTuple):
    """One request that came."""

    writer: asyncio.StreamWriter
    api: Api[Any, Any]
    version: int
    correlation_id: int
    body: memoryview

    @property
    def request(self) -> Any:
        return decode_request(self.api, self.version, self.body)

    def answer(self, response: Any, correlation_id: int | None = None) -> None:
        number = self.correlation_id if correlation_id is None else correlation_id
        self.writer.writelines(response_frame(self.api, self.version, number, response))
