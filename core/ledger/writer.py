"""Writes one ledger: adds in order, then the end fixed in the metadata.

Invariant: what the listener heard confirmed stays readable for ever, also when this writer is cut
off: whoever recovers the ledger finds it. A writer that failed does not close the ledger; recovery
by the next owner decides what became of the unanswered adds. A bookie that fails is replaced by
another (`ensemble_changer`) while adds go on.
"""

import logging
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from tailrace.core.errors import (
    CoreError,
    LedgerClosed,
    LedgerFenced,
    MetadataConflict,
    OverCapacity,
    Unavailable,
)
from tailrace.core.ledger.add_options import AddOptions
from tailrace.core.ledger.adder import EntryAdder, LedgerListener
from tailrace.core.ledger.config import LedgerConfig
from tailrace.core.ledger.context import LedgerContext
from tailrace.core.ledger.durability import promise_of
from tailrace.core.ledger.ensemble_change import with_ensemble, without_unwritten
from tailrace.core.ledger.ensemble_changer import ChangePolicy, EnsembleChange, EnsembleChanger
from tailrace.core.ledger.entry_limit import entry_limit_of
from tailrace.core.ledger.metadata_update import StoredLedger
from tailrace.core.ledger.write_timers import AddTimeout, ExplicitLac, Ticker
from tailrace.core.metadata.ledger_metadata import LedgerMetadata, LedgerState
from tailrace.protocol.ids import NO_ENTRY, BookieId, Buffer, EntryId

logger = logging.getLogger(__name__)


class OpenLedger:
    """What the only writer of an open ledger can do besides adding."""

    __slots__ = (
        "_adder", "_bytes_max", "_changer", "_closing", "_entries_max", "_listener", "_nodes",
        "_stored", "_tickers", "ledger_id",
    )  # fmt: skip

    def __init__(
        self,
        stored: StoredLedger,
        context: LedgerContext,
        listener: LedgerListener,
        config: LedgerConfig,
    ) -> None:
        self.ledger_id = stored.ledger_id
        self._stored = stored
        self._nodes = context.nodes
        self._listener = listener
        deferred_sync = config.deferred_sync
        promise = promise_of(stored.metadata.custom)
        ack_rule = context.ensembles.ack_rule(config.write_quorum, promise)
        self._adder = adder = EntryAdder(
            stored,
            context.bookies,
            _OnlyFailures(listener) if deferred_sync else listener,
            context.nodes.metrics,
            AddOptions(deferred_sync=deferred_sync, ack_rule=ack_rule),
        )
        policy = ChangePolicy(
            config.delay_ensemble_change,
            config.ensemble_changes_max,
            deferred_sync,
            promise,
            entry_limit_of(stored.metadata.custom),
        )
        self._changer = adder.failures = EnsembleChanger(
            adder, context.ensembles, self._commit_change, policy, context.nodes.metrics
        )
        self._entries_max = config.unconfirmed_entries_max
        self._bytes_max = config.unconfirmed_bytes_max
        self._closing = False
        self._tickers = _tickers(adder, config)

    @property
    def lac(self) -> EntryId:
        """Last add confirmed, inclusive; -1 before the first. With deferred sync: forced."""
        adder = self._adder
        return adder.lac if adder.told_lac is None else adder.told_lac

    @property
    def last_add_pushed(self) -> EntryId:
        """The highest entry id handed out; -1 before the first."""
        return self._adder.last_add_pushed

    @property
    def length(self) -> int:
        """Payload bytes pushed, confirmed or not."""
        return self._adder.length

    @property
    def entry_bytes_max(self) -> int:
        """Bytes of the largest entry that it may have, with BookKeeper's header."""
        return entry_limit_of(self._stored.metadata.custom)

    @property
    def metadata(self) -> LedgerMetadata:
        """The ledger's metadata as this writer knows it."""
        return self._stored.metadata

    async def force(self) -> None:
        """Wait for the adds made so far, then have all bookies of the ensemble sync them.

        With deferred sync that is what confirms them. Errors: the sticky error; what a bookie
        failed with: nothing is confirmed, and `force` may be called again.
        Cost: one request to each bookie of the ensemble.
        """
        adder = self._adder
        await adder.reached(adder.last_add_pushed)
        answered = adder.lac
        if answered == NO_ENTRY:
            return
        await adder.force()
        if adder.error is not None:
            raise adder.error.with_traceback(None)
        if adder.told_lac is not None and answered > adder.told_lac:
            adder.told_lac = answered
            self._listener.on_confirmed(answered)

    async def close(self) -> None:
        """Wait for the adds, then fix the end in the metadata. Idempotent.

        With deferred sync the adds are forced first.
        Errors: the sticky error (the metadata is left to recovery); LedgerFenced when somebody
        recovers the ledger or has closed it elsewhere. Cancel: the writer takes no more adds, and
        close may be called again.
        """
        self._closing = True
        await self._adder.drained()
        if self.lac < self._adder.lac:
            await self.force()
        self._stop_timers()
        await self._changer.settled()
        self._stored = await self._nodes.update(self._stored, self._decide_close)
        logger.debug("ledger_closed ledger=%d last_entry=%d", self.ledger_id, self.lac)

    def abort(self) -> None:
        """Take no more adds and leave the ledger open, as a crash would: recovery finds its end."""
        self._closing = True
        self._stop_timers()
        self._changer.abort()
        self._adder.fail(Unavailable(f"the writer of ledger {self.ledger_id} was aborted"))

    # -- inside ---

    def _refuse(self, entries: int, unconfirmed_bytes: int) -> None:
        """Raise why no entry may be added now, if so."""
        adder = self._adder
        if adder.error is not None:  # before the limits: a failed writer never has room again
            raise adder.error.with_traceback(None)
        if self._closing:
            raise Unavailable(f"the writer of ledger {self.ledger_id} is closed")
        if entries >= self._entries_max or unconfirmed_bytes >= self._bytes_max:
            raise OverCapacity(
                f"ledger {self.ledger_id}: {entries} entries,"
                f" {unconfirmed_bytes} bytes are unconfirmed"
            )

    def _stop_timers(self) -> None:
        for ticker in self._tickers:
            ticker.stop()

    async def _commit_change(self, change: EnsembleChange) -> tuple[BookieId, ...]:
        decide = partial(_decide_change, self.ledger_id, change)
        self._stored = await self._nodes.insist(self._stored, decide)
        return self._stored.metadata.fragments[-1].ensemble

    def _decide_close(self, current: LedgerMetadata) -> LedgerMetadata | None:
        end = (self.lac, self._adder.confirmed_length)
        if current.state is LedgerState.OPEN:
            closed = current.closed(*end)
            return replace(closed, fragments=without_unwritten(closed.fragments, self.lac))
        if current.is_closed and (current.last_entry_id, current.length) == end:
            return None
        raise LedgerFenced(
            f"ledger {self.ledger_id} is {current.state.name} at {current.last_entry_id},"
            f" this writer is at {self.lac}"
        )


class LedgerWriter(OpenLedger):
    """The only writer of one open ledger; entry ids follow the order of the adds."""

    __slots__ = ()

    def add(self, payload: Sequence[Buffer]) -> EntryId:
        """Append an entry and return its id; the listener hears when it is confirmed.

        Order is the order of the calls. The parts must not change until then.
        Errors: the sticky error after a failure; OverCapacity when too much is unconfirmed, and
        LogRecordTooLong, both with nothing sent; Unavailable once `close` was called.
        """
        adder = self._adder
        if (
            adder.error is not None
            or self._closing
            or adder.unconfirmed_entries >= self._entries_max
            or adder.unconfirmed_bytes >= self._bytes_max
        ):
            self._refuse(adder.unconfirmed_entries, adder.unconfirmed_bytes)
        return adder.add(payload)


class _OnlyFailures:
    """The listener's ear for adds that bookies answered and did not sync."""

    def __init__(self, listener: LedgerListener) -> None:
        self._listener = listener

    def on_confirmed(self, lac: EntryId) -> None:
        """Nothing is safe yet."""

    def on_failed(self, error: CoreError) -> None:
        self._listener.on_failed(error)


def _tickers(adder: EntryAdder, config: LedgerConfig) -> tuple[Ticker, ...]:
    tickers = []
    if config.explicit_lac_interval_ms:
        tickers.append(Ticker(config.explicit_lac_interval_ms, ExplicitLac(adder).tick))
    if config.add_entry_quorum_timeout_ms:
        tickers.append(Ticker(config.add_entry_quorum_timeout_ms / 2, AddTimeout(adder).tick))
    return tuple(tickers)


def _decide_change(
    ledger_id: int, change: EnsembleChange, current: LedgerMetadata
) -> LedgerMetadata | None:
    if current.is_closed:
        raise LedgerClosed(f"ledger {ledger_id} was closed at {current.last_entry_id}")
    if current.state is not LedgerState.OPEN:
        raise LedgerFenced(f"ledger {ledger_id} is {current.state.name}")
    last = current.fragments[-1]
    if last.first_entry_id > change.first_entry_id:
        raise MetadataConflict(f"somebody added {last}, and the LAC is {change.first_entry_id - 1}")
    if last.ensemble != change.before:
        return None  # our own change, whose answer was lost; or somebody's, which counts as well
    fragments = with_ensemble(current.fragments, change.first_entry_id, change.ensemble)
    return replace(current, fragments=fragments, ctoken=0)
