"""Many readers of one stream over gRPC, in a process of their own, as plain as calls can be.

`python -m tests.bench.readers_client AT STREAM READERS` prints a line of JSON when all wait at the
tail, and one for each line of its input: when all readers have had so many `messages`, or responses
with so many `records` in all; or when so many readers `stop`, which begin and then do not read.
"""

import asyncio
import json
import sys
import time
from contextlib import AsyncExitStack
from typing import Any, Final

import grpc
import uvloop

from tailrace.core.runtime.collector import settle_collector
from tailrace.core.runtime.tasks import Tasks
from tailrace.protocol.proxy.common_pb2 import SUCCESS
from tailrace.protocol.proxy.methods import READ_PROXY
from tailrace.protocol.proxy.read_proxy_pb2 import ReadRequest, ReadResponse

CONNECTIONS: Final = 20
_OPTIONS: Final = (("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", -1))
_LOOK_PAUSE_S: Final = 0.01


class _Readers:
    def __init__(self, at: str, stream: str, count: int) -> None:
        self._at = at
        self._count = count
        request = ReadRequest(stream=stream, tail=True, edge=ReadRequest.LATEST)
        self._request = request.SerializeToString()
        self._path = READ_PROXY.methods["read"].path
        self._channels: list[grpc.aio.Channel] = []
        self._stopped: list[Any] = []
        self._records_of: dict[bytes, int] = {}
        """By a response's bytes: all readers get the same ones."""
        self.at_tail = self.responses = 0
        self.messages = [0] * count
        self.records = [0] * count

    async def run(self) -> None:
        tasks = Tasks("readers", self._on_failure)
        async with AsyncExitStack() as stack:
            for _ in range(CONNECTIONS):
                channel = grpc.aio.insecure_channel(self._at, options=_OPTIONS)
                self._channels.append(await stack.enter_async_context(channel))
            stack.push_async_callback(tasks.close)
            began_s = time.perf_counter()
            for number in range(self._count):
                tasks.start(self._read(number), "read")
            await self._until(lambda: self.at_tail >= self._count)
            settle_collector()
            self._say(began_s)
            while line := await asyncio.to_thread(sys.stdin.readline):
                await self._obey(*line.split())

    async def _obey(self, what: str, count: str) -> None:
        began_s, self.responses = time.perf_counter(), 0
        wanted = int(count)
        if what == "stop":
            for number in range(wanted):
                call = self._call(number)
                self._stopped.append(call)
                await call.read()
        elif what == "messages":
            await self._until(lambda: min(self.messages) >= wanted)
        else:
            await self._until(lambda: min(self.records) >= wanted - 1)
        self._say(began_s)

    def _call(self, number: int) -> Any:
        channel = self._channels[number % CONNECTIONS]
        return channel.unary_stream(self._path)(self._request)

    async def _read(self, number: int) -> None:
        call = self._call(number)
        while True:
            data = await call.read()
            if data is grpc.aio.EOF:
                raise RuntimeError(f"a read ended: {await call.code()}")
            count = self._records_of.get(data)
            if count is None:
                response = ReadResponse.FromString(data)
                if response.header.code != SUCCESS:
                    raise RuntimeError(f"a read failed: {response.header}")
                count = self._records_of[data] = len(response.records)
            if count:
                self.messages[number] += 1
                self.records[number] += count
                self.responses += 1
            else:
                self.at_tail += 1

    async def _until(self, holds: Any) -> None:
        while True:
            if holds():
                return
            await asyncio.sleep(_LOOK_PAUSE_S)

    def _say(self, began_s: float) -> None:
        found = {"seconds": time.perf_counter() - began_s, "responses": self.responses}
        sys.stdout.write(json.dumps(found) + "\n")
        sys.stdout.flush()

    def _on_failure(self, error: Exception) -> None:
        sys.stderr.write(f"readers failed: {error!r}\n")
        sys.exit(1)


def main() -> None:
    """Do what the command line says."""
    at, stream, count = sys.argv[1:]
    uvloop.run(_Readers(at, stream, int(count)).run())


if __name__ == "__main__":
    main()
