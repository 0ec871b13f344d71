"""Asking a broker's HTTP port (admin.http.enable), which answers in JSON.

`--command-config` says how to get in, as for Kafka's protocol: with a `security.protocol` of TLS
it is HTTPS, and the user's name and password, or its token, go along.
"""

import json
import urllib.error
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote, urlencode

import typer

from tailrace.core.runtime.stored_json import NOT_JSON
from tailrace.tools.clients.command_config import call_access
from tailrace.tools.errors import CliError, Exit

if TYPE_CHECKING:
    import ssl

TIMEOUT_S = 60.0
ADMIN = "127.0.0.1:9094"
_REMEDY = (
    "start the broker with --set admin.http.enable=true, and give its --admin HOST:PORT; with "
    "HTTPS --command-config FILE too"
)
_NOT_LET_IN = "--command-config FILE with the user, its password, and security.protocol=SASL_SSL"
_UNAUTHENTICATED = 401

Admin = Annotated[
    str,
    typer.Option(
        "--admin",
        "-a",
        metavar="HOST:PORT",
        envvar="TAILRACE_ADMIN",
        help="The HTTP port of a broker (admin.http.enable, admin.http.port).",
    ),
]


class AdminPort:
    """A broker's HTTP port, and how to get in."""

    def __init__(self, admin: str, command_config: Path | None) -> None:
        """`admin`: HOST:PORT. Errors: CliError for the file."""
        way = call_access(command_config)
        self._base = f"{'http' if way.context is None else 'https'}://{admin}/"
        self._context: ssl.SSLContext | None = way.context
        self._headers = {} if way.header is None else {"Authorization": way.header}

    def ask(self, *path: str, body: Any = None, **query: str) -> Any:
        """Return what the broker answers; with a body it is told. Errors: CliError."""
        import urllib.request  # an eighth of the start of all commands about topics
        from http.client import InvalidURL

        url = self._base + "/".join(quote(part, safe="") for part in path)
        if query:
            url += "?" + urlencode(query)
        data = None if body is None else json.dumps(body).encode()
        method = "GET" if data is None else "PUT"
        request = urllib.request.Request(url, data=data, headers=self._headers, method=method)
        try:
            with urllib.request.urlopen(
                request, timeout=TIMEOUT_S, context=self._context
            ) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            with error:
                raise _refusal(error, url) from None
        except InvalidURL as error:
            remedy = "--admin HOST:PORT"
            raise CliError(str(error), place=url, remedy=remedy, code=Exit.USAGE) from None
        except (OSError, *NOT_JSON) as error:
            cause = f"no broker answers: {_reason(error)}"
            raise CliError(cause, place=url, remedy=_REMEDY, code=Exit.UNREACHABLE) from None


def _refusal(error: urllib.error.HTTPError, url: str) -> CliError:
    remedy = _NOT_LET_IN if error.code == _UNAUTHENTICATED else ""
    return CliError(_cause(error.read(), error.code), place=url, remedy=remedy)


def _reason(error: Exception) -> str:
    reason = error.reason if isinstance(error, urllib.error.URLError) else error
    return str(getattr(reason, "strerror", None) or reason)


def _cause(answer: bytes, status: int) -> str:
    try:
        return str(json.loads(answer)["error"])
    except (*NOT_JSON, KeyError, TypeError):
        return f"HTTP status {status}"
