"""A judge whose metadata is away: reads go on, unjudged."""

import asyncio

import pytest

from tailrace.bookie.entry_judge import EntryJudge
from tailrace.bookie.metrics import BookieMetrics
from tailrace.core.errors import CoreError, CorruptData, Unavailable
from tailrace.protocol.bookkeeper.digest import Digest
from tailrace.protocol.ids import LedgerId
from tests.unit.bookie.world import DIGEST, L1, L2, entry_body, run


def test_a_read_does_not_wait_for_metadata_that_does_not_answer() -> None:
    async def story() -> None:
        asked: list[LedgerId] = []

        async def find(ledger_id: LedgerId) -> Digest | None:
            asked.append(ledger_id)
            await asyncio.get_running_loop().create_future()
            raise AssertionError("cancelled before")

        metrics = BookieMetrics()
        judge = EntryJudge(find, metrics, find_s=0.01)
        assert await judge.damage_of(L1, b"anything") is None
        assert await judge.damage_of(L2, b"anything") is None
        assert await judge.damage_of(L1, b"anything") is None
        assert asked == [L1]  # the others did not even ask
        assert metrics.reads_unjudged_total == 3
        await judge.close()

    run(story)


@pytest.mark.parametrize(
    ("error", "is_asked_again"), [(Unavailable("away"), False), (CorruptData("one node"), True)]
)
def test_metadata_that_is_away_is_left_alone_for_a_while(
    error: CoreError, is_asked_again: bool
) -> None:
    async def story() -> None:
        errors = [error]

        async def find(_: LedgerId) -> Digest | None:
            if errors:
                raise errors.pop()
            return DIGEST

        judge = EntryJudge(find, BookieMetrics())
        body = bytearray(entry_body(L2, 0, b"payload"))
        body[-1] ^= 1
        assert await judge.damage_of(L1, b"anything") is None
        assert (await judge.damage_of(L2, body) is not None) is is_asked_again
        await judge.close()

    run(story)
