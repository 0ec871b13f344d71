"""How far a restore is, as JSON: kept by the sink, in one step with the values. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec

from tailrace.compaction.restoring.errors import WrongCheckpoint
from tailrace.compaction.restoring.fold import Progress
from tailrace.core.runtime.stored_json import NOT_JSON, Int32, Natural

VERSION = 1


@dataclass(slots=True, kw_only=True)
class Checkpoint:
    """A fixed range of a topic, and how far each partition is."""

    topic: str
    topic_id: str
    """Hexadecimal; zeros where the cluster has none."""
    partitions: dict[Int32, Progress]
    saves: Natural = 0
    """How often values were saved."""
    finished: bool = False
    """Whether the sink has made its final form."""
    version: Int32 = VERSION

    @property
    def is_read(self) -> bool:
        """Whether nothing is left to fetch."""
        return all(each.is_done for each in self.partitions.values())


def encode_checkpoint(checkpoint: Checkpoint) -> bytes:
    """Return it as JSON."""
    return msgspec.json.format(msgspec.json.encode(checkpoint), indent=1)


def decode_checkpoint(data: bytes | str, place: str) -> Checkpoint:
    """Read it. Errors: WrongCheckpoint."""
    try:
        found = msgspec.json.decode(data, type=Checkpoint)
    except NOT_JSON as error:
        raise WrongCheckpoint(f"no checkpoint: {error}", place=place, remedy=_FRESH) from error
    if found.version != VERSION:
        raise WrongCheckpoint(
            f"a checkpoint of version {found.version}, this is {VERSION}",
            place=place,
            remedy=_FRESH,
        )
    return found


def check_checkpoint(
    found: Checkpoint, topic: str, topic_id: str, partitions: Iterable[int], place: str
) -> None:
    """Refuse to go on from what belongs to something else. Errors: WrongCheckpoint."""
    cause = ""
    wanted = sorted(partitions)
    if found.topic != topic:
        cause = f"the checkpoint is of topic {found.topic}, not {topic}"
    elif found.topic_id != topic_id:
        cause = (
            f"the checkpoint is of another topic {topic}: id {found.topic_id}, now {topic_id}; "
            "it was deleted and created again, or this is another cluster"
        )
    elif sorted(found.partitions) != wanted:
        cause = f"the checkpoint is of partitions {sorted(found.partitions)}, not {wanted}"
    if cause:
        raise WrongCheckpoint(cause, place=place, remedy=_FRESH)


def summary(partitions: Mapping[int, Progress]) -> tuple[int, int]:
    """Return how many offsets are passed, and how many there are."""
    passed = total = 0
    for each in partitions.values():
        passed += min(each.position, each.end) - each.start
        total += each.end - each.start
    return passed, total


_FRESH = "another output, or start over (`--fresh`)"
