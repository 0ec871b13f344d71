"""The Authorization header: what RFC 7617 and 6750 write, and everything else."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.core.access.authorization_header import (
    HEADER_CHARS_MAX,
    BadAuthorization,
    Basic,
    BearerToken,
    authorization_of,
    basic_header,
)

# RFC 7617 section 2 and 2.1; RFC 6750 section 2.1
RFC = [
    ("Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==", Basic("Aladdin", "open sesame")),
    ("Basic dGVzdDoxMjPCow==", Basic("test", "123£")),
    ("Bearer mF_9.B5f-4.1JqM", BearerToken("mF_9.B5f-4.1JqM")),
    ("bAsIc  QWxhZGRpbjpvcGVuIHNlc2FtZQ== ", Basic("Aladdin", "open sesame")),
]


@pytest.mark.parametrize(("header", "expected"), RFC)
def test_what_the_standards_write(header: str, expected: Basic | BearerToken) -> None:
    assert authorization_of(header) == expected


def encoded(raw: bytes) -> str:
    return "Basic " + base64.b64encode(raw).decode()


@pytest.mark.parametrize(
    "header",
    [
        "",
        "Basic",
        "Bearer",
        "Bearer a b",
        "Digest username=x",
        "Basic ####",
        "Basic é",
        encoded(b""),
        encoded(b"no colon"),
        encoded(b":password"),
        encoded(b"user:\xff"),
        "Bearer " + "a" * HEADER_CHARS_MAX,
    ],
)
def test_what_is_refused_says_nothing_of_what_was_sent(header: str) -> None:
    with pytest.raises(BadAuthorization) as found:
        authorization_of(header)
    assert "password" not in str(found.value)
    assert found.value.__cause__ is None


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        authorization_of(text)
    except BadAuthorization:
        return


_TEXTS = st.text(st.characters(exclude_categories=["Cs"]))


@given(_TEXTS.filter(lambda user: bool(user) and ":" not in user), _TEXTS)
def test_what_is_written_is_read_back(user: str, password: str) -> None:
    assert authorization_of(basic_header(user, password)) == Basic(user, password)


def test_a_colon_parts_user_and_password() -> None:
    assert authorization_of(encoded(b"a:b:c")) == Basic("a", "b:c")
    with pytest.raises(BadAuthorization):
        basic_header("a:b", "c")


def test_secrets_are_not_shown() -> None:
    assert "hunter2" not in repr((Basic("u", "hunter2"), BearerToken("hunter2")))
