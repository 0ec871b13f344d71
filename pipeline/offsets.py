"""Where a read starts and ends: from the command line's words to options of Spark's source."""

import json
from dataclasses import dataclass

_EARLIEST = -2


class BadOffsets(ValueError):
    """The text names no position; the message says which forms there are."""


@dataclass(frozen=True, slots=True)
class Bound:
    """One end of a read: `earliest`, `latest`, a time, or an offset for each partition.

    Exactly one of the two is set. `offsets` is the source's own JSON, where -2 is earliest and
    -1 latest. `timestamp_ms` means the first record at or after that time.
    """

    offsets: str | None = None
    timestamp_ms: int | None = None


EARLIEST = Bound(offsets="earliest")
LATEST = Bound(offsets="latest")


def parse_bound(text: str) -> Bound:
    """Read `start`/`earliest`, `end`/`latest`, `@MILLISECONDS`, or JSON `{"topic": {"0": 17}}`.

    Errors: BadOffsets.
    """
    match text:
        case "start" | "earliest" | "beginning":
            return EARLIEST
        case "end" | "latest":
            return LATEST
    if text.startswith("@"):
        return Bound(timestamp_ms=_milliseconds(text[1:]))
    if text.startswith("{"):
        return Bound(offsets=json.dumps(_partition_offsets(text), sort_keys=True))
    raise BadOffsets(
        f'{text!r} is no position; use start, end, @MILLISECONDS or {{"topic": {{"0": 17}}}}'
    )


def source_options(start: Bound, end: Bound | None) -> dict[str, str]:
    """Return the options that set the bounds. `end` is None for a stream, which has none.

    A start time after the last record means "nothing yet", not an error: the source's
    `startingOffsetsByTimestampStrategy` is `latest`.
    """
    options: dict[str, str] = {}
    if start.timestamp_ms is not None:
        options["startingTimestamp"] = str(start.timestamp_ms)
        options["startingOffsetsByTimestampStrategy"] = "latest"
    elif start.offsets is not None:
        options["startingOffsets"] = start.offsets
    if end is not None and end.timestamp_ms is not None:
        options["endingTimestamp"] = str(end.timestamp_ms)
    elif end is not None and end.offsets is not None:
        options["endingOffsets"] = end.offsets
    return options


def _milliseconds(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise BadOffsets(f"@{text} is no time; use milliseconds since 1970, like @1767225600000")
    return int(text)


def _partition_offsets(text: str) -> dict[str, dict[str, int]]:
    try:
        value = json.loads(text)
    except json.JSONDecodeError as wrong:
        raise BadOffsets(f"the offsets are no JSON: {wrong}") from wrong
    if not isinstance(value, dict):
        raise BadOffsets("the offsets must be an object of topics")
    return {topic: _topic_offsets(topic, offsets) for topic, offsets in value.items()}


def _topic_offsets(topic: str, offsets: object) -> dict[str, int]:
    if not isinstance(offsets, dict):
        raise BadOffsets(f"the offsets of {topic} must be an object of partitions")
    for partition, offset in offsets.items():
        if not partition.isdigit() or type(offset) is not int or offset < _EARLIEST:
            raise BadOffsets(f"{topic}: {partition!r}: {offset!r} is no partition and offset")
    return offsets
