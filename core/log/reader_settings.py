"""What a reader of a log is made with."""

from collections.abc import Callable
from typing import Final, NamedTuple

from tailrace.core.log.config import LogConfig
from tailrace.core.log.context import LogMetrics
from tailrace.core.log.resume import Resume
from tailrace.core.runtime.clock import Clock
from tailrace.protocol.ids import Buffer, LedgerId, TxId


def _covers_nothing(_payload: Buffer) -> bool:
    return False


class ReadRules(NamedTuple):
    """What a reader leaves out, and where its log ends."""

    through_lssn: int = 2**63 - 1
    """The segment at whose end this reader's log ends; nothing behind it is opened or read."""
    covers: Callable[[Buffer], bool] = _covers_nothing
    """Whether a record, by its payload, holds what was asked for by a txid that is lower than its
    own: entries before it that cannot be read are not wanted then."""
    skips_damaged: bool = False
    """Whether entries that cannot be read from any copy are left out."""


READ_ALL: Final = ReadRules()


class ReaderSettings(NamedTuple):
    """What a reader is made with besides its log and position."""

    config: LogConfig
    metrics: LogMetrics
    clock: Clock
    from_txid: TxId | None = None
    """Leave out what comes first and has a lower txid."""
    ledger_id: LedgerId | None = None
    """In which the start is a position; if its segment has another, `from_txid` is searched."""
    reads_ahead: bool = True
    """Whether more is read than was asked for: not for one who takes a little and goes, or who says
    when (`LogReader.ask_ahead`)."""
    rules: ReadRules = READ_ALL
    resume: Resume | None = None
    """What an earlier reader gave out before the start, a position in `ledger_id`. Records that
    were truncated since are read; a segment that was purged is an error."""
