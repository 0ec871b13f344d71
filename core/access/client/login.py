"""As whom a client logs in, from Kafka's settings. Pure but for a token's file.

`sasl.mechanism` and `sasl.jaas.config` name user and password; with OAUTHBEARER
`sasl.oauthbearer.token.endpoint.url` names a file with a token.
"""

from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import unquote, urlsplit

from tailrace.core.access.client.jaas import InvalidJaas, LoginModule, parse_jaas
from tailrace.core.access.sasl.mechanism import SaslClientExchange
from tailrace.core.access.sasl.oauthbearer_client import BearerClientExchange
from tailrace.core.access.sasl.plain_client import PlainClientExchange
from tailrace.core.access.sasl.scram_client import ScramClientExchange, fresh_nonce
from tailrace.core.access.sasl.scram_messages import ClientFirst
from tailrace.core.access.sasl.work import Work
from tailrace.core.access.users.credentials import ScramMechanism
from tailrace.core.runtime.config import ConfigError, Secret

_PACKAGE: Final = "org.apache.kafka.common.security."
_PLAIN: Final = f"{_PACKAGE}plain.PlainLoginModule"
_SCRAM: Final = f"{_PACKAGE}scram.ScramLoginModule"
_BEARER: Final = f"{_PACKAGE}oauthbearer.OAuthBearerLoginModule"
_MODULES: Final = {
    "PLAIN": _PLAIN,
    "SCRAM-SHA-256": _SCRAM,
    "SCRAM-SHA-512": _SCRAM,
    "OAUTHBEARER": _BEARER,
}
_SCRAM_BY_NAME: Final = {each.sasl_name: each for each in ScramMechanism}


class Login(NamedTuple):
    """One way to log in."""

    mechanism: str
    user: str = ""
    password: Secret = Secret("")
    is_token: bool = False
    """Whether user and password are a delegation token's id and HMAC (KIP-48)."""
    token_file: Path | None = None

    def exchange(self, work: Work) -> SaslClientExchange:
        """Begin to log in. Errors: AuthenticationFailed."""
        if self.token_file is not None:
            return BearerClientExchange(self.token_file, work)
        if self.mechanism == "PLAIN":
            return PlainClientExchange(self.user, self.password)
        extensions = {"tokenauth": "true"} if self.is_token else {}
        first = ClientFirst(self.user, fresh_nonce(), extensions=extensions)
        return ScramClientExchange(_SCRAM_BY_NAME[self.mechanism], first, self.password, work)


def login_of(
    mechanism: str, jaas: Secret, token_url: str, setting: str = "sasl.mechanism"
) -> Login:
    """Return what the settings say; `setting` names the mechanism.

    Errors: ConfigError: the setting, not what is secret in it.
    """
    module_of(mechanism, setting)
    if mechanism == "OAUTHBEARER":
        if jaas:
            _module(mechanism, jaas)
        return Login(mechanism, token_file=_file_of(token_url))
    options = _module(mechanism, jaas).options
    if any(each.startswith("user_") for each in options):
        raise ConfigError(
            "sasl.jaas.config: users (user_...) are not made here: tailrace user create makes them"
        )
    if "username" not in options or "password" not in options:
        raise ConfigError("sasl.jaas.config: it needs username and password")
    is_token = options.get("tokenauth", "").lower() == "true"
    if is_token and mechanism == "PLAIN":
        raise ConfigError("sasl.jaas.config: tokenauth is SCRAM's, sasl.mechanism is PLAIN")
    return Login(mechanism, options["username"], Secret(options["password"]), is_token)


def module_of(mechanism: str, setting: str = "sasl.mechanism") -> str:
    """Return Java's class of a mechanism. Errors: ConfigError for one that is not spoken."""
    if mechanism not in _MODULES:
        spoken = ", ".join(_MODULES)
        raise ConfigError(f"{setting}: {mechanism or 'none'} is not spoken; {spoken} are")
    return _MODULES[mechanism]


def _module(mechanism: str, jaas: Secret) -> LoginModule:
    if not jaas:
        raise ConfigError(f"sasl.jaas.config: {mechanism} needs it, for username and password")
    try:
        module = parse_jaas(jaas.reveal())
    except InvalidJaas as error:
        raise ConfigError(f"sasl.jaas.config: {error}") from error
    if module.name != _MODULES[mechanism]:
        raise ConfigError(
            f"sasl.jaas.config: {mechanism} goes with {_MODULES[mechanism]}, not another module"
        )
    return module


def _file_of(url: str) -> Path:
    parts = urlsplit(url)
    if parts.scheme != "file" or parts.netloc or not parts.path.startswith("/"):
        raise ConfigError(
            "sasl.oauthbearer.token.endpoint.url: a token is read from a file alone: file:///PATH"
        )
    return Path(unquote(parts.path))
