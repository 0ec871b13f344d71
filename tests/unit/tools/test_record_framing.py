"""Bytes into records: however they are cut into chunks, the records are the same."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.tools.records import record_framing
from tailrace.tools.records.record_framing import Framing, RecordTooLong, key_value, split

LINES = Framing(b"\n", None, whole=False, null=False)


@given(
    st.lists(st.binary(max_size=8), max_size=8),
    st.sampled_from([b"\n", b"ab", b"aab", b"\0"]),
    st.data(),
)
@settings(max_examples=200)
def test_chunks_do_not_matter(parts: list[bytes], delimiter: bytes, data: st.DataObject) -> None:
    whole = delimiter.join(parts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=6)))
    chunks = [
        whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True) if whole[a:b]
    ]
    expected = whole.split(delimiter)
    if not expected[-1]:
        expected.pop()
    assert list(split(chunks, LINES._replace(delimiter=delimiter))) == expected


def test_whole_files_are_one_record_even_when_empty() -> None:
    whole = LINES._replace(whole=True)
    assert list(split([b"a\n", b"b\n"], whole)) == [b"a\nb\n"]
    assert list(split([], whole)) == [b""]
    assert list(split([], LINES)) == []


def test_a_record_without_an_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_framing, "RECORD_BYTES_MAX", 10)
    for framing in (LINES, LINES._replace(whole=True)):
        with pytest.raises(RecordTooLong):
            list(split([b"x" * 8, b"x" * 8], framing))


@pytest.mark.parametrize(
    ("data", "delimiter", "null", "expected"),
    [
        (b"v", None, False, (None, b"v")),
        (b"k:v:w", b":", False, (b"k", b"v:w")),
        (b"v", b":", False, (None, b"v")),
        (b":", b":", False, (b"", b"")),
        (b":", b":", True, (None, None)),
        (b"k:", b":", True, (b"k", None)),
        (b"", None, True, (None, None)),
    ],
)
def test_keys_and_nulls(
    data: bytes, delimiter: bytes | None, null: bool, expected: tuple[bytes | None, bytes | None]
) -> None:
    assert key_value(data, Framing(b"\n", delimiter, whole=False, null=null)) == expected
