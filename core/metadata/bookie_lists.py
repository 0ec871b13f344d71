"""Which bookies are registered, read so that absence means something."""

from typing import Final, NamedTuple

from tailrace.core.errors import NoNode
from tailrace.core.metadata.layout import LedgerPaths
from tailrace.core.metadata.store import MetadataStore, Watch
from tailrace.core.runtime.tasks import together
from tailrace.protocol.ids import BookieId

_READ_ONLY_NAME: Final = "readonly"


class BookieLists(NamedTuple):
    """The registered bookies, each in one list, sorted."""

    writable: tuple[BookieId, ...]
    read_only: tuple[BookieId, ...]


async def read_bookie_lists(
    store: MetadataStore, paths: LedgerPaths, watch: Watch | None = None
) -> BookieLists:
    """Return who is registered; `watch` fires when that may have changed.

    Who changes his mode makes the new node before he deletes the old one. So he is in one of three
    lists that are read in this order, whichever way he goes.
    Errors: Unavailable; NoNode: there is no cluster. Cost: one round trip.
    """
    before, read_only, writable = await together(
        [
            store.children(paths.available, watch),
            _read_only(store, paths, watch),
            store.children(paths.available),
        ]
    )
    # Who was writable before and is in no other list now has just become read-only, or gone: the
    # watch tells.
    found = {*writable, *(set(before) - set(read_only))} - {_READ_ONLY_NAME}
    return BookieLists(
        tuple(map(BookieId, sorted(found))), tuple(map(BookieId, sorted({*read_only} - found)))
    )


async def _read_only(store: MetadataStore, paths: LedgerPaths, watch: Watch | None) -> list[str]:
    try:
        return await store.children(paths.read_only, watch)
    except NoNode:
        return []  # an old cluster; its coming is a change of its parent
