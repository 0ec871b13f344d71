"""Copies are whole or not there, and wrong bytes are named, never given out."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Any

import pytest
from fsspec import register_implementation
from fsspec.implementations.memory import MemoryFileSystem
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tailrace.core.errors import (
    ColdObjectCorrupt,
    ColdObjectNotFound,
    ColdStorageUnavailable,
    EntryNotFound,
)
from tailrace.core.log.cold.config import ColdConfig
from tailrace.core.log.cold.nodes import ColdSegment, decode_cold, encode_cold
from tailrace.core.log.cold.pace import next_free_s, pause_s
from tailrace.core.log.cold.store import ColdStore
from tailrace.core.runtime.config import Secret
from tests.unit.core.log.cold.ledgers import LOG, SEGMENT, MemoryLedger, cold_store, entries_of

PAYLOADS = [b"%d" % number * (number * 7 % 50) for number in range(60)]


def in_loop(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    @wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        async def bounded() -> None:
            async with asyncio.timeout(60):
                await test(*args, **kwargs)

        asyncio.run(bounded(), debug=True)

    return run


def objects_in(path: Path) -> list[Path]:
    return sorted(each for each in path.rglob("*") if each.is_file())


@in_loop
async def test_a_copy_reads_like_its_ledger(tmp_path: Path) -> None:
    async with cold_store(tmp_path) as store:
        cold = await store.copy(LOG, SEGMENT, MemoryLedger(PAYLOADS))
        assert cold.name.startswith("cluster-1/distributedlog/tailrace/s/000000000000000003-42-")
        assert decode_cold(encode_cold(cold), "n") == cold
        assert cold.metadata == SEGMENT
        await store.verify(cold)
        reader = await store.open(cold)
        assert (reader.last_confirmed, reader.is_closed) == (59, True)
        assert reader.length == sum(map(len, PAYLOADS))
        assert await reader.read(0, 59) == entries_of(PAYLOADS)
        with pytest.raises(EntryNotFound):
            await reader.read(59, 60)
        assert await reader.read_last_confirmed_and_entry(60, 1000) == (59, None)
        assert store.metrics.segments_copied_total == 1


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    payloads=st.lists(st.binary(max_size=200), min_size=1, max_size=30),
    block_bytes=st.integers(1, 400),
    data=st.data(),
)
def test_a_ranged_read_is_the_ledgers(
    tmp_path_factory: pytest.TempPathFactory,
    payloads: list[bytes], block_bytes: int, data: st.DataObject,
) -> None:  # fmt: skip
    ranges = [
        (first, data.draw(st.integers(first, len(payloads) - 1)))
        for first in data.draw(st.lists(st.integers(0, len(payloads) - 1), max_size=5))
    ]

    async def story() -> None:
        path = tmp_path_factory.mktemp("cold")
        async with cold_store(path, block_bytes=block_bytes) as store:
            reader = await store.open(await store.copy(LOG, SEGMENT, MemoryLedger(payloads)))
            for first, last in ranges:
                assert await reader.read(first, last) == entries_of(payloads)[first : last + 1]

    asyncio.run(story())


@in_loop
async def test_one_entry_is_one_ranged_read(tmp_path: Path) -> None:
    async with cold_store(tmp_path) as store:
        reader = await store.open(await store.copy(LOG, SEGMENT, MemoryLedger(PAYLOADS)))
        calls: list[tuple[int, int]] = []
        read = store.objects.read

        async def counted(name: str, position: int, size: int) -> bytes:
            calls.append((position, size))
            return await read(name, position, size)

        store.objects.read = counted  # type: ignore[method-assign]
        for number in (30, 7, 59):
            calls.clear()
            assert (await reader.read(number, number))[0].payload == PAYLOADS[number]
            assert len(calls) == 1
        calls.clear()
        await reader.read(0, 59)
        assert len(calls) == 1  # neighbouring blocks come together


@in_loop
async def test_an_empty_ledger_is_copied_too(tmp_path: Path) -> None:
    async with cold_store(tmp_path) as store:
        reader = await store.open(await store.copy(LOG, SEGMENT, MemoryLedger([])))
        assert reader.last_confirmed == -1


@in_loop
async def test_every_flipped_byte_is_found_by_verify_and_never_read(tmp_path: Path) -> None:
    async with cold_store(tmp_path) as store:
        payloads = [b"%d" % n * 9 for n in range(6)]
        cold = await store.copy(LOG, SEGMENT, MemoryLedger(payloads))
        (path,) = objects_in(tmp_path)
        whole = path.read_bytes()
        for position in range(len(whole)):
            flipped = bytearray(whole)
            flipped[position] ^= 0x10
            path.write_bytes(flipped)
            with pytest.raises(ColdObjectCorrupt, match="000000000000000003-42"):
                await store.verify(cold)
            try:
                found = await (await store.open(cold)).read(0, 5)
            except ColdObjectCorrupt:
                continue
            assert found == entries_of(payloads)  # header or trailer: no reader needs them
        assert store.metrics.corrupt_total > 0


@in_loop
async def test_an_object_that_is_gone_is_named(tmp_path: Path) -> None:
    async with cold_store(tmp_path) as store:
        cold = await store.copy(LOG, SEGMENT, MemoryLedger(PAYLOADS))
        reader = await store.open(cold)
        await store.delete(cold.prefix)
        await store.delete(cold.prefix)
        for call in (store.verify(cold), store.open(cold), reader.read(0, 1)):
            with pytest.raises(ColdObjectNotFound, match="000000000000000003-42"):
                await call
        assert await store.names(LOG) == []


@in_loop
async def test_the_object_of_another_copy_is_not_taken_for_this_one(tmp_path: Path) -> None:
    async with cold_store(tmp_path) as store:
        first = await store.copy(LOG, SEGMENT, MemoryLedger(PAYLOADS))
        second = await store.copy(LOG, SEGMENT, MemoryLedger(PAYLOADS[:-1]))
        mixed = ColdSegment(**{**_fields(first), "name": second.name})
        with pytest.raises(ColdObjectCorrupt):
            await store.verify(mixed)
        with pytest.raises(ColdObjectCorrupt):
            await store.open(mixed)


def _fields(cold: ColdSegment) -> dict[str, Any]:
    return {name: getattr(cold, name) for name in cold.__struct_fields__}


@in_loop
async def test_leftovers_of_other_copies_are_deleted_and_nothing_else(tmp_path: Path) -> None:
    async with cold_store(tmp_path) as store:
        other = await store.copy(LOG, replace(SEGMENT, lssn=4), MemoryLedger(PAYLOADS))
        await store.copy(LOG, SEGMENT, MemoryLedger(PAYLOADS))
        kept = await store.copy(LOG, SEGMENT, MemoryLedger(PAYLOADS))
        assert len(await store.names(LOG)) == 3
        await store.delete_others(kept)
        assert set(await store.names(LOG)) == {kept.name, other.name}


@in_loop
async def test_a_copy_whose_ledger_fails_leaves_nothing(tmp_path: Path) -> None:
    async with cold_store(tmp_path) as store:
        with pytest.raises(EntryNotFound):
            await store.copy(LOG, SEGMENT, MemoryLedger(PAYLOADS, fails_at=40))
        assert objects_in(tmp_path) == []
        assert store.metrics.uploads == 0


@in_loop
async def test_a_copy_that_is_cancelled_leaves_nothing(tmp_path: Path) -> None:
    class Stalling(MemoryLedger):
        reached = asyncio.Event()

        async def read(self, first: int, last: int) -> Any:
            if last > 30:
                self.reached.set()
                await asyncio.Event().wait()
            return await super().read(first, last)

    async with cold_store(tmp_path) as store:
        ledger = Stalling(PAYLOADS)
        copying = asyncio.create_task(store.copy(LOG, SEGMENT, ledger))
        await ledger.reached.wait()
        assert len(objects_in(tmp_path)) == 1
        copying.cancel()
        with pytest.raises(asyncio.CancelledError):
            await copying
        assert objects_in(tmp_path) == []


@in_loop
async def test_what_is_read_back_wrong_is_no_copy(tmp_path: Path) -> None:
    """A store that loses a byte of what it took: tried again, and never believed."""
    async with cold_store(tmp_path, attempts=2) as store:
        create = store.objects.create
        tries = []

        async def create_lossy(name: str) -> Any:
            tries.append(name)
            upload = await create(name)
            finish = upload.finish

            async def finish_and_flip() -> None:
                await finish()
                (path,) = objects_in(tmp_path)
                data = bytearray(path.read_bytes())
                data[len(data) // 2] ^= 1
                path.write_bytes(data)

            if len(tries) < 4:
                upload.finish = finish_and_flip  # type: ignore[method-assign]
            return upload

        store.objects.create = create_lossy  # type: ignore[method-assign]
        with pytest.raises(ColdObjectCorrupt):
            await store.copy(LOG, SEGMENT, MemoryLedger(PAYLOADS))
        assert len(set(tries)) == 2
        assert objects_in(tmp_path) == []
        cold = await store.copy(LOG, SEGMENT, MemoryLedger(PAYLOADS))  # the third is bad too
        assert len(set(tries)) == 4
        await store.verify(cold)
        assert store.metrics.failed_copies_total == 3


@in_loop
async def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    async with cold_store(tmp_path / "file", attempts=1) as store:
        with pytest.raises(ColdStorageUnavailable, match="file/cluster-1"):
            await store.copy(LOG, SEGMENT, MemoryLedger(PAYLOADS))


class Odd(MemoryFileSystem):  # type: ignore[misc]
    """A driver whose library has errors of its own."""

    def ls(self, *_: object, **__: object) -> list[str]:
        raise LookupError("as that library says it")


@in_loop
async def test_what_a_driver_raises_is_named() -> None:
    register_implementation("odd", Odd, clobber=True)
    async with cold_store("odd://place", attempts=1) as store:
        with pytest.raises(ColdStorageUnavailable, match=r"odd://place.*LookupError: as that"):
            await store.names(LOG)


@in_loop
async def test_names_of_logs_cannot_leave_their_place(tmp_path: Path) -> None:
    async with cold_store(tmp_path) as store:
        cold = await store.copy("/ns/a?b#c%/d e", SEGMENT, MemoryLedger(PAYLOADS))
        assert cold.name.startswith("cluster-1/ns/a%3Fb%23c%25/d%20e/")
        await store.verify(cold)
        assert await store.names("/ns/a?b#c%/d e") == [cold.name]
        assert await store.names("/ns/a?b#c%") == []  # a stream below a stream is another one


def test_uploads_together_keep_below_the_rate() -> None:
    free_at, sent = 0.0, 0
    for now, size in ((0.0, 100), (0.0, 100), (5.0, 300), (5.0, 1)):
        start = now + pause_s(free_at, now)
        assert start >= sent / 100 or start == now
        free_at = next_free_s(free_at, now, size, 100)
        sent += size
    assert free_at == pytest.approx(8.01)


@pytest.mark.parametrize(
    "wrong",
    [{"options": Secret("[]")}, {"options": Secret("{")}, {"part_bytes": 1}, {"attempts": 0},
     {"block_bytes": 64 * 1024 * 1024}, {"upload_bytes_per_s": -1}],
)  # fmt: skip
def test_settings_that_cannot_be_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"cold\."):
        ColdConfig(**wrong)


def test_a_store_that_is_never_used_starts_no_thread(tmp_path: Path) -> None:
    async def story() -> None:
        async with cold_store(tmp_path) as store:
            assert isinstance(store, ColdStore)
            assert not store.objects._reads._idle

    asyncio.run(story())
