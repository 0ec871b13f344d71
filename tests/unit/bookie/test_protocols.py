"""Both protocols on one port: told apart by the first frame, answered as they were asked."""

from pathlib import Path

import pytest

from tailrace.protocol.bookkeeper.codec import decode_response, encode_request
from tailrace.protocol.bookkeeper.digest import ledger_master_key
from tailrace.protocol.bookkeeper.entry import MAX_ENTRY_BYTES
from tailrace.protocol.bookkeeper.messages import (
    AddRequest,
    AuthRequest,
    BatchReadRequest,
    BatchReadResponse,
    ErrorResponse,
    ReadRequest,
    ReadResponse,
    Request,
    Response,
    StartTlsRequest,
    StatusCode,
)
from tailrace.protocol.bookkeeper.schema import MESSAGES
from tailrace.protocol.bookkeeper.v2_answers import decode_response as decode_v2
from tailrace.protocol.bookkeeper.v2_requests import decode_request as decode_v2_request
from tailrace.protocol.bookkeeper.v2_requests import encode_request as encode_v2
from tailrace.protocol.ids import LedgerId
from tests.golden import frames
from tests.unit.bookie.tcp import Wire, served
from tests.unit.bookie.world import KEY, L1, add, entry_body, fence, read, run

GOLDEN_V2 = [frame for frame in frames("wire-v3.txt") if frame.is_v2]


async def ask_v2(wire: Wire, request: Request, request_id: int = 0) -> Response:
    wire.writer.writelines(encode_v2(request, request_id))
    origin, response = decode_v2(await wire.receive())
    assert origin.request_id == request_id
    return response


def test_the_v2_talk_of_java_gets_javas_bytes(tmp_path: Path) -> None:
    async def story() -> None:
        async with served(tmp_path) as process, await Wire.to(process) as wire:
            expected = [frame.data for frame in GOLDEN_V2 if frame.sender == "bookie"]
            given = []
            for frame in GOLDEN_V2:
                if frame.sender == "client":
                    wire.send(frame.data)
                    given.append(await wire.receive())
            # the last add and read crossed on Java's wire: they answer in any order
            assert given[:-2] == expected[:-2]
            assert sorted(given[-2:]) == sorted(expected[-2:])

    run(story)


def test_every_connection_has_its_own_protocol(tmp_path: Path) -> None:
    async def story() -> None:
        async with (
            served(tmp_path) as process,
            await Wire.to(process) as three,
            await Wire.to(process) as two,
        ):
            assert (await three.ask(add(L1, 0, b"three"))).status is StatusCode.EOK
            assert (await ask_v2(two, add(L1, 1, b"two"))).status is StatusCode.EOK
            for wire_ask in (three.ask, lambda request: ask_v2(two, request)):
                for entry_id, payload in enumerate((b"three", b"two")):
                    answer = await wire_ask(read(L1, entry_id))
                    assert answer.body == entry_body(L1, entry_id, payload)
            assert (await ask_v2(two, fence(L1))).status is StatusCode.EOK
            assert (await three.ask(add(L1, 2))).status is StatusCode.EFENCED
            assert (await ask_v2(two, add(L1, 2))).status is StatusCode.EFENCED
            assert (await ask_v2(two, add(L1, 2, recovery=True))).status is StatusCode.EOK

    run(story)


def test_a_connection_goes_from_v3_to_v2_and_not_back(tmp_path: Path) -> None:
    async def story() -> None:
        async with served(tmp_path) as process, await Wire.to(process) as wire:
            tls = await wire.ask(StartTlsRequest(), txn_id=7)
            assert tls == ErrorResponse(StatusCode.EBADREQ, 9)
            assert (await ask_v2(wire, add(L1, 0))).status is StatusCode.EOK
            wire.writer.writelines(encode_request(8, read(L1, 0)))
            assert await wire.is_closed()

    run(story)


def test_an_answer_comes_in_the_protocol_of_its_request(tmp_path: Path) -> None:
    async def story() -> None:
        async with (
            served(tmp_path) as process,
            await Wire.to(process) as wire,
            await Wire.to(process) as writer,
        ):
            await writer.ask(add(L1, 0))
            poll = ReadRequest(L1, -1, previous_lac=-1, timeout_ms=60_000, piggyback=True)
            wire.writer.writelines(encode_request(5, poll))
            wire.writer.writelines(encode_v2(read(L1, 0)))  # from here on v2
            assert decode_v2(await wire.receive())[1].status is StatusCode.EOK
            await writer.ask(add(L1, 1, lac=0))
            txn_id, answer = decode_response(await wire.receive())
            assert (txn_id, answer.status) == (5, StatusCode.EOK)
            assert isinstance(answer, ReadResponse)
            assert answer.body == entry_body(L1, 0, b"payload")

    run(story)


def test_errors_in_v2_repeat_what_was_asked(tmp_path: Path) -> None:
    async def story() -> None:
        async with served(tmp_path) as process, await Wire.to(process) as wire:
            await ask_v2(wire, add(L1, 0))
            asked = [
                (read(L1, 9), StatusCode.ENOENTRY),
                (read(LedgerId(99), 0), StatusCode.ENOLEDGER),
                (read(LedgerId(-4), 0), StatusCode.EBADREQ),
                (read(L1, -2), StatusCode.EBADREQ),
                (add(L1, -2), StatusCode.EBADREQ),
                (add(LedgerId(-4), 0), StatusCode.EBADREQ),
                (add(L1, 1, key=ledger_master_key(b"other")), StatusCode.EUA),
                (fence(L1, key=ledger_master_key(b"other")), StatusCode.EUA),
                (BatchReadRequest(L1, 7, 5, 100), StatusCode.ENOENTRY),
            ]
            for request, status in asked:
                wire.writer.writelines(encode_v2(request, 3))
                origin, response = decode_v2(await wire.receive())
                assert response.status is status, request
                sent = b"".join(encode_v2(request, 3))[4:]
                assert origin == decode_v2_request(sent)[0]

    run(story)


def test_a_version_that_nobody_knows_is_answered_as_v2(tmp_path: Path) -> None:
    async def story() -> None:
        async with served(tmp_path) as process, await Wire.to(process) as wire:
            wire.send(b"\x03\x02\x00\x00" + bytes(7) + b"\x01" + bytes(8))
            answer = decode_v2(await wire.receive())[1]
            assert answer.status is StatusCode.EBADVERSION
            assert (await ask_v2(wire, add(L1, 0))).status is StatusCode.EOK

    run(story)


def test_auth_without_a_provider(tmp_path: Path) -> None:
    async def story() -> None:
        async with (
            served(tmp_path) as process,
            await Wire.to(process) as three,
            await Wire.to(process) as two,
        ):
            for answer in (
                await three.ask(AuthRequest("some-plugin", b"hello")),
                await ask_v2(two, AuthRequest("some-plugin", b"hello")),
            ):
                assert answer[1:] == ("AuthDisabledPlugin", b"")
                assert answer.status is StatusCode.EOK

    run(story)


@pytest.mark.parametrize("entry_size", [1000, MAX_ENTRY_BYTES], ids=["small", "largest"])
def test_a_batch_over_the_wire_fits_into_a_frame(tmp_path: Path, entry_size: int) -> None:
    async def story() -> None:
        async with served(tmp_path) as process, await Wire.to(process) as wire:
            bodies = []
            for entry_id in range(3):
                body = (entry_body(L1, entry_id, bytes(entry_size - 36)),)
                bodies.append(body[0])
                request = AddRequest(L1, entry_id, KEY, body)
                assert (await ask_v2(wire, request)).status is StatusCode.EOK
            answer = await ask_v2(wire, BatchReadRequest(L1, 0, 3, 5 * 1024 * 1024), 5)
            assert isinstance(answer, BatchReadResponse)
            assert answer.status is StatusCode.EOK
            assert list(answer.bodies) == bodies[: 3 if entry_size == 1000 else 1]

    run(story)


@pytest.mark.parametrize(
    ("version", "operation", "status"),
    [
        (2, 6, StatusCode.EBADVERSION),
        (1, 1, StatusCode.EBADVERSION),
        (9, 2, StatusCode.EBADVERSION),
        (3, 12, StatusCode.EBADREQ),
        (3, 3, StatusCode.EBADREQ),
        (3, 77, StatusCode.EBADREQ),
    ],
    ids=str,
)
def test_v3_requests_that_are_not_served(
    tmp_path: Path, version: int, operation: int, status: StatusCode
) -> None:
    async def story() -> None:
        async with served(tmp_path) as process, await Wire.to(process) as wire:
            message = MESSAGES["Request"]()
            header = message.header
            header.version, header.operation, header.txnId = version, operation, 5
            message.readRequest.ledgerId = message.readRequest.entryId = 1
            wire.send(message.SerializeToString())
            assert decode_response(await wire.receive()) == (5, ErrorResponse(status, operation))
            assert (await wire.ask(add(L1, 0))).status is StatusCode.EOK, "it is still open"

    run(story)
