"""Where the metadata is, as one word: BookKeeper's metadataServiceUri, or an SQLite file.

    zk://h1:2181,h2:2181/ledgers                 ZooKeeper; hosts parted by comma or semicolon
    zk+hierarchical://h1:2181;h2:2181/ledgers    BookKeeper's own spelling; names the layout
    sqlite:PATH                                  the embedded store

The path part is the root of the ledgers; it is a plain path, not a chroot, as in BookKeeper. Other
layouts than hierarchical (flat, longhierarchical) are refused: nothing here writes them.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from core.metadata.layout import LEDGERS_ROOT
from core.metadata.node_path import split_path
from core.metadata.sqlite import SqliteStore
from core.metadata.store import MetadataStore
from core.metadata.zookeeper import SESSION_TIMEOUT_MS, ZookeeperStore
from core.runtime.clock import Clock, SystemClock

_LAYOUTS: Final = ("", "hierarchical", "null")
_PORT: Final = 2181
_HOST: Final = re.compile(r"([^\s:/,;\[\]]+|\[[0-9A-Fa-f:.]+\])(?::(\d{1,5}))?")


@dataclass(frozen=True, slots=True)
class MetadataUri:
    """A parsed URI: either `hosts` or `path` is given."""

    ledgers_root: str
    hosts: str = ""
    """ZooKeeper servers, "h1:2181,h2:2181"."""
    path: Path | None = None
    """The SQLite file."""


def parse_uri(uri: str) -> MetadataUri:
    """Take a URI apart. Errors: ValueError names what is wrong."""
    scheme, colon, rest = uri.partition(":")
    if scheme == "sqlite" and rest:
        return MetadataUri(LEDGERS_ROOT, path=Path(rest))
    kind, _, layout = scheme.partition("+")
    if not colon or kind != "zk" or not rest.startswith("//"):
        raise ValueError(f"{uri!r} is neither zk://HOST:PORT/ledgers nor sqlite:PATH")
    if layout not in _LAYOUTS:
        raise ValueError(f"{uri!r}: only the hierarchical layout is known, not {layout!r}")
    hosts, slash, root = rest.removeprefix("//").partition("/")
    root = slash + root or LEDGERS_ROOT
    if not split_path(root)[0]:
        raise ValueError(f"{uri!r}: the ledgers cannot lie in ZooKeeper's own root")
    return MetadataUri(root, hosts=",".join(_host(uri, one) for one in re.split("[,;]", hosts)))


def ledgers_root(uri: str) -> str:
    """Return the path below which the ledgers are. Errors: ValueError."""
    return parse_uri(uri).ledgers_root


async def open_store(
    uri: str,
    clock: Clock | None = None,
    *,
    session_timeout_ms: int = SESSION_TIMEOUT_MS,
    read_only: bool = False,
) -> MetadataStore:
    """Open the store that a URI names; the caller closes it.

    `read_only` opens an SQLite file beside its owner; ZooKeeper has no owner and ignores it.
    Errors: ValueError (the URI), Unavailable (nobody answers, no such file), CorruptData.
    """
    at = parse_uri(uri)
    if at.path is not None:
        return SqliteStore(at.path, clock or SystemClock(), read_only=read_only)
    return await ZookeeperStore.connect(at.hosts, session_timeout_ms=session_timeout_ms)


def _host(uri: str, host: str) -> str:
    match = _HOST.fullmatch(host)
    if match is None or not 0 < int(match[2] or _PORT) < 1 << 16:
        raise ValueError(f"{uri!r}: {host!r} is not HOST:PORT")
    return f"{match[1]}:{match[2] or _PORT}"
