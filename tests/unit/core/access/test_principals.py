"""Rules that make a user of the name in a certificate: cases of Kafka's SslPrincipalMapperTest."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.core.access.principals import NoUser, PrincipalRules

KAFKAS = ", ".join(
    [
        r"RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L",
        r"RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L",
        r"RULE:^cn=(.*?),ou=(.*?),dc=(.*?),dc=(.*?)$/$1@$2/U",
        r"RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U",
        "DEFAULT",
    ]
)


@pytest.mark.parametrize(
    ("name", "user"),
    [
        ("CN=Duke,OU=ServiceUsers,O=Org,C=US", "duke"),
        ("CN=Duke,OU=SME,O=mycp,L=Fulton,ST=MD,C=US", "duke@sme"),
        ("cn=duke,ou=sme,dc=mycp,dc=com", "DUKE@SME"),
        ("cN=duke,OU=JavaSoft,O=Sun Microsystems", "DUKE"),
        ("OU=JavaSoft,O=Sun Microsystems,C=US", "OU=JavaSoft,O=Sun Microsystems,C=US"),
    ],
)
def test_the_first_rule_that_matches_the_whole_name_counts(name: str, user: str) -> None:
    assert PrincipalRules(KAFKAS).user_of(name) == user


@pytest.mark.parametrize("text", ["", "  ", "DEFAULT", " DEFAULT "])
def test_without_rules_a_user_is_called_as_the_certificate(text: str) -> None:
    assert PrincipalRules(text).user_of("CN=a,O=b") == "CN=a,O=b"


def test_a_name_without_a_rule_is_no_user() -> None:
    rules = PrincipalRules(r"RULE:^CN=admin$/admin/")
    assert rules.user_of("CN=admin") == "admin"
    for name in ("CN=admins", "XCN=admin", "CN=admin\n"):
        with pytest.raises(NoUser, match="no rule of"):
            rules.user_of(name)


def test_a_slash_and_a_comma_may_stand_in_a_rule() -> None:
    rules = PrincipalRules(r"RULE:^CN=([^,]+)\/x,.*$/a\/$1\$2/,RULE:^(.*)$/other,$1/U")
    assert rules.user_of("CN=b/x,O=c") == "a/b$2"
    assert rules.user_of("CN=b") == "OTHER,CN=B"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("default", "'default' is not DEFAULT or RULE"),
        ("RULE:^CN=(.*$/$1/", "is not a pattern of RE2"),
        ("RULE:^CN=x$/$1/", "has no group 1"),
        ("RULE:a/b/LL", "is not DEFAULT or RULE"),
        ("RULE:a/b", "is not DEFAULT or RULE"),
        ("RULE://b/", "is not DEFAULT or RULE"),
        ("DEFAULT,,", "is not DEFAULT or RULE"),
        (r"RULE:(?=a)/b/", "is not a pattern of RE2"),
    ],
)
def test_rules_that_cannot_be_read_are_named(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        PrincipalRules(text)


@given(st.text(), st.text())
def test_any_text_is_rules_or_refused(text: str, name: str) -> None:
    with suppress(ValueError, NoUser):
        assert isinstance(PrincipalRules(text).user_of(name), str)
