"""Read proxies over a real namespace, in virtual time: no waiting, and a hang is a Deadlock."""

from contextlib import aclosing, suppress
from random import Random
from typing import Any, NamedTuple

from tailrace.core.errors import EndOfStream
from tailrace.core.ledger.bookie_registry import LocalBookies
from tailrace.core.ledger.client import LedgerClient
from tailrace.core.ledger.config import LedgerClientConfig
from tailrace.core.ledger.config import ReadConfig as BookieReads
from tailrace.core.log.log import Log
from tailrace.core.log.namespace import LogNamespace
from tailrace.core.log.writer import LogWriter
from tailrace.protocol.bookkeeper.messages import ReadRequest as BookieRead
from tailrace.protocol.distributedlog.dlsn import DLSN
from tailrace.protocol.proxy.common_pb2 import Dlsn
from tailrace.protocol.proxy.read_proxy_pb2 import ReadRequest, ReadResponse
from tailrace.proxy.owner.codes import StatusCode
from tailrace.proxy.reading.config import ReadConfig
from tailrace.proxy.reading.read_service import ReadService
from tests.unit.core.log.world import Listener
from tests.unit.proxy.owner.world import ProxyWorld

BEFORE_ALL = DLSN(0, 0, 0)
OLDEST, LATEST = ReadRequest.OLDEST, ReadRequest.LATEST


class Got(NamedTuple):
    """A record as a reader of the proxy gets it."""

    dlsn: DLSN
    txid: int
    payload: bytes


class Ended(NamedTuple):
    """How a read ended that failed."""

    code: StatusCode
    error: str


def service(world: ProxyWorld, *, reads: BookieReads | None = None, **config: Any) -> ReadService:
    """A read proxy: a process of its own, with a session of its own."""
    store = world.server.open()
    ledgers = world.ledgers(store)
    if reads is not None:
        client_config = LedgerClientConfig(read=reads)
        ledgers = LedgerClient(store, LocalBookies(world.bookies), client_config, Random(7))
    namespace = LogNamespace(store, ledgers, world.config, world.clock)
    return ReadService(namespace, world.clock, ReadConfig(**config))


async def writing(world: ProxyWorld, name: str = "s", **changes: Any) -> tuple[Log, LogWriter]:
    """A stream and its writer, in a process of its own."""
    log = await world.log(name, **changes)
    return log, await log.open_writer(Listener())


def request(start: Any = OLDEST, *, stream: str = "s", tail: bool = True, most: int = 0) -> Any:
    """`start`: an edge, a DLSN, or a txid in a list."""
    made = ReadRequest(stream=stream, tail=tail, records_max=most)
    if isinstance(start, DLSN):
        made.dlsn.CopyFrom(
            Dlsn(
                log_segment_sequence_number=start.lssn,
                entry_id=start.entry_id,
                slot_id=start.slot,
            )
        )
    elif isinstance(start, list):
        made.transaction_id = start[0]
    else:
        made.edge = start
    return made


class Reader:
    """One read, and what came of it."""

    def __init__(self, proxy: ReadService, asked: ReadRequest) -> None:
        self.responses = proxy.read(asked)
        self.got: list[Got] = []
        self.tails: list[int] = []
        """After how many records it was at the tail."""
        self.ended: Ended | None = None
        self.is_over = False

    async def step(self) -> bool:
        """Take the next response; False when there is none."""
        try:
            response = await anext(self.responses)
        except StopAsyncIteration:
            self.is_over = True
            return False
        self.take(response)
        return True

    def take(self, response: ReadResponse | bytes) -> None:
        if isinstance(response, bytes):
            response = ReadResponse.FromString(response)
        assert self.ended is None, "a response behind the last"
        if response.header.code != StatusCode.SUCCESS:
            assert not response.records
            self.ended = Ended(StatusCode(response.header.code), response.header.error)
            return
        assert response.records or response.at_tail
        self.got += got_of(response)
        if response.at_tail:
            self.tails.append(len(self.got))

    async def until(self, records: int) -> list[Got]:
        """Take responses until there are so many records."""
        while len(self.got) < records and await self.step():
            pass
        return self.got

    async def to_end(self) -> list[Got]:
        while await self.step():
            pass
        return self.got

    @property
    def txids(self) -> list[int]:
        return [each.txid for each in self.got]

    async def close(self) -> None:
        await self.responses.aclose()


async def read(proxy: ReadService, start: Any = OLDEST, **options: Any) -> Reader:
    """Read to the end of a read that ends."""
    options.setdefault("tail", False)
    reader = Reader(proxy, request(start, **options))
    async with aclosing(reader.responses):
        await reader.to_end()
    return reader


def got_of(response: ReadResponse) -> list[Got]:
    return [
        Got(
            DLSN(
                each.dlsn.log_segment_sequence_number,
                each.dlsn.entry_id,
                each.dlsn.slot_id,
            ),
            each.transaction_id,
            each.payload,
        )
        for each in response.records
    ]


async def direct(log: Log, start: Any = BEFORE_ALL) -> list[Got]:
    """What a direct reader gets, up to the tail or the end of the stream."""
    reader = await log.open_reader(start)
    found: list[Got] = []
    with suppress(EndOfStream):
        while batch := await reader.read(1 << 20):
            found += [Got(dlsn, each.txid, bytes(each.payload)) for dlsn, each in batch]
    await reader.close()
    return found


def entry_reads(world: ProxyWorld) -> list[tuple[int, int]]:
    """Entries that bookies were asked for, long polls aside."""
    asked = [one for bookie in world.bookies for one in bookie.requests]
    return [
        (one.ledger_id, one.entry_id)
        for one in asked
        if isinstance(one, BookieRead) and one.previous_lac is None
    ]
