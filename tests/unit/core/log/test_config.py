import pytest

from tailrace.core.log.config import (
    ENTRY_RECORDS_BYTES_MAX,
    RECORD_BYTES_LIMIT,
    RECORD_BYTES_MAX,
    LogConfig,
    TransmitMode,
)
from tailrace.core.runtime.config import load, settings_of
from tailrace.protocol.bookkeeper.digest import Digest, DigestType
from tailrace.protocol.bookkeeper.entry import HEADER_SIZE, MAX_ENTRY_BYTES
from tailrace.protocol.distributedlog.envelope import ENVELOPE_SIZE, pack_envelope
from tailrace.protocol.distributedlog.record import MAX_LOGRECORDSET_SIZE, LogRecord


def test_limits_fit_into_each_other() -> None:
    entry = sum(map(len, pack_envelope([LogRecord(0, bytes(RECORD_BYTES_MAX))])))
    for digest in DigestType:
        assert entry + HEADER_SIZE + Digest(digest, b"").size <= MAX_ENTRY_BYTES
    assert ENTRY_RECORDS_BYTES_MAX + ENVELOPE_SIZE == MAX_LOGRECORDSET_SIZE == 1_044_480
    assert RECORD_BYTES_MAX > 1_048_588, "Kafka's default max.message.bytes"


def test_settings_load() -> None:
    assert load(LogConfig, []).config == LogConfig()
    assert len(settings_of(LogConfig)) == len(LogConfig.__dataclass_fields__)


@pytest.mark.parametrize(
    "changes",
    [
        {"ensemble_size": 2, "write_quorum": 3},
        {"ack_quorum": 0},
        {"add_quorum_timeout_ms": -1},
        {"record_bytes_max": RECORD_BYTES_LIMIT + 1},
        {"record_bytes_max": 0},
        {"unacked_entries_max": 0},
        {"read_ahead_bytes": 0},
        {"waiting_bytes_max": 10},
        {"transmit_policy": TransmitMode.BUFFERED},
        {"transmit_buffer_bytes": -1},
        {"keep_alive_ms": -1},
        {"segment_minutes": -1},
    ],
)
def test_impossible_settings(changes: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        LogConfig(**changes)
