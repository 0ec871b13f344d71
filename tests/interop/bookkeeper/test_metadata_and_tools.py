"""What either side wrote into ZooKeeper, read by the other; BookKeeper's shell on our cluster."""

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tailrace.bookie.cookie import format_cookie, parse_cookie
from tailrace.core.ledger.config import LedgerConfig
from tailrace.core.metadata.bookie_service_info import decode_service_info
from tailrace.core.metadata.layout import LedgerPaths
from tailrace.core.metadata.ledger_tree import initialize_layout, ledger_ranges
from tailrace.core.metadata.uri import ledgers_root, open_store
from tailrace.protocol.bookkeeper.digest import DigestType
from tailrace.protocol.ids import LedgerId
from tests.interop.bookkeeper.java import JavaBookie, JavaShell, create
from tests.interop.bookkeeper.ours import Listener, OurBookie, add, ledger_client, run
from tests.interop.bookkeeper.payloads import payload, shown
from tests.java.peers import JavaClient

pytestmark = [
    pytest.mark.interop,
    pytest.mark.java,
]
Bookie = OurBookie | JavaBookie
SIZE = 50
LAST = 9


@pytest.fixture(scope="module")
def ledger_id(uri: str, mixed_bookies: list[Bookie]) -> LedgerId:
    """A closed ledger of this project's client on three of the four bookies."""

    async def story() -> LedgerId:
        async with ledger_client(uri) as ledgers:
            listener = Listener()
            config = LedgerConfig(
                ensemble_size=3,
                write_quorum=2,
                ack_quorum=2,
                digest=DigestType.CRC32C,
                custom={"application": b"tailrace"},
            )
            writer = await ledgers.create_ledger(config, listener)
            await add(writer, listener, 31, LAST + 1, SIZE)
            await writer.close()
            return writer.ledger_id

    found: LedgerId = run(story)
    return found


# ---- metadata


@pytest.mark.parametrize("version", [1, 2, 3])
def test_metadata_of_every_format(
    java: JavaClient, uri: str, mixed_bookies: list[Bookie], version: int
) -> None:
    client = f"format-{version}"
    conf = {"ledgerMetadataVersion": version}
    java.call("connect", client=client, uri=uri, conf=conf)
    # Format 1 has no room for a digest type, a password or an ack quorum.
    how = {"client": client, "digest": "CRC32"}
    made = create(java, **how, e=3, qw=2, qa=2)
    java.call("add", handle=made["handle"], seed=32, size=SIZE, count=LAST + 1)

    async def story() -> None:
        async with ledger_client(uri) as ledgers:
            reader = await ledgers.open_ledger(made["ledger"], recover=True)
            assert reader.last_confirmed == LAST
            for entry in await reader.read(0, LAST):
                assert bytes(entry.payload) == payload(32, entry.entry_id, SIZE)

    run(story)
    metadata = java.call("metadata", client=client, ledger=made["ledger"])
    assert (metadata["state"], metadata["last"]) == ("CLOSED", LAST)
    opened = java.call("open", **how, ledger=made["ledger"], recovery=True)
    found = java.call("read", handle=opened["handle"], first=0, last=LAST)
    assert found["entries"] == shown(32, 0, LAST, SIZE)
    assert metadata["version"] == version
    java.call("disconnect", client=client)


def test_our_metadata_in_javas_eyes(java: JavaClient, v3: str, ledger_id: LedgerId) -> None:
    metadata = java.call("metadata", client=v3, ledger=ledger_id)
    names = ("version", "state", "e", "qw", "qa", "last", "length", "digest", "password")
    expected = [3, "CLOSED", 3, 2, 2, LAST, (LAST + 1) * SIZE, "CRC32C", ""]
    assert [metadata[name] for name in names] == expected
    assert metadata["custom"] == {"application": "tailrace"}


def test_javas_metadata_in_our_eyes(
    java: JavaClient, uri: str, v3: str, mixed_bookies: list[Bookie]
) -> None:
    made = java.call(
        "create", client=v3, e=4, qw=3, qa=2, digest="MAC", password="geheim", custom={"k": "v"}
    )

    async def story() -> None:
        async with ledger_client(uri) as ledgers:
            metadata = await ledgers.ledger_metadata(made["ledger"])
            sizes = (metadata.ensemble_size, metadata.write_quorum, metadata.ack_quorum)
            assert sizes == (4, 3, 2)
            assert (metadata.digest, metadata.password) == (DigestType.HMAC, b"geheim")
            assert dict(metadata.custom) == {"k": b"v"}
            ensemble = sorted(metadata.fragments[0].ensemble)
            assert ensemble == sorted(bookie.bookie_id for bookie in mixed_bookies)

    run(story)


def test_ids_of_both_never_meet(
    java: JavaClient, uri: str, v3: str, mixed_bookies: list[Bookie]
) -> None:
    async def story() -> list[int]:
        config = LedgerConfig(ensemble_size=3, write_quorum=2, ack_quorum=2)
        made = []
        async with ledger_client(uri) as ledgers:
            for _ in range(10):
                writer = await ledgers.create_ledger(config, Listener())
                made.append(int(writer.ledger_id))
                how = {"client": v3, "e": 3, "qw": 2, "qa": 2}
                made.append(create(java, **how)["ledger"])
        return made

    made = run(story)
    assert sorted(set(made)) == sorted(made)
    assert made == sorted(made), "one sequence for all"


def test_both_list_the_same_ledgers(
    java: JavaClient, uri: str, v3: str, ledger_id: LedgerId
) -> None:
    long_id = 12_345_678_901
    java.call("create_adv", client=v3, e=3, qw=2, qa=2, ledger=long_id)

    async def story() -> list[int]:
        store = await open_store(uri)
        found = [one async for some in ledger_ranges(store, ledgers_root(uri)) for one in some]
        await store.close()
        return [int(one) for one in found]

    found = run(story)
    assert {ledger_id, long_id} <= set(found)
    assert sorted(java.call("list", client=v3)["ledgers"]) == found


def test_layout_cookies_and_registrations(uri: str, mixed_bookies: list[Bookie]) -> None:
    async def story() -> None:
        store = await open_store(uri)
        root = ledgers_root(uri)
        paths = LedgerPaths(root)
        instance_id = await initialize_layout(store, root)  # Java made it: this only looks
        for bookie in mixed_bookies:
            data = (await store.get(paths.cookie(bookie.bookie_id))).data
            cookie = parse_cookie(data)
            assert (cookie.bookie_id, cookie.instance_id) == (bookie.bookie_id, instance_id)
            assert format_cookie(cookie) == data
            registered = await store.get(paths.bookie(bookie.bookie_id))
            door = decode_service_info(registered.data, bookie.bookie_id).rpc()
            assert door is not None
            assert (door.host, door.port) == ("127.0.0.1", bookie.port)
        await store.close()

    run(story)


# ---- the shell


Shell = Callable[..., str]


@pytest.fixture
def sh(shell: JavaShell, uri: str, tmp_path: Path) -> Shell:
    """Give what a command says of our cluster."""
    return partial(shell, uri, tmp_path)


def test_shell_lists_bookies(sh: Shell, mixed_bookies: list[Bookie]) -> None:
    found = re.findall(r"BookieID:([\d.:]+), IP:127.0.0.1, Port:(\d+)", sh("listbookies", "-rw"))
    expected = sorted((bookie.bookie_id, str(bookie.port)) for bookie in mixed_bookies)
    assert sorted(found) == expected


def test_shell_asks_bookies_for_their_space(sh: Shell, mixed_bookies: list[Bookie]) -> None:
    said = sh("bookieinfo")
    for bookie in mixed_bookies:
        (free, total) = next(
            (int(free), int(total))
            for name, free, total in re.findall(
                r"BookieID:([\d.:]+),.*Free: (\d+)\(.*Total: (\d+)\(", said
            )
            if name == bookie.bookie_id
        )
        assert 0 < free < total


def test_shell_shows_a_bookies_endpoint(sh: Shell, mixed_bookies: list[Bookie]) -> None:
    ours = mixed_bookies[-1]
    said = sh("endpointinfo", "-b", ours.bookie_id)
    assert "Protocol: bookie-rpc" in said
    assert f"Address: 127.0.0.1 : {ours.port}" in said


def test_shell_shows_our_cookie(sh: Shell, mixed_bookies: list[Bookie]) -> None:
    ours = mixed_bookies[-1]
    assert f'bookieHost: "{ours.bookie_id}"' in sh("cookie_get", ours.bookie_id)


def test_shell_lists_ledgers_and_their_metadata(sh: Shell, ledger_id: LedgerId) -> None:
    assert f"ledgerID: {ledger_id}\n" in sh("listledgers")
    said = sh("ledgermetadata", "-ledgerid", str(ledger_id))
    assert "ensembleSize=3, writeQuorumSize=2, ackQuorumSize=2, state=CLOSED" in said
    assert f"length={(LAST + 1) * SIZE}, lastEntryId={LAST}, digestType=CRC32C" in said


def test_shell_reads_our_ledger(sh: Shell, ledger_id: LedgerId) -> None:
    said = sh("readledger", "-ledgerid", str(ledger_id), "-r")
    found = [int(entry) for entry in re.findall(rf"Lid={ledger_id}, Eid=(\d+)", said)]
    assert found == list(range(LAST + 1))


def test_shell_writes_a_ledger(sh: Shell, mixed_bookies: list[Bookie]) -> None:
    sizes = ("-ensemble", "3", "-writeQuorum", "2", "-ackQuorum", "2")
    said = sh("simpletest", *sizes, "-numEntries", "100")
    assert re.search(r"100 entries written to ledger \d+. Last entry Id 99", said)


@pytest.mark.crash
def test_shell_recovers_a_dead_bookies_entries_onto_others(
    sh: Shell,
    java: JavaClient,
    uri: str,
    v3: str,
    mixed_bookies: list[Bookie],
    ledger_id: LedgerId,
) -> None:
    before: Any = java.call("metadata", client=v3, ledger=ledger_id)["ensembles"]["0"]
    victim = next(bookie for bookie in mixed_bookies if bookie.bookie_id in before)
    (spare,) = {bookie.bookie_id for bookie in mixed_bookies} - set(before)
    victim.kill()
    try:
        sh("recover", "-f", "-l", str(ledger_id), victim.bookie_id)
        after = java.call("metadata", client=v3, ledger=ledger_id)["ensembles"]["0"]
        assert after == [spare if one == victim.bookie_id else one for one in before]
        index = after.index(spare)
        copied = java.call("list_entries", client=v3, bookie=spare, ledger=ledger_id, last=30)
        # Java's replicator copies all of a fragment, also what striping keeps elsewhere.
        assert {e for e in range(LAST + 1) if (index - e) % 3 < 2} <= set(copied["entries"])
        opened = java.call("open", client=v3, ledger=ledger_id, recovery=True)
        found = java.call("read", handle=opened["handle"], first=0, last=LAST)
        assert found["entries"] == shown(31, 0, LAST, SIZE)
    finally:
        victim.start()
