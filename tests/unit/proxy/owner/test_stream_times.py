"""When a stream is given up because something of it takes too long."""

import pytest

from tailrace.proxy.owner.config import OwnerConfig
from tailrace.proxy.owner.stream_state import StreamStatus
from tailrace.proxy.owner.stream_times import StreamTimes

CLAIMED_S, OWNED_S = 100.0, 130.0


@pytest.mark.parametrize(
    ("status", "oldest_s", "timeout_ms", "due_s"),
    [
        (StreamStatus.INITIALIZING, 100.0, 5_000, 160.0),
        (StreamStatus.INITIALIZING, 159.0, 5_000, 160.0),
        (StreamStatus.INITIALIZING, None, 0, 160.0),
        (StreamStatus.INITIALIZED, 100.0, 5_000, 135.0),
        (StreamStatus.INITIALIZED, 131.0, 5_000, 136.0),
        (StreamStatus.INITIALIZED, None, 5_000, None),
        (StreamStatus.INITIALIZED, 131.0, 0, None),
        (StreamStatus.UNINITIALIZED, None, 5_000, None),
        (StreamStatus.CLOSING, 131.0, 5_000, None),
        (StreamStatus.ERROR, 131.0, 5_000, None),
        (StreamStatus.CLOSED, None, 5_000, None),
    ],
)
def test_when_it_is_due(
    status: StreamStatus, oldest_s: float | None, timeout_ms: int, due_s: float | None
) -> None:
    times = StreamTimes(OwnerConfig(service_timeout_ms=timeout_ms, claim_timeout_ms=60_000))
    times.claims(CLAIMED_S)
    times.owns(OWNED_S)
    assert times.due_s(status, oldest_s) == due_s
