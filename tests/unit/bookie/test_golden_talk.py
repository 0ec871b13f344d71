"""The talk of Java's client and bookie (tests/golden/wire-v3.txt), with our bookie in its place.

Every request of the captured connection without authentication, TLS and protocol v2 is submitted in
its order; the answers must be Java's bytes, but for clocks and disks.
"""

import re
from pathlib import Path

import pytest

from tailrace.bookie.app import OpenBookie
from tailrace.protocol.bookkeeper.codec import decode_request, decode_response, encode_response
from tailrace.protocol.bookkeeper.messages import (
    BookieInfoResponse,
    ForceLedgerRequest,
    ReadResponse,
    Response,
)
from tailrace.protocol.ids import LedgerId
from tests.unit.bookie.world import ask, open_small, run

GOLDEN = Path(__file__).parents[2] / "golden" / "wire-v3.txt"
OTHERS = ("v2 protocol", "with provider", "wants it", "bookie with TLS")


def talk() -> tuple[list[bytes], dict[int, bytes]]:
    """Return the requests in order, and the answers by transaction id."""
    requests: list[bytes] = []
    answers: dict[int, bytes] = {}
    for section in GOLDEN.read_text().split("\n## ")[1:]:
        if any(other in section.split("\n")[0] for other in OTHERS):
            continue
        for side, frame in re.findall(r"^([CB])> len \d+ ([0-9a-f]+)$", section, re.MULTILINE):
            data = bytes.fromhex(frame)
            if side == "C":
                requests.append(data)
            else:
                answers[decode_response(data)[0]] = data
    return requests, answers


def without_clocks(response: Response) -> Response:
    if isinstance(response, ReadResponse) and response.lac_update_timestamp is not None:
        return response._replace(lac_update_timestamp=1)
    if isinstance(response, BookieInfoResponse):
        return response._replace(total_disk_capacity=1, free_disk_space=1)
    return response


@pytest.mark.parametrize("journal_write_data", [False, True])
def test_answers_are_javas(tmp_path: Path, journal_write_data: bool) -> None:
    requests, answers = talk()
    assert len(requests) == len(answers) > 25

    async def story() -> None:
        bookie = await open_small(tmp_path, journal_write_data=journal_write_data)
        given = await submit_all(bookie, requests)
        await bookie.close()
        for txn_id, response in given.items():
            expected = decode_response(answers[txn_id])[1]
            assert without_clocks(response) == without_clocks(expected)
            if without_clocks(expected) == expected:
                assert b"".join(encode_response(txn_id, response))[4:] == answers[txn_id]

    run(story)


async def submit_all(bookie: OpenBookie, requests: list[bytes]) -> dict[int, Response]:
    waiting = {}
    for frame in requests:
        txn_id, request = decode_request(frame)
        waiting[txn_id] = ask(bookie, request)
        # Java's client waited for each answer but those of long polls; this waits for the disk.
        await ask(bookie, ForceLedgerRequest(LedgerId(0)))
        if getattr(request, "timeout_ms", None) != 3000:
            await waiting[txn_id]
    return {txn_id: await answer for txn_id, answer in waiting.items()}
