"""`tailrace user`: users that log in by SCRAM or PLAIN. A password is never an argument."""

import sys
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

import typer

from tailrace.core.access.users.credentials import ITERATIONS_MAX, ITERATIONS_MIN, ScramMechanism
from tailrace.core.access.users.new_credentials import (
    UnacceptableCredential,
    check_password,
    check_user,
)
from tailrace.tools.errors import CliError, Exit
from tailrace.tools.options import (
    BOOTSTRAP,
    TIMEOUT_S,
    Bootstrap,
    CommandConfig,
    Json,
    Properties,
    Timeout,
)
from tailrace.tools.output import Column, note, show_rows

if TYPE_CHECKING:
    from tailrace.tools.clients.librdkafka import Target
    from tailrace.tools.security.stored_users import StoredUsers
    from tailrace.tools.security.users_admin import UsersAdmin

    Users: TypeAlias = StoredUsers | UsersAdmin

app = typer.Typer(no_args_is_help=True, add_completion=False)

PASSWORD_FILE_BYTES_MAX: Final = 4096

Name = Annotated[str, typer.Argument(metavar="USER")]
Data = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="DIR",
        help="The directory of a standalone broker that does not run, or never ran yet.",
    ),
]
OfCluster = Annotated[
    str | None,
    typer.Option(
        "--namespace",
        "-n",
        metavar="URI",
        help="A cluster: distributedlog://HOST:PORT;HOST:PORT/messaging/NAME.",
    ),
]


class Kind(StrEnum):
    """The mechanisms, as options name them."""

    SHA_256 = "SCRAM-SHA-256"
    SHA_512 = "SCRAM-SHA-512"


Kinds = Annotated[
    list[Kind] | None,
    typer.Option("--mechanism", help="One mechanism; again for another.", show_default="both"),
]
_COLUMNS = [Column("user"), Column("mechanisms"), Column("iterations", right=True)]


@app.callback()
def user() -> None:
    """Create, list, describe and delete users, where they lie or through a running broker."""


@app.command()
def create(
    name: Name,
    password_file: Annotated[
        Path | None,
        typer.Option(
            "--password-file",
            metavar="FILE",
            help="The password is its first line. Without: asked for, or the first line of stdin.",
        ),
    ] = None,
    mechanism: Kinds = None,
    iterations: Annotated[
        int,
        typer.Option("--iterations", min=ITERATIONS_MIN, max=ITERATIONS_MAX, help="Work to guess."),
    ] = ITERATIONS_MIN,
    replace: Annotated[
        bool, typer.Option("--replace", help="Change the password of a user that is there.")
    ] = False,
    data: Data = None,
    namespace: OfCluster = None,
    bootstrap: Bootstrap = BOOTSTRAP,
    command_config: CommandConfig = None,
    properties: Properties = None,
    timeout_s: Timeout = TIMEOUT_S,
) -> None:
    """Create a user, or with --replace change its password."""
    _check(check_user, name, "USER")
    users = _users(
        data, namespace, lambda: _target(bootstrap, properties, timeout_s, command_config)
    )
    if not replace and name in users.all():
        raise CliError(f"user {name} is there", place="USER", remedy="--replace")
    password = _password(password_file, name)
    _check(check_password, password, str(password_file or "password"))
    users.put(name, password, dict.fromkeys(_mechanisms(mechanism), iterations))
    note(f"user {name} created")


@app.command("list")
def list_users(
    data: Data = None,
    namespace: OfCluster = None,
    bootstrap: Bootstrap = BOOTSTRAP,
    as_json: Json = False,
    command_config: CommandConfig = None,
    properties: Properties = None,
    timeout_s: Timeout = TIMEOUT_S,
) -> None:
    """List all users."""
    users = _users(
        data, namespace, lambda: _target(bootstrap, properties, timeout_s, command_config)
    )
    show_rows([_row(*each) for each in users.all().items()], _COLUMNS, as_json=as_json)


@app.command()
def describe(
    name: Name,
    data: Data = None,
    namespace: OfCluster = None,
    bootstrap: Bootstrap = BOOTSTRAP,
    as_json: Json = False,
    command_config: CommandConfig = None,
    properties: Properties = None,
    timeout_s: Timeout = TIMEOUT_S,
) -> None:
    """Say by which mechanisms a user can log in."""
    users = _users(
        data, namespace, lambda: _target(bootstrap, properties, timeout_s, command_config)
    )
    found = users.all().get(name)
    if found is None:
        raise _missing(name)
    show_rows([_row(name, found)], _COLUMNS, as_json=as_json)


@app.command()
def delete(
    name: Name,
    mechanism: Kinds = None,
    data: Data = None,
    namespace: OfCluster = None,
    bootstrap: Bootstrap = BOOTSTRAP,
    command_config: CommandConfig = None,
    properties: Properties = None,
    timeout_s: Timeout = TIMEOUT_S,
) -> None:
    """Delete a user, or take a mechanism away from it."""
    users = _users(
        data, namespace, lambda: _target(bootstrap, properties, timeout_s, command_config)
    )
    found = users.all().get(name, {})
    there = [each for each in _mechanisms(mechanism) if each in found]
    if not there:
        raise _missing(name)
    for each in there:
        users.delete(name, each)
    note(f"user {name} deleted" if len(there) == len(found) else f"user {name} changed")


def _users(data: Path | None, namespace: str | None, running: Callable[[], "Target"]) -> "Users":
    if data is not None and namespace is not None:
        cause = "a directory and a namespace are two places"
        raise CliError(cause, place="--data, --namespace", code=Exit.USAGE)
    if data is not None or namespace is not None:
        from tailrace.tools.security.stored_users import StoredUsers

        return StoredUsers(data if data is not None else str(namespace))
    from tailrace.tools.security.users_admin import UsersAdmin

    return UsersAdmin(running())


def _target(
    bootstrap: str, properties: list[str] | None, timeout_s: float, command_config: Path | None
) -> "Target":
    from tailrace.tools.clients.librdkafka import target

    return target(bootstrap, properties or [], timeout_s, command_config)


def _password(file: Path | None, name: str) -> str:
    if file is None and sys.stdin.isatty():
        asked: str = typer.prompt(
            f"Password of {name}", hide_input=True, confirmation_prompt=True, err=True
        )
        return asked
    try:
        if file is None:
            line = sys.stdin.buffer.readline(PASSWORD_FILE_BYTES_MAX)
        else:
            with file.open("rb") as opened:
                line = opened.readline(PASSWORD_FILE_BYTES_MAX)
    except OSError as error:
        raise CliError(f"cannot read the password: {error.strerror}", place=str(file)) from error
    try:
        return line.decode().rstrip("\r\n")
    except UnicodeDecodeError:
        raise CliError("the password is not UTF-8", place=str(file or "stdin")) from None


def _check(check: Callable[[str], None], text: str, place: str) -> None:
    try:
        check(text)
    except UnacceptableCredential as error:
        raise CliError(str(error), place=place, code=Exit.USAGE) from None


def _mechanisms(kinds: list[Kind] | None) -> list[ScramMechanism]:
    return [each for each in ScramMechanism if not kinds or each.sasl_name in kinds]


def _row(name: str, found: dict[ScramMechanism, int]) -> dict[str, object]:
    ordered = sorted(found.items())
    return {
        "user": name,
        "mechanisms": ", ".join(each.sasl_name for each, _ in ordered),
        "iterations": ", ".join(str(count) for _, count in ordered),
    }


def _missing(name: str) -> CliError:
    return CliError(f"there is no user {name}", place="USER", remedy="tailrace user list")
