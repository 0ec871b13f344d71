"""Where the metadata is, as one word.

Ledgers have BookKeeper's metadataServiceUri, log streams DistributedLog's namespace URI, a
standalone broker an SQLite file for both.

    zk://h1:2181,h2:2181/ledgers                   ZooKeeper; hosts parted by comma or semicolon
    zk+hierarchical://h1:2181;h2:2181/ledgers      BookKeeper's own spelling; names the layout
    distributedlog://h1:2181;h2:2181/messaging/ns  a namespace of log streams
    distributedlog-bk://h1:2181;h2:2181/...        the same; names the backend
    sqlite:PATH                                    the embedded store of a standalone broker

The path part is the root of the ledgers, or of the logs; it is a plain path, not a chroot, as in
BookKeeper. Other layouts than hierarchical (flat, longhierarchical) are refused: nothing here
writes them. Source: BookKeeper MetadataDrivers; reference DistributedLog 3.1.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tailrace.core.metadata.layout import LEDGERS_ROOT, NAMESPACE_ROOT
from tailrace.core.metadata.node_path import split_path
from tailrace.core.metadata.sqlite import SqliteStore
from tailrace.core.metadata.store import MetadataStore
from tailrace.core.metadata.zookeeper import SESSION_TIMEOUT_MS, ZookeeperStore
from tailrace.core.metadata.zookeeper_acls import PLAIN, ZookeeperAccess
from tailrace.core.runtime.clock import Clock, SystemClock

_LAYOUTS: Final = ("", "hierarchical", "null")
_NAMESPACE_SCHEMES: Final = ("distributedlog", "distributedlog-bk")
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


@dataclass(frozen=True, slots=True)
class NamespaceUri:
    """A parsed namespace URI: either `hosts` or `path` is given."""

    root: str
    """Path of the namespace in the metadata."""
    hosts: str = ""
    """ZooKeeper servers, "h1:2181,h2:2181"."""
    path: Path | None = None
    """The SQLite file."""

    @property
    def text(self) -> str:
        """The URI in its normal form: without a backend, every server with its port."""
        if self.path is not None:
            return f"sqlite:{self.path}"
        return f"distributedlog://{self.hosts.replace(',', ';')}{self.root}"


def parse_namespace_uri(uri: str) -> NamespaceUri:
    """Take a namespace URI apart. Errors: ValueError names what is wrong."""
    scheme, colon, rest = uri.partition(":")
    if scheme == "sqlite" and rest:
        return NamespaceUri(NAMESPACE_ROOT, path=Path(rest))
    if not colon or scheme not in _NAMESPACE_SCHEMES or not rest.startswith("//"):
        raise ValueError(f"{uri!r} is neither distributedlog://HOST:PORT/PATH nor sqlite:PATH")
    hosts, slash, root = rest.removeprefix("//").partition("/")
    if not split_path(slash + root or "/")[0]:
        raise ValueError(f"{uri!r}: a namespace cannot lie in ZooKeeper's own root")
    return NamespaceUri(slash + root, hosts=parse_servers(uri, hosts))


def parse_servers(place: str, servers: str) -> str:
    """Return a list of ZooKeeper servers in its normal form, "h1:2181,h2:2181".

    `place`: where the list stands. Errors: ValueError.
    """
    return ",".join(_host(place, one) for one in servers.replace(";", ",").split(","))


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
    return MetadataUri(root, hosts=parse_servers(uri, hosts))


def ledgers_root(uri: str) -> str:
    """Return the path below which the ledgers are. Errors: ValueError."""
    return parse_uri(uri).ledgers_root


async def open_store(
    uri: str,
    clock: Clock | None = None,
    *,
    session_timeout_ms: int = SESSION_TIMEOUT_MS,
    read_only: bool = False,
    access: ZookeeperAccess = PLAIN,
) -> MetadataStore:
    """Open the store that a URI names; the caller closes it.

    `read_only` opens an SQLite file beside its owner; ZooKeeper has no owner and ignores it.
    `access`: credentials for ZooKeeper, and whose the nodes are that are made.
    Errors: ValueError (the URI), Unavailable (nobody answers, no such file), AuthFailed,
    InvalidKeys, CorruptData.
    """
    at = parse_uri(uri)
    if at.path is not None:
        return SqliteStore(at.path, clock or SystemClock(), read_only=read_only)
    return await ZookeeperStore.connect(
        at.hosts, session_timeout_ms=session_timeout_ms, access=access
    )


def _host(uri: str, host: str) -> str:
    match = _HOST.fullmatch(host)
    if match is None or not 0 < int(match[2] or _PORT) < 1 << 16:
        raise ValueError(f"{uri!r}: {host!r} is not HOST:PORT")
    return f"{match[1]}:{match[2] or _PORT}"
