"""Bookies of both kinds in one ensemble, clients of both kinds on one ledger, kill -9 of any."""

import asyncio
import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tailrace.core.errors import BookieUnavailable, NotEnoughBookies
from tailrace.core.ledger.client import LedgerClient
from tailrace.core.ledger.config import LedgerConfig
from tailrace.core.ledger.writer import LedgerWriter
from tailrace.protocol.bookkeeper.digest import DigestType
from tailrace.protocol.ids import LedgerId
from tests.interop.bookkeeper.java import JavaAutoRecovery, JavaBookie, create
from tests.interop.bookkeeper.ours import (
    ROOT,
    Listener,
    OurBookie,
    add,
    ledger_client,
    run,
)
from tests.interop.bookkeeper.payloads import payload, shown
from tests.java.peers import JavaClient, JavaError

pytestmark = [
    pytest.mark.interop,
    pytest.mark.java,
    pytest.mark.crash,
]
SIZE = 200
BEFORE, AFTER = 300, 300
COPIED_WITHIN_S = 90
WHOLE = LedgerConfig(ensemble_size=3, write_quorum=3, ack_quorum=2, digest=DigestType.CRC32C)
STRIPED = LedgerConfig(ensemble_size=3, write_quorum=2, ack_quorum=2, digest=DigestType.CRC32C)
Bookie = OurBookie | JavaBookie
WRITER = """
import asyncio, sys
from tailrace.core.errors import CoreError, OverCapacity
from tailrace.core.errors import BookieUnavailable, NotEnoughBookies
from tailrace.core.ledger.client import LedgerClient
from tailrace.core.ledger.config import LedgerConfig
from tailrace.protocol.bookkeeper.digest import DigestType
from tests.interop.bookkeeper.ours import Listener, ledger_client
from tests.interop.bookkeeper.payloads import payload

async def main():
    uri, write_quorum, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    async with ledger_client(uri) as ledgers:
        listener = Listener()
        config = LedgerConfig(ensemble_size=3, write_quorum=write_quorum, ack_quorum=2,
                              digest=DigestType.CRC32C, unconfirmed_entries_max=100)
        writer = await ledgers.create_ledger(config, listener)
        print(writer.ledger_id, flush=True)
        while True:
            try:
                writer.add((payload(21, writer.last_add_pushed + 1, size),))
            except OverCapacity:
                await listener.reach(listener.lac + 1)
                print(listener.lac, flush=True)

asyncio.run(main())
"""


@pytest.fixture(scope="module", autouse=True)
def spare(
    uri: str, mixed_bookies: list[Bookie], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    """One more: clients are slow to trust a bookie again that was killed a moment ago."""
    bookie = OurBookie(tmp_path_factory.mktemp("ours"), uri)
    try:
        bookie.start()
        yield
    finally:
        bookie.stop()


def of_java(bookie: Bookie) -> bool:
    return isinstance(bookie, JavaBookie)


@contextlib.contextmanager
def killed(bookies: list[Bookie], *, javas: bool, among: list[str]) -> Iterator[str]:
    """Kill a bookie of a kind that is in an ensemble; start it again in the end."""
    victim = next(one for one in bookies if of_java(one) == javas and one.bookie_id in among)
    victim.kill()
    try:
        yield victim.bookie_id
    finally:
        victim.start()


def check(
    java: JavaClient,
    client: str,
    uri: str,
    ledger_id: LedgerId,
    seed: int,
    *,
    is_torn: bool = False,
) -> int:
    """Read a whole ledger through both clients, recovering it; return its last entry.

    `is_torn`: its writer was killed with entries on their way. Java's recovery takes LAC and length
    from one of these, and if it finds none of them again it keeps that length, of an entry that is
    no more (LedgerRecoveryOp.initiate). Then a bookie has that entry, and it says that LAC.
    """
    opened = java.call("open", client=client, ledger=ledger_id, recovery=True)
    last, length = opened["lac"], opened["length"]
    found = java.call("read", handle=opened["handle"], first=0, last=last)
    assert found["entries"] == shown(seed, 0, last, SIZE)

    async def story() -> None:
        async with ledger_client(uri) as ledgers:
            reader = await ledgers.open_ledger(ledger_id, recover=True)
            assert reader.last_confirmed == last
            assert reader.metadata.length == length
            for entry in await reader.read(0, last):
                assert bytes(entry.payload) == payload(seed, entry.entry_id, SIZE)
            if not is_torn or length == (last + 1) * SIZE:
                assert length == (last + 1) * SIZE
                return
            lost = length // SIZE - 1
            (entry,) = await reader.read_unconfirmed(lost, lost)
            assert (entry.lac, entry.length) == (last, length)

    run(story)
    return int(last)


async def create_with_both_kinds(
    ledgers: Any, listener: Listener, bookies: list[Bookie]
) -> LedgerWriter:
    (javas,) = [bookie.bookie_id for bookie in bookies if of_java(bookie)]
    while True:  # three of five: most draws have the Java bookie
        writer: LedgerWriter = await ledgers.create_ledger(WHOLE, listener)
        if javas in writer.metadata.fragments[0].ensemble:
            return writer
        await writer.close()


@pytest.mark.parametrize("javas", [True, False], ids=["kill-javas", "kill-ours"])
def test_our_writer_goes_on_without_a_bookie(
    java: JavaClient, uri: str, v3: str, mixed_bookies: list[Bookie], javas: bool
) -> None:
    async def story() -> LedgerId:
        async with ledger_client(uri) as ledgers:
            listener = Listener()
            writer = await create_with_both_kinds(ledgers, listener, mixed_bookies)
            await add(writer, listener, 22, BEFORE, SIZE)
            ensemble = list(writer.metadata.fragments[0].ensemble)
            with killed(mixed_bookies, javas=javas, among=ensemble) as victim:
                await add(writer, listener, 22, AFTER, SIZE)
                while victim in writer.metadata.fragments[-1].ensemble:
                    await add(writer, listener, 22, 1, SIZE)  # two others ack; it is noticed late
                await writer.close()
                assert listener.errors == []
                last = await asyncio.to_thread(check, java, v3, uri, writer.ledger_id, 22)
                assert last == writer.lac >= BEFORE + AFTER - 1
            return writer.ledger_id

    check(java, v3, uri, run(story), 22)


@pytest.mark.parametrize(
    ("protocol", "javas"),
    [("v3", True), ("v3", False), ("v2", False)],
    ids=["v3-kill-javas", "v3-kill-ours", "v2-kill-ours"],
)
def test_javas_writer_goes_on_without_a_bookie(
    java: JavaClient,
    uri: str,
    mixed_bookies: list[Bookie],
    javas: bool,
    protocol: str,
    request: pytest.FixtureRequest,
) -> None:
    client = request.getfixturevalue(protocol)
    (javas_id,) = [bookie.bookie_id for bookie in mixed_bookies if of_java(bookie)]
    while True:
        made = create(java, client=client, e=3, qw=3, qa=2)
        metadata = java.call("metadata", client=client, ledger=made["ledger"])
        if javas_id in metadata["ensembles"]["0"]:
            break
    how = {"handle": made["handle"], "seed": 23, "size": SIZE}
    java.call("add", **how, count=BEFORE)
    with killed(mixed_bookies, javas=javas, among=metadata["ensembles"]["0"]) as victim:
        last = java.call("add", **how, count=AFTER)["last"]
        while victim in newest_ensemble(java, client, made["ledger"]):
            last = java.call("add", **how, count=1)["last"]  # two others ack; it is noticed late
        java.call("close", handle=made["handle"])
        assert check(java, client, uri, made["ledger"], 23) == last >= BEFORE + AFTER - 1


def newest_ensemble(java: JavaClient, client: str, ledger_id: int) -> list[str]:
    ensembles = java.call("metadata", client=client, ledger=ledger_id)["ensembles"]
    newest: list[str] = ensembles[max(ensembles, key=int)]
    return newest


@pytest.mark.parametrize("write_quorum", [3, 2], ids=["whole", "striped"])
def test_java_recovers_what_our_killed_writer_left(
    java: JavaClient,
    uri: str,
    v3: str,
    mixed_bookies: list[Bookie],
    tmp_path: Path,
    write_quorum: int,
) -> None:
    with (tmp_path / "log").open("wb") as log:
        child = subprocess.Popen(
            [sys.executable, "-c", WRITER, uri, str(write_quorum), str(SIZE)],
            stdout=subprocess.PIPE,
            stderr=log,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
    assert child.stdout is not None
    first = child.stdout.readline()
    assert first, (tmp_path / "log").read_text()
    ledger_id, lac = LedgerId(int(first)), -1
    while lac < BEFORE:
        lac = int(child.stdout.readline())
    child.kill()
    said = child.communicate(timeout=30)[0].split(b"\n")[:-1]  # a cut line is no promise
    lac = max([lac, *map(int, said)])
    last = check(java, v3, uri, ledger_id, 21, is_torn=True)
    assert last >= lac


@pytest.mark.parametrize("write_quorum", [3, 2], ids=["whole", "striped"])
@pytest.mark.parametrize("is_v2", [False, True], ids=["v3", "v2"])
def test_we_recover_what_javas_killed_writer_left(
    java: JavaClient,
    uri: str,
    v3: str,
    mixed_bookies: list[Bookie],
    tmp_path: Path,
    write_quorum: int,
    is_v2: bool,
) -> None:
    writer = JavaClient(tmp_path / "log")
    conf = {"useV2WireProtocol": is_v2}
    writer.call("connect", client="w", uri=uri, conf=conf)
    made = create(writer, client="w", e=3, qw=write_quorum, qa=2)
    burst = writer.start("add", handle=made["handle"], seed=24, size=SIZE, count=100_000)
    lac = -1
    while lac < BEFORE:
        lac = writer.call("state", handle=made["handle"])["lac"]
    writer.kill()
    with pytest.raises((AssertionError, JavaError)):
        burst.result(60)

    async def story() -> tuple[int, int]:
        async with ledger_client(uri) as ledgers:
            reader = await ledgers.open_ledger(made["ledger"], recover=True)
            return reader.last_confirmed, reader.metadata.length

    last, length = run(story)
    assert last >= lac
    assert length == (last + 1) * SIZE
    assert check(java, v3, uri, made["ledger"], 24) == last


def test_both_recover_one_ledger_at_once(
    java: JavaClient, uri: str, v3: str, mixed_bookies: list[Bookie]
) -> None:
    async def story() -> LedgerId:
        async with ledger_client(uri) as ledgers, ledger_client(uri) as others:
            listener = Listener()
            writer = await ledgers.create_ledger(STRIPED, listener)
            await add(writer, listener, 25, BEFORE, SIZE)
            for entry_id in range(BEFORE, BEFORE + 50):  # of unknown fate
                writer.add((payload(25, entry_id, SIZE),))
            how = {"client": v3, "ledger": writer.ledger_id, "recovery": True}
            theirs = java.start("open", **how)
            mine = await others.open_ledger(writer.ledger_id, recover=True)
            opened = await asyncio.wrap_future(theirs)
            assert opened["lac"] == mine.last_confirmed >= listener.lac
            assert opened["length"] == mine.metadata.length
            return writer.ledger_id

    check(java, v3, uri, run(story), 25)


def test_both_recover_under_a_writer_while_bookies_die(
    java: JavaClient, uri: str, v3: str, mixed_bookies: list[Bookie]
) -> None:
    async def story() -> tuple[LedgerId, int]:
        async with ledger_client(uri) as ledgers, ledger_client(uri) as others:
            listener = Listener()
            writer = await create_with_both_kinds(ledgers, listener, mixed_bookies)
            writing = asyncio.create_task(write_until_fenced(writer, listener))
            await listener.reach(BEFORE)
            ensemble = writer.metadata.fragments[0].ensemble
            first, second = [bookie for bookie in mixed_bookies if bookie.bookie_id in ensemble][:2]
            await asyncio.to_thread(first.kill)
            await listener.reach(2 * BEFORE)
            async with asyncio.TaskGroup() as group:
                group.create_task(asyncio.to_thread(second.kill))
                theirs = group.create_task(recovered_by_java(java, v3, writer.ledger_id))
                mine = group.create_task(recovered_by_us(others, writer.ledger_id))
                group.create_task(asyncio.to_thread(first.start))
            await writing
            await asyncio.to_thread(second.start)
            assert theirs.result() == mine.result()
            return writer.ledger_id, listener.lac

    ledger_id, lac = run(story)
    assert check(java, v3, uri, ledger_id, 27) >= lac >= 2 * BEFORE


async def write_until_fenced(writer: LedgerWriter, listener: Listener) -> None:
    while not listener.errors:
        room = listener.lac + 200 - writer.last_add_pushed
        for _ in range(room):
            writer.add((payload(27, writer.last_add_pushed + 1, SIZE),))
        await listener.reach(listener.lac + 1)


async def recovered_by_us(ledgers: LedgerClient, ledger_id: LedgerId) -> tuple[int, int]:
    """Recover until it succeeds: too many of the bookies may be away."""
    while True:
        try:
            reader = await ledgers.open_ledger(ledger_id, recover=True)
        except (BookieUnavailable, NotEnoughBookies):
            continue
        return reader.last_confirmed, reader.metadata.length


async def recovered_by_java(java: JavaClient, client: str, ledger_id: LedgerId) -> tuple[int, int]:
    """Recover until it succeeds."""
    while True:
        how = {"client": client, "ledger": ledger_id, "recovery": True}
        try:
            opened = await asyncio.wrap_future(java.start("open", **how))
        except JavaError:
            continue
        return opened["lac"], opened["length"]


def test_javas_auto_recovery_copies_a_dead_bookies_entries_to_ours(
    java: JavaClient, uri: str, v3: str, mixed_bookies: list[Bookie], tmp_path: Path
) -> None:
    async def story() -> tuple[LedgerId, list[str]]:
        async with ledger_client(uri) as ledgers:
            listener = Listener()
            writer = await create_with_both_kinds(ledgers, listener, mixed_bookies)
            await add(writer, listener, 26, BEFORE, SIZE)
            await writer.close()
            return writer.ledger_id, list(writer.metadata.fragments[0].ensemble)

    ledger_id, ensemble = run(story)
    deadline = time.monotonic() + COPIED_WITHIN_S
    with (
        JavaAutoRecovery(tmp_path, uri) as daemon,
        killed(mixed_bookies, javas=True, among=ensemble) as victim,
    ):
        while victim in newest_ensemble(java, v3, ledger_id):
            assert time.monotonic() < deadline
            daemon.check()
        assert check(java, v3, uri, ledger_id, 26) == BEFORE - 1
        (copier,) = set(newest_ensemble(java, v3, ledger_id)) - set(ensemble)
        how = {"client": v3, "ledger": ledger_id, "last": BEFORE}
        copied = java.call("list_entries", bookie=copier, **how)
        assert copied["entries"] == list(range(BEFORE))
