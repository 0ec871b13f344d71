"""Bytes that Apache's own software wrote, and small parsers of the files that hold them.

    frames("wire-v3.txt")        -> [Frame]     every frame between a Java client and a bookie
    vectors("dl.txt")            -> [Vector]    DLSNs, entries, record sets, segment metadata
    disk_records("disk-*.txt")   -> [DiskRecord] pieces of a real bookie's files, with their place
    znodes("zk-layout.md")       -> [ZNode]     every znode of a representative run

Provenance: SOURCES.md and the head of each file.
"""

import re
from pathlib import Path
from typing import Literal, NamedTuple

GOLDEN = Path(__file__).parent

_FRAME = re.compile(r"([CB])> len (\d+) ([0-9a-f]+)$")
_DISK = re.compile(r"([0-9a-f]{6}) ([0-9a-f]{2,})(\.\.\. \((\d+) bytes\))?(?:  (.*))?$")
_ENTRY = re.compile(r"entry (\d+) ([0-9a-f]+)$")
_ZNODE = re.compile(r"    (/.*?) \| (persistent|ephemeral) \| v(\d+) \| (.*)$")
_ESCAPE = re.compile(r"\\(.)")


def text(name: str) -> str:
    """Return a golden file as it is."""
    return (GOLDEN / name).read_text(encoding="utf-8")


class Frame(NamedTuple):
    """One frame on the wire, without the four bytes of length before it."""

    section: str
    """Headline of the exchange, such as "READ_ENTRY"."""
    sender: Literal["client", "bookie"]
    data: bytes
    meaning: str
    """Its fields as protobuf prints them (v3), or in words (v2, which starts with "v2: ")."""

    @property
    def is_v2(self) -> bool:
        """Whether it speaks the old binary protocol."""
        return self.meaning.startswith("v2: ")


def frames(name: str) -> list[Frame]:
    """Return the frames of a wire dump in the order of the wire; lengths are checked."""
    found: list[Frame] = []
    section = ""
    lines = text(name).splitlines()
    for number, line in enumerate(lines):
        if line.startswith("## "):
            section = line[3:]
        elif match := _FRAME.match(line):
            data = bytes.fromhex(match[3])
            assert len(data) == int(match[2]), line
            sender: Literal["client", "bookie"] = "client" if match[1] == "C" else "bookie"
            found.append(Frame(section, sender, data, lines[number + 1].strip()))
    return found


class Vector(NamedTuple):
    """One value of a vector file."""

    section: str
    """Headline, such as "A2 Entry.newEntry(...) ..."; part B has a headline per ledger."""
    title: str
    """The line above the value, or "entry N" in part B."""
    value: str
    """Hex or text, as it stands in the file."""
    notes: tuple[str, ...]
    """Indented lines below it (part B: one per record)."""

    @property
    def data(self) -> bytes:
        """The value's bytes, where it is hex."""
        return bytes.fromhex(self.value)


def vectors(name: str) -> list[Vector]:
    """Return the values of a vector file; part B's lines of other kinds are left out."""
    found: list[Vector] = []
    section = title = ""
    for line in text(name).splitlines():
        if line.startswith("# "):
            section = line[2:]
        elif match := _ENTRY.match(line):
            found.append(Vector(section, f"entry {match[1]}", match[2], ()))
        elif line.startswith("   ") and section.startswith("B"):
            found[-1] = found[-1]._replace(notes=(*found[-1].notes, line.strip()))
        elif line.startswith("  "):
            found.append(Vector(section, title, line.strip(), ()))
        else:
            title = line
    return found


class DiskRecord(NamedTuple):
    """Some bytes of a bookie's file."""

    file: str
    """Headline, such as "journal file 1a1fd40c06c.txn (file size 16777216, ...)"."""
    position: int
    data: bytes
    """The first bytes of the record; all of them unless `is_cut`."""
    size: int
    """Bytes of the whole record as dumped (its own length field included)."""
    meaning: str

    @property
    def is_cut(self) -> bool:
        """Whether the file shows only the first bytes."""
        return len(self.data) < self.size


def disk_records(name: str) -> list[DiskRecord]:
    """Return the pieces of a disk dump that have a file position."""
    found: list[DiskRecord] = []
    file = ""
    lines = text(name).splitlines()
    for number, line in enumerate(lines):
        if line.startswith("## "):
            file = line[3:]
        elif match := _DISK.match(line):
            data = bytes.fromhex(match[2])
            size = int(match[4]) if match[4] else len(data)
            meaning = match[5] or lines[number + 1].strip()
            found.append(DiskRecord(file, int(match[1], 16), data, size, meaning))
    return found


class ZNode(NamedTuple):
    """One znode."""

    path: str
    is_ephemeral: bool
    version: int
    data: bytes
    meaning: str
    """The decoded protobuf where the file gives it, else empty."""


def znodes(name: str) -> list[ZNode]:
    """Return the znodes of a layout dump in the order of the file."""
    matches = (_ZNODE.match(line) for line in text(name).splitlines())
    return [
        ZNode(match[1], match[2] == "ephemeral", int(match[3]), *_znode_data(match[4]))
        for match in matches
        if match
    ]


def _znode_data(shown: str) -> tuple[bytes, str]:
    if shown == "(empty)":
        return b"", ""
    if shown.startswith("hex "):
        digits, _, meaning = shown[4:].partition(" => ")
        return bytes.fromhex(digits), meaning
    plain = _ESCAPE.sub(lambda match: {"n": "\n", "t": "\t"}.get(match[1], match[1]), shown[1:-1])
    return plain.encode(), ""
