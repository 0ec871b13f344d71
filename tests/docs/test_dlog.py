"""docs/dlog.md, on a cluster."""

from pathlib import Path

import pytest

from tailrace import dlog
from tests.cluster.three_bookies import ThreeBookies
from tests.docs.page import DOCS, run_page

pytestmark = pytest.mark.java  # of ZooKeeper
PAGE = "dlog.md"


def test_its_examples_run(cluster: ThreeBookies, tmp_path: Path) -> None:
    where = {"TAILRACE_NAMESPACE": cluster.namespace, "TAILRACE_METADATA": cluster.metadata}
    assert "payments: 2 records" in run_page(PAGE, where, tmp_path)


def test_its_settings_have_the_defaults_that_it_shows() -> None:
    known = {setting.name: setting.default for setting in dlog.known_settings()}
    rows = [line.split("|") for line in (DOCS / PAGE).read_text().splitlines() if "| `" in line]
    shown = {row[1].strip(" `"): row[2].strip().replace(",", "") for row in rows}
    settings = {name: default for name, default in shown.items() if name in known}
    assert len(settings) >= 8
    assert settings == {name: str(known[name]) for name in settings}


def test_it_names_every_error() -> None:
    text = (DOCS / PAGE).read_text()
    missing = [name for name in dlog.errors.__all__ if f"`{name}`" not in text]
    assert not missing
