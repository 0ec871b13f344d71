"""Files of JAAS: those of BookKeeper's tests and documents, and what is not one."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.core.security.jaas_file import InvalidJaas, read_section, sections_of

TWO = """\
/* of the
   tests */
Bookie {
       org.apache.zookeeper.server.auth.DigestLoginModule required
       user_hd="testpwd"   // the one
       user_b = 'x' ;
};
# and of the client
BookKeeper {
       org.apache.zookeeper.server.auth.DigestLoginModule Required
       username="hd"
       password="a \\"b\\" \\\\ {};= // #"
       debug=true;
};
"""


def shown(text: str) -> dict[str, dict[str, str]]:
    return {
        name: {option: value.reveal() for option, value in options.items()}
        for name, options in sections_of(text).items()
    }


def test_sections_with_their_options(tmp_path: Path) -> None:
    client = {"username": "hd", "password": 'a "b" \\ {};= // #', "debug": "true"}
    assert shown(TWO) == {"Bookie": {"user_hd": "testpwd", "user_b": "'x'"}, "BookKeeper": client}
    file = tmp_path / "jaas.conf"
    file.write_text(TWO)
    assert read_section(file, "Bookie")["user_hd"].reveal() == "testpwd"
    with pytest.raises(InvalidJaas, match="no section Auditor; there are: BookKeeper, Bookie"):
        read_section(file, "Auditor")
    with pytest.raises(InvalidJaas, match=r"missing.conf: No such file"):
        read_section(tmp_path / "missing.conf", "Bookie")
    file.write_bytes(b"\xff")
    with pytest.raises(InvalidJaas, match="not text in UTF-8"):
        read_section(file, "Bookie")
    file.write_bytes(b" " * (1024 * 1024 + 1))
    with pytest.raises(InvalidJaas, match=r"jaas.conf: more than 1048576 bytes"):
        read_section(file, "Bookie")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("A { m required a=b };", "line 1: ; is missing|line 1: an option is missing"),
        ("A {\n m required\n a=;\n};", "line 3: the value of a is missing"),
        ("A { m sometimes a=b; };", "a flag is one of required"),
        ("A { m required a=b a=c; };", "option a comes twice"),
        ("A { m required; }; A { m required; };", "section A comes twice"),
        ('A { m required\n a="b;\n};', "line 2: a quoted value or a comment without an end"),
        ("A { m required; } /* ;", "a comment without an end"),
        ("A { m required; }", "line 1: ; is missing"),
        ("A { m required; m required; };", "} is missing"),
        ("{", "a section's name is missing"),
        ('"" {', "a section's name is empty"),
    ],
)
def test_what_is_no_file_of_jaas(text: str, words: str) -> None:
    with pytest.raises(InvalidJaas, match=words):
        sections_of(text)


def test_errors_say_no_values() -> None:
    with pytest.raises(InvalidJaas) as refused:
        sections_of('A { m required password="sesame" password="sesame"; };')
    assert "sesame" not in str(refused.value)


@given(st.text(max_size=60), st.text(alphabet='A{};="/*# \n\\m', max_size=60))
def test_any_text_is_read_or_refused(anything: str, likely: str) -> None:
    for text in (anything, likely):
        try:
            sections_of(text)
        except InvalidJaas as error:
            assert str(error)  # noqa: PT017 - either will do
