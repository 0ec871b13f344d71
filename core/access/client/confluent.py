"""A client's settings as confluent-kafka takes them: librdkafka's, and the callback for tokens."""

import base64
import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias

from tailrace.core.access.client.librdkafka import as_librdkafka
from tailrace.core.access.client.login import login_of
from tailrace.core.access.sasl.oauthbearer_client import read_token_file, token_of
from tailrace.core.runtime.clock import Clock, SystemClock
from tailrace.core.runtime.config import Secret
from tailrace.core.runtime.stored_json import NOT_JSON

UNKNOWN_LIFETIME_S: Final = 300.0
"""A token that does not say when it expires is read again after so long."""

Token: TypeAlias = tuple[str, float, str, dict[str, str]]
"""Token, when it expires (seconds since 1970), principal, extensions."""


def confluent_settings(properties: Mapping[str, str]) -> dict[str, Any]:
    """Return properties of Kafka's names. Errors: ConfigError."""
    found: dict[str, Any] = {**as_librdkafka(properties)}
    url = properties.get("sasl.oauthbearer.token.endpoint.url", "")
    if properties.get("sasl.mechanism") == "OAUTHBEARER":
        login = login_of("OAUTHBEARER", Secret(properties.get("sasl.jaas.config", "")), url)
        if login.token_file is not None:
            found["oauth_cb"] = token_callback(login.token_file, SystemClock())
    return found


def token_callback(file: Path, clock: Clock) -> Callable[[str], Token]:
    """Return what librdkafka asks for a token, now and before it expires."""
    return partial(_token, file, clock)


def _token(file: Path, clock: Clock, _config: str) -> Token:
    """Read the token. Errors: OSError, AuthenticationFailed; `error_cb` hears of them."""
    token = token_of(read_token_file(file), file)
    claims = _claims(token)
    subject, expires_s = claims.get("sub"), claims.get("exp")
    if not isinstance(expires_s, int | float):
        expires_s = clock.now_ms() / 1000 + UNKNOWN_LIFETIME_S
    return token, float(expires_s), subject if isinstance(subject, str) else "token", {}


def _claims(token: str) -> Mapping[str, object]:
    """Return what a JWT says of itself, unverified: the broker verifies it. {}: it is none."""
    try:
        _, payload, _ = token.split(".")
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    except (ValueError, *NOT_JSON):  # no three parts, no base64, no UTF-8, no JSON
        return {}
    return claims if isinstance(claims, dict) else {}
