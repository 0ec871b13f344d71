"""What a ledger client relies on in a bookie: run against the fake here and the real one over TCP.

Source: reference BookKeeper 1.6, 1.7. A test class gives `open_client`: of an empty bookie.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from tailrace.core.ledger.bookie_client import BookieClient, ask
from tailrace.protocol.bookkeeper.digest import Digest, DigestType, ledger_master_key
from tailrace.protocol.bookkeeper.entry import pack_entry, pack_lac, read_entry, read_lac
from tailrace.protocol.bookkeeper.messages import (
    LAST_ENTRY,
    AddRequest,
    AddResponse,
    BatchReadRequest,
    BatchReadResponse,
    ForceLedgerRequest,
    ReadLacRequest,
    ReadLacResponse,
    ReadRequest,
    ReadResponse,
    Response,
    StatusCode,
    WriteFlag,
    WriteLacRequest,
)
from tailrace.protocol.ids import LedgerId

KEY = ledger_master_key(b"")
OTHER_KEY = ledger_master_key(b"other")
DIGEST = Digest(DigestType.CRC32)
L7 = LedgerId(7)


def add_request(
    entry_id: int,
    payload: bytes = b"payload",
    *,
    ledger_id: LedgerId = L7,
    lac: int = -1,
    key: bytes = KEY,
    recovery: bool = False,
) -> AddRequest:
    length = (entry_id + 1) * len(payload)
    body = pack_entry(ledger_id, entry_id, lac, length, (payload[:3], payload[3:]), DIGEST)
    return AddRequest(ledger_id, entry_id, key, body, recovery)


def fence_request(entry_id: int = -1, key: bytes = KEY, ledger_id: LedgerId = L7) -> ReadRequest:
    return ReadRequest(ledger_id, entry_id, fence=True, master_key=key)


def long_poll(previous_lac: int, *, timeout_ms: int | None) -> ReadRequest:
    return ReadRequest(
        L7, LAST_ENTRY, previous_lac=previous_lac, timeout_ms=timeout_ms, piggyback=True
    )


def payload_of(response: Response, entry_id: int | None) -> bytes:
    assert isinstance(response, ReadResponse)
    assert response.status is StatusCode.EOK
    assert response.body is not None
    return bytes(read_entry(response.body, L7, entry_id, DIGEST).payload)


class BookieContract:
    async def open_client(self) -> BookieClient:
        raise AssertionError("the test class gives this")

    async def close_client(self, client: BookieClient) -> None:
        await client.close()

    def run(self, story: Callable[[BookieClient], Coroutine[Any, Any, None]]) -> None:
        async def main() -> None:
            client = await self.open_client()
            try:
                async with asyncio.timeout(30):
                    await story(client)
            finally:
                await self.close_client(client)

        asyncio.run(main(), debug=True)

    def test_added_entry_is_read_back(self) -> None:
        async def story(client: BookieClient) -> None:
            response = await ask(client, add_request(0, b"hello"))
            assert response == AddResponse(StatusCode.EOK, L7, 0)
            response = await ask(client, ReadRequest(L7, 0))
            assert payload_of(response, 0) == b"hello"

        self.run(story)

    def test_reply_never_comes_before_submit_returned(self) -> None:
        async def story(client: BookieClient) -> None:
            done: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
            client.submit(add_request(0), done.set_result)
            assert not done.done()
            await done

        self.run(story)

    def test_many_outstanding_adds_are_all_answered(self) -> None:
        async def story(client: BookieClient) -> None:
            answers: list[Awaitable[Response]] = [
                ask(client, add_request(i, b"%d" % i)) for i in range(200)
            ]
            for entry_id, answer in enumerate(answers):
                assert await answer == AddResponse(StatusCode.EOK, L7, entry_id)
            reads = [ask(client, ReadRequest(L7, i)) for i in range(200)]
            for entry_id, read in enumerate(reads):
                assert payload_of(await read, entry_id) == b"%d" % entry_id

        self.run(story)

    def test_any_order_of_entries_is_accepted_and_adding_again_is_harmless(self) -> None:
        async def story(client: BookieClient) -> None:
            for entry_id in (5, 2, 2, 9):
                response = await ask(client, add_request(entry_id))
                assert response.status is StatusCode.EOK
            response = await ask(client, ReadRequest(L7, -1))
            assert payload_of(response, 9) == b"payload"

        self.run(story)

    def test_missing_entry_and_missing_ledger_are_told_apart(self) -> None:
        async def story(client: BookieClient) -> None:
            await ask(client, add_request(0))
            response = await ask(client, ReadRequest(L7, 1))
            assert response.status is StatusCode.ENOENTRY
            response = await ask(client, ReadRequest(LedgerId(8), 0))
            assert response.status is StatusCode.ENOLEDGER

        self.run(story)

    def test_wrong_master_key_is_refused(self) -> None:
        async def story(client: BookieClient) -> None:
            await ask(client, add_request(0))
            response = await ask(client, add_request(1, key=OTHER_KEY))
            assert response.status is StatusCode.EUA
            response = await ask(client, fence_request(key=OTHER_KEY))
            assert response.status is StatusCode.EUA
            response = await ask(client, add_request(1))
            assert response.status is StatusCode.EOK

        self.run(story)

    def test_fence_stops_adds_but_not_recovery(self) -> None:
        async def story(client: BookieClient) -> None:
            await ask(client, add_request(0, lac=-1))
            await ask(client, add_request(1, b"last", lac=0))
            response = await ask(client, fence_request())
            assert payload_of(response, 1) == b"last"
            response = await ask(client, add_request(2))
            assert response.status is StatusCode.EFENCED
            response = await ask(client, add_request(2, recovery=True))
            assert response.status is StatusCode.EOK
            assert payload_of(await ask(client, ReadRequest(L7, 2)), 2) == b"payload"

        self.run(story)

    def test_fencing_an_unknown_ledger_makes_it(self) -> None:
        async def story(client: BookieClient) -> None:
            response = await ask(client, fence_request())
            assert response.status is StatusCode.ENOENTRY
            response = await ask(client, add_request(0))
            assert response.status is StatusCode.EFENCED
            response = await ask(client, ReadRequest(L7, 0))
            assert response.status is StatusCode.ENOENTRY

        self.run(story)

    def test_fencing_read_of_one_entry(self) -> None:
        async def story(client: BookieClient) -> None:
            await ask(client, add_request(0, b"first"))
            assert payload_of(await ask(client, fence_request(0)), 0) == b"first"
            response = await ask(client, fence_request(1))
            assert response.status is StatusCode.ENOENTRY

        self.run(story)

    def test_reads_carry_the_known_lac(self) -> None:
        async def story(client: BookieClient) -> None:
            await ask(client, add_request(0, lac=-1))
            await ask(client, add_request(1, lac=0))
            response = await ask(client, ReadRequest(L7, 0))
            assert isinstance(response, ReadResponse)
            assert response.max_lac == 0

        self.run(story)

    def test_lac_is_read_from_the_last_entry_or_the_packet(self) -> None:
        async def story(client: BookieClient) -> None:
            response = await ask(client, ReadLacRequest(L7))
            assert response.status is StatusCode.ENOENTRY
            await ask(client, add_request(0, lac=-1))
            await ask(client, add_request(1, lac=0))
            response = await ask(client, ReadLacRequest(L7))
            assert isinstance(response, ReadLacResponse)
            assert response.last_entry_body is not None
            assert read_entry(response.last_entry_body, L7, 1, DIGEST).lac == 0
            assert not response.lac_body
            packet = pack_lac(L7, 1, DIGEST)
            written = await ask(client, WriteLacRequest(L7, 1, KEY, packet))
            assert written.status is StatusCode.EOK
            response = await ask(client, ReadLacRequest(L7))
            assert isinstance(response, ReadLacResponse)
            assert response.lac_body is not None
            assert read_lac(response.lac_body, L7, DIGEST) == 1

        self.run(story)

    def test_forcing_needs_nothing_to_be_there(self) -> None:
        async def story(client: BookieClient) -> None:
            for request in (
                ForceLedgerRequest(L7),
                add_request(0)._replace(write_flags=WriteFlag.DEFERRED_SYNC),
                ForceLedgerRequest(L7),
            ):
                assert (await ask(client, request)).status is StatusCode.EOK
            assert payload_of(await ask(client, ReadRequest(L7, 0)), 0) == b"payload"

        self.run(story)

    def test_recovery_may_add_again_what_is_there_and_what_is_not(self) -> None:
        async def story(client: BookieClient) -> None:
            await ask(client, add_request(0, b"here"))
            await ask(client, fence_request())
            for entry_id, payload in ((0, b"here"), (1, b"elsewhere")):
                response = await ask(client, add_request(entry_id, payload, recovery=True))
                assert response.status is StatusCode.EOK
                read = await ask(client, fence_request(entry_id))
                assert payload_of(read, entry_id) == payload
            response = await ask(client, add_request(2, key=OTHER_KEY, recovery=True))
            assert response.status is StatusCode.EUA

        self.run(story)

    def test_ledgers_do_not_mix(self) -> None:
        async def story(client: BookieClient) -> None:
            other = LedgerId(8)
            await ask(client, add_request(0, b"seven"))
            await ask(client, add_request(0, b"eight", ledger_id=other, key=OTHER_KEY))
            await ask(client, fence_request())
            response = await ask(client, add_request(1, ledger_id=other, key=OTHER_KEY))
            assert response.status is StatusCode.EOK
            assert payload_of(await ask(client, ReadRequest(L7, 0)), 0) == b"seven"

        self.run(story)

    def test_a_batch_is_the_entries_up_to_the_first_that_is_not_there(self) -> None:
        async def story(client: BookieClient) -> None:
            if not client.reads_batches:
                return
            for entry_id in (0, 1, 2, 3, 5):
                await ask(client, add_request(entry_id, b"%d" % entry_id))
            response = await ask(client, BatchReadRequest(L7, 1, 10, 1 << 20))
            assert isinstance(response, BatchReadResponse)
            assert response.status is StatusCode.EOK
            payloads = [
                bytes(read_entry(body, L7, entry_id, DIGEST).payload)
                for entry_id, body in enumerate(response.bodies, 1)
            ]
            assert payloads == [b"1", b"2", b"3"]
            response = await ask(client, BatchReadRequest(L7, 0, 2, 1 << 20))
            assert isinstance(response, BatchReadResponse)
            assert len(response.bodies) == 2
            missing = await ask(client, BatchReadRequest(L7, 4, 10, 1 << 20))
            assert missing == BatchReadResponse(StatusCode.ENOENTRY, L7, 4)
            nowhere = await ask(client, BatchReadRequest(LedgerId(8), 0, 10, 1 << 20))
            assert nowhere == BatchReadResponse(StatusCode.ENOLEDGER, LedgerId(8), 0)

        self.run(story)

    def test_long_poll_answers_at_once_when_there_is_news(self) -> None:
        async def story(client: BookieClient) -> None:
            response = await ask(client, long_poll(-1, timeout_ms=60_000))
            assert response.status is StatusCode.ENOLEDGER
            for entry_id in range(3):
                await ask(client, add_request(entry_id, lac=entry_id - 1))
            response = await ask(client, long_poll(0, timeout_ms=60_000))
            assert payload_of(response, 1) == b"payload"
            assert isinstance(response, ReadResponse)
            assert response.max_lac == 1

        self.run(story)

    def test_long_poll_without_time_answers_what_is_known(self) -> None:
        async def story(client: BookieClient) -> None:
            await ask(client, add_request(0, lac=-1))
            for timeout_ms in (None, 1):
                response = await ask(client, long_poll(-1, timeout_ms=timeout_ms))
                assert isinstance(response, ReadResponse)
                assert response.status is StatusCode.EOK
                assert not response.body
                assert response.max_lac == -1

        self.run(story)

    def test_long_poll_is_woken_by_the_add_that_moves_the_lac(self) -> None:
        async def story(client: BookieClient) -> None:
            await ask(client, add_request(0, lac=-1))
            waiting = [ask(client, long_poll(-1, timeout_ms=60_000)) for _ in range(2)]
            await ask(client, add_request(1, lac=0))
            for answer in waiting:
                assert payload_of(await answer, 0) == b"payload"

        self.run(story)

    def test_long_poll_tells_a_lac_whose_entry_lies_elsewhere(self) -> None:
        async def story(client: BookieClient) -> None:
            await ask(client, add_request(0, lac=-1))
            waiting = ask(client, long_poll(0, timeout_ms=60_000))
            await ask(client, add_request(2, lac=1))  # entry 1 is striped to others
            response = await waiting
            assert isinstance(response, ReadResponse)
            assert (response.status, response.max_lac) == (StatusCode.EOK, 1)
            assert not response.body

        self.run(story)

    def test_long_poll_ends_when_the_ledger_is_fenced(self) -> None:
        async def story(client: BookieClient) -> None:
            await ask(client, add_request(0, lac=-1))
            waiting = ask(client, long_poll(-1, timeout_ms=60_000))
            await ask(client, fence_request())
            response = await waiting
            assert isinstance(response, ReadResponse)
            assert (response.status, response.max_lac) == (StatusCode.EOK, -1)

        self.run(story)
