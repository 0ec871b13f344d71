import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.tools.records.offset_spec import (
    AtEnd,
    AtOffset,
    AtStart,
    AtTime,
    BadOffset,
    FromEnd,
    OffsetSpec,
    Stored,
    parse_offset,
)


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("start", AtStart()),
        ("beginning", AtStart()),
        ("earliest", AtStart()),
        ("end", AtEnd()),
        ("latest", AtEnd()),
        ("stored", Stored()),
        ("0", AtOffset(0)),
        ("17", AtOffset(17)),
        ("-5", FromEnd(5)),
        ("@1700000000000", AtTime(1_700_000_000_000)),
        ("@2023-11-14T22:13:20Z", AtTime(1_700_000_000_000)),
        ("@2023-11-14T22:13:20", AtTime(1_700_000_000_000)),
        ("@2023-11-14T23:13:20.5+01:00", AtTime(1_700_000_000_500)),
        ("@2023-11-14", AtTime(1_699_920_000_000)),
    ],
)
def test_words(text: str, spec: OffsetSpec) -> None:
    parsed = parse_offset(text)
    assert parsed == spec
    assert type(parsed) is type(spec)


@pytest.mark.parametrize("text", ["", "-", "+1", "1.5", "first", "@", "@soon", "--1", "9" * 20])
def test_what_is_no_position(text: str) -> None:
    with pytest.raises(BadOffset):
        parse_offset(text)


@given(st.text(max_size=12))
@settings(max_examples=200)
def test_any_text_is_a_position_or_refused(text: str) -> None:
    with contextlib.suppress(BadOffset):
        parse_offset(text)
