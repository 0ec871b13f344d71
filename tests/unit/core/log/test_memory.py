"""10,000 idle logs fit one process."""

import asyncio
from pathlib import Path

from tests.bench.idle_logs import measure

IDLE_LOG_KB_MAX = 20


def test_an_idle_log_takes_less_than_20_kb(tmp_path: Path) -> None:
    found = asyncio.run(measure(tmp_path, logs=50, records=20))
    assert len(found) == 3
    assert min(found.values()) > 1
    assert max(found.values()) < IDLE_LOG_KB_MAX, found
