"""What the handlers of transactions have in common."""

from tailrace.protocol.errors import ErrorCode


def code_for(code: ErrorCode, version: int, fenced_since: int) -> ErrorCode:
    """Return the error in words that the version's clients know.

    Before `fenced_since` there was no PRODUCER_FENCED: they get INVALID_PRODUCER_EPOCH.
    Source: KafkaApis, the same in each handler of transactions.
    """
    if code is ErrorCode.PRODUCER_FENCED and version < fenced_since:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code
