"""Bounds of a read: from words to options of Spark's source."""

import json

import pytest

from tailrace.pipeline.offsets import (
    EARLIEST,
    LATEST,
    BadOffsets,
    Bound,
    parse_bound,
    source_options,
)


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        ("start", EARLIEST),
        ("earliest", EARLIEST),
        ("beginning", EARLIEST),
        ("end", LATEST),
        ("latest", LATEST),
        ("@1767225600000", Bound(timestamp_ms=1_767_225_600_000)),
        ('{"t": {"1": -2, "0": 17}}', Bound(offsets='{"t": {"0": 17, "1": -2}}')),
    ],
)
def test_every_form(text: str, bound: Bound) -> None:
    assert parse_bound(text) == bound


@pytest.mark.parametrize(
    "text",
    ["", "17", "@", "@soon", "@-5", "{", "[]", '{"t": 5}', '{"t": {"x": 1}}', '{"t": {"0": -3}}',
     '{"t": {"0": true}}', '{"t": {"0": 1.5}}'],
)  # fmt: skip
def test_what_is_no_position_is_refused(text: str) -> None:
    with pytest.raises(BadOffsets):
        parse_bound(text)


def test_options_of_a_batch() -> None:
    assert source_options(EARLIEST, LATEST) == {
        "startingOffsets": "earliest",
        "endingOffsets": "latest",
    }
    assert source_options(Bound(timestamp_ms=5), Bound(timestamp_ms=9)) == {
        "startingTimestamp": "5",
        "startingOffsetsByTimestampStrategy": "latest",
        "endingTimestamp": "9",
    }


def test_a_stream_has_no_end() -> None:
    offsets = json.dumps({"t": {"0": 3}})
    assert source_options(Bound(offsets=offsets), None) == {"startingOffsets": offsets}
