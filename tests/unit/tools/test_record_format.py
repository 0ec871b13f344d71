"""kcat's format strings, bytes in and bytes out."""

import base64
import contextlib
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.tools.records.record_format import BadFormat, Row, compile_format, json_line, unescape

ROW = Row(
    "orders", 3, 17, 1_700_000_000_000, "create", b"k\xff", b"v\n", (("a", b"1"), ("b", None))
)
EMPTY = Row("t", 0, 0, -1, "none", None, None, ())


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        (r"%s\n", b"v\n\n"),
        ("%v", b"v\n"),
        (r"%k=%s", b"k\xff=v\n"),
        ("%t/%p@%o", b"orders/3@17"),
        ("%T", b"1700000000000"),
        ("%S %K", b"2 2"),
        ("%R", b"\0\0\0\x02"),
        ("%h", b"a=1,b="),
        ("100%%", b"100%"),
        (r"\t\r\0\\\x41\xff", b"\t\r\0\\A\xff"),
        ("", b""),
        ("ä%pö", "ä3ö".encode()),
    ],
)
def test_fields(text: str, printed: bytes) -> None:
    assert compile_format(text)(ROW) == printed


def test_null() -> None:
    assert compile_format("%k|%s|%K|%S|%h|%T")(EMPTY) == b"||-1|-1||-1"
    assert compile_format("%k|%s", b"NULL")(EMPTY) == b"NULL|NULL"
    assert compile_format("%R")(EMPTY) == b"\xff\xff\xff\xff"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a%q", "unknown field %q at 1"),
        ("%", "unknown field % at 0"),
        ("\\", "escape"),
        (r"\q", "q"),
    ],
)
def test_bad_formats_name_the_place(text: str, words: str) -> None:
    with pytest.raises(BadFormat) as error:
        compile_format(text)
    assert words in str(error.value)


@given(st.text(max_size=20))
@settings(max_examples=200)
def test_any_text_compiles_or_is_refused(text: str) -> None:
    with contextlib.suppress(BadFormat):
        compile_format(text)(ROW)


@given(st.binary(max_size=20), st.binary(max_size=20))
@settings(max_examples=100)
def test_json_keeps_every_byte(key: bytes, value: bytes) -> None:
    line = json_line(EMPTY._replace(key=key, value=value))
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    fields = json.loads(line)
    for name, data in (("key", key), ("value", value)):
        if f"{name}_base64" in fields:
            assert base64.b64decode(fields[f"{name}_base64"]) == data
        else:
            assert fields[name].encode() == data


def test_json_of_a_whole_record() -> None:
    assert json.loads(json_line(ROW)) == {
        "topic": "orders",
        "partition": 3,
        "offset": 17,
        "timestamp": 1_700_000_000_000,
        "timestamp_type": "create",
        "key_base64": "a/8=",
        "value": "v\n",
        "headers": [{"name": "a", "value": "1"}, {"name": "b", "value": None}],
    }


def test_unescape() -> None:
    assert unescape(r"\t") == b"\t"
    assert unescape("%s") == b"%s"
    assert unescape(r"\x00,") == b"\0,"
