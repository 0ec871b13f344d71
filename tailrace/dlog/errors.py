"""The errors that callers of `tailrace.dlog` handle, under the names that core gives them.

    CoreError                      root; `retriable`: the same call may succeed later
      LogNotFound, LogExists, InvalidStreamName      names of logs
      OwnershipLost                another process writes the log: open another writer, or give up
        OwnershipAcquireFailed     and `current_owner` is its client id
      LedgerFenced                 another process took the log over: as OwnershipLost
      TransactionIdOutOfOrder      the txid is lower than the one before; nothing was written
      LogRecordTooLong             the record can never be stored; nothing was written
      OverCapacity                 a stated limit is reached; nothing was done
      WriteCancelled               a record before it failed: this one was never sent
      EndOfStream                  the log was sealed: nothing can follow
      LogTruncated                 the reader's segment was purged: open another reader
      ReadCancelled                the reader, or the watch, is closed
      IdleReader                   no record came for readerIdleErrorThresholdMillis
      NotEnoughBookies, BookieUnavailable            too few bookies answer
      InvalidQuorums               these quorums can never keep what placement promises
      LedgerNotFound               no bookie has a segment that the metadata names: it is lost
      EntryNotFound                the same of one entry
      CorruptData                  bytes on disk or in metadata do not verify
      MetadataConflict             a race was lost: read again
        NoNode, NodeExists, BadVersion
      NoAuth                       the access list of a node in ZooKeeper forbids it
      Unavailable                  closed, not ready, or ZooKeeper does not answer
        AuthFailed                 ZooKeeper refuses the credentials (`zookeeper.auth.username`)
      ColdStorageDisabled          it takes part in cold storage, and cold.storage.url is not set
      ColdObjectNotFound           an object that the metadata names is not in cold storage
      NotYetImplemented            DistributedLog has it, Tailrace does not
    ConfigError                    a setting that is unknown or has a wrong value
    DecodeError                    text or bytes that are no DLSN (`DLSN.deserialize`)

Core has more kinds. Most are below one of these; those of ledgers that are no log's are below
CoreError alone.
"""

from tailrace.core.errors import (
    AuthFailed,
    BadVersion,
    BookieUnavailable,
    ColdObjectNotFound,
    ColdStorageDisabled,
    CoreError,
    CorruptData,
    EndOfStream,
    EntryNotFound,
    IdleReader,
    InvalidQuorums,
    InvalidStreamName,
    LedgerFenced,
    LedgerNotFound,
    LogExists,
    LogNotFound,
    LogRecordTooLong,
    LogTruncated,
    MetadataConflict,
    NoAuth,
    NodeExists,
    NoNode,
    NotEnoughBookies,
    NotYetImplemented,
    OverCapacity,
    OwnershipAcquireFailed,
    OwnershipLost,
    ReadCancelled,
    TransactionIdOutOfOrder,
    Unavailable,
    WriteCancelled,
)
from tailrace.core.runtime.config import ConfigError
from tailrace.protocol.errors import DecodeError

__all__ = [
    "AuthFailed",
    "BadVersion",
    "BookieUnavailable",
    "ColdObjectNotFound",
    "ColdStorageDisabled",
    "ConfigError",
    "CoreError",
    "CorruptData",
    "DecodeError",
    "EndOfStream",
    "EntryNotFound",
    "IdleReader",
    "InvalidQuorums",
    "InvalidStreamName",
    "LedgerFenced",
    "LedgerNotFound",
    "LogExists",
    "LogNotFound",
    "LogRecordTooLong",
    "LogTruncated",
    "MetadataConflict",
    "NoAuth",
    "NoNode",
    "NodeExists",
    "NotEnoughBookies",
    "NotYetImplemented",
    "OverCapacity",
    "OwnershipAcquireFailed",
    "OwnershipLost",
    "ReadCancelled",
    "TransactionIdOutOfOrder",
    "Unavailable",
    "WriteCancelled",
]
