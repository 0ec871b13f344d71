"""Ensemble changes as schedules, beside the stories of `test_known_bugs.py`."""

import asyncio

from tailrace.core.errors import BookieUnavailable
from tests.sim.script import Stage, scripted


@scripted(bookies=4)
async def test_dead_bookies_do_not_take_turns(stage: Stage) -> None:
    """Bookies that died stay registered until their sessions end, and take each other's places.

    Each turn costs a commit; a thousand in two seconds were seen. They get slower and slower, and
    the writer goes on soon after one of the bookies is back.
    """
    writing = stage.world.new_client(60_000)
    ledger = await stage.create(writing, 2, 2, 2)
    await ledger.add_confirmed(3)
    alive = ledger.machines[0]
    dead = [machine for machine in stage.world.machines if machine is not alive]
    for machine in dead:
        machine.stopped = True
        machine.kill("dies", power=False)
    ledger.add(5)
    await asyncio.sleep(5)
    assert 3 <= stage.world.checker.ensemble_changes <= 20
    dead[0].stopped = False
    await stage.until(lambda: ledger.model.confirmed == 7, 20)


@scripted(bookies=3)
async def test_writer_ends_when_nobody_is_left(stage: Stage) -> None:
    """The sessions of the dead end after ten seconds: then there is no bookie to take a place."""
    writing = stage.world.new_client(60_000)
    ledger = await stage.create(writing, 2, 2, 2)
    await ledger.add_confirmed(3)
    for machine in stage.world.machines:
        if machine is not ledger.machines[0]:
            machine.stopped = True
            machine.kill("dies", power=False)
    ledger.add(5)
    await stage.until(lambda: ledger.listener.error is not None, 60)
    assert isinstance(ledger.listener.error, BookieUnavailable)
    assert ledger.model.confirmed == 2
