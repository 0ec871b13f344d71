"""The znodes of a real BookKeeper and DistributedLog run (tests/golden/zk-layout.md)."""

import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

GOLDEN = Path(__file__).parents[3] / "golden"

_LINE = re.compile(r"    (/\S+) \| (persistent|ephemeral) \| v(\d+) \| (.*)")


class GoldenNode(NamedTuple):
    path: str
    ephemeral: bool
    version: int
    data: bytes
    decoded: str


@cache
def golden_nodes() -> dict[str, GoldenNode]:
    nodes = {}
    for line in (GOLDEN / "zk-layout.md").read_text().splitlines():
        match = _LINE.fullmatch(line)
        if match:
            path, kind, version, text = match.groups()
            data, decoded = _data(text)
            nodes[path] = GoldenNode(path, kind == "ephemeral", int(version), data, decoded)
    assert len(nodes) > 100
    return nodes


def golden_ledgers() -> list[GoldenNode]:
    return [node for path, node in golden_nodes().items() if re.search(r"/L\d{4}$", path)]


def golden_segments() -> list[GoldenNode]:
    return [n for p, n in golden_nodes().items() if re.search(r"/(logrecs|inprogress)_", p)]


def _data(text: str) -> tuple[bytes, str]:
    if text == "(empty)":
        return b"", ""
    if text.startswith("hex "):
        digits, _, decoded = text[4:].partition(" => ")
        return bytes.fromhex(digits), decoded
    return text[1:-1].replace("\\n", "\n").replace("\\t", "\t").encode(), ""


def vectors(section: str) -> list[tuple[str, str]]:
    """Return (label, value) pairs of a section of dl.txt."""
    text = (GOLDEN / "dl.txt").read_text()
    body = text.split(f"# {section} ", 1)[1].split("\n# ", 1)[0].splitlines()[1:]
    lines = [line for line in body if line.strip()]
    return list(zip(lines[0::2], (line.strip() for line in lines[1::2]), strict=True))
