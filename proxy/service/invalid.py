"""Requests that a proxy does not answer: their calls end with a status of gRPC's."""


class InvalidRequest(Exception):
    """Raised by a service: the call ends with gRPC's INVALID_ARGUMENT and this text.

    For what a correct client never sends. Everything else has a status code of its own.
    """

    status = "INVALID_ARGUMENT"
    """gRPC's name of it."""


class NotLetIn(InvalidRequest):
    """A call that is not let in, or not any further; the text says nothing of what is there."""

    def __init__(self, status: str, text: str) -> None:
        """`status`: UNAUTHENTICATED, PERMISSION_DENIED, or UNAVAILABLE: it could not be checked."""
        super().__init__(text)
        self.status = status
