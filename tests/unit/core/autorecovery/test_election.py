"""Exactly one candidate works, and the next one as soon as it does not."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tailrace.core.autorecovery.election import Election, current_auditor
from tailrace.core.autorecovery.metrics import AuditorMetrics
from tailrace.core.errors import CorruptData, Unavailable
from tailrace.core.metadata.layout import LEDGERS_ROOT, UnderreplicationPaths
from tailrace.core.metadata.store import MetadataStore
from tailrace.core.metadata.underreplication import decode_vote, encode_vote
from tests.unit.core.autorecovery.conftest import Cluster, Deaf

PATHS = UnderreplicationPaths(LEDGERS_ROOT)


class Candidate:
    """Counts its terms; `works` is set while it is elected."""

    def __init__(self, name: str, store: MetadataStore) -> None:
        self.name = name
        self.store = getattr(store, "real", store)
        self.metrics = AuditorMetrics()
        self.terms = 0
        self.elected = asyncio.Event()
        self.dismissed = asyncio.Event()
        self._election = Election(store, LEDGERS_ROOT, name, self.metrics)

    async def run(self) -> None:
        await self._election.run(self._work)

    async def _work(self) -> None:
        self.terms += 1
        self.dismissed.clear()
        self.elected.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.elected.clear()
            self.dismissed.set()

    async def vote(self) -> str:
        """Its vote's path, once it is there."""
        while True:
            for name in await self.store.children(PATHS.election):
                path = f"{PATHS.election}/{name}"
                node = await self.store.exists(path)
                if node is not None and decode_vote(node.data) == self.name:
                    return path


@asynccontextmanager
async def standing(*candidates: Candidate) -> AsyncIterator[list[asyncio.Task[None]]]:
    """Run candidates; each votes after the one before."""
    tasks = []
    try:
        for candidate in candidates:
            tasks.append(asyncio.create_task(candidate.run()))
            while await current_auditor(candidate.store, LEDGERS_ROOT) is None:
                pass
            await candidate.vote()
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


async def three(cluster: Cluster) -> list[Candidate]:
    return [Candidate(f"host{number}:3181", await cluster.open()) for number in range(3)]


def test_the_first_vote_wins_and_says_so(run_alone: Any) -> None:
    async def story(cluster: Cluster) -> None:
        store = await cluster.open()
        one = Candidate("host1:3181", store)
        assert await current_auditor(store, LEDGERS_ROOT) is None
        async with standing(one):
            await one.elected.wait()
            (name,) = await store.children(PATHS.election)
            node = await store.get(f"{PATHS.election}/{name}")
            assert (node.data, node.ephemeral_owner) == (encode_vote(one.name), store.session_id)
            assert (await store.get(PATHS.election)).data == encode_vote(one.name)
            assert await current_auditor(store, LEDGERS_ROOT) == one.name
            assert (one.metrics.elected, one.metrics.election_attempts_total) == (1, 1)
        assert await store.children(PATHS.election) == []
        assert await current_auditor(store, LEDGERS_ROOT) is None
        assert one.metrics.elected == 0

    run_alone(story)


def test_auditors_follow_each_other_in_line(run: Any) -> None:
    async def story(cluster: Cluster) -> None:
        candidates = await three(cluster)
        async with standing(*candidates) as tasks:
            for candidate, task in zip(candidates, tasks, strict=True):
                await candidate.elected.wait()
                assert [c.elected.is_set() for c in candidates].count(True) == 1
                task.cancel()
        assert [c.terms for c in candidates] == [1, 1, 1]

    run(story)


def test_who_leaves_the_line_makes_nobody_an_auditor(run: Any) -> None:
    async def story(cluster: Cluster) -> None:
        first, second, third = await three(cluster)
        async with standing(first, second, third) as tasks:
            await first.elected.wait()
            tasks[1].cancel()
            await asyncio.wait([tasks[1]])
            tasks[0].cancel()
            await third.elected.wait()
        assert [c.terms for c in (first, second, third)] == [1, 0, 1]

    run(story)


def test_each_watches_who_stands_before_it(run: Any) -> None:
    """Not the first one: else all wake up whenever one goes."""

    async def story(cluster: Cluster) -> None:
        first, second = [Candidate(f"h{n}:1", await cluster.open()) for n in range(2)]
        store: Any = Recorder(await cluster.open())
        third = Candidate("h2:1", store)
        async with standing(first, second, third):
            before = await second.vote()
            while before not in store.asked:
                await third.vote()
            assert await first.vote() not in store.asked

    run(story)


class Recorder:
    """A store that remembers which nodes were asked for."""

    def __init__(self, store: MetadataStore) -> None:
        self.real = store
        self.asked: list[str] = []

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.real, name)
        if name != "exists":
            return found

        async def exists(path: str, watch: Any = None) -> Any:
            self.asked.append(path)
            return await found(path, watch)

        return exists


def test_a_lost_session_ends_the_term_and_votes_anew(run: Any) -> None:
    async def story(cluster: Cluster) -> None:
        first, second, third = await three(cluster)
        async with standing(first, second, third):
            await first.elected.wait()
            former = await first.vote()
            await cluster.expire(first.store)
            await first.dismissed.wait()
            await second.elected.wait()
            while (mine := await first.vote()) == former:
                pass
            assert mine > await third.vote()
            assert not first.elected.is_set()
        assert [c.terms for c in (first, second, third)] == [1, 1, 0]

    run(story)


def test_a_session_lost_in_line_votes_anew(run: Any) -> None:
    async def story(cluster: Cluster) -> None:
        first, second, third = await three(cluster)
        async with standing(first, second, third) as tasks:
            await first.elected.wait()
            await cluster.expire(second.store)
            while await second.vote() < await third.vote():
                pass
            tasks[0].cancel()
            await third.elected.wait()
            assert not second.elected.is_set()

    run(story)


def test_an_auditor_whose_vote_was_deleted_stops(run: Any) -> None:
    async def story(cluster: Cluster) -> None:
        first, second, _ = await three(cluster)
        async with standing(first, second):
            await first.elected.wait()
            await second.store.delete(await first.vote())
            await first.dismissed.wait()
            await second.elected.wait()
            await first.vote()
            assert not first.elected.is_set()

    run(story)


def test_what_is_no_vote_wins_nothing(run_alone: Any) -> None:
    async def story(cluster: Cluster) -> None:
        store = await cluster.open()
        await store.create(f"{PATHS.election}/A_0000000000", parents=True)
        one = Candidate("host1:3181", store)
        async with standing(one):
            await one.elected.wait()
        stray = await store.create(f"{PATHS.vote_prefix}0000000001", b"\xff")
        with pytest.raises(CorruptData, match=stray):
            await current_auditor(store, LEDGERS_ROOT)

    run_alone(story)


@pytest.mark.parametrize(
    ("what", "is_done"),
    [
        ("create", False),  # a vote that was made and told to nobody is the store's to remove
        *((what, is_done) for what in ("exists", "children", "set") for is_done in (True, False)),
    ],
)
def test_a_store_that_does_not_answer_is_asked_again(run: Any, what: str, is_done: bool) -> None:
    async def story(cluster: Cluster) -> None:
        deaf: Any = Deaf(await cluster.open())
        one, two = Candidate("host1:3181", deaf), Candidate("host2:3181", await cluster.open())
        deaf.drops, deaf.is_done = what, is_done
        first = asyncio.create_task(one.run())
        await one.elected.wait()
        assert one.metrics.election_failures_total == 1
        async with standing(two):
            assert len(await two.store.children(PATHS.election)) == 2
            first.cancel()
            await two.elected.wait()

    run(story)


def test_a_vote_that_could_not_be_taken_back_goes_with_its_session(run: Any) -> None:
    async def story(cluster: Cluster) -> None:
        deaf: Any = Deaf(await cluster.open())
        one, two = Candidate("host1:3181", deaf), Candidate("host2:3181", await cluster.open())
        async with standing(one, two) as tasks:
            await one.elected.wait()
            deaf.drops, deaf.is_done = "delete", False
            tasks[0].cancel()
            await asyncio.wait([tasks[0]])
            assert tasks[0].cancelled()
            assert not two.elected.is_set()
            await cluster.expire(deaf)
            await two.elected.wait()

    run(story)


def test_work_that_fails_by_the_store_is_begun_anew(run_alone: Any) -> None:
    async def story(cluster: Cluster) -> None:
        store = await cluster.open()
        terms = 0
        is_enough = asyncio.Event()

        async def work() -> None:
            nonlocal terms
            terms += 1
            if terms < 3:
                raise Unavailable("the store is away")
            is_enough.set()
            await asyncio.Event().wait()

        metrics = AuditorMetrics()
        task = asyncio.create_task(Election(store, LEDGERS_ROOT, "host1", metrics).run(work))
        await is_enough.wait()
        assert metrics.election_failures_total == 2
        assert len(await store.children(PATHS.election)) == 1
        task.cancel()
        await asyncio.wait([task])

    run_alone(story)


def test_work_that_fails_by_a_bug_ends_the_candidacy(run_alone: Any) -> None:
    """Else it would be elected again, and nobody would audit."""

    async def story(cluster: Cluster) -> None:
        store = await cluster.open()

        async def work() -> None:
            raise ZeroDivisionError("a bug")

        with pytest.raises(ZeroDivisionError):
            await Election(store, LEDGERS_ROOT, "host1", AuditorMetrics()).run(work)
        assert await store.children(PATHS.election) == []

    run_alone(story)
