"""What claims let in; the rows are what Kafka's BrokerJwtValidator does over jose4j 0.9.6."""

from typing import Any

import pytest

from tailrace.core.access.oauth.claims import Bearer, check_claims
from tailrace.core.access.oauth.compact import TokenRefused
from tailrace.core.access.oauth.config import OAuthConfig
from tests.unit.core.access.oauth.issuer import GOOD, NOW_MS, NOW_S

CONFIG = OAuthConfig(expected_audience=("kafka", "other"), expected_issuer="https://issuer.test")
GONE = object()


def claims(**changed: Any) -> dict[str, Any]:
    return {name: value for name, value in {**GOOD, **changed}.items() if value is not GONE}


def reason(config: OAuthConfig = CONFIG, **changed: Any) -> str:
    try:
        check_claims(claims(**changed), config, NOW_MS)
    except TokenRefused as error:
        return str(error)
    return "taken"


def test_a_token_names_its_user_and_its_end() -> None:
    assert check_claims(GOOD, CONFIG, NOW_MS) == Bearer("alice", NOW_MS + 3_600_000)
    renamed = OAuthConfig(subject_claim="preferred_username", expected_audience=("kafka",))
    assert check_claims(claims(preferred_username=" bob "), renamed, NOW_MS).user == "bob"


@pytest.mark.parametrize(
    ("why", "changed"),
    [
        ("it has no exp", {"exp": GONE}),
        ("it has no exp", {"exp": None}),
        ("it has no iat", {"iat": GONE}),
        ("its exp is not a time", {"exp": "1700003600"}),
        ("its exp is not a time", {"exp": True}),
        ("its exp is not a time", {"exp": -1}),
        ("its exp is not a time", {"exp": 1 << 49}),
        ("its exp is not a time", {"exp": 10**400}),
        ("its exp is not a time", {"exp": float("inf")}),
        ("its exp is not a time", {"exp": [NOW_S]}),
        ("its iat is not a time", {"iat": {}}),
        ("its nbf is not a time", {"nbf": "soon"}),
        ("it has expired", {"exp": NOW_S - 30}),
        ("taken", {"exp": NOW_S - 29}),
        ("taken", {"exp": NOW_S - 28.5}),
        ("it has expired", {"exp": NOW_S - 29.5}),
        ("it is not valid yet", {"nbf": NOW_S + 31}),
        ("taken", {"nbf": NOW_S + 30}),
        ("taken", {"iat": NOW_S + 1000}),
        ("it expires before it begins", {"iat": NOW_S + 4000}),
        ("it expires before it begins", {"nbf": NOW_S + 10, "exp": NOW_S + 9}),
    ],
)
def test_times(why: str, changed: dict[str, Any]) -> None:
    assert reason(**changed) == why


@pytest.mark.parametrize(
    ("why", "changed"),
    [
        ("it is of another issuer", {"iss": GONE}),
        ("it is of another issuer", {"iss": "https://issuer.test/"}),
        ("it is of another issuer", {"iss": ["https://issuer.test"]}),
        ("it is for another audience", {"aud": GONE}),
        ("it is for another audience", {"aud": "kafk"}),
        ("it is for another audience", {"aud": []}),
        ("its aud is not a name or a list of names", {"aud": {"kafka": 1}}),
        ("its aud is not a name or a list of names", {"aud": ["kafka", 7]}),
        ("taken", {"aud": ["web", "other"]}),
        ("it names no user", {"sub": GONE}),
        ("it names no user", {"sub": " "}),
        ("it names no user", {"sub": 7}),
        ("its user's name is not Unicode text", {"sub": "\ud800"}),
        ("its user's name has more than 1024 characters", {"sub": "a" * 1025}),
        ("its jti is not a text", {"jti": 7}),
        ("taken", {"jti": "an id"}),
        ("taken", {"scope": GONE}),
        ("taken", {"scope": {}}),
        ("taken", {"scope": "read write"}),
        ("taken", {"scope": ["read", "write"]}),
        ("its scope has one that is empty, or there twice", {"scope": ""}),
        ("its scope has one that is empty, or there twice", {"scope": ["read", "read "]}),
        ("its scope is not a text or a list of texts", {"scope": [1]}),
    ],
)
def test_names(why: str, changed: dict[str, Any]) -> None:
    assert reason(**changed) == why


def test_without_an_audience_of_ours_only_tokens_for_nobody_are_taken() -> None:
    """As in Kafka: a token for another service is not one for us."""
    anyone = OAuthConfig()
    assert reason(anyone, aud=GONE, iss="anybody") == "taken"
    assert reason(anyone) == (
        "it is for an audience and sasl.oauthbearer.expected.audience has none"
    )


def test_the_skew_is_configured() -> None:
    strict = OAuthConfig(clock_skew_s=0, expected_audience=("kafka",))
    assert reason(strict, exp=NOW_S) == "it has expired"
    assert reason(strict, nbf=NOW_S + 1) == "it is not valid yet"
    assert reason(strict, exp=NOW_S + 1, nbf=NOW_S) == "taken"


@pytest.mark.parametrize(
    "settings",
    [
        {"jwks_url": "ftp://issuer.test/keys"},
        {"jwks_url": "/etc/keys.json"},
        {"jwks_url": "file:keys.json"},
        {"jwks_url": "file://host/keys.json"},
        {"jwks_url": "https:///keys"},
        {"jwks_url": "https://issuer.test:port/keys"},
        {"jwks_url": "https://[::1/keys"},
        {"retry_ms": 2, "retry_ms_max": 1},
        {"scope_claim": " "},
        {"subject_claim": ""},
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"^sasl\.oauthbearer\."):
        OAuthConfig(**settings)
