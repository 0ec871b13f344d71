"""Numbers that others wrote as text: none of them raises, and nothing but digits is one."""

import ast
from collections.abc import Callable
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.broker.cluster.assignments import broker_in_lock, lock_name
from tailrace.broker.cluster.topic_codec import StoredTopic, decode_topic, encode_topic
from tailrace.broker.quotas.connection_counts import numbers_of
from tailrace.compaction.restoring.cluster import parse_bootstrap
from tailrace.compaction.restoring.errors import Refused
from tailrace.core.errors import CorruptData
from tailrace.core.ledger.durability import PROMISE_KEY, promise_of
from tailrace.core.log.ownership import parse_member
from tailrace.core.metadata.bookie_service_info import decode_service_info
from tailrace.core.metadata.layout import LedgerPaths, UnderreplicationPaths
from tailrace.core.metadata.ledger_metadata import decode_ledger
from tailrace.core.runtime.config import ConfigError
from tailrace.core.runtime.decimal_text import INT64_MAX, decimal
from tailrace.protocol.ids import BookieId
from tests.rooms import OWN_PROCESSES, ROOT

NONE: Final = ("", "-", "+1", " 1", "1_0", "²", "٣", "0x1", "1.0", "9" * 5000, str(1 << 63))


@given(st.integers(-INT64_MAX - 1, INT64_MAX))
def test_what_is_written_is_read(value: int) -> None:
    assert decimal(str(value), least=-INT64_MAX - 1) == value
    assert decimal(str(value)) == (value if value >= 0 else None)


@pytest.mark.parametrize("text", [*NONE, "-1", "1 "])
def test_what_is_no_number_is_none(text: str) -> None:
    assert decimal(text) is None


def test_bounds_belong_to_it_and_zeros_may_lead() -> None:
    assert decimal("0000000007", 7, 7) == 7
    assert decimal("8", 7) is None
    assert decimal("6", 7, 7) is None
    assert decimal("-5", least=-4) is None
    assert decimal("0" * 30) is None


def _topic(number: str) -> StoredTopic:
    stored = StoredTopic(
        topic_id="A" * 22, partitions=1 << 40, ready=1, created_ms=0, configs={},
        assignments={number: (1,)},
    )  # fmt: skip
    return decode_topic("t", encode_topic(stored))


def _old_ledger(number: str) -> object:
    text = f"BookieMetadataFormatVersion\t1\n1\n1\n0\n0\ta:1\n{number}\tCLOSED"
    return decode_ledger(text.encode())


@pytest.mark.parametrize("number", NONE)
@pytest.mark.parametrize(
    ("read", "error"),
    [
        (_topic, CorruptData),
        (_old_ledger, CorruptData),
        (lambda number: decode_service_info(b"", BookieId(f"host:{number}")), CorruptData),
        (lambda number: promise_of({PROMISE_KEY: number.encode()}), CorruptData),
        (lambda number: numbers_of([f"127.0.0.1:{number}"]), ConfigError),
        (lambda number: parse_bootstrap(f"host:{number}"), Refused),
    ],
)
def test_a_reader_refuses_it(
    read: Callable[[str], Any], error: type[Exception], number: str
) -> None:
    with pytest.raises(error):
        read(number)


@pytest.mark.parametrize("number", ["", "²", "٣", "9" * 5000, str(1 << 63)])
@pytest.mark.parametrize("name", ["member_", "member_c_s1_"])
def test_a_member_of_a_lock_without_a_number_is_none(name: str, number: str) -> None:
    with pytest.raises(ValueError, match="is not a number"):
        parse_member(name + number)


@pytest.mark.parametrize("number", NONE)
def test_a_name_with_it_is_of_something_else(number: str) -> None:
    assert broker_in_lock(lock_name(7, "h:1").replace("7", number)) is None
    assert LedgerPaths("/ledgers").ledger_id(f"/ledgers/00/0000/L{number}") is None
    assert UnderreplicationPaths(LedgerPaths("/ledgers")).marked_ledger(f"urL{number}") is None


def test_no_other_code_asks_a_text_for_digits() -> None:
    """`str.isdigit` and its like say yes to what `int` refuses."""
    found = {
        str(path.relative_to(ROOT))
        for room in OWN_PROCESSES
        for path in (ROOT / room).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and node.attr in ("isdigit", "isdecimal", "isnumeric")
    }
    assert found == {
        "core/runtime/decimal_text.py",
        "tools/endpoints.py",  # an option
        "core/runtime/memory.py",  # the kernel's own
        "core/metadata/segment_metadata.py",  # bytes, of 20 digits at most
        "core/metadata/zookeeper_names.py",  # of ten
    }
