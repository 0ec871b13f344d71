"""Who may ask for anything about delegation tokens, and what refusals become."""

from collections.abc import Iterator
from contextlib import contextmanager

from tailrace.broker.context import RequestContext
from tailrace.broker.errors import KafkaError, admin_error_code
from tailrace.broker.listeners import ANONYMOUS, SecurityProtocol
from tailrace.core.access.tokens.token import TokenRefused
from tailrace.core.errors import CoreError
from tailrace.protocol.errors import ErrorCode


def may_ask(ctx: RequestContext) -> bool:
    """Whether a client is known, and by more than a token. Source: KafkaApis.allowTokenRequests."""
    connection = ctx.connection
    if connection.authenticated is not None and connection.authenticated.token_id is not None:
        return False
    protocol = ctx.broker.config.network.protocols.get(connection.listener)
    if protocol is SecurityProtocol.SSL:
        return connection.user != ANONYMOUS
    return protocol not in (None, SecurityProtocol.PLAINTEXT)


def check_may_ask(ctx: RequestContext) -> None:
    """Refuse what `may_ask` does not allow. Errors: KafkaError."""
    if not may_ask(ctx):
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)


@contextmanager
def refusals() -> Iterator[None]:
    """Have what goes wrong inside be KafkaErrors."""
    try:
        yield
    except TokenRefused as error:
        raise KafkaError(error.code, str(error)) from error
    except CoreError as error:
        raise KafkaError(admin_error_code(error), str(error)) from error
