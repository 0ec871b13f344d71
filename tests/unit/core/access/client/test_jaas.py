"""`sasl.jaas.config`: what Kafka's clients read in it, and that no error shows what is in it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.core.access.client.jaas import InvalidJaas, parse_jaas

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


def test_what_kafka_documents() -> None:
    module = parse_jaas(f'{PLAIN} required \n  username="alice" \n  password="alice-secret";\n')
    assert module.name == PLAIN
    assert module.options == {"username": "alice", "password": "alice-secret"}
    assert "alice" not in repr(module)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a='single \"quoted\"'", 'single "quoted"'),
        (r'a="back\\slash \"quote\" \t\n \101 \z"', 'back\\slash "quote" \t\n A z'),
        ("a=word-with_$.and9", "word-with_$.and9"),
        ('a = "blanks" // to the end of the line', "blanks"),
        ('/* a="other"; */ a="; = // inside"', "; = // inside"),
        ('a=";"', ";"),
        ('a="="', "="),
        ('a=""', ""),
        ('a="ключ"', "ключ"),
        ('a="1" b="2" a="3"', "3"),
    ],
)
def test_values(text: str, value: str) -> None:
    assert parse_jaas(f"M Required {text}\n;").options["a"] == value


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "names no login module"),
        ("// nothing", "names no login module"),
        ("M", "followed by none of"),
        ('M username="sesame";', "followed by none of"),
        ('M required a="sesame"', "does not end with a semicolon"),
        ('M required a="sesame";;', "more than one"),
        ('M required a="sesame"; N required;', "more than one"),
        ('M required a "sesame";', "option 1 is not NAME=VALUE"),
        ('M required a="x" sesame;', "option 2 is not NAME=VALUE"),
        ('M required a=="sesame";', "option 1"),
        ("M required a=;", "option 1"),
        ('M required a="sesame;', "cannot be read from character 14"),
        ("M required a=5esame;", "cannot be read from character 14 on; quote"),
        ("M required a=p@sesame;", "cannot be read"),
    ],
)
def test_what_is_refused_shows_nothing_of_it(text: str, words: str) -> None:
    with pytest.raises(InvalidJaas, match=words) as refused:
        parse_jaas(text)
    assert "esame" not in str(refused.value)


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        parse_jaas(text)
    except InvalidJaas:
        return


@given(st.dictionaries(st.from_regex(r"[a-z]+", fullmatch=True), st.text(), max_size=4))
def test_what_is_quoted_comes_back(options: dict[str, str]) -> None:
    def quoted(text: str) -> str:
        escaped = text.replace("\\", "\\\\").replace('"', '\\"')
        return '"' + escaped.replace("\n", "\\n").replace("\r", "\\r") + '"'

    text = " ".join(f"{name}={quoted(value)}" for name, value in options.items())
    assert parse_jaas(f"M optional {text};").options == options
