"""A request that the contract does not allow."""


class InvalidRequest(Exception):
    """Raised by a service: the call ends with gRPC's INVALID_ARGUMENT and this text.

    For what a correct client never sends. Everything else has a status code of its own.
    """
