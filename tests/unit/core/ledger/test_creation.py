"""Making ledgers: chosen ids, lost answers, smaller ensembles; and opening them with a password."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tailrace.core.errors import (
    DigestMismatch,
    LedgerExists,
    NotEnoughBookies,
    UnauthorizedAccess,
    Unavailable,
)
from tailrace.core.ledger.bookie_registry import LocalBookies
from tailrace.core.ledger.client import LedgerClient
from tailrace.core.ledger.config import LedgerClientConfig, LedgerConfig
from tailrace.core.metadata.ledger_metadata import LedgerState
from tailrace.protocol.bookkeeper.digest import DigestType
from tailrace.protocol.bookkeeper.messages import AddRequest, StatusCode
from tailrace.protocol.ids import LedgerId
from tests.unit.core.ledger.fast_world import FastWorld, read_all, run_fast
from tests.unit.core.ledger.memory_store import no_outage
from tests.unit.core.ledger.world import REPLICATED, SINGLE, Listener, settle

DOWN_STATUS = StatusCode.LOCAL_UNAVAILABLE
CHOSEN = [LedgerId(5), LedgerId(2**31 + 7), LedgerId(2**62)]


@pytest.mark.parametrize("ledger_id", CHOSEN, ids=["short", "long", "longest"])
def test_caller_may_choose_the_id(ledger_id: LedgerId) -> None:
    async def story(world: FastWorld) -> None:
        writer = await world.client.create_ledger(SINGLE, Listener(), ledger_id=ledger_id)
        assert writer.ledger_id == ledger_id
        writer.add((b"x",))
        await writer.close()
        assert await read_all(world, ledger_id) == [b"x"]
        with pytest.raises(LedgerExists):
            await world.new_client().create_ledger_adv(SINGLE, Listener(), ledger_id=ledger_id)
        await world.client.delete_ledger(ledger_id)
        again = await world.client.create_ledger_adv(SINGLE, Listener(), ledger_id=ledger_id)
        assert again.ledger_id == ledger_id

    run_fast(story)


def test_ids_that_others_chose_are_passed_over() -> None:
    async def story(world: FastWorld) -> None:
        for chosen in (0, 1, 2):
            await world.client.create_ledger(SINGLE, Listener(), ledger_id=LedgerId(chosen))
        writer = await world.client.create_ledger(SINGLE, Listener())
        assert writer.ledger_id == 3
        assert await world.store.children("/ledgers/idgen") == []

    run_fast(story)


def losing(answers: Iterator[str], world: FastWorld) -> None:
    world.store.outage = lambda: next(answers, "")


@pytest.mark.parametrize("chosen", [None, LedgerId(5)], ids=["generated", "chosen"])
@pytest.mark.parametrize("outage", ["lost request", "lost answer"])
@pytest.mark.parametrize("at", range(4))
def test_create_whose_answer_was_lost_knows_its_own_ledger(
    chosen: LedgerId | None, outage: str, at: int
) -> None:
    """The cToken in the node that is there says who made it."""

    async def story(world: FastWorld) -> None:
        await world.client.create_ledger(SINGLE, Listener())  # the directories are there
        losing(iter([*[""] * at, outage]), world)
        try:
            writer = await world.client.create_ledger(SINGLE, Listener(), ledger_id=chosen)
        except Unavailable:
            assert (at, chosen) == (0, None)  # the id's own node: nothing was made yet
            return
        losing(iter([]), world)
        ledgers = await world.store.children("/ledgers/00/0000")
        assert len(ledgers) == 2
        assert world.stored(writer.ledger_id) == writer.metadata
        writer.add((b"x",))
        await writer.close()

    run_fast(story)


def test_anothers_ledger_under_the_same_id_is_not_taken_for_ours() -> None:
    async def story(world: FastWorld) -> None:
        theirs = LedgerClient(world.store, LocalBookies(world.bookies))
        await theirs.create_ledger(SINGLE, Listener(), ledger_id=LedgerId(5))
        losing(iter(["lost request"]), world)
        with pytest.raises(LedgerExists):
            await world.client.create_ledger(SINGLE, Listener(), ledger_id=LedgerId(5))

    run_fast(story)


def test_store_that_stays_away_is_said_so() -> None:
    async def story(world: FastWorld) -> None:
        world.store.outage = lambda: "lost request"
        with pytest.raises(Unavailable):
            await world.client.create_ledger(SINGLE, Listener(), ledger_id=LedgerId(5))
        world.store.outage = no_outage
        await world.client.create_ledger(SINGLE, Listener(), ledger_id=LedgerId(5))

    run_fast(story)


def test_opportunistic_striping_takes_what_is_there() -> None:
    async def story(world: FastWorld) -> None:
        wide = LedgerConfig(ensemble_size=5, write_quorum=2, ack_quorum=2)
        with pytest.raises(NotEnoughBookies):
            await world.client.create_ledger(wide, Listener())
        config = replace(wide, opportunistic_striping=True)
        writer = await world.client.create_ledger(config, Listener())
        assert (writer.metadata.ensemble_size, writer.metadata.write_quorum) == (3, 2)
        writer.add((b"x",))
        await writer.close()
        assert await read_all(world, writer.ledger_id) == [b"x"]
        narrow = replace(config, write_quorum=4)
        with pytest.raises(NotEnoughBookies):
            await world.client.create_ledger(narrow, Listener())

    run_fast(story, bookies=3)


@pytest.mark.parametrize("digest", list(DigestType), ids=lambda digest: digest.name)
def test_wrong_password_opens_nothing_and_harms_nobody(digest: DigestType) -> None:
    async def story(world: FastWorld) -> None:
        config = replace(REPLICATED, digest=digest, password=b"secret")
        writer = await world.client.create_ledger(config, Listener())
        writer.add((b"x",))
        await settle()
        for recover in (True, False):
            with pytest.raises(UnauthorizedAccess):
                await world.new_client().open_ledger(
                    writer.ledger_id, recover=recover, password=b"guess"
                )
        assert world.stored(writer.ledger_id).state is LedgerState.OPEN
        writer.add((b"y",))
        await writer.close()
        reader = await world.new_client().open_ledger(
            writer.ledger_id, recover=False, password=b"secret", digest=DigestType.CRC32
        )
        assert [bytes(e.payload) for e in await reader.read(0, 1)] == [b"x", b"y"]

    run_fast(story)


def test_digest_type_of_the_metadata_counts_unless_that_is_switched_off() -> None:
    async def story(world: FastWorld) -> None:
        writer = await world.client.create_ledger(SINGLE, Listener())
        await writer.close()
        strict = LedgerClient(
            world.store,
            LocalBookies(world.bookies),
            LedgerClientConfig(digest_autodetection=False),
        )
        with pytest.raises(DigestMismatch):
            await strict.open_ledger(writer.ledger_id, recover=True, digest=DigestType.HMAC)
        await strict.open_ledger(writer.ledger_id, recover=True, digest=DigestType.CRC32)
        await world.client.open_ledger(writer.ledger_id, recover=True, digest=DigestType.HMAC)

    run_fast(story)


def test_custom_metadata_is_kept_through_a_whole_life() -> None:
    async def story(world: FastWorld) -> None:
        custom = {"application": b"tailrace", "empty": b""}
        writer = await world.client.create_ledger(replace(SINGLE, custom=custom), Listener())
        (bookie,) = world.ensemble(writer)
        bookie.fault = lambda r: None if not isinstance(r, AddRequest) else DOWN_STATUS
        writer.add((b"x",))
        await writer._adder.drained()
        await world.new_client().open_ledger(writer.ledger_id, recover=True)
        metadata = world.stored(writer.ledger_id)
        assert metadata.is_closed
        assert metadata.custom == custom

    run_fast(story)
