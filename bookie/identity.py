"""Whose directories these are: locks against a second process, cookies against a lost disk.

Cookies go into the directories first and into the metadata last; so a bookie whose cookie is not
in the metadata and whose directories hold nothing else is one whose first start was cut short.
"""

from pathlib import Path

from tailrace.bookie.config import BookieConfig
from tailrace.bookie.cookie import FILE_NAME, Cookie, format_cookie, parse_cookie
from tailrace.bookie.errors import InvalidCookie
from tailrace.core.errors import NoNode
from tailrace.core.metadata.layout import LedgerPaths
from tailrace.core.metadata.store import MetadataStore
from tailrace.core.runtime.files import Files, write_atomically
from tailrace.protocol.errors import BadValue
from tailrace.protocol.ids import BookieId

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
    found = _cookies(config, files, own)
    missing = [directory for directory, cookie in found.items() if cookie is None]
    is_new = registered is None and all(_is_blank(files, d) for d in found)
    if not is_new:
        if missing:
            raise InvalidCookie(f"{missing[0]} has no cookie: was its disk lost or replaced?")
        if store is not None and registered is None:
            raise InvalidCookie(
                f"{config.ledger_directories[0]} holds data of bookie {own.bookie_id}, which the "
                "metadata does not know: was the metadata replaced?"
            )
    for directory, cookie in found.items():
        if cookie is None or _is_outgrown(cookie, own):
            write_atomically(files, directory / "current" / FILE_NAME, format_cookie(own))
    await _tell_metadata(store, paths, registered, own)
    return own.instance_id


async def _tell_metadata(
    store: MetadataStore | None, paths: LedgerPaths, registered: Cookie | None, own: Cookie
) -> None:
    if store is not None:
        path = paths.cookie(BookieId(own.bookie_id))
        if registered is None:
            await store.create(path, format_cookie(own), parents=True)
        elif _is_outgrown(registered, own):
            await store.set(path, format_cookie(own))


def _directories(config: BookieConfig) -> list[Path]:
    return sorted({*config.journal_directories, *config.ledger_directories})


def _is_blank(files: Files, directory: Path) -> bool:
    return set(files.names(directory / "current")) <= _NO_DATA


def _cookies(config: BookieConfig, files: Files, own: Cookie) -> dict[Path, Cookie | None]:
    found: dict[Path, Cookie | None] = {}
    for directory in _directories(config):
        data = files.read_file(directory / "current" / FILE_NAME)
        found[directory] = None if data is None else _own_cookie(str(directory), data, own)
    return found


def _own_cookie(where: str, data: bytes, own: Cookie) -> Cookie:
    """Read a cookie that must be this bookie's, of no more directories than are configured."""
    try:
        found = parse_cookie(data)
    except BadValue as error:
        raise InvalidCookie(f"{where}: {error}") from error
    if not found.is_same_bookie(own):
        raise InvalidCookie(
            f"{where} belongs to bookie {found.bookie_id} of instance {found.instance_id!r}; "
            f"this is {own.bookie_id} of {own.instance_id!r}"
        )
    count = len(found.ledger_directories)
    if count > len(own.ledger_directories):
        raise InvalidCookie(
            f"{where}: bookie {own.bookie_id} has {count} ledgerDirectories "
            f"({', '.join(found.ledger_directories)}), and this configuration names "
            f"{len(own.ledger_directories)}: it would deny what is in the others"
        )
    return found


def _is_outgrown(found: Cookie, own: Cookie) -> bool:
    return len(found.ledger_directories) < len(own.ledger_directories)


async def _instance_id(store: MetadataStore | None, paths: LedgerPaths) -> str:
    if store is None:
        return ""
    try:
        return (await store.get(paths.instance_id)).data.decode("utf-8", "replace")
    except NoNode:
        raise InvalidCookie(f"{paths.instance_id} is missing: the metadata is not set up") from None


async def _registered(
    store: MetadataStore | None, paths: LedgerPaths, own: Cookie
) -> Cookie | None:
    if store is None:
        return None
    node = await store.exists(paths.cookie(BookieId(own.bookie_id)))
    return None if node is None else _own_cookie("the metadata", node.data, own)
