"""Giving up a bookie: what may happen while the command waits."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import override

from tailrace.core.ledger.bookie_registry import RegisteredBookies
from tailrace.core.ledger.client import LedgerClient
from tailrace.core.metadata.layout import LedgerPaths, UnderreplicationPaths
from tailrace.core.metadata.ledger_metadata import Fragment, LedgerMetadata, encode_ledger
from tailrace.core.metadata.ledger_tree import initialize_layout
from tailrace.core.metadata.sqlite import SqliteStore
from tailrace.core.metadata.store import Node
from tailrace.core.metadata.underreplication import encode_vote
from tailrace.core.runtime.clock import ManualClock
from tailrace.protocol.ids import BookieId, LedgerId
from tailrace.tools.bookies import decommission
from tailrace.tools.bookies.decommission import Decommission, has_entries
from tailrace.tools.cluster.cluster_access import Cluster
from tailrace.tools.errors import CliError

LOST, B, C, D = map(BookieId, ("lost:1", "b:1", "c:1", "d:1"))
PATHS = LedgerPaths()
MARKS = UnderreplicationPaths()
L1, L2 = LedgerId(1), LedgerId(2)


def ledger(*fragments: tuple[int, tuple[BookieId, ...]], quorum: int = 2) -> LedgerMetadata:
    return LedgerMetadata(
        ensemble_size=len(fragments[0][1]),
        write_quorum=quorum,
        ack_quorum=1,
        fragments=tuple(Fragment(first, ensemble) for first, ensemble in fragments),
    )


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (ledger((0, (B, C))), False),
        (ledger((0, (LOST, C))), True),  # its writer may add to it
        (ledger((0, (LOST, C))).closed(-1, 0), False),
        (ledger((0, (LOST, C))).closed(0, 10), True),
        (ledger((0, (LOST, C)), (5, (B, C))), True),
        (ledger((0, (B, C)), (5, (LOST, C))), True),
        (ledger((0, (B, C)), (5, (LOST, C))).closed(4, 10), False),
        (ledger((0, (B, LOST, C)), quorum=1).closed(0, 10), False),
        (ledger((0, (B, LOST, C)), quorum=1).closed(1, 10), True),
    ],
)
def test_where_a_bookie_has_entries(found: LedgerMetadata, expected: bool) -> None:
    assert has_entries(found, LOST) == expected


class Store(SqliteStore):
    """Others do something before a look at ledgers, or did it unseen until a sync."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, ManualClock())
        self.looks = self.syncs = 0
        self.others: dict[str, Any] = {}
        """`look_N` or `sync_N`, by their numbers -> what is done just before it."""

    @override
    async def sync(self) -> None:
        self.syncs += 1
        await self._let_others(f"sync_{self.syncs}")
        await super().sync()

    @override
    async def get_all(self, paths: Sequence[str]) -> list[Node | None]:
        self.looks += 1
        await self._let_others(f"look_{self.looks}")
        return await super().get_all(paths)

    async def _let_others(self, moment: str) -> None:
        if moment in self.others:
            await self.others[moment]()


async def decommissioned(tmp_path: Path, **others: Any) -> tuple[Store, CliError | None]:
    """Give a bookie up that has entries of one ledger; `others`: as in Store."""
    store = Store(tmp_path / "metadata.sqlite")
    store.others = {moment: work(store) for moment, work in others.items()}
    await initialize_layout(store)
    await store.create(PATHS.cookie(LOST), b"5\n")
    await store.create(PATHS.ledger(L1), encode_ledger(ledger((0, (LOST, C)))), parents=True)
    await store.create(f"{MARKS.vote_prefix}0000000001", encode_vote("me"), parents=True)
    bookies = RegisteredBookies(store)
    cluster = Cluster(store, PATHS.root, bookies, LedgerClient(store, bookies))
    error = None
    try:
        async with asyncio.timeout(60):
            await Decommission(cluster, LOST, "zk://there").run(3600)
    except CliError as refused:
        error = refused
    finally:
        await bookies.close()
    return store, error


def replace(ledger_id: LedgerId, *ensemble: BookieId) -> Any:
    def bound(store: Store) -> Any:
        return lambda: store.set(
            PATHS.ledger(ledger_id), encode_ledger(ledger((0, ensemble)).closed(9, 10))
        )

    return bound


def make_another(store: Store) -> Any:
    data = encode_ledger(ledger((0, (LOST, D))))
    return lambda: store.create(PATHS.ledger(L2), data, parents=True)


def come_back(store: Store) -> Any:
    async def come() -> None:
        await replace(L1, B, C)(store)()
        await store.create(PATHS.bookie(LOST), b"", ephemeral=True)

    return come


def run(tmp_path: Path, **others: Any) -> tuple[bool, CliError | None]:
    """Return whether the cookie is still there, and what was refused."""

    async def story() -> tuple[bool, CliError | None]:
        store, error = await decommissioned(tmp_path, **others)
        kept = await store.exists(PATHS.cookie(LOST)) is not None
        await store.close()
        return kept, error

    return asyncio.run(story())


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decommission, "LOOK_EVERY_S", 0.0)


def test_its_cookie_goes_when_its_entries_are_elsewhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, look_4=replace(L1, B, C)) == (False, None)
    assert capsys.readouterr().err == "me audits\n"


def test_a_ledger_that_a_writer_made_there_meanwhile_is_waited_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept, error = run(
        tmp_path, look_2=make_another, look_3=replace(L1, B, C), look_6=replace(L2, B, C)
    )
    assert (kept, error) == (False, None)
    assert capsys.readouterr().err == "me audits\n" * 2


def test_one_that_comes_back_keeps_its_cookie(tmp_path: Path) -> None:
    kept, error = run(tmp_path, look_3=come_back)
    assert kept
    assert error is not None
    assert "is registered" in error.cause


@pytest.mark.parametrize("moment", ["sync_1", "sync_4"])
def test_a_registration_that_its_server_had_not_seen_counts(tmp_path: Path, moment: str) -> None:
    kept, error = run(tmp_path, look_3=replace(L1, B, C), **{moment: come_back})
    assert kept
    assert error is not None
    assert "is registered" in error.cause


def test_a_ledger_that_its_server_had_not_seen_counts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copied = {"look_3": replace(L1, B, C), "look_6": replace(L2, B, C)}
    assert run(tmp_path, sync_3=make_another, **copied) == (False, None)
    assert capsys.readouterr().err == "me audits\n" * 2


def test_it_says_that_nobody_copies(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def disable(store: Store) -> Any:
        return lambda: store.create(MARKS.disable, parents=True)

    def enable(store: Store) -> Any:
        return lambda: store.delete(MARKS.disable)

    kept, _ = run(tmp_path, look_2=disable, look_5=enable, look_7=replace(L1, B, C))
    assert not kept
    said = capsys.readouterr().err.splitlines()
    assert said[0] == "me audits"
    assert said[1:] == [
        "auto-recovery is disabled: nothing is copied;"
        " tailrace autorecovery enable --metadata zk://there"
    ]
