"""What pages and messages state about installing and measuring is so."""

import re
import tomllib
from pathlib import Path
from typing import Any, Final

import pytest

from tests.docs.pages import PAGES, Block, blocks, prose
from tests.rooms import ROOMS, ROOT

_PROJECT: Final[dict[str, Any]] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
_FOLDERS: Final = (*(ROOT / room for room in ROOMS), *(ROOT / "tailrace").glob("*.py"))
SOURCES: Final = sorted(
    {
        *(each for folder in _FOLDERS for each in (folder, *folder.rglob("*")) if each.is_file()),
        *(ROOT / "tailrace" / "testing").rglob("*"),
        *(ROOT / "docker").rglob("*"),
        ROOT / "CHANGELOG.md",
        *PAGES,
    }
)
_FROM_AN_INDEX: Final = re.compile(r"pip install (?:-\S+ )*['\"]?tailrace\b")
README_BYTES_MAX: Final = 6500


def is_text(path: Path) -> bool:
    return path.suffix in (".py", ".md", ".toml", ".yaml", ".yml", "")


def test_nothing_is_installed_by_a_name_that_no_index_has() -> None:
    """As long as the package is on no index, `pip install` takes a checkout or a wheel."""
    wrong = [
        str(path.relative_to(ROOT))
        for path in SOURCES
        if path.is_file() and is_text(path) and _FROM_AN_INDEX.search(path.read_text())
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("module", "extra"),
    [
        ("tools/pipeline.py", "spark"),
        ("tools/records/restore.py", "parquet"),
    ],
)
def test_remedies_name_packages_of_the_extra(module: str, extra: str) -> None:
    known = {re.sub(">=.*", "", each) for each in _PROJECT["optional-dependencies"][extra]}
    found = re.findall(r"pip install ([\w.= ]+)", (ROOT / module).read_text())
    assert found, "it says how to get what is missing"
    for words in found:
        assert set(words.split()) <= known


def test_the_readme_is_short() -> None:
    assert (ROOT / "README.md").stat().st_size <= README_BYTES_MAX


def test_figures_of_the_readme_are_those_of_the_benchmarks() -> None:
    _, _, behind = prose(ROOT / "README.md").partition("## How fast\n")
    rows = [line for line in behind.partition("\n## ")[0].splitlines() if line.startswith("| ")]
    figures = [cell for row in rows for cell in row.strip("| ").split(" | ")[1:]]
    numbers = [each for each in figures if re.fullmatch(r"[\d.]+", each)]
    measured = (ROOT / "docs" / "benchmarks.md").read_text()
    assert len(numbers) == 6
    for number in numbers:
        assert re.search(rf"\| {re.escape(number)} \(", measured), number


def test_the_picture_is_one() -> None:
    def picture(page: str) -> list[Block]:
        return [b for b in blocks(ROOT / page) if "Kafka clients, Spark" in b.text]

    (first,), (second,) = picture("README.md"), picture("docs/internals.md")
    assert first.lines == second.lines


def test_every_room_is_in_the_table() -> None:
    page = (ROOT / "docs" / "internals.md").read_text()
    assert [room for room in ROOMS if f"| `{room}/` |" not in page] == []
