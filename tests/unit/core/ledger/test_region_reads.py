"""Reads over regions, in virtual time: who is asked, in which order, and how often."""

import asyncio
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from typing_extensions import override

from tailrace.core.errors import Unavailable
from tailrace.core.ledger.bookie_registry import LocalBookies
from tailrace.core.ledger.client import LedgerClient
from tailrace.core.ledger.config import LedgerClientConfig, LedgerConfig, ReadConfig
from tailrace.core.ledger.placement_config import PlacementConfig
from tailrace.core.ledger.reader import LedgerReader
from tailrace.core.ledger.writer import LedgerWriter
from tailrace.core.metadata.ledger_tree import initialize_layout
from tailrace.protocol.bookkeeper.messages import LAST_ENTRY, ReadRequest, Request, Response
from tailrace.protocol.ids import BookieId
from tests.unit.core.ledger.fake_bookie import DOWN, FakeBookie
from tests.unit.core.ledger.fast_world import FastWorld, run_fast
from tests.unit.core.ledger.world import Listener

PLACES = ("/eu/1", "/eu/2", "/us/1", "/us/2", "/asia/1", "/asia/2")
LOCATIONS = tuple(f"b{i}={place}" for i, place in enumerate(PLACES))
EVERYWHERE = LedgerConfig(ensemble_size=6, write_quorum=6, ack_quorum=4, regions_min=2)


class FarBookie(FakeBookie):
    """Its answers to reads take what `delay_s` says."""

    delay_s: Callable[[], float] = staticmethod(lambda: 0.0)

    @override
    def submit(self, request: Request, reply: Callable[[Response], None]) -> None:
        if not isinstance(request, ReadRequest):
            super().submit(request, reply)
            return
        self.requests.append(request)
        loop = asyncio.get_running_loop()
        loop.call_later(self.delay_s(), self._arrive, request, reply)


class Globe(FastWorld):
    """Two racks in each of three regions."""

    def __init__(self) -> None:
        super().__init__(0)
        self.far = [FarBookie(f"b{i}") for i in range(len(PLACES))]
        self.bookies += self.far
        self.client = self.regional("/eu/1")

    def regional(self, own: str, **read: Any) -> LedgerClient:
        config = LedgerClientConfig(
            read=ReadConfig(**read),
            placement=PlacementConfig(locations=LOCATIONS, own_location=own),
        )
        return LedgerClient(self.store, LocalBookies(self.bookies), config, Random(7))

    def slow_down(self, region: str, delay_s: float) -> None:
        for bookie, place in zip(self.far, PLACES, strict=True):
            if place.startswith(f"/{region}/"):
                bookie.delay_s = lambda: delay_s

    def asked(self) -> list[str]:
        """Regions that reads of entries went to since this was called last, sorted."""
        regions = []
        for bookie, place in zip(self.far, PLACES, strict=True):
            regions += [place.split("/")[1] for r in bookie.requests if isinstance(r, ReadRequest)]
            bookie.requests.clear()
        return sorted(regions)

    async def written(self, count: int = 10) -> LedgerWriter:
        writer = await self.client.create_ledger(EVERYWHERE, Listener())
        for i in range(count):
            writer.add((b"%d" % i,))
        await writer.close()
        self.asked()
        return writer


async def opened(globe: Globe, writer: LedgerWriter, own: str, **read: Any) -> LedgerReader:
    client = globe.regional(own, **read)
    return await client.open_ledger(writer.ledger_id, recover=False)


def run(story: Callable[[Globe], Any]) -> None:
    async def with_globe(_: FastWorld) -> None:
        globe = Globe()
        await initialize_layout(globe.store, instance_id="globe")
        await story(globe)

    run_fast(with_globe)


def test_probability_of_the_nth_request_decays_exponentially() -> None:
    """Each replica is silent with probability p: so the nth one is asked with p ** (n - 1)."""
    reads, p = 3000, 0.2

    async def story(globe: Globe) -> None:
        rng = Random(2026)
        writer = await globe.written(1)
        for bookie in globe.far:
            bookie.delay_s = lambda: 30 if rng.random() < p else 0.001
        reader = await opened(
            globe, writer, "/eu/1", failure_history_ms=0, speculative_timeout_ms=20
        )
        nth: Counter[int] = Counter()
        crossing = 0
        while nth[1] < reads:
            await reader.read(0, 0)
            asked = globe.asked()
            nth.update(range(1, len(asked) + 1))
            crossing += asked.count("eu") < len(asked)
        for n in range(2, 6):
            expected = reads * p ** (n - 1)
            assert abs(nth[n] - expected) < 4 * expected**0.5 + 1, f"{n}: {nth[n]}, {expected}"
        assert nth[3] == crossing, "the third one is the first of another region"

    run(story)


def test_each_pause_is_longer_so_the_decay_is_at_least_exponential() -> None:
    """With answers that take an exponential time every further request is rarer than by p."""

    async def story(globe: Globe) -> None:
        rng = Random(2026)
        writer = await globe.written(1)
        for bookie in globe.far:
            bookie.delay_s = lambda: rng.expovariate(1.0)
        reader = await opened(
            globe, writer, "/eu/1", failure_history_ms=0, speculative_timeout_ms=500
        )
        nth: Counter[int] = Counter()
        for _ in range(2000):
            await reader.read(0, 0)
            nth.update(range(1, len(globe.asked()) + 1))
        shares = [nth[n + 1] / nth[n] for n in range(1, 4) if nth[n]]
        assert shares[0] == pytest.approx(0.61, abs=0.05)  # exp(-0.5)
        assert shares == sorted(shares, reverse=True)
        assert shares[1] < shares[0] ** 3

    run(story)


def distribution(asked: list[list[str]]) -> dict[str, tuple[int, ...]]:
    """Return how often each place was asked first, second and third of all reads."""
    counts = Counter((place, n) for one in asked for n, place in enumerate(one))
    assert max(map(len, asked)) <= 3
    return {place: tuple(counts[place, n] for n in range(3)) for place in PLACES}


def test_the_order_adapts_to_a_slow_and_to_a_failing_bookie() -> None:
    """Both near bookies are in trouble, and are tried again a minute after each trouble.

    2,000 reads in 200 s from /eu/1, whose bookie there takes 0.3 s, and whose neighbour fails. us
    answers in 10 ms, asia in 30 ms; the first speculation comes after 50 ms.
    """

    async def story(globe: Globe) -> None:
        writer = await globe.written(1)
        for place, delay_s in zip(PLACES, (0.3, 0.0, 0.01, 0.01, 0.03, 0.03), strict=True):
            bookie = globe.far[PLACES.index(place)]
            bookie.delay_s = lambda place=place, delay_s=delay_s: (  # type: ignore[misc]
                asked[-1].append(place) or delay_s  # type: ignore[func-returns-value]
            )
        globe.far[1].fault = DOWN
        reader = await opened(globe, writer, "/eu/1", speculative_timeout_ms=50)
        asked: list[list[str]] = []
        for _ in range(2000):
            asked.append([])
            await reader.read(0, 0)
            await asyncio.sleep(0.1)
        found = distribution(asked)
        assert found == {
            # asked    first, second, third
            "/eu/1": (4, 0, 0),
            "/eu/2": (3, 1, 0),
            "/us/1": (1089, 4, 0),
            "/us/2": (903, 2, 0),
            "/asia/1": (1, 0, 0),  # once, to learn how quick it is
            "/asia/2": (0, 0, 1),
        }
        nth = [sum(counts) for counts in zip(*found.values(), strict=True)]
        assert nth == [2000, 7, 1]

    run(story)


def test_reads_stay_in_the_own_region() -> None:
    async def story(globe: Globe) -> None:
        writer = await globe.written()
        for region in ("eu", "us", "asia"):
            reader = await opened(globe, writer, f"/{region}/2")
            for _ in range(5):
                await reader.read(0, 9)
            assert globe.asked() == [region] * 50

    run(story)


def test_lost_region_is_read_elsewhere_and_not_asked_again_for_a_while() -> None:
    async def story(globe: Globe) -> None:
        writer = await globe.written()
        reader = await opened(globe, writer, "/eu/1")
        globe.slow_down("eu", 1e6)
        await reader.read(0, 0)
        first = Counter(globe.asked())
        assert (first["eu"], first.total()) == (2, 3), "two racks, then another region"
        await reader.read(0, 9)
        assert "eu" not in globe.asked()
        globe.slow_down("eu", 0.001)
        await asyncio.sleep(61)
        await reader.read(0, 9)
        assert globe.asked() == ["eu"] * 10

    run(story)


def test_reader_without_replicas_nearby_goes_to_the_quickest_region() -> None:
    async def story(globe: Globe) -> None:
        writer = await globe.written()
        for region, delay_s in (("eu", 0.3), ("us", 0.15), ("asia", 0.04)):
            globe.slow_down(region, delay_s)
        reader = await opened(globe, writer, "/africa/1")
        for _ in range(4):  # each region is tried once
            await reader.read(0, 9)
        globe.asked()
        for _ in range(5):
            await reader.read(0, 9)
        assert globe.asked() == ["asia"] * 50

    run(story)


def test_long_polls_ask_near_bookies_first() -> None:
    async def story(globe: Globe) -> None:
        writer = await globe.client.create_ledger(EVERYWHERE, Listener())
        writer.add((b"0",))
        await writer._adder.drained()
        writer.add((b"1",))
        await writer._adder.drained()
        reader = await opened(globe, writer, "/us/1")
        await reader.read_last_confirmed()
        globe.asked()
        tail = reader.last_confirmed + 1
        waiting = asyncio.get_running_loop().create_task(
            reader.read_last_confirmed_and_entry(tail, 1000)
        )
        await asyncio.sleep(0.5)
        polled = [
            place
            for bookie, place in zip(globe.far, PLACES, strict=True)
            for r in bookie.requests
            if isinstance(r, ReadRequest) and r.entry_id == LAST_ENTRY
        ]
        assert polled == ["/us/1"]
        await waiting
        await writer.close()

    run(story)


def test_silent_long_poll_goes_to_near_bookies_outside_the_write_set_before_far_ones() -> None:
    """With E > Qw each bookie of the ensemble may be the first to hear of the LAC."""
    striped = LedgerConfig(ensemble_size=6, write_quorum=3, ack_quorum=3, regions_min=2)

    async def story(globe: Globe) -> None:
        writer = await globe.client.create_ledger(striped, Listener())
        for i in range(2):
            writer.add((b"%d" % i,))
            await writer._adder.drained()
        reader = await opened(globe, writer, "/us/1", long_poll_parallel=True)
        await reader.read_last_confirmed()
        asked: list[str] = []
        for bookie, place in zip(globe.far, PLACES, strict=True):
            bookie.delay_s = lambda place=place: asked.append(place) or 0.0  # type: ignore[misc, func-returns-value]
        tail = reader.last_confirmed + 1
        await reader.read_last_confirmed_and_entry(tail, 1)
        by_place = dict(zip((b.bookie_id for b in globe.far), PLACES, strict=True))
        members = writer.metadata.fragments[0].ensemble
        write_set = [by_place[members[(tail + i) % 6]] for i in range(3)]
        others = [place for place in asked[:6] if place not in write_set]
        assert sorted(asked[:3]) == sorted(write_set)
        for group in (asked[:3], others):
            near = [place for place in group if place.startswith("/us/")]
            assert group[: len(near)] == near
        await writer.close()

    run(story)


def test_places_that_cannot_be_learnt_keep_nobody_from_reading() -> None:
    async def story(globe: Globe) -> None:
        writer = await globe.written()
        client = globe.regional("/eu/1")
        bookies = client._bookies

        async def down() -> list[BookieId]:
            raise Unavailable("the metadata cannot be reached")

        bookies.available = down  # type: ignore[method-assign]
        reader = await client.open_ledger(writer.ledger_id, recover=False)
        assert len(await reader.read(0, 9)) == 10

    run(story)
