"""Identities and ordinals that every package shares.

Identities are `NewType`s: they are compared, never added to. Ordinals that one adds to are plain
`int` aliases, with the kind in the name (STYLE 3.3).
"""

from typing import NamedTuple, NewType, TypeAlias

from typing_extensions import override

LedgerId = NewType("LedgerId", int)
BookieId = NewType("BookieId", str)
BrokerId = NewType("BrokerId", int)
GroupId = NewType("GroupId", str)

EntryId: TypeAlias = int
"""Number of an entry in its ledger, from 0; -1 is "before the first"."""

Offset: TypeAlias = int
"""Kafka's logical record number in a partition."""

Position: TypeAlias = int
"""Byte place in a file."""

TxId: TypeAlias = int
"""DistributedLog transaction id; here always the last Kafka offset of the batch in the record."""

Buffer: TypeAlias = bytes | bytearray | memoryview
"""Bytes that somebody else may still own; never changed by whoever receives them."""

NO_ENTRY: EntryId = -1


class TopicPartition(NamedTuple):
    """One partition of one topic."""

    topic: str
    partition: int

    @override
    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"
