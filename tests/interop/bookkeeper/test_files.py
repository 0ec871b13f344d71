"""BookKeeper's shell on the files of our bookie: journal, entry log and its map, index, marks."""

import re
from pathlib import Path

import pytest

from tailrace.bookie.journal_format import FENCE, KEY
from tests.interop.bookkeeper.java import JavaShell
from tests.unit.bookie.world import L1, L2, add, ask, fence, open_small, run

pytestmark = [pytest.mark.interop, pytest.mark.java, pytest.mark.xdist_group("bookkeeper")]
NOBODY = "zk+hierarchical://127.0.0.1:1/ledgers"  # these commands read files only
ENTRIES = 12


WAYS = pytest.mark.parametrize(
    "directory", [False, True], ids=["direct", "journaled"], indirect=True
)
HEADING = re.compile(r"Lid=(-?\d+), Eid=(-?\d+), ByteOffset=")


@pytest.fixture(scope="module")
def directory(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bookie's directories: two ledgers over several entry logs, one of them fenced."""
    root = tmp_path_factory.mktemp("files")

    async def story() -> None:
        bookie = await open_small(
            root, journal_write_data=request.param, log_size_limit=5000, preallocate_mb=1
        )
        for entry_id in range(ENTRIES):
            for ledger_id in (L1, L2):
                await ask(bookie, add(ledger_id, entry_id, b"p" * 400))
            if entry_id % 5 == 4:
                await bookie.checkpoint()
        await ask(bookie, fence(L1))
        await bookie.close()

    run(story)
    return root


def records(text: str) -> set[tuple[int, int]]:
    """Return (ledger, entry) of what the shell printed, without our groups' trailers."""
    found = {(int(ledger), int(entry)) for ledger, entry in HEADING.findall(text)}
    return {record for record in found if record[0] >= 0}


ALL = {(ledger, entry) for ledger in (1, 2) for entry in range(ENTRIES)}


@WAYS
def test_javas_shell_reads_the_files(shell: JavaShell, directory: Path) -> None:
    logs = sorted(path.name for path in directory.glob("ledgers/current/*.log"))
    assert len(logs) > 2
    found = [records(shell(NOBODY, directory, "readlog", log)) for log in logs]
    assert set.union(*found) == ALL

    sizes = shell(NOBODY, directory, "readlogmetadata", "0")
    total = sum(map(int, re.findall(r"Lid=\d+, TotalSizeOfEntriesOfLedger=(\d+)", sizes)))
    assert total == 440 * len(found[0])

    (journal,) = directory.glob("journal/current/*.txn")
    text = shell(NOBODY, directory, "readjournal", journal.name)
    special = {(1, KEY), (2, KEY), (1, FENCE)}
    assert "Journal Version : 6" in text
    assert records(text) in (special, special | ALL)
    assert "Fenced" in text

    index = shell(NOBODY, directory, "ledger", "-m", "1")
    assert re.search(r"isFenced\s*: true", index)
    assert len(re.findall(r"entry \d+\s*:\s*\(log:", index)) == ENTRIES
    end = journal.stat().st_size
    assert f"({journal.name}), Pos - {end}" in shell(NOBODY, directory, "lastmark")
