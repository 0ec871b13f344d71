"""How pages are run (page.py), and that no page is left out."""

import re
from pathlib import Path
from typing import Final

import pytest

from tests.docs.page import run_page
from tests.docs.pages import blocks_of
from tests.rooms import ROOT

TESTED_IN: Final = ("docs", "spark")

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
```python
print(there, "TAILRACE_OTHER" in os.environ, os.listdir())
```
"""


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
    tests = "".join(
        path.read_text() for path in (ROOT / "tests").rglob("*.py") if path.parent.name in TESTED_IN
    )
    for page in sorted({block.page for block in blocks_of("python")}):
        assert re.search(rf'["/]{re.escape(page.name)}"', tests), f"no test runs {page.name}"
