"""The same frames to Apache's bookie and to ours: the same answers, but for a table of reasons.

Each case is a talk on a connection and a ledger of its own. Compared are status, ids, bodies and
LACs; where both refuse, the status alone (Java fills an answer's ids where ours has none).
"""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tailrace.protocol.bookkeeper.availability import decode_availability
from tailrace.protocol.bookkeeper.codec import decode_response, encode_request
from tailrace.protocol.bookkeeper.entry import pack_lac
from tailrace.protocol.bookkeeper.messages import (
    AddRequest,
    BookieInfoResponse,
    ListEntriesResponse,
    ReadResponse,
    Response,
    StatusCode,
    WriteLacRequest,
)
from tailrace.protocol.bookkeeper.v2_answers import decode_response as decode_v2
from tailrace.protocol.bookkeeper.v2_requests import encode_request as encode_v2
from tailrace.protocol.bookkeeper.v2_requests import is_v2
from tailrace.protocol.ids import LedgerId
from tests.interop.bookkeeper.java import JavaBookie
from tests.interop.bookkeeper.ours import OurBookie, run
from tests.interop.bookkeeper.talks import (
    DIFFERENT,
    READ_ONLY,
    READ_ONLY_V2,
    V2,
    V3,
    L,
    Talk,
)
from tests.unit.bookie.tcp import Wire
from tests.unit.bookie.world import DIGEST

pytestmark = [
    pytest.mark.interop,
    pytest.mark.java,
]
CLOSED = "closed"


class Pair(NamedTuple):
    java: JavaBookie
    ours: OurBookie


@pytest.fixture(scope="module")
def pair(uri: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    yield from _running(uri, tmp_path_factory.mktemp("pair"))


@pytest.fixture(scope="module")
def read_only_pair(uri: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    yield from _running(uri, tmp_path_factory.mktemp("pair"), "forceReadOnlyBookie=true")


def _running(uri: str, path: Path, *settings: str) -> Iterator[Pair]:
    pair = Pair(
        JavaBookie(path / "java", uri, settings=settings),
        OurBookie(path / "ours", uri, settings=settings),
    )
    try:
        pair.java.start()
        pair.ours.start()
        yield pair
    finally:
        pair.java.stop()
        pair.ours.stop()


async def play(port: int, talk: Talk, ledger_id: LedgerId, *, in_v2: bool) -> list[Any]:
    """Ask one after the other; return the outcomes, up to the end of the connection."""
    outcomes: list[Any] = []
    async with await Wire.to_port(port) as wire:
        for request in talk:
            try:
                if isinstance(request, bytes):
                    wire.send(request)
                else:
                    mine = of_ledger(request, ledger_id)
                    wire.writer.writelines(encode_v2(mine) if in_v2 else encode_request(1, mine))
                outcomes.append(outcome(await wire.receive()))
            except (asyncio.IncompleteReadError, ConnectionError):
                outcomes.append(CLOSED)
                break
    return outcomes


def of_ledger(request: Any, ledger_id: LedgerId) -> Any:
    """Return the request, and what its body says, for another ledger than L."""
    if getattr(request, "ledger_id", None) != L:
        return request
    ids = (L.to_bytes(8, "big"), ledger_id.to_bytes(8, "big"))
    request = request._replace(ledger_id=ledger_id)
    if isinstance(request, AddRequest):
        (body,) = request.body
        if body[:8] == ids[0]:
            return request._replace(body=(ids[1] + body[8:],))
    elif isinstance(request, WriteLacRequest) and len(request.body) == 20:
        return request._replace(body=pack_lac(ledger_id, request.lac, DIGEST))
    return request


def outcome(frame: bytes) -> Any:
    response = decode_v2(in_version_2(frame))[1] if is_v2(frame) else decode_response(frame)[1]
    if response.status is not StatusCode.EOK:
        return response.status.name
    return [bytes(x) if isinstance(x, memoryview) else x for x in without_clocks(response)]


def in_version_2(frame: bytes) -> bytes:
    """Java answers in the version that it was asked in, also when it does not know it."""
    return b"\x02" + frame[1:]


def without_clocks(response: Response) -> Response:
    """Drop what differs between any two bookies."""
    match response:
        case ReadResponse():
            return response._replace(lac_update_timestamp=None)
        case BookieInfoResponse(_, total, free):
            return response._replace(
                total_disk_capacity=None if total is None else 1,
                free_disk_space=None if free is None else 1,
            )
        case ListEntriesResponse(_, _, availability) if availability is not None:
            entries = [
                entry for run in decode_availability(availability) for entry in run.entry_ids()
            ]
            return response._replace(availability=bytes(map(int, entries)))
    return response


def named(v3: dict[str, Talk], v2: dict[str, Talk]) -> dict[str, Talk]:
    both = {f"v3-{name}": talk for name, talk in v3.items()}
    return both | {f"v2-{name}": talk for name, talk in v2.items()}


CASES = named(V3, V2)
READ_ONLY_CASES = named(READ_ONLY, READ_ONLY_V2)


def both_play(pair: Pair, cases: dict[str, Talk], name: str) -> tuple[list[Any], list[Any]]:
    """Return the outcomes, Java's and ours."""
    ledger_id = LedgerId(1000 + list(cases).index(name))
    in_v2 = name.startswith("v2")

    async def story() -> tuple[list[Any], list[Any]]:
        java = await play(pair.java.port, cases[name], ledger_id, in_v2=in_v2)
        ours = await play(pair.ours.port, cases[name], ledger_id, in_v2=in_v2)
        return java, ours

    java, ours = run(story)
    return java, ours


@pytest.mark.parametrize("name", CASES)
def test_the_same_answers(pair: Pair, name: str) -> None:
    java, ours = both_play(pair, CASES, name)
    if name in DIFFERENT:
        assert ours != java, f"now the same: {DIFFERENT[name]}"
    else:
        assert ours == java


@pytest.mark.parametrize("name", READ_ONLY_CASES)
def test_the_same_answers_of_read_only_bookies(read_only_pair: Pair, name: str) -> None:
    java, ours = both_play(read_only_pair, READ_ONLY_CASES, name)
    assert ours == java
    assert java[0] == StatusCode.EREADONLY.name or "rest" in name
