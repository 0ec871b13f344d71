"""Whose directories these are: locks against a second process, cookies against a lost disk.

Cookies go into the directories first and into the metadata last; so a bookie whose cookie is not
in the metadata and whose directories hold nothing else is one whose first start was cut short.
"""

from pathlib import Path

from bookie.config import BookieConfig
from bookie.cookie import FILE_NAME, Cookie, format_cookie, parse_cookie
from bookie.errors import InvalidCookie
from core.errors import NoNode
from core.metadata.layout import LedgerPaths
from core.metadata.store import MetadataStore
from core.runtime.files import Files, write_atomically
from protocol.errors import BadValue
from protocol.ids import BookieId

LOCK_FILE = "LOCK"
_NO_DATA = {FILE_NAME, f"{FILE_NAME}.new"}


def lock_directories(config: BookieConfig, files: Files) -> list[int]:
    """Lock both directories, making them if need be. Errors: LockHeld, OSError."""
    locks: list[int] = []
    try:
        for directory in _directories(config):
            files.make_directory(directory / "current")
            locks.append(files.lock(directory / LOCK_FILE, "bookie"))
    except BaseException:
        unlock_directories(locks, files)
        raise
    return locks


def unlock_directories(locks: list[int], files: Files) -> None:
    """Give the directories back."""
    for fd in locks:
        files.close(fd)


async def check_cookies(config: BookieConfig, store: MetadataStore | None, files: Files) -> str:
    """Give a new bookie its cookies; refuse another bookie's directories, or a lost disk.

    Return the cluster's instance id, empty without a store.
    Errors: InvalidCookie, OSError, CoreError.
    """
    paths = LedgerPaths(config.ledgers_root)
    own = Cookie(
        config.identity,
        ",".join(map(str, config.journal_directories)),
        tuple(map(str, config.ledger_directories)),
        await _instance_id(store, paths),
    )
    registered = await _registered(store, paths, own)
    missing = _missing_cookies(config, files, own)
    is_new = not registered and all(_is_blank(files, d) for d in _directories(config))
    if not is_new:
        if missing:
            raise InvalidCookie(f"{missing[0]} has no cookie: was its disk lost or replaced?")
        if store is not None and not registered:
            raise InvalidCookie(
                f"{config.ledger_directories[0]} holds data of bookie {own.bookie_id}, which the "
                "metadata does not know: was the metadata replaced?"
            )
    for directory in missing:
        write_atomically(files, directory / "current" / FILE_NAME, format_cookie(own))
    if store is not None and not registered:
        path = paths.cookie(BookieId(own.bookie_id))
        await store.create(path, format_cookie(own), parents=True)
    return own.instance_id


def _directories(config: BookieConfig) -> list[Path]:
    return sorted({*config.journal_directories, *config.ledger_directories})


def _is_blank(files: Files, directory: Path) -> bool:
    return set(files.names(directory / "current")) <= _NO_DATA


def _missing_cookies(config: BookieConfig, files: Files, own: Cookie) -> list[Path]:
    missing = []
    for directory in _directories(config):
        data = files.read_file(directory / "current" / FILE_NAME)
        if data is None:
            missing.append(directory)
        else:
            _refuse_other(str(directory), data, own)
    return missing


def _refuse_other(where: str, data: bytes, own: Cookie) -> None:
    try:
        found = parse_cookie(data)
    except BadValue as error:
        raise InvalidCookie(f"{where}: {error}") from error
    if not found.is_same_bookie(own):
        raise InvalidCookie(
            f"{where} belongs to bookie {found.bookie_id} of instance {found.instance_id!r}; "
            f"this is {own.bookie_id} of {own.instance_id!r}"
        )


async def _instance_id(store: MetadataStore | None, paths: LedgerPaths) -> str:
    if store is None:
        return ""
    try:
        return (await store.get(paths.instance_id)).data.decode("utf-8", "replace")
    except NoNode:
        raise InvalidCookie(f"{paths.instance_id} is missing: the metadata is not set up") from None


async def _registered(store: MetadataStore | None, paths: LedgerPaths, own: Cookie) -> bool:
    if store is None:
        return False
    node = await store.exists(paths.cookie(BookieId(own.bookie_id)))
    if node is None:
        return False
    _refuse_other("the metadata", node.data, own)
    return True
