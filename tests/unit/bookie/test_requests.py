"""The rules of requests, over the local client and over TCP, with entries in one file or in two."""

import asyncio
import errno
import os
from pathlib import Path

import pytest
from typing_extensions import override

from tailrace.bookie.app import BookieProcess, start_bookie
from tailrace.bookie.local import LocalBookieClient
from tailrace.core.autorecovery.ledger_check import Copy, judge
from tailrace.core.ledger.bookie_client import BookieClient
from tailrace.core.ledger.config import BookieClientConfig
from tailrace.core.ledger.tcp_bookie import TcpBookieClient
from tailrace.core.runtime.clock import ManualClock
from tailrace.core.runtime.files import SystemFiles
from tailrace.protocol.bookkeeper.availability import decode_availability
from tailrace.protocol.bookkeeper.entry import ENTRY_BYTES_LIMIT, pack_lac
from tailrace.protocol.bookkeeper.messages import (
    AddRequest,
    AuthRequest,
    AuthResponse,
    BatchReadRequest,
    BookieInfo,
    BookieInfoRequest,
    BookieInfoResponse,
    ErrorResponse,
    ForceLedgerRequest,
    ForceLedgerResponse,
    ListEntriesRequest,
    OperationType,
    ReadLacRequest,
    ReadRequest,
    ReadResponse,
    StartTlsRequest,
    StatusCode,
    UnknownRequest,
    WriteLacRequest,
)
from tailrace.protocol.ids import BookieId, LedgerId
from tests.unit.bookie.tcp import served
from tests.unit.bookie.world import (
    DIGEST,
    KEY,
    L1,
    L2,
    OTHER_KEY,
    add,
    ask,
    entry_body,
    fence,
    open_small,
    read,
    run,
    small_config,
)
from tests.unit.core.ledger.bookie_contract import BookieContract

EOK = StatusCode.EOK


class _LocalContract(BookieContract):
    journal_write_data = False

    @pytest.fixture(autouse=True)
    def _directory(self, tmp_path: Path) -> None:
        self.directory = tmp_path

    @override
    async def open_client(self) -> BookieClient:
        self.bookie = await open_small(self.directory, journal_write_data=self.journal_write_data)
        return LocalBookieClient(self.bookie, BookieId("local"))

    @override
    async def close_client(self, client: BookieClient) -> None:
        await client.close()
        await self.bookie.close()


class TestLocalContract(_LocalContract):
    pass


class TestLocalContractWithDataInJournal(_LocalContract):
    journal_write_data = True


class TestTcpContract(BookieContract):
    process: BookieProcess

    @pytest.fixture(autouse=True)
    def _directory(self, tmp_path: Path) -> None:
        self.directory = tmp_path

    @override
    async def open_client(self) -> BookieClient:
        config = small_config(self.directory)
        self.process = await start_bookie(config, None, ManualClock(), SystemFiles())

        async def resolve() -> tuple[str, int]:
            return "127.0.0.1", self.process.server.port

        return TcpBookieClient(BookieId("test:3181"), resolve, BookieClientConfig())

    @override
    async def close_client(self, client: BookieClient) -> None:
        await client.close()
        await self.process.close()


def test_reads_of_what_is_not_there(tmp_path: Path) -> None:
    async def story() -> None:
        bookie = await open_small(tmp_path)
        assert (await ask(bookie, read(L1))).status is StatusCode.ENOLEDGER
        assert (await ask(bookie, ReadLacRequest(L1))).status is StatusCode.ENOENTRY
        assert (await ask(bookie, ListEntriesRequest(L1))).status is StatusCode.ENOLEDGER
        assert await ask(bookie, ForceLedgerRequest(L1)) == ForceLedgerResponse(EOK, L1)
        negative = await ask(bookie, read(LedgerId(-1)))
        assert negative == ErrorResponse(StatusCode.EBADREQ, OperationType.READ_ENTRY)
        await ask(bookie, add(L1, 0))
        assert (await ask(bookie, read(L1, -2))).status is StatusCode.EBADREQ
        await bookie.checkpoint()
        for missing in (1, 2**31, 2**40, 2**63 - 1):
            assert (await ask(bookie, read(L1, missing))).status is StatusCode.ENOENTRY
        far = ReadRequest(L1, -1, previous_lac=-(2**63), timeout_ms=2**62, piggyback=True)
        assert (await ask(bookie, far)).status is EOK
        far = ReadRequest(L1, -1, previous_lac=2**63 - 1, timeout_ms=-(2**63), piggyback=True)
        assert (await ask(bookie, far)).status is EOK
        await bookie.close()

    run(story)


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (AddRequest(L1, 0, KEY, (b"12345",)), StatusCode.EBADREQ),
        (AddRequest(L1, 0, KEY, ()), StatusCode.EBADREQ),
        (AddRequest(L1, 1, KEY, (entry_body(L1, 0, b"x"),)), StatusCode.EBADREQ),
        (AddRequest(L2, 0, KEY, (entry_body(L1, 0, b"x"),)), StatusCode.EBADREQ),
        (
            AddRequest(L1, 0, KEY, (entry_body(L1, 0, bytes(ENTRY_BYTES_LIMIT)),)),
            StatusCode.EBADREQ,
        ),
        (AddRequest(L1, -5, KEY, (entry_body(L1, -5, b"x"),)), StatusCode.EBADREQ),
        (AddRequest(L1, 2**31, KEY, (entry_body(L1, 2**31, b"x"),)), StatusCode.EBADREQ),
        (AddRequest(L1, 0, b"", (entry_body(L1, 0, b"x"),)), StatusCode.EUA),
        (AddRequest(L1, 0, bytes(200), (entry_body(L1, 0, b"x"),)), StatusCode.EUA),
        (ReadRequest(L1, -1, fence=True), StatusCode.EUA),
        (WriteLacRequest(L1, 3, KEY, b"short"), StatusCode.EBADREQ),
        (WriteLacRequest(L1, 3, KEY, pack_lac(L1, 4, DIGEST)), StatusCode.EBADREQ),
        (WriteLacRequest(L1, 3, KEY, pack_lac(L1, 3, DIGEST) + bytes(600)), StatusCode.EBADREQ),
        (WriteLacRequest(L1, 3, b"", pack_lac(L1, 3, DIGEST)), StatusCode.EUA),
    ],
)
def test_bad_requests_are_refused_and_leave_nothing(
    tmp_path: Path, request_: AddRequest, status: StatusCode
) -> None:
    async def story() -> None:
        bookie = await open_small(tmp_path)
        assert (await ask(bookie, request_)).status is status
        assert (await ask(bookie, read(L1))).status is StatusCode.ENOLEDGER
        await bookie.close()

    run(story)


def test_body_in_many_small_parts(tmp_path: Path) -> None:
    body = entry_body(L1, 0, b"payload", lac=-1)

    async def story() -> None:
        bookie = await open_small(tmp_path)
        parts = tuple(body[i : i + 1] for i in range(len(body)))
        assert (await ask(bookie, AddRequest(L1, 0, KEY, parts))).status is EOK
        assert (await ask(bookie, read(L1, 0))).body == body
        shortest = (body[:8], bytes(7) + b"\x01", bytes(8))  # ids and a LAC
        assert (await ask(bookie, AddRequest(L1, 1, KEY, shortest))).status is EOK
        assert (await ask(bookie, read(L1, 1))).body == b"".join(shortest)
        await bookie.close()

    run(story)


def test_requests_without_ledger(tmp_path: Path) -> None:
    async def story() -> None:
        bookie = await open_small(tmp_path)
        auth = await ask(bookie, AuthRequest("some-plugin", b"hello"))
        assert auth == AuthResponse(EOK, "AuthDisabledPlugin", b"")
        assert (await ask(bookie, StartTlsRequest())).status is StatusCode.EBADREQ
        unknown = await ask(bookie, UnknownRequest(99, StatusCode.EBADVERSION))
        assert unknown == ErrorResponse(StatusCode.EBADVERSION, 99)
        info = await ask(bookie, BookieInfoRequest(BookieInfo.FREE_DISK_SPACE))
        assert info.total_disk_capacity is None
        assert info.free_disk_space > 0
        assert await ask(bookie, BookieInfoRequest()) == BookieInfoResponse(EOK)
        await bookie.close()

    run(story)


def test_list_of_entries(tmp_path: Path) -> None:
    async def story() -> None:
        bookie = await open_small(tmp_path)
        for entry_id in (0, 1, 4000):
            await ask(bookie, add(L1, entry_id))
        await bookie.checkpoint()
        for entry_id in (2, 7):
            await ask(bookie, add(L1, entry_id))
        response = await ask(bookie, ListEntriesRequest(L1))
        groups = decode_availability(response.availability)
        assert [i for group in groups for i in group.entry_ids()] == [0, 1, 2, 7, 4000]
        await bookie.close()

    run(story)


def test_a_fence_is_answered_after_the_adds_before_it(tmp_path: Path) -> None:
    async def story() -> None:
        bookie = await open_small(tmp_path)
        adds = [ask(bookie, add(L1, i)) for i in range(50)]
        fenced = ask(bookie, fence(L1))
        late = ask(bookie, add(L1, 50))
        assert (await late).status is StatusCode.EFENCED
        assert [(await a).status for a in adds] == [EOK] * 50
        assert (await fenced).body == entry_body(L1, 49, b"payload")
        assert (await fenced).max_lac is None
        await bookie.close()

    run(story)


def test_too_many_pending_adds_are_refused(tmp_path: Path) -> None:
    async def story() -> None:
        bookie = await open_small(tmp_path, pending_bytes_max=5)
        big = bytes(1024 * 1024)
        answers = [ask(bookie, add(L1, i, big)) for i in range(1)]
        await answers[0]
        answers = [ask(bookie, add(L1, i, big)) for i in range(1, 20)]
        statuses = [(await a).status for a in answers]
        assert set(statuses) == {EOK, StatusCode.ETOOMANYREQUESTS}
        assert bookie.metrics.adds_refused_total == statuses.count(StatusCode.ETOOMANYREQUESTS)
        assert bookie.pending_bytes == 0
        assert (await ask(bookie, add(L1, 99))).status is EOK
        await bookie.close()

    run(story)


def poll(previous: int, timeout_ms: int | None = 60_000, *, entry_id: int = -1) -> ReadRequest:
    return ReadRequest(
        L1, entry_id, previous_lac=previous, timeout_ms=timeout_ms, piggyback=entry_id == -1
    )


def test_long_poll_wakes_when_the_lac_moves(tmp_path: Path) -> None:
    async def story() -> None:
        bookie = await open_small(tmp_path)
        assert (await ask(bookie, poll(-1))).status is StatusCode.ENOLEDGER
        await ask(bookie, add(L1, 0))
        waiting = ask(bookie, poll(-1))
        plain = ask(bookie, poll(-1, entry_id=1))
        await ask(bookie, ForceLedgerRequest(L1))
        assert bookie.metrics.long_polls == 2
        assert not waiting.done()
        assert not plain.done()
        await ask(bookie, add(L1, 1, lac=0))
        response = await waiting
        assert response[:3] == (EOK, L1, 0)
        assert (response.body, response.max_lac) == (entry_body(L1, 0, b"payload"), 0)
        assert response.lac_update_timestamp == ManualClock().now_ms()
        assert (await plain).body == entry_body(L1, 1, b"payload", lac=0)
        assert bookie.metrics.long_polls == 0
        again = await ask(bookie, poll(-1))
        assert again.entry_id == 0
        await bookie.close()

    run(story)


def test_long_poll_without_news(tmp_path: Path) -> None:
    async def story() -> None:
        bookie = await open_small(tmp_path)
        await ask(bookie, add(L1, 0))
        nothing = ReadResponse(EOK, L1, -1, None, -1)
        assert await ask(bookie, poll(-1, timeout_ms=1)) == nothing
        assert await ask(bookie, poll(-1, timeout_ms=None)) == nothing
        assert await ask(bookie, poll(5, timeout_ms=0)) == nothing
        wrong = ReadRequest(L1, 3, previous_lac=0, piggyback=True)
        assert (await ask(bookie, wrong)).status is StatusCode.EBADREQ
        alone = ReadRequest(L1, -1, piggyback=True)
        assert (await ask(bookie, alone)).status is StatusCode.EBADREQ
        await bookie.close()

    run(story)


def test_long_poll_ends_with_a_fence_an_explicit_lac_and_the_bookie(tmp_path: Path) -> None:
    async def story() -> None:
        bookie = await open_small(tmp_path)
        await ask(bookie, add(L1, 0))
        waiting = ask(bookie, poll(-1))
        await ask(bookie, WriteLacRequest(L1, 0, KEY, pack_lac(L1, 0, DIGEST)))
        assert (await waiting).entry_id == 0
        waiting = ask(bookie, poll(0))
        await ask(bookie, fence(L1))
        assert (await waiting) == ReadResponse(EOK, L1, -1, None, 0)
        await ask(bookie, add(L2, 0))
        waiting = ask(
            bookie, ReadRequest(L2, -1, previous_lac=9, timeout_ms=60_000, piggyback=True)
        )
        await asyncio.sleep(0)
        await bookie.close()
        assert (await waiting).max_lac == -1

    run(story)


def test_striped_entry_that_is_elsewhere(tmp_path: Path) -> None:
    async def story() -> None:
        bookie = await open_small(tmp_path)
        await ask(bookie, add(L1, 2, lac=1))
        assert await ask(bookie, poll(-1)) == ReadResponse(EOK, L1, -1, None, 1)
        await bookie.close()

    run(story)


def test_explicit_lac_never_goes_back_and_survives(tmp_path: Path) -> None:
    async def story() -> None:
        bookie = await open_small(tmp_path)
        await ask(bookie, add(L1, 0))
        for lac in (3, 1):
            packet = pack_lac(L1, lac, DIGEST)
            assert (await ask(bookie, WriteLacRequest(L1, lac, KEY, packet))).status is EOK
        wrong = WriteLacRequest(L1, 9, OTHER_KEY, pack_lac(L1, 9, DIGEST))
        assert (await ask(bookie, wrong)).status is StatusCode.EUA
        await bookie.close()
        bookie = await open_small(tmp_path)
        response = await ask(bookie, ReadLacRequest(L1))
        assert response.lac_body == pack_lac(L1, 3, DIGEST)
        assert (await ask(bookie, read(L1, 0))).max_lac == 3
        await bookie.close()

    run(story)


def test_everything_survives_a_clean_restart(tmp_path: Path) -> None:
    async def story() -> None:
        bookie = await open_small(tmp_path)
        for entry_id in range(300):
            await ask(bookie, add(L1, entry_id, b"%d" % entry_id, lac=entry_id - 1))
        await ask(bookie, fence(L2))
        await bookie.close()
        bookie = await open_small(tmp_path)
        for entry_id in (0, 150, 299):
            response = await ask(bookie, read(L1, entry_id))
            assert response.body == entry_body(L1, entry_id, b"%d" % entry_id, lac=entry_id - 1)
            assert response.max_lac == 298
        assert (await ask(bookie, read(L1))).body is not None
        assert (await ask(bookie, add(L2, 0))).status is StatusCode.EFENCED
        assert (await ask(bookie, add(L1, 300, key=OTHER_KEY))).status is StatusCode.EUA
        assert (await ask(bookie, add(L1, 300))).status is EOK
        await bookie.close()

    run(story)


def test_who_comes_while_a_bookie_closes_is_told(tmp_path: Path) -> None:
    async def story() -> None:
        await (await open_small(tmp_path)).close()
        bookie = await open_small(tmp_path)
        loading = ask(bookie, add(L1, 0))  # looks for an index file first
        closing = asyncio.ensure_future(bookie.close())
        answers = [loading]
        while not closing.done():
            answers += [ask(bookie, request) for request in (add(L2, 0), read(L1, 0), fence(L2))]
            await asyncio.sleep(0)
        answers.append(ask(bookie, add(L1, 0)))
        for answer in answers:
            assert isinstance((await answer).status, StatusCode)  # whatever: there is an answer
        assert (await answers[-1]).status is StatusCode.LOCAL_UNAVAILABLE
        await closing

    run(story)


class _NoDescriptors(SystemFiles):
    """The process has no file descriptor left, or the disk cannot be read."""

    error: int | None = None

    @override
    def open(self, path: Path, flags: int = os.O_RDONLY) -> int:
        if self.error is not None:
            raise OSError(self.error, os.strerror(self.error), str(path))
        return super().open(path, flags)


@pytest.mark.parametrize(
    ("error", "status", "copy"),
    [
        (errno.EMFILE, StatusCode.ETOOMANYREQUESTS, Copy.DOUBTFUL),
        (errno.ENFILE, StatusCode.ETOOMANYREQUESTS, Copy.DOUBTFUL),
        (errno.ENOMEM, StatusCode.ETOOMANYREQUESTS, Copy.DOUBTFUL),
        (errno.EIO, StatusCode.EIO, Copy.LACKING),
    ],
)
def test_a_machine_that_is_short_of_something_has_not_lost_its_copies(
    tmp_path: Path, error: int, status: StatusCode, copy: Copy
) -> None:
    async def story() -> None:
        files = _NoDescriptors()
        bookie = await open_small(tmp_path, files)
        await ask(bookie, add(L1, 0))
        await ask(bookie, add(L2, 0))
        await bookie.close()
        bookie = await open_small(tmp_path, files)
        assert (await ask(bookie, ReadRequest(L1, 5))).status is StatusCode.ENOENTRY  # loaded
        files.error = error
        requests = [
            *(ReadRequest(ledger_id, 5000) for ledger_id in (L1, L2)),  # of no page in memory
            ReadRequest(L1, 5000, previous_lac=-1),
            BatchReadRequest(L1, 5000, 10, 1000),
            ReadLacRequest(L2),
            ListEntriesRequest(L1),
            fence(L2),
            add(L2, 1),
        ]
        for request in requests:
            answer = await ask(bookie, request)
            assert answer.status is status, request
            if type(request) is ReadRequest:
                assert judge(answer, request.ledger_id, 5000, DIGEST) is copy
        assert bookie.metrics.reads_damaged_total == (3 if status is StatusCode.EIO else 0)
        files.error = None
        assert (await ask(bookie, read(L1, 0))).status is EOK
        assert (await ask(bookie, read(L2, 0))).status is EOK
        await bookie.close()
        answer = await ask(bookie, read(L1, 0))
        assert judge(answer, L1, 0, DIGEST) is Copy.DOUBTFUL

    run(story)


def test_over_tcp_a_bookie_that_ends_is_one_whose_connection_is_lost(tmp_path: Path) -> None:
    async def story() -> None:
        async with served(tmp_path) as process:

            async def resolve() -> tuple[str, int]:
                return "127.0.0.1", process.server.port

            client = TcpBookieClient(BookieId("test:3181"), resolve, BookieClientConfig())
            assert (await ask(client, add(L1, 0))).status is EOK
            await process.bookie.close()  # its server still has connections
            for request in (read(L1, 0), add(L1, 1), ReadLacRequest(L1)):
                assert (await ask(client, request)).status is StatusCode.LOCAL_UNAVAILABLE
            await client.close()

    run(story)
