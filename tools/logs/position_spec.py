"""TOPIC/PARTITION, and a position in it: an offset or a DLSN. Pure."""

import re
from typing import NamedTuple

from tailrace.protocol.distributedlog.dlsn import DLSN
from tailrace.protocol.ids import Offset, TopicPartition
from tailrace.tools.errors import CliError, Exit

POSITION_HELP = "TOPIC/PARTITION@OFFSET or TOPIC/PARTITION@dlsn:LSSN,ENTRY,SLOT"

_PARTITION = re.compile(r"(?P<topic>[a-zA-Z0-9._-]{1,249})/(?P<partition>[0-9]{1,9})")
_DLSN = re.compile(r"([0-9]{1,18}),([0-9]{1,18}),([0-9]{1,18})")


class PositionSpec(NamedTuple):
    """One place in a partition; exactly one of the two is set."""

    at: TopicPartition
    offset: Offset | None
    dlsn: DLSN | None


def parse_partition(text: str) -> TopicPartition:
    """Read TOPIC/PARTITION. Errors: CliError."""
    found = _PARTITION.fullmatch(text)
    if found is None:
        raise CliError(f"{text!r} is no partition", remedy="TOPIC/PARTITION", code=Exit.USAGE)
    return TopicPartition(found["topic"], int(found["partition"]))


def parse_position(text: str) -> PositionSpec:
    """Read a position. Errors: CliError."""
    partition, at, place = text.partition("@")
    if at and re.fullmatch(r"[0-9]{1,18}", place):
        return PositionSpec(parse_partition(partition), int(place), None)
    dlsn = _DLSN.fullmatch(place.removeprefix("dlsn:"))
    if dlsn is None or not place.startswith("dlsn:"):
        raise CliError(f"{text!r} is no position", remedy=POSITION_HELP, code=Exit.USAGE)
    return PositionSpec(parse_partition(partition), None, DLSN(*map(int, dlsn.groups())))


def parse_dlsn(text: str) -> DLSN:
    """Read LSSN,ENTRY,SLOT. Errors: CliError."""
    found = _DLSN.fullmatch(text)
    if found is None:
        raise CliError(f"{text!r} is no DLSN", remedy="LSSN,ENTRY,SLOT", code=Exit.USAGE)
    return DLSN(*map(int, found.groups()))
