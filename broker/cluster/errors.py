"""The one error that topic administration answers with."""

from protocol.errors import ErrorCode


class TopicError(Exception):
    """A request about a topic that cannot be done; `code` and `message` are for the client."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
