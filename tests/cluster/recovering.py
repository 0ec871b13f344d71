"""A cluster whose lost replicas are made anew, and a look at each replica of each entry."""

import asyncio
import json
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from typing_extensions import override

from tailrace.core.ledger.bookie_client import ask
from tailrace.core.ledger.bookie_registry import RegisteredBookies
from tailrace.core.ledger.client import LedgerClient
from tailrace.core.ledger.config import LedgerClientConfig
from tailrace.core.ledger.schedule import Schedule
from tailrace.core.metadata.ledger_metadata import LedgerMetadata
from tailrace.core.metadata.ledger_tree import ledger_ranges
from tailrace.core.metadata.uri import ledgers_root, open_store
from tailrace.protocol.bookkeeper.digest import Digest
from tailrace.protocol.bookkeeper.entry import read_entry
from tailrace.protocol.bookkeeper.messages import ReadRequest
from tailrace.protocol.ids import BookieId, LedgerId
from tests.autorecovery_process import AutoRecoveryUnderTest
from tests.bookie_process import BookieUnderTest
from tests.cluster.cli import parsed
from tests.cluster.several_brokers import until
from tests.cluster.three_bookies import SESSION_MS, ThreeBookies
from tests.ports import free_port

QUICK_BOOKIE: Final = (
    ("httpServerEnabled", "true"),
    ("httpServerPort", "0"),
    ("flushInterval", "200"),
    ("gcWaitTime", "500"),
    ("gcOverreplicatedLedgerWaitTime", "500"),
)
"""Index files are written and garbage is looked for all the time."""
QUICK_RECOVERY: Final = (
    ("zkTimeout", f"{SESSION_MS}"),
    ("openLedgerRereplicationGracePeriod", "1000"),
    ("lockReleaseOfFailedLedgerGracePeriod", "3000"),
    ("rwRereplicateBackoffMs", "200"),
    ("httpServerEnabled", "true"),
)


class RecoveringCluster(ThreeBookies):
    """Four bookies or more, and processes of auto-recovery that are made by the test."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.bookies.append(self._bookie(3))
        self.recoveries: list[AutoRecoveryUnderTest] = []

    @override
    def _bookie(self, number: int) -> BookieUnderTest:
        bookie = super()._bookie(number)
        bookie.arguments += tuple(_set(QUICK_BOOKIE))
        return bookie

    def recovery(self, name: str) -> AutoRecoveryUnderTest:
        """Return a process of auto-recovery that is not started yet."""
        settings = (*QUICK_RECOVERY, ("httpServerPort", f"{free_port()}"))
        made = AutoRecoveryUnderTest(self.metadata, name, *_set(settings))
        self.recoveries.append(made)
        return made

    def status(self) -> dict[str, Any]:
        """Return what `tailrace autorecovery status` says."""
        found: dict[str, Any] = parsed("autorecovery", "status", "-m", self.metadata)
        return found

    def ledgers_of(self, bookie: BookieUnderTest) -> list[int]:
        """Return the ledgers whose metadata names a bookie."""
        rows = parsed("ledger", "list", "-m", self.metadata, "--bookie", bookie.bookie_id)
        return [row["ledger"] for row in rows]

    def wait_until_repaired(self, *lost: BookieUnderTest) -> None:
        """Return once nothing names these bookies, and nothing is marked any more."""
        until(lambda: not any(map(self.ledgers_of, lost)))
        until(lambda: not self.status()["underreplicated"])

    def wait_until_gone_from(self, bookie: BookieUnderTest) -> None:
        """Return once a bookie is not registered any more."""
        until(lambda: self._row(bookie)["mode"] == "not running")

    def set_read_only(self, bookie: BookieUnderTest) -> None:
        """Have a bookie take nothing new, as an operator does; return once that is known."""
        request = urllib.request.Request(
            f"http://{self._row(bookie)['http']}/api/v1/bookie/state/readonly",
            data=json.dumps({"readOnly": True}).encode(),
            method="PUT",
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            assert answer.status == 200
        until(lambda: self._row(bookie)["mode"] == "read-only")

    def verify_replicas(self) -> int:
        """Read each entry of each ledger from each of its bookies; return how many copies.

        Ends all ledgers first: who writes to one is fenced.
        """
        return asyncio.run(_verify(self.metadata))

    @override
    def __exit__(self, *_: object) -> None:
        for recovery in self.recoveries:
            recovery.close()
        super().__exit__()

    def _row(self, bookie: BookieUnderTest) -> dict[str, Any]:
        rows = parsed("bookie", "list", "-m", self.metadata)
        found: dict[str, Any] = next(row for row in rows if row["bookie"] == bookie.bookie_id)
        return found


def number_of(recovery: AutoRecoveryUnderTest, name: str) -> float:
    """Return a number that a process of auto-recovery shows."""
    port = next(each for each in recovery.arguments if "httpServerPort" in each).partition("=")[2]
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        lines = answer.read().decode().splitlines()
    return float(next(line for line in lines if line.startswith(f"{name} ")).split()[1])


def stored_ledgers(bookie: BookieUnderTest) -> set[int]:
    """Return the ledgers that a bookie has index files of."""
    return {int(path.stem, 16) for path in Path(bookie.data).rglob("*.idx")}


def _set(settings: Sequence[tuple[str, str]]) -> list[str]:
    return [part for key, value in settings for part in ("--set", f"{key}={value}")]


async def _verify(uri: str) -> int:
    store = await open_store(uri)
    root = ledgers_root(uri)
    bookies = RegisteredBookies(store, root=root)
    try:
        client = LedgerClient(store, bookies, LedgerClientConfig(root=root))
        copies = 0
        async for ids in ledger_ranges(store, root):
            for ledger_id in ids:
                reader = await client.open_ledger(ledger_id, recover=True)
                copies += await _verify_ledger(ledger_id, reader.metadata, bookies)
        return copies
    finally:
        await bookies.close()
        await store.close()


async def _verify_ledger(
    ledger_id: LedgerId, ledger: LedgerMetadata, bookies: RegisteredBookies
) -> int:
    digest = Digest(ledger.digest, ledger.password)
    copies = 0
    for entry_id in range(ledger.last_entry_id + 1):
        ensemble = ledger.fragment_of(entry_id).ensemble
        holders = Schedule(ensemble, ledger.write_quorum, ledger.ack_quorum).write_bookies(entry_id)
        bodies = [await _body(bookies, holder, ledger_id, entry_id) for holder in holders]
        entries = [read_entry(body, ledger_id, entry_id, digest) for body in bodies]
        assert len({bytes(entry.payload) for entry in entries}) == 1
        copies += len(entries)
    return copies


async def _body(
    bookies: RegisteredBookies, holder: BookieId, ledger_id: LedgerId, entry_id: int
) -> bytes:
    answer: Any = await ask(bookies.client(holder), ReadRequest(ledger_id, entry_id))
    where = f"entry {entry_id} of ledger {ledger_id} at {holder}"
    assert answer.status.name == "EOK", f"{where}: {answer.status.name}"
    return bytes(answer.body)
