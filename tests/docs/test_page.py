"""How pages are run (page.py), and that no page is left out."""

from pathlib import Path
from typing import Final

import pytest

from tests.docs.page import DOCS, Block, blocks, run_page

NOT_RUN: Final = {"TESTCONTAINERS.md": "needs the image and Docker; tests/docker runs the same"}

PAGE: Final = """\
# A page
```sh
exit 1
```
```python
import os
there = os.environ["TAILRACE_PLACE"]
```
Text.
```python skip: not here
raise SystemExit(1)
```
```python
print(there, "TAILRACE_OTHER" in os.environ, os.listdir())
```
"""


def test_python_blocks_are_found_with_their_lines() -> None:
    assert blocks(PAGE) == [
        Block(6, 'import os\nthere = os.environ["TAILRACE_PLACE"]\n'),
        Block(11, "raise SystemExit(1)\n", "not here"),
        Block(14, 'print(there, "TAILRACE_OTHER" in os.environ, os.listdir())\n'),
    ]
    with pytest.raises(ValueError, match="line 2: the block does not end"):
        blocks("text\n```python\nx = 1\n")
    with pytest.raises(ValueError, match="'later' is not"):
        blocks("```python later\n```\n")


def test_they_share_their_names_and_get_what_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TAILRACE_OTHER", "of this machine")
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    assert run_page(page, {"TAILRACE_PLACE": "here"}, tmp_path) == "here False []\n"


def test_what_fails_is_named_by_page_and_line(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A page\n\n```python\nx = 1\nassert x == 2\n```\n")
    with pytest.raises(AssertionError, match=r'page\.md", line 5, in <module>'):
        run_page(page, {}, tmp_path)


def test_no_page_is_left_out() -> None:
    tests = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    for page in sorted(DOCS.glob("*.md")):
        if any(not block.skip for block in blocks(page.read_text())):
            assert f'"{page.name}"' in tests, f"{page.name}: add tests/docs/test_{page.stem}.py"
