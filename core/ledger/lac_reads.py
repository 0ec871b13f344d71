"""Asks bookies how far a ledger is confirmed: the I/O beside `LacSearch` and `LacGlimpse`."""

import logging
from typing import NamedTuple

from tailrace.core.errors import BookieUnavailable
from tailrace.core.ledger.bookie_client import BookieClient, ask_all
from tailrace.core.ledger.lac_glimpse import LacGlimpse
from tailrace.core.ledger.outcomes import ABSENT
from tailrace.core.ledger.range_read import ReadContext
from tailrace.core.ledger.recovery import LacSearch
from tailrace.core.ledger.schedule import Schedule
from tailrace.protocol.bookkeeper.entry import read_entry, read_lac
from tailrace.protocol.bookkeeper.messages import (
    ReadLacRequest,
    ReadLacResponse,
    Response,
    StatusCode,
)
from tailrace.protocol.errors import DecodeError
from tailrace.protocol.ids import NO_ENTRY, BookieId, EntryId

logger = logging.getLogger(__name__)


class ToldLac(NamedTuple):
    """What one bookie, or several, said of the LAC; -1 for nothing."""

    lac: EntryId
    """The highest of all that was said."""
    explicit: EntryId
    """The highest that the writer sent by itself, without an entry."""


async def search_lac(context: ReadContext, schedule: Schedule, floor: EntryId) -> ToldLac:
    """Ask the ensemble until no ack quorum can hide a higher LAC (4.7.4's coverage).

    `floor`: what is known without asking. Errors: BookieUnavailable.
    Cost: one request to each bookie of the ensemble.
    """
    search = LacSearch(schedule, floor)
    explicit = NO_ENTRY
    answers = ask_all(_clients(context, schedule), ReadLacRequest(context.ledger_id))
    while not search.is_covered:
        if search.is_hopeless:
            raise BookieUnavailable(f"too few bookies know the LAC of ledger {context.ledger_id}")
        bookie, response = await answers.get()
        if response.status in ABSENT:
            search.on_answer(bookie, None)
            continue
        told = _told(context, bookie, response)
        if told is None:
            search.on_failure(bookie)
        else:
            search.on_answer(bookie, told.lac)
            explicit = max(explicit, told.explicit)
    return ToldLac(search.lac, explicit)


async def glimpse_lac(context: ReadContext, schedule: Schedule, known: EntryId) -> EntryId:
    """Ask the ensemble until one bookie knows more than `known`, or all have answered.

    Errors: BookieUnavailable when nobody gives a valid answer.
    """
    glimpse = LacGlimpse(len(schedule.ensemble), known)
    answers = ask_all(_clients(context, schedule), ReadLacRequest(context.ledger_id))
    is_done = False
    while not is_done:
        bookie, response = await answers.get()
        told = _told(context, bookie, response)
        if told is None and response.status not in ABSENT:
            is_done = glimpse.on_failure()
        else:
            is_done = glimpse.on_answer(None if told is None else told.lac)
    if glimpse.is_hopeless:
        raise BookieUnavailable(f"no bookie answers for ledger {context.ledger_id}")
    return glimpse.lac


def _clients(context: ReadContext, schedule: Schedule) -> list[BookieClient]:
    return [context.replicas.client(bookie) for bookie in schedule.ensemble]


def _told(context: ReadContext, bookie: BookieId, response: Response) -> ToldLac | None:
    """Return what a bookie said; None when it failed or what it said does not verify."""
    if not isinstance(response, ReadLacResponse) or response.status is not StatusCode.EOK:
        return None
    ledger_id, digest = context.ledger_id, context.digest
    explicit = piggybacked = NO_ENTRY
    try:
        if response.lac_body:
            explicit = read_lac(response.lac_body, ledger_id, digest)
        if response.last_entry_body:
            piggybacked = read_entry(response.last_entry_body, ledger_id, None, digest).lac
    except DecodeError as error:
        logger.warning("lac_corrupt ledger=%d bookie=%s %s", ledger_id, bookie, error)
        return None
    return ToldLac(max(explicit, piggybacked), explicit)
