"""SaslAuthenticate v0-2, where no authentication is to be: ILLEGAL_SASL_STATE, as in Kafka.

On SASL listeners connections answer it themselves: see `broker/authentication`.
Source: KafkaApis.handleSaslAuthenticateRequest.
"""

from tailrace.broker.context import RequestContext
from tailrace.broker.handlers import handles
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.apis import SASL_AUTHENTICATE
from tailrace.protocol.kafka.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)


@handles(SASL_AUTHENTICATE)
def sasl_authenticate(
    _ctx: RequestContext, _request: SaslAuthenticateRequest
) -> SaslAuthenticateResponse:
    """Refuse."""
    return SaslAuthenticateResponse(
        error_code=ErrorCode.ILLEGAL_SASL_STATE,
        error_message="SaslAuthenticate request received after successful authentication",
    )
