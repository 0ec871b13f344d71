"""The pages for readers, taken apart: fenced blocks, the notes before them, and links."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.rooms import ROOT

PAGES: Final = (
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "SECURITY.md",
    *sorted((ROOT / "docs").rglob("*.md")),
)
_FENCE: Final = re.compile(r"^```(\S*)(.*)$")
_NOTE: Final = re.compile(r"^<!-- ([a-z ]+): (.+) -->$")
_CODE: Final = re.compile(r"`[^`]*`")
_LINK: Final = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block. A note is an HTML comment right before it, which readers do not see."""

    page: Path
    number: int
    """The line of the page at which its text begins."""
    language: str
    lines: tuple[str, ...]
    notes: dict[str, str] = field(default_factory=dict)

    @property
    def place(self) -> str:
        """How an error names it."""
        return f"{name_of(self.page)}:{self.number}"

    @property
    def text(self) -> str:
        """Its lines as one."""
        return "\n".join(self.lines) + "\n"


def name_of(page: Path) -> str:
    """Return the path of a page in the repository."""
    return str(page.relative_to(ROOT))


def blocks(page: Path) -> list[Block]:
    """Return all fenced blocks of a page in order."""
    found: list[Block] = []
    notes: dict[str, str] = {}
    lines = iter(enumerate(page.read_text().splitlines(), 1))
    for number, line in lines:
        if fence := _FENCE.match(line):
            inside = []
            for _, text in lines:
                if text == "```":
                    break
                inside.append(text)
            found.append(Block(page, number + 1, fence[1], tuple(inside), notes))
            notes = {}
        elif note := _NOTE.match(line):
            notes = notes | {note[1]: note[2]}
        elif line:
            notes = {}
    return found


def blocks_of(language: str) -> Iterator[Block]:
    """Return the blocks of all pages that are in one language."""
    for page in PAGES:
        yield from (block for block in blocks(page) if block.language == language)


def prose(page: Path) -> str:
    """Return what stands outside the blocks."""
    inside, kept = False, []
    for line in page.read_text().splitlines():
        if _FENCE.match(line):
            inside = not inside
        elif not inside:
            kept.append(line)
    return "\n".join(kept)


def inline_code(page: Path) -> list[str]:
    """Return what stands in backticks outside the blocks."""
    return [each.strip("`") for each in _CODE.findall(prose(page))]


def links(page: Path) -> list[str]:
    """Return the targets of all links."""
    return _LINK.findall(_CODE.sub("", prose(page)))


def anchors(page: Path) -> set[str]:
    """Return the anchors of the headings, as GitHub makes them."""
    titles = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
