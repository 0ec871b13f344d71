"""What a reader of a log is made with."""

from typing import NamedTuple

from core.log.config import LogConfig
from core.log.context import LogMetrics
from core.runtime.clock import Clock
from protocol.ids import LedgerId, TxId


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
    through_lssn: int = 2**63 - 1
    """The segment at whose end this reader's log ends; nothing behind it is opened or read."""
