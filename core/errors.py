"""What can go wrong in the log, by what the caller can do about it.

    CoreError(retriable)
      LedgerFenced          somebody recovered the ledger: the fate of an add is unknown until then
        LedgerClosed        and fixed its end already
      OwnershipLost         another process owns the log now
        OwnershipAcquireFailed  and this is who
      NotEnoughBookies      no ensemble can be formed, or too many of it failed
        AddEntryQuorumTimeout  too few of it answered an add in the time that the caller set
      InvalidQuorums        these quorums can never keep what placement promises
      BookieUnavailable     one bookie did not answer; another replica may
      EntryNotFound         the ledger is known, the entry is not there
      LedgerNotFound        no such ledger
      LedgerExists          the ledger id that the caller chose is taken
      DuplicateEntryId      the entry id that the caller chose was used before
      UnauthorizedAccess    the password is not the ledger's
      DigestMismatch        the digest type is not the ledger's
      LogNotFound           no such log stream
      LogExists             the log stream is already there
      LogTruncated          the position lies before the first record that is kept
        AlreadyTruncatedTransaction  segments behind kept ones were given up
      LogRecordTooLong      the record can never be stored; nothing was written
      InvalidStreamName     DistributedLog does not allow this name
      TransactionIdOutOfOrder  the record's txid is smaller than the one before
      EndOfStream           the log was sealed for good
      WriteCancelled        a record before it failed: this one was never sent
      OverCapacity          a stated limit is reached; try again later
      IdleReader            a reader heard nothing for longer than it was told to accept
      CorruptData           bytes on disk or in metadata do not verify
        InvalidEnvelopedEntry  an entry whose digest is right holds no records
        ColdObjectCorrupt   an object in cold storage does not verify
        DLIllegalState      what a log holds contradicts itself
      MetadataConflict      a versioned update lost its race: read again
        NoNode, NodeExists, BadVersion, NotEmpty
      NoAuth                an access list of the metadata store does not let this process do it
      Unavailable           closed or not yet ready
        AuthFailed          the metadata store refuses this process' credentials
        ColdStorageUnavailable  cold storage does not answer
        ReadCancelled       the reader was closed while it was read from
      ColdObjectNotFound    the metadata names an object that is not in cold storage
      ColdStorageDisabled   something is in cold storage, and nobody said where that is
      CannotRewrite         a segment must stay in the ledger that it was written to
      NotYetImplemented     DistributedLog has it, Tailrace does not

`broker.errors` maps each of them to Kafka's code; a test walks the tree.
"""


class CoreError(Exception):
    """Root of the errors that core raises. `retriable`: the same call may succeed later."""

    retriable = False


class LedgerFenced(CoreError):
    """The ledger was fenced: the fate of an unanswered add is unknown until recovery."""


class LedgerClosed(LedgerFenced):
    """Somebody else fixed the end of the ledger: an unanswered add lies before or behind it."""


class OwnershipLost(CoreError):
    """Another process owns the log now."""

    retriable = True


class OwnershipAcquireFailed(OwnershipLost):
    """The log has an owner, `current_owner` by its client id (DistributedLog's code 302)."""

    def __init__(self, message: str, *, current_owner: str) -> None:
        super().__init__(message)
        self.current_owner = current_owner


class NotEnoughBookies(CoreError):
    """No ensemble can be formed, or fewer bookies answered than the quorum needs."""

    retriable = True


class AddEntryQuorumTimeout(NotEnoughBookies):
    """An ack quorum did not answer an add in time; the add may still take effect."""


class InvalidQuorums(CoreError):
    """These quorums can never keep what placement promises; nothing was made."""


class BookieUnavailable(CoreError):
    """One bookie did not answer in time or cannot be reached; another replica may."""

    retriable = True


class EntryNotFound(CoreError):
    """The ledger is known, the entry is not there."""


class LedgerNotFound(CoreError):
    """No such ledger."""


class LedgerExists(CoreError):
    """The ledger id that the caller chose belongs to another ledger."""


class DuplicateEntryId(CoreError):
    """The entry id that the caller chose was used before; nothing was written."""


class UnauthorizedAccess(CoreError):
    """The password is not the one that the ledger was made with."""


class DigestMismatch(CoreError):
    """The digest type is not the one that the ledger was made with."""


class LogNotFound(CoreError):
    """No such log stream."""


class LogExists(CoreError):
    """The log stream is already there."""


class LogTruncated(CoreError):
    """The position lies before the first record that is kept."""


class AlreadyTruncatedTransaction(LogTruncated):
    """Segments were given up behind others that were not: the log cannot be read through."""

    code = 511


class LogRecordTooLong(CoreError):
    """The record can never be stored; nothing was written."""


class InvalidStreamName(CoreError):
    """DistributedLog does not allow this stream name."""


class TransactionIdOutOfOrder(CoreError):
    """The record's transaction id is smaller than the one before it."""


class EndOfStream(CoreError):
    """The log was sealed for good: nothing can follow."""


class WriteCancelled(CoreError):
    """A record before it failed, so this one was never sent (DistributedLog's code 516)."""


class OverCapacity(CoreError):
    """A stated limit is reached; the caller may try again later."""

    retriable = True


class CorruptData(CoreError):
    """Bytes on disk or in metadata do not verify. Never answered as "not there"."""


class InvalidEnvelopedEntry(CorruptData):
    """An entry is what its writer wrote, by its digest, and holds no records of a log."""

    code = 520


class DLIllegalState(CorruptData):
    """What a log holds contradicts itself: a record's position says that others are missing."""

    code = 603


class MetadataConflict(CoreError):
    """A versioned metadata update lost its race: read again and decide again."""

    retriable = True


class NoNode(MetadataConflict):
    """The metadata node is not there."""


class NodeExists(MetadataConflict):
    """The metadata node is already there."""


class BadVersion(MetadataConflict):
    """The metadata node has another version than the one expected."""


class NotEmpty(MetadataConflict):
    """The metadata node has children."""


class Unavailable(CoreError):
    """Closed, or not yet ready."""

    retriable = True


class AuthFailed(Unavailable):
    """The metadata store refuses this process' credentials, or does not serve it without any."""


class NoAuth(CoreError):
    """The access list of a metadata node does not let this process do what it asked for."""


class ReadCancelled(Unavailable):
    """The reader was closed: nothing can be read from it any more."""

    retriable = False
    code = 1002


class IdleReader(CoreError):
    """A reader waited for an entry longer than `readerIdleErrorThresholdMillis`; open another."""

    retriable = True


class CannotRewrite(CoreError):
    """A segment, or its log, is of a kind that must stay as it was written."""


class NotYetImplemented(CoreError):
    """Something that DistributedLog has and Tailrace does not; nothing was done."""

    code = 501


class ColdStorageDisabled(CoreError):
    """Something is in cold storage, and this process was not told where that is."""


class ColdStorageUnavailable(Unavailable):
    """Cold storage does not answer, or refuses what was asked of it."""


class ColdObjectNotFound(CoreError):
    """An object that the metadata names is not in cold storage."""


class ColdObjectCorrupt(CorruptData):
    """An object in cold storage does not verify."""
