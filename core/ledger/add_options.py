"""What the owner of an `EntryAdder` tells it, and what it hears of bookies that fail."""

from typing import NamedTuple, Protocol

from tailrace.core.errors import CoreError
from tailrace.core.ledger.quorum import AckRule
from tailrace.protocol.bookkeeper.messages import StatusCode
from tailrace.protocol.ids import BookieId, EntryId


class AddOptions(NamedTuple):
    """How the entries of one ledger are added."""

    recover_from: tuple[EntryId, int] | None = None
    """(last entry, length) that recovery found confirmed; the adds pass the fence."""
    deferred_sync: bool = False
    """Bookies answer before they sync; entries tell `EntryAdder.told_lac` as their LAC."""
    ack_rule: AckRule | None = None
    """What an ack quorum needs beside its number."""


class AddFailure(NamedTuple):
    """An add that a member of the present ensemble failed."""

    entry_id: EntryId
    bookie: BookieId
    status: StatusCode
    is_stuck: bool
    """Whether the entry waits and cannot reach Qa with the present ensemble."""
    error: CoreError
    """What the ledger's owner hears if nothing can be done about it."""


class FailureListener(Protocol):
    """Who decides what becomes of an ensemble with a failed bookie. Called on the loop."""

    def on_add_failed(self, failure: AddFailure) -> None:
        """Take note; may call `EntryAdder.fail`."""
