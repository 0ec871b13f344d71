"""docs/restore.md, on a broker."""

from pathlib import Path

from tests.docs.page import run_page
from tests.process import TailraceProcess


def test_its_examples_run(tmp_path: Path) -> None:
    with TailraceProcess(tmp_path / "data") as broker:
        printed = run_page("restore.md", {"TAILRACE_BOOTSTRAP": broker.bootstrap}, tmp_path)
    assert "live: 1, hash " in printed
    assert "b'alice': b'4'" in printed
