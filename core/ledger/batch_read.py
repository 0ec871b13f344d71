"""Reading a range by batches, where one bookie has all of it and reads batches.

It brings what comes in a row and is right. What is missing then is for the caller to read entry by
entry: only that tells why, and asks the other replicas.
"""

import logging

from core.ledger.bookie_client import BookieClient, ask
from core.ledger.schedule import Schedules
from protocol.bookkeeper.digest import Digest
from protocol.bookkeeper.entry import MAX_FRAME_BYTES, Entry, read_entry
from protocol.bookkeeper.messages import BatchReadRequest, BatchReadResponse, Response
from protocol.errors import DecodeError
from protocol.ids import EntryId, LedgerId

logger = logging.getLogger(__name__)


def is_on_each_bookie(schedules: Schedules, first: EntryId, last: EntryId) -> bool:
    """Tell whether every bookie that holds an entry of a range holds all of them."""
    schedule = schedules.of(first)
    is_striped = schedule.write_quorum < len(schedule.ensemble)
    return not is_striped and schedules.of(last) is schedule


async def read_in_batches(
    client: BookieClient, ledger_id: LedgerId, digest: Digest, first: EntryId, last: EntryId
) -> list[Entry]:
    """Return the entries from `first` on up to the first that the bookie does not give, or `last`.

    Errors: none. Cost: a round trip per answer of up to 5 MiB.
    """
    entries: list[Entry] = []
    while (at := first + len(entries)) <= last:
        count = last - at + 1
        response = await ask(client, BatchReadRequest(ledger_id, at, count, MAX_FRAME_BYTES))
        news = _entries_of(response, ledger_id, digest, at)[:count]
        if not news:
            break
        entries += news
    return entries


def _entries_of(
    response: Response, ledger_id: LedgerId, digest: Digest, first: EntryId
) -> list[Entry]:
    entries: list[Entry] = []
    if isinstance(response, BatchReadResponse):
        try:
            for entry_id, body in enumerate(response.bodies, first):
                entries.append(read_entry(body, ledger_id, entry_id, digest))
        except DecodeError as error:
            logger.warning("entry_corrupt in a batch %s", error)
    return entries
