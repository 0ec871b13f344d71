"""OAUTHBEARER, client side, with a token that lies in a file. Source: RFC 7628; KIP-255."""

import re
from pathlib import Path
from typing import Final

from tailrace.core.access.sasl.mechanism import AuthenticationFailed

TOKEN_BYTES_MAX: Final = 64 * 1024
"""A longer file is not read."""

_TOKEN: Final = re.compile(r"[A-Za-z0-9\-._~+/]+=*")
"""RFC 6750's b64token."""


class BearerClientExchange:
    """One exchange. The file is read as it begins: tokens change."""

    mechanism = "OAUTHBEARER"

    def __init__(self, token_file: Path) -> None:
        self._file = token_file

    async def respond(self, challenge: bytes | None) -> bytes | None:
        """Return the message with the token; None after the server's empty answer.

        Errors: AuthenticationFailed: the file has no token, or the server refuses it.
        """
        if challenge is None:
            return f"n,,\x01auth=Bearer {read_token(self._file)}\x01\x01".encode()
        if challenge:  # JSON; the dummy answer that would end it in order says nothing to us
            raise AuthenticationFailed("OAUTHBEARER: the server refuses the token")
        return None


def read_token(file: Path) -> str:
    """Return the token of a file. Blocks. Errors: AuthenticationFailed, which names the file."""
    try:
        with file.open("rb") as opened:
            data = opened.read(TOKEN_BYTES_MAX + 1)
        token = data.decode("ascii").strip()
    except OSError as error:
        raise AuthenticationFailed(f"OAUTHBEARER: {file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise AuthenticationFailed(f"OAUTHBEARER: {file} has no token") from error
    if len(data) > TOKEN_BYTES_MAX or not _TOKEN.fullmatch(token):
        raise AuthenticationFailed(f"OAUTHBEARER: {file} has no token")
    return token
