import io
import logging
import re
from collections.abc import Iterator

import pytest

from tailrace.core.runtime.logging_setup import set_up_logging


@pytest.fixture(autouse=True)
def _restore() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    quiet = logging.getLogger("asyncio").level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.getLogger("asyncio").setLevel(quiet)


def test_a_line_has_time_level_logger_and_event() -> None:
    stream = io.StringIO()
    set_up_logging("info", stream)
    logging.getLogger("tailrace.core.ledger").info("ledger_closed ledger=%d entry=%d", 7, 12)
    logging.getLogger("tailrace.core.ledger").debug("not shown")
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z INFO    tailrace\.core\.ledger "
        r"ledger_closed ledger=7 entry=12\n",
        stream.getvalue(),
    )


def test_traceback_is_indented() -> None:
    stream = io.StringIO()
    set_up_logging("debug", stream)
    try:
        raise ValueError("two\nlines")
    except ValueError:
        logging.getLogger("x").exception("failed task=%s", "t")
    first, *rest = stream.getvalue().splitlines()
    assert first.endswith("ERROR   x failed task=t")
    assert rest
    assert all(line.startswith("    ") for line in rest)


def test_second_set_up_replaces_the_first() -> None:
    first, second = io.StringIO(), io.StringIO()
    set_up_logging("info", first)
    set_up_logging("error", second)
    logging.getLogger("x").error("once")
    logging.getLogger("x").warning("not shown")
    assert first.getvalue() == ""
    assert second.getvalue().count("\n") == 1


def test_unknown_level_is_refused() -> None:
    with pytest.raises(ValueError, match="one of debug, info, warning, error"):
        set_up_logging("loud")
