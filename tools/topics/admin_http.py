"""Asking a broker's HTTP port (admin.http.enable), which answers in JSON."""

import json
import urllib.error
from typing import Annotated, Any
from urllib.parse import quote, urlencode

import typer

from tailrace.core.runtime.stored_json import NOT_JSON
from tailrace.tools.errors import CliError, Exit

TIMEOUT_S = 60.0
ADMIN = "127.0.0.1:9094"
_REMEDY = "start the broker with --set admin.http.enable=true, and give its --admin HOST:PORT"

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


def ask(admin: str, *path: str, body: Any = None, **query: str) -> Any:
    """Return what the broker answers; with a body it is told. Errors: CliError."""
    import urllib.request  # an eighth of the start of all commands about topics
    from http.client import InvalidURL

    url = f"http://{admin}/" + "/".join(quote(part, safe="") for part in path)
    if query:
        url += "?" + urlencode(query)
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data=data, method="GET" if data is None else "PUT")
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as response:
            return json.load(response)
    except urllib.error.HTTPError as error:
        with error:
            raise CliError(_cause(error.read(), error.code), place=url) from None
    except InvalidURL as error:
        raise CliError(str(error), place=url, remedy="--admin HOST:PORT", code=Exit.USAGE) from None
    except (OSError, *NOT_JSON) as error:
        cause = f"no broker answers: {_reason(error)}"
        raise CliError(cause, place=url, remedy=_REMEDY, code=Exit.UNREACHABLE) from None


def _reason(error: Exception) -> str:
    reason = error.reason if isinstance(error, urllib.error.URLError) else error
    return str(getattr(reason, "strerror", None) or reason)


def _cause(answer: bytes, status: int) -> str:
    try:
        return str(json.loads(answer)["error"])
    except (*NOT_JSON, KeyError, TypeError):
        return f"HTTP status {status}"
