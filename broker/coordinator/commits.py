"""What the groups of one shard committed: commits of members and of outsiders, expiry, deletion.

Every event returns Effects; offsets change when their records are confirmed, in `on_written`.
Source: Kafka OffsetMetadataManager.
"""

from collections.abc import Callable, Sequence

from tailrace.broker.coordinator.config import GroupConfig
from tailrace.broker.coordinator.effects import (
    Caller,
    GroupDeleted,
    OffsetsThen,
    OffsetsWritten,
    PendingWritten,
    TransactionWritten,
)
from tailrace.broker.coordinator.groups import Groups
from tailrace.broker.coordinator.guards import Guards
from tailrace.broker.coordinator.kinds import Committer
from tailrace.broker.coordinator.offsets import OffsetStore, expired_offsets
from tailrace.broker.coordinator.pending import PendingOffsets
from tailrace.broker.coordinator.plans import (
    Commit,
    PartitionCount,
    commit_response,
    names_any,
    plan_commit,
    plan_delete,
    refuse_commit,
    refuse_stored,
    transactional_response,
)
from tailrace.broker.coordinator.reading import FoundOffsets, WantedOffsets, find_offsets
from tailrace.broker.coordinator.records import OffsetName, OffsetUpdate, offset_record
from tailrace.broker.coordinator.under_way import UnderWay
from tailrace.broker.replicated.effects import (
    Effects,
    EndOfTransaction,
    InTransaction,
    Now,
    Reply,
    StateRecord,
    Ticket,
    Write,
)
from tailrace.broker.replicated.record_log import size_of
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from tailrace.protocol.kafka.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from tailrace.protocol.kafka.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)

GROUP_NOT_FOUND_SINCE = 9
"""OffsetCommit version that can say that there is no such group."""

TOMBSTONES_AT_ONCE = 500
"""Deleted offsets in one write, if their names let it be no larger than this."""
TOMBSTONE_BYTES_MAX = 500_000


class Commits:
    """The committed offsets of one shard. No clock, no socket, no task."""

    def __init__(self, config: GroupConfig, groups: Groups) -> None:
        self.offsets = OffsetStore()
        self.pending = PendingOffsets()
        self.guards = Guards()
        self._under_way = UnderWay()
        self._config = config
        self._groups = groups

    # Requests

    def commit(
        self,
        request: OffsetCommitRequest,
        caller: Caller,
        partition_count: PartitionCount,
        ticket: Ticket,
        now: Now,
    ) -> Effects:
        """Handle OffsetCommit; a commit from outside of group management makes a simple group."""
        committer = Committer(
            request.member_id,
            request.group_instance_id,
            request.generation_id_or_member_epoch,
            caller.version,
            request.topics,
        )
        is_asked = names_any(request.topics, partition_count)
        code = self._check_commit(request.group_id, committer) if is_asked else ErrorCode.NONE
        if not is_asked or code is not ErrorCode.NONE:
            response = commit_response(refuse_commit(request.topics, code, partition_count))
            return Effects([Reply(ticket, response)])
        commit = Commit(request.group_id, request.topics, request.retention_time_ms)
        updates, codes = plan_commit(commit, partition_count, self._config, now)
        effects = Effects()
        group = self._groups.get(request.group_id)
        if group is None and updates:
            group = self._groups.make(request.group_id)
        if group is not None:
            group.on_commit(request.member_id, now)
            effects = group.take_effects()
        if updates:
            effects.writes.append(self._write(updates))
        effects.reply_last(Reply(ticket, commit_response(codes)))
        return effects

    def commit_in_transaction(
        self,
        request: TxnOffsetCommitRequest,
        caller: Caller,
        partition_count: PartitionCount,
        guard: int,
        ticket: Ticket,
        now: Now,
    ) -> Effects:
        """Handle TxnOffsetCommit: the offsets are pending until the transaction's marker comes.

        `guard`: taken before the transaction's coordinator was asked whether the partition is in
        the transaction. Errors: INVALID_TXN_STATE if the transaction has ended since.
        """
        committer = Committer(
            request.member_id,
            request.group_instance_id,
            request.generation_id,
            caller.version,
            request.topics,
            is_transactional=True,
        )
        is_asked = names_any(request.topics, partition_count)
        code = self._check_commit(request.group_id, committer) if is_asked else ErrorCode.NONE
        if not self.guards.give_back(request.producer_id, guard):
            code = ErrorCode.INVALID_TXN_STATE
        if not is_asked or code is not ErrorCode.NONE:
            response = transactional_response(refuse_commit(request.topics, code, partition_count))
            return Effects([Reply(ticket, response)])
        commit = Commit(request.group_id, request.topics)
        updates, codes = plan_commit(commit, partition_count, self._config, now)
        effects = Effects()
        if updates:
            self._groups.make(request.group_id)
            of = InTransaction(request.producer_id, request.producer_epoch)
            effects.writes.append(self._write_pending(updates, of))
        effects.reply_last(Reply(ticket, transactional_response(codes)))
        return effects

    def end_transaction(self, end: EndOfTransaction, ticket: Ticket) -> Effects:
        """Write the end of a transaction; its offsets are visible, or gone, when it is confirmed.

        Answers with an ErrorCode. A marker that comes again changes nothing.
        """
        self.guards.break_all(end.producer_id)
        then = TransactionWritten(end.producer_id, end.committed)
        reply = Reply(ticket, ErrorCode.NONE)
        return Effects(writes=[Write((), then, (reply,), end)])

    def _check_commit(self, group_id: str, committer: Committer) -> ErrorCode:
        group = self._groups.get(group_id)
        if group is not None:
            code = group.check_commit(committer)
            if committer.is_transactional and code is ErrorCode.STALE_MEMBER_EPOCH:
                return ErrorCode.ILLEGAL_GENERATION
            return code
        if committer.epoch < 0:
            return ErrorCode.NONE
        if committer.version >= GROUP_NOT_FOUND_SINCE and not committer.is_transactional:
            return ErrorCode.GROUP_ID_NOT_FOUND
        return ErrorCode.ILLEGAL_GENERATION

    def delete_offsets(
        self, request: OffsetDeleteRequest, partition_count: PartitionCount, ticket: Ticket
    ) -> Effects:
        """Handle OffsetDelete: offsets that nobody reads go; what is not there is gone already."""
        group = self._groups.get(request.group_id)
        code = ErrorCode.GROUP_ID_NOT_FOUND if group is None else group.check_offset_delete()
        names, response = plan_delete(request, partition_count, group)
        if code is not ErrorCode.NONE:
            response = OffsetDeleteResponse(error_code=code)
            names = []
        stored = self._stored(request.group_id)
        return self._delete([name for name in names if name in stored], Reply(ticket, response))

    def delete_group(self, group_id: str, ticket: Ticket) -> Effects:
        """Handle DeleteGroups for one group: it goes with its offsets, if it has no members."""
        group = self._groups.get(group_id)
        code = ErrorCode.GROUP_ID_NOT_FOUND if group is None else group.check_delete()
        if group is None or code is not ErrorCode.NONE:
            return Effects([Reply(ticket, code)])
        del self._groups[group_id]
        effects = self._delete(sorted(self._stored(group_id)))
        reply = Reply(ticket, ErrorCode.NONE)
        then = GroupDeleted(group_id)
        effects.writes.append(Write(tuple(group.tombstones()), then, (reply,)))
        return effects

    def _stored(self, group_id: str) -> set[OffsetName]:
        """Return what a group has on the stream, or will have when the writes under way are."""
        return {
            *self.offsets.names(group_id),
            *self.pending.of_group(group_id),
            *self._under_way.of_group(group_id),
        }

    def find(self, wanted: WantedOffsets) -> FoundOffsets:
        """Return what a group has committed. A group that is not there has committed nothing."""
        group = self._groups.get(wanted.group_id)
        code = ErrorCode.NONE
        if group is not None:
            code = group.check_fetch(wanted.member_id, wanted.member_epoch)
        if code is not ErrorCode.NONE:
            return FoundOffsets(code, [])
        return FoundOffsets(code, find_offsets(wanted, self.offsets, self.pending))

    # What the runtime reports

    def replay(self, update: OffsetUpdate) -> None:
        """Take over what one record of the stream says."""
        self.pending.overtake(update)
        self.offsets.apply(update)

    def on_loaded(self) -> None:
        """Make the groups that only have offsets: simple ones."""
        for group_id in (*self.offsets, *self.pending):
            self._groups.make(group_id)

    def on_written(self, then: OffsetsThen) -> None:
        """Act on a confirmed write."""
        if isinstance(then, OffsetsWritten):
            self._arrived(then.updates)
            for update in then.updates:
                self.replay(update)
        elif isinstance(then, PendingWritten):
            self._arrived(then.updates)
            for update in then.updates:
                self.pending.add(then.producer_id, update)
        elif isinstance(then, TransactionWritten):
            for update in self.pending.end(then.producer_id, is_commit=then.is_commit):
                self.offsets.apply(update)
        else:
            self._on_deleted(then.group_id)

    def on_refused(self, write: Write, then: OffsetsThen) -> None:
        """Change the answers of a commit that is too large to be stored ever."""
        if isinstance(then, OffsetsWritten | PendingWritten):
            self._arrived(then.updates)
        for reply in write.replies:
            if isinstance(reply.response, OffsetCommitResponse | TxnOffsetCommitResponse):
                refuse_stored(reply.response, ErrorCode.INVALID_COMMIT_OFFSET_SIZE)

    def _on_deleted(self, group_id: str) -> None:
        """Let a simple group go that a commit under way had brought back for a moment."""
        group = self._groups.get(group_id)
        is_simple = group is not None and group.protocol_type is None and group.is_unused
        if is_simple and not self._stored(group_id):
            del self._groups[group_id]

    # Upkeep

    def clean(self, now: Now) -> Effects:
        """Delete offsets that have lapsed, and unused groups that have none (left)."""
        lapsed: list[OffsetName] = []
        unused: list[str] = []
        for group_id, group in self._groups.items():
            expired = [
                name
                for name in expired_offsets(
                    group, self.offsets, self._config.offsets_retention_ms, now
                )
                if not self.pending.has(*name)
            ]
            lapsed += expired
            if group.is_unused and self._stored(group_id) == set(expired):
                unused.append(group_id)
        effects = self._delete(lapsed)
        for group_id in unused:
            group = self._groups.pop(group_id)
            effects.writes.append(Write(tuple(group.tombstones())))
        return effects

    def drop_topic(self, topic: str) -> Effects:
        """Delete every group's offsets of a topic that is gone.

        Cost: a dict lookup for each group, and a look at every offset that is not settled yet.
        """
        unsettled = (
            name
            for places in (self.pending, self._under_way)
            for group_id in places
            for name in places.of_group(group_id)
        )
        names = {name for name in unsettled if name.topic == topic}
        return self._delete(sorted(names.union(self.offsets.of_topic(topic))))

    def drop_gone(self, is_known: Callable[[str], bool]) -> Effects:
        """Delete every group's offsets of topics that are not known (any more).

        Asked after a load: a crash may have come between a topic's deletion and the tombstones, and
        a topic made again under its name must not begin where that one was read.
        """
        names = self._names()
        gone = {topic for topic in {name.topic for name in names} if not is_known(topic)}
        return self._delete(sorted(name for name in names if name.topic in gone))

    def _names(self) -> set[OffsetName]:
        group_ids = {*self.offsets, *self.pending, *self._under_way}
        return {name for group_id in group_ids for name in self._stored(group_id)}

    # Writes

    def _write(self, updates: Sequence[OffsetUpdate]) -> Write:
        self._under_way.add(updates)
        return Write(_records(updates), OffsetsWritten(tuple(updates)))

    def _write_pending(self, updates: Sequence[OffsetUpdate], of: InTransaction) -> Write:
        self._under_way.add(updates)
        then = PendingWritten(of.producer_id, tuple(updates))
        return Write(_records(updates), then, transaction=of)

    def _arrived(self, updates: Sequence[OffsetUpdate]) -> None:
        """Count what is not under way any more; whose group was deleted as empty has one again."""
        self._under_way.remove(updates)
        for update in updates:
            if update.committed is not None:
                self._groups.make(update.group_id)

    def _delete(self, names: Sequence[OffsetName], reply: Reply | None = None) -> Effects:
        effects = Effects()
        at_once = _tombstones_at_once(names)
        for start in range(0, len(names), at_once):
            updates = [OffsetUpdate(*name, None) for name in names[start : start + at_once]]
            effects.writes.append(self._write(updates))
        if reply is not None:
            effects.reply_last(reply)
        return effects


def _records(updates: Sequence[OffsetUpdate]) -> tuple[StateRecord, ...]:
    return tuple(offset_record(update) for update in updates)


def _tombstones_at_once(names: Sequence[OffsetName]) -> int:
    """Return how many fit into a write: a group's name may have 32 KiB."""
    longest = max((size_of((offset_record(OffsetUpdate(*n, None)),)) for n in names), default=1)
    return min(TOMBSTONES_AT_ONCE, TOMBSTONE_BYTES_MAX // longest)
