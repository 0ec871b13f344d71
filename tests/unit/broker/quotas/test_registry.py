"""Two brokers' registries over one store: what one alters, the other enforces."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tailrace.broker.quotas.client_quotas import ClientQuotas
from tailrace.broker.quotas.codec import encode_quotas
from tailrace.broker.quotas.config import QuotaConfig
from tailrace.broker.quotas.entity import entity_of
from tailrace.broker.quotas.registry import QuotaRegistry
from tailrace.broker.quotas.table import Alteration, Change, Quotas
from tailrace.core.errors import CorruptData
from tailrace.core.metadata.sqlite import SqliteStore
from tailrace.core.metadata.store import Watch, WatchEvent
from tailrace.core.runtime.clock import ManualClock
from tailrace.core.runtime.metrics import Metrics

NODE = "/tailrace/quotas"
KEY = "producer_byte_rate"
WITHIN_S = 10


def entity(name: str | None) -> tuple[tuple[str, str | None], ...]:
    return entity_of([("client-id", name)])


def setting(name: str, value: float | None) -> Alteration:
    return Alteration(entity(name), (Change(KEY, value),))


def registry(store: SqliteStore) -> QuotaRegistry:
    return QuotaRegistry(store, NODE, ClientQuotas(QuotaConfig(), ManualClock()))


@asynccontextmanager
async def pair(path: Path) -> AsyncIterator[tuple[QuotaRegistry, QuotaRegistry, SqliteStore]]:
    store = SqliteStore(path / "metadata.db", ManualClock())
    mine, theirs = registry(store), registry(store)
    await mine.start()
    await theirs.start()
    try:
        yield mine, theirs, store
    finally:
        await mine.close()
        await theirs.close()
        await store.close()


def run(story: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(WITHIN_S):
            await story()

    asyncio.run(main(), debug=True)


async def until(store: SqliteStore, condition: Callable[[], bool]) -> None:
    """Return once it is so; watches fire in turns of the loop that the store takes part in."""
    while not condition():
        await store.exists("/")


def test_what_one_alters_the_other_hears_of(tmp_path: Path) -> None:
    async def story() -> None:
        async with pair(tmp_path) as (mine, theirs, store):
            for value in (1.0, 2.0, 3.0):
                await mine.alter([setting("a", value)])
                assert mine.quotas == {entity("a"): {KEY: value}}
                await until(store, lambda: theirs.quotas == mine.quotas)
                assert theirs.clients.enforced
            await theirs.alter([setting("a", None), setting("b", None)])
            await until(store, lambda: mine.quotas == {})
            assert not mine.clients.enforced

    run(story)


def test_alterations_at_a_time_are_all_kept(tmp_path: Path) -> None:
    async def story() -> None:
        async with pair(tmp_path) as (mine, theirs, store):
            async with asyncio.TaskGroup() as group:
                for number in range(6):
                    who = (mine, theirs)[number % 2]
                    group.create_task(who.alter([setting(f"c{number}", 1.0)]))
            wanted = {entity(f"c{number}"): {KEY: 1.0} for number in range(6)}
            await until(store, lambda: mine.quotas == theirs.quotas == wanted)

    run(story)


def test_quotas_are_there_after_a_restart(tmp_path: Path) -> None:
    async def story() -> None:
        async with pair(tmp_path) as (mine, _, _store):
            await mine.alter([setting("a", 5.0)])
        async with pair(tmp_path) as (mine, _, _store):
            assert mine.quotas == {entity("a"): {KEY: 5.0}}
            assert mine.clients.enforced

    run(story)


def test_what_changed_while_the_session_was_lost_is_read(tmp_path: Path) -> None:
    async def story() -> None:
        async with pair(tmp_path) as (mine, _, store):
            await mine.alter([setting("a", 5.0)])
            deaf = DeafStore(store)
            late = QuotaRegistry(deaf, NODE, mine.clients)  # type: ignore[arg-type]
            await late.start()
            await mine.alter([setting("a", 6.0)])
            assert late.quotas == {entity("a"): {KEY: 5.0}}
            assert deaf.watch is not None
            deaf.watch(NODE, WatchEvent.SESSION_LOST)
            await until(store, lambda: late.quotas == {entity("a"): {KEY: 6.0}})
            for _ in range(10):
                await store.exists("/")
            assert deaf.reads == 2  # once at the start, once for the event
            await late.close()

    run(story)


class DeafStore:
    """A store whose watches never fire by themselves."""

    def __init__(self, store: SqliteStore) -> None:
        self._store = store
        self.watch: Watch | None = None
        self.reads = 0

    async def get(self, path: str, watch: Watch | None = None) -> object:
        self.watch = watch or self.watch
        self.reads += 1
        return await self._store.get(path)


def test_a_node_that_does_not_decode(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """At the start it is refused; later what is known stays, until the node is right again."""

    async def story() -> None:
        async with pair(tmp_path) as (mine, _, store):
            await mine.alter([setting("a", 5.0)])
            right = encode_quotas({entity("b"): {KEY: 1.0}})
            await store.set(NODE, b"?")
            with pytest.raises(CorruptData):
                await registry(store).start()
            with pytest.raises(CorruptData):
                await mine.alter([setting("a", 6.0)])
            assert mine.quotas == {entity("a"): {KEY: 5.0}}
            await store.set(NODE, right)
            await until(store, lambda: mine.quotas == {entity("b"): {KEY: 1.0}})
        assert "quotas_unreadable" in caplog.text

    run(story)


def test_throttling_is_counted_for_prometheus(tmp_path: Path) -> None:
    async def story() -> None:
        store = SqliteStore(tmp_path / "metadata.db", ManualClock())
        metrics, quotas = Metrics(), registry(store)
        await quotas.start(metrics)
        await quotas.alter([setting("a", 1.0)])
        request = quotas.clients.of_request("ANONYMOUS", "a")
        assert request is not None
        request.produced(1000)
        assert metrics.snapshot()["broker_quota_produce_throttled_total"] == 1
        assert metrics.snapshot()["broker_quota_accounts"] == 1
        await quotas.close()
        await store.close()

    run(story)


def test_a_bug_over_one_change_does_not_end_the_watch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        async with pair(tmp_path) as (mine, theirs, store):
            real, failures = theirs.clients.apply, [ZeroDivisionError("a bug")]

            def apply(quotas: Quotas) -> None:
                if failures:
                    raise failures.pop()
                real(quotas)

            monkeypatch.setattr(theirs.clients, "apply", apply)
            await mine.alter([setting("a", 1.0)])
            await until(store, lambda: not failures)
            await until(store, lambda: theirs.clients.enforced)  # by itself, soon after
            await mine.alter([setting("a", 2.0)])
            await until(store, lambda: theirs.quotas == mine.quotas)

    run(story)
