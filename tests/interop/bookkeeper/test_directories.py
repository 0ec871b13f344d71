"""One bookie's directories, served by Apache's bookie and by ours in turn, also after kill -9."""

from pathlib import Path

import pytest

from tests.interop.bookkeeper.java import JavaBookie, create
from tests.interop.bookkeeper.ours import OurBookie
from tests.interop.bookkeeper.payloads import shown
from tests.java.peers import JavaClient
from tests.zookeeper import ZooKeeperServer

pytestmark = [
    pytest.mark.interop,
    pytest.mark.java,
    pytest.mark.crash,
]
ENTRIES = 200
SIZE = 500
ONE = {"e": 1, "qw": 1, "qa": 1}

# After a kill, Java's bookie needs BookKeeper's own way of writing; see bookie/DESIGN.md.
JOURNALED = "journalWriteData=true"
SHIFTS = {
    "killed": [("java", "kill"), ("ours-journaled", "kill"), ("java", "kill")],
    "stopped": [("ours", "stop"), ("java", "stop"), ("ours", "stop")],
}


class Disk:
    """The directories and the address; whoever serves them is the same bookie."""

    def __init__(self, path: Path, uri: str) -> None:
        self._path = path
        self._uri = uri
        self._port: int | None = None

    def start(self, who: str) -> JavaBookie | OurBookie:
        bookie: JavaBookie | OurBookie
        if who == "java":
            bookie = JavaBookie(self._path, self._uri, port=self._port)
        else:
            settings = (
                f"journalDirectories={self._path / 'journal'}",
                f"ledgerDirectories={self._path / 'ledgers'}",
                *([JOURNALED] if who == "ours-journaled" else []),
            )
            bookie = OurBookie(self._path, self._uri, port=self._port, settings=settings)
        self._port = bookie.port
        return bookie.start()


@pytest.mark.parametrize("name", SHIFTS)
def test_the_next_one_has_everything(
    java: JavaClient, zookeeper: ZooKeeperServer, tmp_path: Path, name: str
) -> None:
    uri = f"zk+hierarchical://{zookeeper.hosts}/directories-{name}"
    assert java.call("init", uri=uri)["created"]
    disk = Disk(tmp_path, uri)
    ledgers: list[int] = []
    for turn, (who, end) in enumerate(SHIFTS[name]):
        bookie = disk.start(who)
        client = f"{name}-{turn}"
        java.call("connect", client=client, uri=uri)
        try:
            for number, ledger in enumerate(ledgers):
                check(java, client, ledger, number)
            ledgers.append(write(java, client, turn))
        finally:
            getattr(bookie, end)()
            java.call("disconnect", client=client)


def write(java: JavaClient, client: str, seed: int) -> int:
    """Leave a ledger as its writer does that vanishes: open and without an end."""
    made = create(java, client=client, **ONE)
    java.call("add", handle=made["handle"], seed=seed, size=SIZE, count=ENTRIES)
    return int(made["ledger"])


def check(java: JavaClient, client: str, ledger: int, seed: int) -> None:
    opened = java.call("open", client=client, ledger=ledger, recovery=True)
    assert (opened["lac"], opened["length"]) == (ENTRIES - 1, ENTRIES * SIZE)
    found = java.call("read", handle=opened["handle"], first=0, last=ENTRIES - 1)
    assert found["entries"] == shown(seed, 0, ENTRIES - 1, SIZE)
