"""Relative links of the pages and of all DESIGN.md lead to files and headings that are there."""

from pathlib import Path
from typing import Final

import pytest

from tests.docs.pages import PAGES, anchors, links, name_of
from tests.rooms import ROOMS, ROOT

_FOLDERS: Final = (*ROOMS, "docker", "tailrace/dlog", "tailrace/testing", "tests/bench")
DESIGNS: Final = sorted(each for folder in _FOLDERS for each in (ROOT / folder).rglob("*.md"))
ELSEWHERE: Final = ("http://", "https://", "mailto:")


@pytest.mark.parametrize("page", [*PAGES, *DESIGNS], ids=name_of)
def test_no_link_is_dead(page: Path) -> None:
    for link in links(page):
        if link.startswith(ELSEWHERE):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{link} is not there"
        assert target.is_relative_to(ROOT), f"{link} leads out of the repository"
        if anchor:
            assert anchor in anchors(target), f"{path} has no heading {anchor}"


@pytest.mark.parametrize("page", [*PAGES], ids=name_of)
def test_every_page_can_be_reached(page: Path) -> None:
    reached, left = set(), [ROOT / "README.md"]
    while left:
        at = left.pop()
        if at in reached or at.suffix != ".md":
            continue
        reached.add(at)
        targets = (link.partition("#")[0] for link in links(at) if "://" not in link)
        left += [(at.parent / path).resolve() for path in targets if path]
    assert page in reached
