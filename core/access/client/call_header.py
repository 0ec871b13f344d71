"""As whom a client calls over HTTP or gRPC: by the same settings as over Kafka's protocol."""

from tailrace.core.access.authorization_header import BadAuthorization, basic_header
from tailrace.core.access.client.login import Login
from tailrace.core.access.sasl.mechanism import AuthenticationFailed
from tailrace.core.access.sasl.oauthbearer_client import read_token_file, token_of
from tailrace.core.runtime.config import ConfigError


def call_header(login: Login | None) -> str | None:
    """Return the `Authorization` of a call; None: without a login.

    Reads a token's file: blocks. Errors: ConfigError for what cannot call so.
    """
    if login is None:
        return None
    if login.token_file is not None:
        try:
            return f"Bearer {token_of(read_token_file(login.token_file), login.token_file)}"
        except OSError as error:
            raise ConfigError(f"{login.token_file}: {error.strerror}") from error
        except AuthenticationFailed as error:
            raise ConfigError(str(error)) from error
    if login.is_token:
        raise ConfigError("sasl.jaas.config: delegation tokens are of Kafka's protocol alone")
    try:
        return basic_header(login.user, login.password.reveal())
    except BadAuthorization as error:
        raise ConfigError(f"sasl.jaas.config: {error}") from error
