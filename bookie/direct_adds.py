"""Adds whose journal is the entry log itself (`journalWriteData=false`).

A group is written and synced once, in the entry log; keys, fences and explicit LACs go to the first
journal directory. An entry has its location as soon as it is durable, so a checkpoint has nothing
to flush. See add_path for the seam, group_commit for the writer thread.
"""

import logging
from collections.abc import Callable
from itertools import chain
from typing import Any

from tailrace.bookie.add_path import AddHooks, Covered
from tailrace.bookie.entry_log_format import pack_location
from tailrace.bookie.errors import NoRoom
from tailrace.bookie.group_commit import CommittedGroup, GroupCommit
from tailrace.bookie.group_format import RECORD_HEAD_SIZE, pack_size
from tailrace.bookie.group_wait import GroupRules, Item
from tailrace.bookie.grouped_file import Journal, close_all
from tailrace.bookie.ledger_state import LedgerState
from tailrace.bookie.marks import Mark
from tailrace.bookie.recovery import Recovered
from tailrace.bookie.sorted_flush import Flushed, LogToSeal
from tailrace.protocol.bookkeeper.messages import AddResponse, StatusCode
from tailrace.protocol.ids import EntryId, LedgerId

logger = logging.getLogger(__name__)

EOK = StatusCode.EOK


class DirectAdds:
    """An AddPath with one writer thread and one sync for each group."""

    def __init__(
        self, journals: list[Journal], rules: GroupRules, found: Recovered, hooks: AddHooks
    ) -> None:
        self._known = hooks.known
        self._failed = hooks.failed
        self._consider = hooks.consider
        self._no_room = hooks.no_room
        self._entry_log = entry_log = found.flush.entry_log
        self._mark = entry_log.mark()
        self._journal_marks = list(found.journal_marks)
        self._seals = list(found.seals)
        self._is_usage_known = not self._mark.position
        self._removed: list[LedgerState] = []
        """Ledgers that were removed; what they have in the log that is written counts on."""
        self._journals = journals
        self._commits = GroupCommit(journals[0], entry_log, rules, self._on_group, hooks.fail)
        self.put: Callable[[Item], None] = self._commits.put

    def start(self) -> None:
        """Start the writer thread."""
        self._commits.start(self._journal_marks[0])

    def stop(self) -> None:
        """Let the thread end once all that was put is done."""
        self._commits.stop()

    def join(self) -> None:
        """Wait for the thread. Blocks."""
        self._commits.join()

    def close(self) -> None:
        """Close the files."""
        close_all([*self._journals, self._entry_log])

    def put_record(
        self,
        ledger_id: LedgerId,  # one queue for all ledgers
        record: bytes,
        durable: Callable[[], Any],
    ) -> None:
        """Journal a record, or wait for what was put before."""
        self.put((0, (record,) if record else (), None, 0, 0, durable))

    def put_copy(
        self, state: LedgerState, entry_id: EntryId, body: bytes, taken: Callable[[bool], Any]
    ) -> None:
        """Write an entry again, to the log that is being written now."""
        size = len(body)
        state.pending += 1
        self._known.metrics.pending_bytes += size + RECORD_HEAD_SIZE
        parts = (pack_size(size), body)

        def reply(response: AddResponse) -> None:
            taken(response.status is EOK)

        self.put((size + RECORD_HEAD_SIZE, parts, state, entry_id, -1, reply))

    def find(self, ledger_id: LedgerId, entry_id: EntryId) -> bytes | None:
        """Return None: every durable entry has a location."""
        return None

    def entry_ids(self, ledger_id: LedgerId) -> list[EntryId]:
        """Return nothing: every durable entry has a location."""
        return []

    def forget(self, ledger_id: LedgerId) -> None:
        """Remember what the ledger has in the log that is being written."""
        state = self._known.by_id[ledger_id]
        if state.log_bytes or state.pending:
            self._removed.append(state)

    def marks(self) -> tuple[Mark, ...]:
        """Return where the next groups will be: of the entry log, then of each journal."""
        return (self._mark, *self._journal_marks)

    def wants_checkpoint(self) -> bool:
        """Return whether an entry log waits to be sealed."""
        return bool(self._seals)

    def begin_checkpoint(self) -> Covered:
        """Cover the groups that are done: they are in the entry logs and synced."""
        flushed = Flushed(self._mark, self._seals, {})
        self._seals = []
        return Covered(lambda: flushed, list(self._journal_marks))

    def end_checkpoint(self, flushed: Flushed) -> None:
        """Do nothing: nothing was held back for it."""

    def _on_group(self, group: CommittedGroup) -> None:
        """Publish a durable group. Cost: about 1 us an entry besides its reply."""
        if self._failed.done():
            return
        if group.no_room is not None:
            self._refuse(group, group.no_room)
            return
        rolled = group.size > 0 and group.start.file_id != self._mark.file_id
        if rolled or not self._mark.position:
            self._note_roll()
        location = pack_location(*group.start) + RECORD_HEAD_SIZE
        for item in group.items:
            at, location = location, location + item[0]
            try:
                if item[2] is None:
                    item[5]()
                    continue
                self._publish(item, at)
                item[5](AddResponse(EOK, item[2].ledger_id, item[3]))
            except Exception:
                # One entry or reply must not cost the others of the group theirs: it is not
                # acknowledged, and their locations do not depend on it.
                logger.exception("reply_failed entry=%d", item[3])
        metrics = self._known.metrics
        metrics.groups_total += 1
        metrics.add_bytes_total += group.size
        metrics.pending_bytes -= group.size
        self._mark = group.entry_log_mark
        self._journal_marks[0] = group.journal_mark
        self._known.unsaved_bytes += group.size
        self._consider()

    def _refuse(self, group: CommittedGroup, no_room: NoRoom) -> None:
        """Answer a group whose entries found no room; its journal records are durable."""
        self._no_room(no_room)
        metrics = self._known.metrics
        metrics.adds_refused_total += sum(item[2] is not None for item in group.items)
        metrics.pending_bytes -= group.size
        self._journal_marks[0] = group.journal_mark
        for _, _, state, entry_id, _, reply in group.items:
            try:
                if state is None:
                    reply()
                    continue
                state.pending -= 1
                reply(AddResponse(StatusCode.EREADONLY, state.ledger_id, entry_id))
            except Exception:
                # As in `_on_group`: the others must have their answers.
                logger.exception("reply_failed entry=%d", entry_id)

    def _publish(self, item: Item, location: int) -> None:
        size, _, state, entry_id, lac, _ = item
        assert state is not None, "an entry has its ledger"
        state.unsaved.put(entry_id, location)
        state.pending -= 1
        state.log_bytes += size
        self._known.unsaved.add(state)
        if entry_id > state.last_entry:
            state.last_entry = entry_id
        if lac > state.lac:
            self._known.move_lac(state, lac)

    def _note_roll(self) -> None:
        """Remember the log that was left behind, before the first entry of the new one."""
        usage: dict[int, int] = dict(self._known.dropped_log_bytes)
        self._known.dropped_log_bytes.clear()
        for state in chain(self._known.by_id.values(), self._removed):
            if state.log_bytes:
                usage[state.ledger_id] = usage.get(state.ledger_id, 0) + state.log_bytes
                state.log_bytes = 0
        self._removed = [state for state in self._removed if state.pending]
        log_id, end = self._mark
        if end:
            self._seals.append(LogToSeal(log_id, end, usage if self._is_usage_known else None))
        self._is_usage_known = True
