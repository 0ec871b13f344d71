"""Bugs that Apache BookKeeper had, as schedules: ours must pass each of them.

Each story was seen to fail with its bug planted in our code.
"""

import asyncio

import pytest

from tailrace.core.errors import BookieUnavailable, CorruptData
from tests.sim.script import Stage, scripted


@scripted(bookies=3)
async def test_2614_recovery_reads_fence(stage: Stage) -> None:
    """BookKeeper #2614: reads of recovery did not fence, and an acknowledged entry was cut off.

    Qw 3, Qa 2. Entries 0 and 1 reach b1 only. Recovery's fence reaches b1 and b2, which is enough,
    and brings entry 1, the last one; b3 never gets it, because the connection fails. Then b2 and b3
    say that they have no entry 0, which proves that it was not acknowledged: the ledger is closed
    without it. Had b3's read not fenced it, the writer's add would now arrive there, and be the
    second acknowledgement.
    """
    writing, recovering = stage.world.new_client(60_000), stage.world.new_client(60_000, 300)
    ledger = await stage.create(writing, 3, 3, 2)
    b1, b2, b3 = ledger.machines
    await ledger.add_confirmed(0)
    for machine in (b2, b3):
        stage.block(writing, machine)
    ledger.add()
    ledger.add()
    await stage.until(lambda: len(b1.checker.acked) == 2)

    await recovering.process.run(
        recovering.ledgers.open_ledger(ledger.writer.ledger_id, recover=False), "connect"
    )
    await asyncio.sleep(0.1)  # to all three of them
    stage.cut(recovering, b3)
    stage.reset(recovering, b3)
    stage.block(b2, recovering)
    task = stage.world.loop.create_task(stage.recover(recovering, ledger))
    await stage.until(lambda: bool(b1.checker.fenced and b2.checker.fenced))
    await asyncio.sleep(0.5)  # the way to b3 was given up
    stage.block(b1, recovering)
    stage.unblock(recovering, b3)
    stage.unblock(b3, recovering)
    stage.unblock(b2, recovering)
    assert await task == -1
    stage.unblock(writing, b3)
    await asyncio.sleep(20)  # the writer's add has arrived at b3, and was answered
    stage.heal()
    await stage.until(lambda: ledger.listener.error is not None)
    assert ledger.model.confirmed == -1


@scripted(bookies=4)
async def test_1591_nothing_is_confirmed_while_the_metadata_is_stalled(stage: Stage) -> None:
    """BookKeeper #1591: acknowledgements of an ensemble that the metadata did not name counted.

    A bookie fails and another is chosen, but the metadata service does not store it; then a second
    bookie fails. Nothing may be confirmed meanwhile: who recovers the ledger asks the old ensemble.
    """
    writing, recovering = stage.world.new_client(300), stage.world.new_client()
    metadata = stage.world.metadata
    ledger = await stage.create(writing, 2, 2, 2)
    await ledger.add_confirmed(3)
    b1, b2 = ledger.machines
    metadata.faults.hold_writes = True
    b2.stopped = True
    b2.kill("fails", power=False)
    ledger.add(5)
    await stage.until(lambda: bool(metadata.held))
    await asyncio.sleep(1)
    ledger.add(5)
    b1.stopped = True
    b1.kill("fails, too", power=False)
    ledger.add(5)
    await asyncio.sleep(1)
    assert ledger.model.confirmed == 2
    writing.kill("crashes in the middle of the change")
    metadata.held.clear()  # what it asked for never happens
    metadata.release_writes()
    b1.stopped = b2.stopped = False
    await stage.until(lambda: b1.up and b2.up, 60)
    assert await stage.read_all(recovering, ledger) >= 3


@pytest.mark.parametrize("stored_first", [False, True])
def test_1591_an_ack_of_a_replaced_bookie_does_not_count(stored_first: bool) -> None:
    """The other half of #1591: acknowledgements from before a change of the ensemble.

    Qw 3, Qa 2. Entry 3 is acknowledged by b3, which then fails and is replaced; b1 has it, but its
    answer comes while the change is being stored, or (`stored_first`) right after. Entry 3 belongs
    to the new fragment, where b1 alone has it: it is not confirmed before another one does.
    """

    @scripted(bookies=4)
    async def story(stage: Stage) -> None:
        writing = stage.world.new_client(60_000)
        metadata = stage.world.metadata
        ledger = await stage.create(writing, 3, 3, 2)
        await ledger.add_confirmed(3)
        b1, b2, b3 = ledger.machines
        (b4,) = {*stage.world.machines} - {b1, b2, b3}
        stage.block(b1, writing)
        stage.cut(b2, writing)
        stage.cut(b4, writing)
        ledger.add()
        await stage.until(lambda: (0, 3) in b3.checker.stored and (0, 3) in b1.checker.stored)
        await asyncio.sleep(0.1)  # b3's answer is there
        metadata.faults.hold_writes = True
        b3.stopped = True
        b3.kill("fails", power=False)
        ledger.add()
        await stage.until(lambda: bool(metadata.held))
        if stored_first:
            metadata.release_writes()
            await asyncio.sleep(0.1)
        stage.unblock(b1, writing)
        await asyncio.sleep(0.1)
        assert ledger.model.confirmed == 2
        metadata.release_writes()
        stage.heal()
        await stage.until(lambda: ledger.model.confirmed == 4)

    story()


@pytest.mark.parametrize("restart", [False, True])
def test_2908_damage_is_not_absence(restart: bool) -> None:
    """BookKeeper #2908: a bookie whose entry log was damaged said that it had no such entry.

    Qw 3, Qa 2. b3 misses the tail, b1's copy of it is damaged, b2 has it and is away. "Not here"
    from b1 would make two such answers, and the tail would be cut off. Recovery must fail instead,
    and succeed when b2 is back. With `restart`, b1 meets its damage when it starts.
    """

    @scripted(bookies=3)
    async def story(stage: Stage) -> None:
        writing, recovering = stage.world.new_client(60_000), stage.world.new_client(500)
        ledger = await stage.create(writing, 3, 3, 2)
        b1, b2, b3 = ledger.machines
        await ledger.add_confirmed(3)
        stage.block(writing, b3)
        await ledger.add_confirmed(10)
        await stage.until(lambda: len(b1.checker.acked) == len(b2.checker.acked) == 13)
        writing.kill("crashes")
        b2.stopped = True
        b2.kill("is away", power=False)
        b1.checker.damaged = True
        if restart:
            b1.stopped = True
            await b1.stop()
        for path, inode in b1.disk.files.items():
            if path.endswith(".log"):
                inode.data[-900:-100] = bytes(b ^ 0x55 for b in inode.data[-900:-100])
        b1.stopped = False
        if restart:
            await stage.until(lambda: b1.up or b1.given_up is not None)
        with pytest.raises((CorruptData, BookieUnavailable)):
            await stage.recover(recovering, ledger)
        assert not ledger.model.metadata.is_closed
        b2.stopped = False
        await stage.until(lambda: b2.up, 60)
        assert await stage.read_all(recovering, ledger) == 13

    story()


@scripted(bookies=1)
async def test_4462_a_deleted_ledger_stays_fenced(stage: Stage) -> None:
    """BookKeeper #4462: adds to a ledger that was fenced, deleted and collected were accepted.

    Its writer was cut off meanwhile, and knows of nothing: it must not hear that its adds are safe.
    """
    writing, other = stage.world.new_client(60_000), stage.world.new_client()
    ledger = await stage.create(writing, 1, 1, 1)
    await ledger.add_confirmed(2)
    (bookie,) = ledger.machines
    stage.cut(writing, bookie)
    ledger.add(3)
    assert await stage.recover(other, ledger) == 1
    await other.process.run(other.ledgers.delete_ledger(ledger.writer.ledger_id), "delete")
    assert bookie.process is not None
    assert bookie.running is not None
    work = bookie.running.bookie.collect_garbage()
    removed = await bookie.process.run(work, "gc")
    assert removed.ledgers == [ledger.writer.ledger_id]
    stage.heal()
    await stage.until(lambda: ledger.listener.error is not None)
    assert ledger.model.confirmed == 1


@pytest.mark.parametrize("journal_write_data", [False, True])
def test_4701_an_add_under_way_is_seen_by_the_fence(journal_write_data: bool) -> None:
    """BookKeeper #4701: an add that was not synced yet when the fence came was acknowledged later.

    The disk takes a second for each sync. The fence must not be answered in between as if the add
    were not there; whatever it says, recovery and the writer agree on it.
    """

    @scripted(bookies=1, journal_write_data=journal_write_data)
    async def story(stage: Stage) -> None:
        writing, recovering = stage.world.new_client(60_000), stage.world.new_client(60_000)
        for pause_s in (0.0, 0.001, 0.3, 0.9, 1.1, 1.9):
            ledger = await stage.create(writing, 1, 1, 1)
            await ledger.add_confirmed(1)
            (bookie,) = ledger.machines
            bookie.disk.faults.sync_s = 1.0
            ledger.add(3)
            await asyncio.sleep(pause_s)
            last = await stage.recover(recovering, ledger)
            await asyncio.sleep(10)
            assert ledger.model.confirmed <= last
            bookie.disk.faults.sync_s = 0.001

    story()


@scripted(bookies=3)
async def test_1067_one_hanging_bookie_does_not_hold_up_recovery(stage: Stage) -> None:
    """BookKeeper #1067: fencing waited for the answer of every bookie, also of one that hangs.

    Any one of three hangs: it takes connections and requests, and says nothing. Requests time out
    after a minute; recovery is done at once.
    """
    recovering = stage.world.new_client(60_000)
    for place in range(3):
        writing = stage.world.new_client(60_000)
        ledger = await stage.create(writing, 3, 3, 2)
        await ledger.add_confirmed(7)
        process = ledger.machines[place].process
        assert process is not None
        process.pause()
        writing.kill("crashes")
        started_s = stage.world.loop.time()
        assert await stage.recover(recovering, ledger) == 6
        assert stage.world.loop.time() - started_s < 1
        process.resume()


@scripted(bookies=5)
async def test_no_recovery_makes_a_fragment_before_the_last_one(stage: Stage) -> None:
    """The invalid fragment that the TLA+ model of BookKeeper's protocol found.

    The writer changed its whole ensemble at entry 5 and died before any entry was stored there: the
    bookies of the last fragment know of no LAC. All entries before a fragment were confirmed when
    it was made. Recovery that believed the bookies would begin at entry 0, store the entries again
    in the wrong ensemble, and with a bookie failing then, make a fragment before the last one.
    """
    writing, recovering = stage.world.new_client(300), stage.world.new_client(300)
    ledger = await stage.create(writing, 2, 2, 2)
    await ledger.add_confirmed(5)
    old = ledger.machines
    for machine in stage.world.machines:
        stage.block(writing, machine)
    ledger.add()
    await stage.until(lambda: not {*old} & {*ledger.machines})
    writing.kill("crashes")
    stage.heal()
    first, failing = ledger.machines
    assert len(ledger.model.metadata.fragments) == 2
    assert ledger.model.metadata.fragments[-1].first_entry_id == 5
    failing.stopped = True
    failing.kill("fails", power=True)
    assert await stage.read_all(recovering, ledger) == 5
    assert not first.checker.stored
