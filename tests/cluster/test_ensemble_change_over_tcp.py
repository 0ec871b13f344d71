"""Real bookies die by kill -9 under ledgers over TCP: writes go on, nothing confirmed is lost."""

import asyncio
import signal
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from tailrace.core.errors import CoreError
from tailrace.core.ledger.config import LedgerConfig
from tests.cluster.test_ledger_over_tcp import (
    REPLICATED,
    Cluster,
    Listener,
    check,
    run,
    write_until,
)

pytestmark = pytest.mark.crash

WIDE = replace(REPLICATED, ensemble_size=4, write_quorum=3, ack_quorum=2)
STRICT = replace(REPLICATED, ack_quorum=3)


@pytest.mark.parametrize(
    "config", [REPLICATED, WIDE, STRICT], ids=["E3-Qw3-Qa2", "E4-Qw3-Qa2", "E3-Qw3-Qa3"]
)
def test_bookies_die_one_after_the_other_and_writes_go_on(
    tmp_path: Path, config: LedgerConfig
) -> None:
    async def story(cluster: Cluster) -> None:
        listener = Listener()
        writer = await cluster.new_client().create_ledger(config, listener)
        rng = Random(3)
        dead = None
        for round_ in range(1, 5):
            await write_until(writer, listener, 150 * round_)
            if dead is not None:
                dead.start()
            members = writer.metadata.fragments[-1].ensemble
            dead = cluster.child(rng.choice(members))
            dead.kill()
        await write_until(writer, listener, 900)
        await writer.close()
        assert listener.errors == []
        assert len(writer.metadata.fragments) > 2
        assert dead is not None
        assert dead.bookie_id not in writer.metadata.fragments[-1].ensemble
        end = writer.last_add_pushed
        await check(cluster.new_client(), writer.ledger_id, end, end)

    run(tmp_path, 5, story)


def test_any_qa_minus_one_may_be_gone_when_the_ledger_is_recovered(tmp_path: Path) -> None:
    async def story(cluster: Cluster) -> None:
        for victim in range(3):
            listener = Listener()
            writer = await cluster.new_client().create_ledger(STRICT, listener)
            await write_until(writer, listener, 60)
            first, second = [*cluster.ensemble(writer), *cluster.ensemble(writer)][
                victim : victim + 2
            ]
            first.kill()
            second.kill()
            await write_until(writer, listener, 120)
            lac, pushed = listener.lac, writer.last_add_pushed
            assert listener.errors == []
            writer.abort()
            await check(cluster.new_client(), writer.ledger_id, lac, pushed)
            first.start()
            second.start()

    run(tmp_path, 5, story)


def test_recovery_replaces_a_bookie_that_dies_under_it(tmp_path: Path) -> None:
    async def story(cluster: Cluster) -> None:
        listener = Listener()
        writer = await cluster.new_client().create_ledger(REPLICATED, listener)
        await write_until(writer, listener, 200)
        writer.abort()
        lac, pushed = listener.lac, writer.last_add_pushed
        members = cluster.ensemble(writer)
        opening = asyncio.get_running_loop().create_task(
            cluster.new_client().open_ledger(writer.ledger_id, recover=True)
        )
        await asyncio.sleep(0)
        members[1].kill()
        reader = await opening
        assert lac <= reader.last_confirmed <= pushed
        await check(cluster.new_client(), writer.ledger_id, lac, pushed)
        members[1].start()
        members[0].kill()
        await check(cluster.new_client(), writer.ledger_id, lac, pushed)

    run(tmp_path, 4, story)


def test_bookie_that_hangs_is_replaced_and_its_late_answers_harm_nobody(tmp_path: Path) -> None:
    """With Qa = Qw = 3 every add waits for it until its requests time out."""

    async def story(cluster: Cluster) -> None:
        listener = Listener()
        writer = await cluster.new_client().create_ledger(STRICT, listener)
        await write_until(writer, listener, 100)
        hung = cluster.ensemble(writer)[1]
        hung.signal(signal.SIGSTOP)
        await write_until(writer, listener, 600)
        assert hung.bookie_id not in writer.metadata.fragments[-1].ensemble
        hung.signal(signal.SIGCONT)
        await write_until(writer, listener, 1000)
        await writer.close()
        assert listener.errors == []
        end = writer.last_add_pushed
        hung.kill()
        await check(cluster.new_client(), writer.ledger_id, end, end)

    run(tmp_path, 4, story)


def test_ledger_lives_on_one_bookie_after_the_other(tmp_path: Path) -> None:
    """E = 1: each bookie that dies takes its fragment with it until it is back."""

    async def story(cluster: Cluster) -> None:
        listener = Listener()
        writer = await cluster.new_client().create_ledger(
            LedgerConfig(unconfirmed_entries_max=50), listener
        )
        gone = []
        for _ in range(3):
            await write_until(writer, listener, listener.lac + 60)
            child = cluster.child(writer.metadata.fragments[-1].ensemble[0])
            child.kill()
            gone.append(child)
        await write_until(writer, listener, listener.lac + 60)
        assert listener.errors == []
        await writer.close()
        with pytest.raises(CoreError):
            await check(cluster.new_client(), writer.ledger_id, 0, writer.last_add_pushed)
        for child in gone:
            child.start()
        end = writer.last_add_pushed
        await check(cluster.new_client(), writer.ledger_id, end, end)

    run(tmp_path, 4, story)
