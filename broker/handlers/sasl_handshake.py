"""SaslHandshake v0-1, where no authentication is to be: ILLEGAL_SASL_STATE, as in Kafka.

On SASL listeners connections answer it themselves: see `broker/authentication`.
Source: KafkaApis.handleSaslHandshakeRequest.
"""

from tailrace.broker.context import RequestContext
from tailrace.broker.handlers import handles
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.apis import SASL_HANDSHAKE
from tailrace.protocol.kafka.messages.sasl_handshake import (
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)


@handles(SASL_HANDSHAKE)
def sasl_handshake(_ctx: RequestContext, _request: SaslHandshakeRequest) -> SaslHandshakeResponse:
    """Refuse."""
    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
