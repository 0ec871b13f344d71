"""What the groups of one shard committed: commits of members and of outsiders, expiry, deletion.

Every event returns Effects; offsets change when their records are confirmed, in `on_written`.
Source: Kafka OffsetMetadataManager.
"""

from collections import Counter
from collections.abc import Callable, Sequence

from broker.coordinator.config import GroupConfig
from broker.coordinator.effects import Caller, GroupDeleted, OffsetsWritten
from broker.coordinator.groups import Groups
from broker.coordinator.kinds import Group
from broker.coordinator.offsets import (
    OffsetStore,
    expired_offsets,
    plan_commit,
    plan_delete,
    refuse_commit,
    refuse_stored,
)
from broker.coordinator.pending import PendingOffsets
from broker.coordinator.records import OffsetName, OffsetUpdate, offset_record
from broker.replicated.effects import Effects, Now, Reply, Ticket, Write
from protocol.errors import ErrorCode
from protocol.kafka.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from protocol.kafka.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse

GROUP_NOT_FOUND_SINCE = 9
"""OffsetCommit version that can say that there is no such group."""

TOMBSTONES_AT_ONCE = 500
"""Deleted offsets in one write."""


class Commits:
    """The committed offsets of one shard. No clock, no socket, no task."""

    def __init__(self, config: GroupConfig, groups: Groups) -> None:
        self.offsets = OffsetStore()
        self.pending = PendingOffsets()
        self._under_way: Counter[OffsetName] = Counter()
        """What is to be written, and not confirmed yet: deletions count with it."""
        self._config = config
        self._groups = groups

    # Requests

    def commit(
        self,
        request: OffsetCommitRequest,
        caller: Caller,
        partition_count: Callable[[str], int],
        ticket: Ticket,
        now: Now,
    ) -> Effects:
        """Handle OffsetCommit; a commit from outside of group management makes a simple group."""
        code = self._check_commit(request, caller.version)
        if code is not ErrorCode.NONE:
            return Effects([Reply(ticket, refuse_commit(request, code))])
        group = self._groups.make(request.group_id)
        group.on_commit(request.member_id, now)
        effects = group.take_effects()
        updates, response = plan_commit(request, partition_count, self._config, now)
        reply = Reply(ticket, response)
        if updates:
            effects.writes.append(self._write(updates, reply))
        else:
            effects.replies.append(reply)
        return effects

    def _check_commit(self, request: OffsetCommitRequest, version: int) -> ErrorCode:
        epoch = request.generation_id_or_member_epoch
        group = self._groups.get(request.group_id)
        if group is not None:
            return group.check_commit(request.member_id, request.group_instance_id, epoch, version)
        if epoch < 0:
            return ErrorCode.NONE
        if version >= GROUP_NOT_FOUND_SINCE:
            return ErrorCode.GROUP_ID_NOT_FOUND
        return ErrorCode.ILLEGAL_GENERATION

    def delete_offsets(
        self, request: OffsetDeleteRequest, partition_count: Callable[[str], int], ticket: Ticket
    ) -> Effects:
        """Handle OffsetDelete: offsets that nobody reads go; what is not there is gone already."""
        group = self._groups.get(request.group_id)
        code = ErrorCode.GROUP_ID_NOT_FOUND if group is None else group.check_offset_delete()
        names, response = plan_delete(request, partition_count, group)
        if code is not ErrorCode.NONE and names:
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
        under_way = [name for name in self._under_way if name.group_id == group_id]
        return {*self.offsets.names(group_id), *self.pending.of_group(group_id), *under_way}

    # What the runtime reports

    def replay(self, update: OffsetUpdate) -> None:
        """Take over what one record of the stream says."""
        self.pending.overtake(update)
        self.offsets.apply(update)

    def on_loaded(self) -> None:
        """Make the groups that only have offsets: simple ones."""
        for group_id in (*self.offsets, *self.pending):
            self._groups.make(group_id)

    def on_written(self, written: OffsetsWritten) -> None:
        """Let confirmed commits be seen."""
        self._arrived(written)
        for update in written.updates:
            self.replay(update)
            if update.committed is not None:  # it was deleted as empty meanwhile
                self._groups.make(update.group_id)

    def on_refused(self, write: Write, written: OffsetsWritten) -> None:
        """Change the answers of a commit that is too large to be stored ever."""
        self._arrived(written)
        for reply in write.replies:
            if isinstance(reply.response, OffsetCommitResponse):
                refuse_stored(reply.response, ErrorCode.INVALID_COMMIT_OFFSET_SIZE)

    def on_deleted(self, deleted: GroupDeleted) -> None:
        """Let a simple group go that a commit under way had brought back for a moment."""
        group = self._groups.get(deleted.group_id)
        if group is not None and group.protocol_type is None and self._is_unused(group):
            del self._groups[deleted.group_id]

    def _is_unused(self, group: Group) -> bool:
        return group.is_unused and not self._stored(group.group_id)

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
        """Delete every group's offsets of a topic that is gone."""
        group_ids = {*self.offsets, *self.pending, *(name.group_id for name in self._under_way)}
        names = {name for group_id in group_ids for name in self._stored(group_id)}
        return self._delete(sorted(name for name in names if name.topic == topic))

    # Writes

    def _write(self, updates: Sequence[OffsetUpdate], *replies: Reply) -> Write:
        self._under_way.update(update.name for update in updates)
        records = tuple(offset_record(update) for update in updates)
        return Write(records, OffsetsWritten(tuple(updates)), replies)

    def _arrived(self, written: OffsetsWritten) -> None:
        for update in written.updates:
            self._under_way[update.name] -= 1
            if not self._under_way[update.name]:
                del self._under_way[update.name]

    def _delete(self, names: Sequence[OffsetName], reply: Reply | None = None) -> Effects:
        effects = Effects()
        for start in range(0, len(names), TOMBSTONES_AT_ONCE):
            updates = [
                OffsetUpdate(*name, None) for name in names[start : start + TOMBSTONES_AT_ONCE]
            ]
            effects.writes.append(self._write(updates))
        if reply is not None:
            effects.reply_last(reply)
        return effects
