"""What clients of proxies saw, and what of it must be in the streams. Values only.

Each process of a client appends lines to a journal of its own, which outlives its kill.
"""

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from tailrace.protocol.distributedlog.dlsn import DLSN

STARTED: Final = "started"
FAILED: Final = "failed"
"""How lines begin that are not about a record."""
PROBLEMS_MAX: Final = 10


class Acknowledged(NamedTuple):
    """A record that a proxy acknowledged."""

    stream: str
    dlsn: DLSN
    """DLSN(0, -1, -1): the owner did not know the place any more."""
    payload: str
    submitted_s: float
    acknowledged_s: float
    """On the clock that all processes share."""


class Record(NamedTuple):
    """A record as a reader got it."""

    dlsn: DLSN
    payload: str


Streams: TypeAlias = Mapping[str, Sequence[Record]]
"""Stream -> its records, in order."""


def stream_names(count: int) -> list[str]:
    """Return the names of the streams."""
    return [f"s{number}" for number in range(count)]


def payload_of(process: str, number: int) -> str:
    """Return the payload of the n-th record that a process writes to a stream."""
    return f"{process}#{number}"


def acknowledged_line(one: Acknowledged) -> str:
    """Return a line of a writer's journal."""
    place = " ".join(map(str, one.dlsn))
    return f"{one.stream} {place} {one.payload} {one.submitted_s} {one.acknowledged_s}\n"


def read_line(stream: str, one: Record) -> str:
    """Return a line of a reader's journal."""
    return f"{stream} {' '.join(map(str, one.dlsn))} {one.payload}\n"


def parse_acknowledged(line: str) -> Acknowledged:
    """Return what a line of a writer's journal says."""
    stream, lssn, entry, slot, payload, submitted, acknowledged = line.split()
    dlsn = DLSN(int(lssn), int(entry), int(slot))
    return Acknowledged(stream, dlsn, payload, float(submitted), float(acknowledged))


def parse_read(line: str) -> tuple[str, Record]:
    """Return what a line of a reader's journal says."""
    stream, lssn, entry, slot, payload = line.split()
    return stream, Record(DLSN(int(lssn), int(entry), int(slot)), payload)


class Journal:
    """A journal that is followed while it grows."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._read = 0

    def news(self) -> list[str]:
        """Return the lines that came since the last call; a line without its end comes later."""
        if not self.path.exists():
            return []
        with self.path.open("rb") as file:
            file.seek(self._read)
            whole, end, _ = file.read().rpartition(b"\n")
        self._read += len(whole) + len(end)
        return whole.decode().splitlines()


# ---------------------------------------------------------------------- what must hold


def problems_of_writes(written: Streams, acknowledged: Iterable[Acknowledged]) -> list[str]:
    """Return what is wrong with the streams: lost, twice, out of order, or in another place.

    The records of a process are its first ones, each once and in order: those behind the last
    acknowledged one may be there or not, without a gap.
    """
    problems, places = [], dict[tuple[str, str], DLSN]()
    for stream, records in written.items():
        following: dict[str, int] = {}
        for dlsn, payload in records:
            process, _, number = payload.partition("#")
            expected = following.get(process, 0)
            if int(number) != expected:
                problems.append(f"{stream} {dlsn}: {payload}, not {expected}: lost, twice or early")
            following[process] = int(number) + 1
            places[stream, payload] = dlsn
    for one in acknowledged:
        place = places.get((one.stream, one.payload))
        if place is None:
            problems.append(f"{one.stream}: {one.payload} was acknowledged and is lost")
        elif place != one.dlsn and one.dlsn.lssn:
            problems.append(f"{one.stream}: {one.payload} is at {place}, not {one.dlsn}")
    return problems[:PROBLEMS_MAX]


def problems_of_reads(written: Streams, lines: Iterable[str]) -> list[str]:
    """Return where a reader's journal differs from the streams.

    A process of the reader begins at the last record of the one before; from there it gives each
    record once, in order. The last one came to the end.
    """
    problems: list[str] = []
    places = {name: {each.dlsn: n for n, each in enumerate(of)} for name, of in written.items()}
    following = dict.fromkeys(written, 0)
    for line in lines:
        if line == STARTED:
            following = {name: max(0, at - 1) for name, at in following.items()}
            continue
        stream, record = parse_read(line)
        at, expected = places[stream].get(record.dlsn), following[stream]
        if at != expected or written[stream][at] != record:
            problems.append(f"{stream}: {record} was read as the record number {expected}")
        following[stream] = expected + 1 if at is None else at + 1
    for name, records in written.items():
        if following[name] != len(records):
            problems.append(f"{name}: {following[name]} of {len(records)} records were read")
    return problems[:PROBLEMS_MAX]


# ---------------------------------------------------------------------- how long it took


def first_writes(
    streams: Iterable[str], killed_s: float, acknowledged: Iterable[Acknowledged]
) -> dict[str, float]:
    """Return how long each stream of a killed owner had no other one; those without are left out.

    That is until the first record in a segment behind all that were known at the kill, from the
    kill or from when that record was submitted. Unit: seconds.
    """
    segments, taken_over = dict.fromkeys(streams, 0), dict[str, float]()
    for one in sorted(acknowledged, key=lambda each: each.acknowledged_s):
        if one.stream not in segments:
            continue
        lssn = one.dlsn.lssn
        if one.acknowledged_s <= killed_s:
            segments[one.stream] = max(segments[one.stream], lssn)
        elif lssn > segments[one.stream] and one.stream not in taken_over:
            taken_over[one.stream] = one.acknowledged_s - max(killed_s, one.submitted_s)
    return taken_over


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the value that so many percent of all do not exceed."""
    return sorted(values)[max(0, ceil(len(values) * percent / 100) - 1)]


# ---------------------------------------------------------------------- what it came to


class Kill(NamedTuple):
    """A kill, and how long each stream had no owner that takes records."""

    kind: str
    is_back_at_once: bool
    first_writes: Sequence[float]
    """None of a kill beside a balance, which moves streams, too."""

    def text(self) -> str:
        """Return it for a person."""
        how = "back at once" if self.is_back_at_once else "stays away"
        return f"killed: {self.kind}, {how}; {times_of([self])}; load {os.getloadavg()[0]:.1f}"


@dataclass
class Report:
    """What has happened."""

    seed: int
    kills: list[Kill] = field(default_factory=list)
    acknowledged: int = 0
    written: int = 0
    moves: int = 0
    spreads: list[tuple[int, ...]] = field(default_factory=list)
    """How many streams each proxy had, after each balance."""
    problems: list[str] = field(default_factory=list)

    def text(self) -> str:
        """Return it for a person."""
        lines = [f"seed {self.seed}"]
        for kind, count in sorted(Counter(kill.kind for kill in self.kills).items()):
            lines.append(f"killed: {kind} {count}")
        lines.append(f"records: acknowledged {self.acknowledged}, written and read {self.written}")
        for name, is_back in (("stays away", False), ("is back at once", True)):
            kills = [kill for kill in self.kills if kill.is_back_at_once is is_back]
            lines.append(f"first writes, owner {name}: {times_of(kills)}")
        lines.append(f"first writes, all: {times_of(self.kills)}")
        spreads = " ".join("/".join(map(str, each)) for each in self.spreads)
        lines.append(f"{self.moves} moves; streams of proxies after each balance: {spreads}")
        lines += self.problems or ["lost 0, doubled 0, out of order 0"]
        return "\n".join(lines)


def times_of(kills: Iterable[Kill]) -> str:
    times = [each for kill in kills for each in kill.first_writes]
    if not times:
        return "no stream"
    p50, p99, most = (percentile(times, each) for each in (50, 99, 100))
    return f"{len(times)} streams, p50 {p50:.2f} s, p99 {p99:.2f} s, most {most:.2f} s"
