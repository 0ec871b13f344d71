"""What confluent-kafka is given: librdkafka's settings, and tokens when it asks for one."""

import base64
import json
from pathlib import Path

import pytest

from tailrace.core.access.client.confluent import (
    UNKNOWN_LIFETIME_S,
    confluent_settings,
    token_callback,
)
from tailrace.core.access.sasl.mechanism import AuthenticationFailed
from tailrace.core.runtime.clock import SystemClock
from tailrace.core.runtime.config import ConfigError

URL = "sasl.oauthbearer.token.endpoint.url"


def jwt(claims: object) -> str:
    payload = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"e30.{payload}.c2ln"


def test_a_token_is_read_from_its_file_each_time(tmp_path: Path) -> None:
    file = tmp_path / "token"
    given = {"sasl.mechanism": "OAUTHBEARER", URL: f"file://{file}"}
    settings = confluent_settings(given)
    assert set(settings) == {"sasl.mechanism", "oauth_cb"}
    for subject, expires_s in (("alice", 1_900_000_000), ("bob", 1_900_000_001.5)):
        token = jwt({"sub": subject, "exp": expires_s})
        file.write_text(token)
        assert settings["oauth_cb"]("") == (token, expires_s, subject, {})


@pytest.mark.parametrize("token", ["opaque", "a.b.c", jwt([]), jwt({"exp": "soon", "sub": 1})])
def test_a_token_that_says_nothing_is_read_again_soon(tmp_path: Path, token: str) -> None:
    file = tmp_path / "token"
    file.write_text(token)
    clock = SystemClock()
    before_s = clock.now_ms() / 1000
    found, expires_s, principal, _ = token_callback(file, clock)("")
    assert (found, principal) == (token, "token")
    assert before_s + UNKNOWN_LIFETIME_S <= expires_s <= clock.now_ms() / 1000 + UNKNOWN_LIFETIME_S
    file.write_text("not a token")
    with pytest.raises(AuthenticationFailed):
        token_callback(file, clock)("")


@pytest.mark.parametrize("url", ["", "https://idp/token", "file://host/path", "file:relative"])
def test_other_places_of_tokens_are_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="a token is read from a file alone"):
        confluent_settings({"sasl.mechanism": "OAUTHBEARER", URL: url})
