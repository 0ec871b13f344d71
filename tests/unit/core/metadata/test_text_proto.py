import pytest
from google.protobuf import text_format
from hypothesis import given
from hypothesis import strategies as st

from tailrace.core.metadata.schemas import BookieServiceInfoFormat, LedgerMetadataFormat
from tailrace.core.metadata.text_proto import escape, print_message, unescape


@given(st.binary())
def test_escaped_bytes_come_back(data: bytes) -> None:
    text = escape(data)
    assert text.isascii()
    assert text.isprintable()
    assert unescape(text) == data
    assert text_format.text_encoding.CUnescape(text) == data


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("ж", "ж".encode()),  # Java writes it escaped; by hand nobody does
        (r"\x", b"x"),
        (r"\7\07\007\0007", b"\x07\x07\x07\x007"),
        (r"a\'b\?", b"a'b?"),
        ("", b""),
        ("\\", b"\\"),
    ],
)
def test_what_others_write_is_read(text: str, data: bytes) -> None:
    assert unescape(text) == data


def test_messages_are_printed_by_field_number_and_read_by_protobufs_own_parser() -> None:
    message = LedgerMetadataFormat(
        cToken=7, quorumSize=2, ensembleSize=3, length=0, state=2, password=b"\x00'"
    )
    message.segment.add(ensembleMember=["a:1", "b:2"], firstEntryId=0)
    message.customMetadata.add(key="k", value=b"\n")
    text = print_message(message)
    assert text == (
        "quorumSize: 2\nensembleSize: 3\nlength: 0\nstate: IN_RECOVERY\n"
        'segment {\n  ensembleMember: "a:1"\n  ensembleMember: "b:2"\n  firstEntryId: 0\n}\n'
        'password: "\\000\\\'"\ncustomMetadata {\n  key: "k"\n  value: "\\n"\n}\ncToken: 7\n'
    )
    assert text_format.Parse(text, LedgerMetadataFormat()) == message


def test_an_empty_message_is_no_text() -> None:
    assert print_message(BookieServiceInfoFormat()) == ""
