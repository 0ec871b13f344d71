"""The contract of a metadata store: ZooKeeper's model, behind which SQLite or ZooKeeper stands.

A tree of nodes with small data. Every node has a version that rises with each set; updates name
the version that they saw. Watches fire once, as ZooKeeper's do. Ephemeral nodes go with the session
that made them. A `multi` happens whole or not at all.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple, Protocol, TypeAlias

ANY_VERSION = -1

NODE_BYTES_MAX: Final = 1_000_000
"""Data of one node, and of all ops of one `multi` together: ZooKeeper refuses frames of 1 MiB."""


class WatchEvent(Enum):
    """Why a watch fired."""

    CREATED = "created"
    CHANGED = "changed"
    DELETED = "deleted"
    CHILDREN = "children"
    SESSION_LOST = "session lost"


class SessionEvent(Enum):
    """What happened to the session that ephemeral nodes and watches belong to."""

    LOST = "lost"
    """Nobody answers: whether the session lives on is known with the next event."""
    RESTORED = "restored"
    """The same session answers again: ephemeral nodes and watches are what they were."""
    NEW_SESSION = "new session"
    """The former session is over: its ephemeral nodes are gone, its watches got SESSION_LOST."""


class Node(NamedTuple):
    """A node as one read saw it."""

    data: bytes
    version: int
    ctime_ms: int
    mtime_ms: int
    ephemeral_owner: int
    """Session id that an ephemeral node lives with; 0 for a persistent one."""
    cversion: int
    """Rises with each change of the list of children."""


@dataclass(frozen=True, slots=True)
class Create:
    """Create a node in a `multi`. Errors: NodeExists, NoNode (parent)."""

    path: str
    data: bytes = b""
    ephemeral: bool = False


@dataclass(frozen=True, slots=True)
class SetData:
    """Replace a node's data in a `multi`. Errors: NoNode, BadVersion."""

    path: str
    data: bytes
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete a node in a `multi`. Errors: NoNode, BadVersion, NotEmpty."""

    path: str
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class Check:
    """Require a node's version in a `multi`. Errors: NoNode, BadVersion."""

    path: str
    version: int


Op: TypeAlias = Create | SetData | Delete | Check
Watch: TypeAlias = Callable[[str, WatchEvent], None]
"""Called once on the loop, with the path and the reason; perhaps for nothing: so read again."""

SessionListener: TypeAlias = Callable[[SessionEvent], None]
"""Called on the loop; each LOST is followed by one RESTORED or NEW_SESSION, or by nothing more."""


class MetadataStore(Protocol):
    """A tree of versioned nodes. All paths are absolute and have no trailing slash.

    Errors: the `MetadataConflict` family where a method says so; ValueError for what is no path;
    OverCapacity for more than `NODE_BYTES_MAX`; `Unavailable` after close, or when no answer came
    in time. After `Unavailable` a write may have happened, and may still happen until the session
    is over: read before you write again, and let a create carry something to know it by (a ledger's
    cToken). One thing is cleaned up by the store: an ephemeral sequential node whose name nobody
    was told is deleted as soon as the session answers. Cancel: as Unavailable.
    """

    @property
    def session_id(self) -> int:
        """The session that this process' ephemeral nodes belong to; changes with NEW_SESSION."""

    def on_session(self, listener: SessionListener) -> None:
        """Tell `listener` of each change of the session from now on."""

    async def get(self, path: str, watch: Watch | None = None) -> Node:
        """Return the node. Errors: NoNode. The watch fires on CHANGED or DELETED."""

    async def exists(self, path: str, watch: Watch | None = None) -> Node | None:
        """Return the node or None. The watch fires on CREATED, CHANGED or DELETED."""

    async def get_all(self, paths: Sequence[str]) -> list[Node | None]:
        """Return the nodes, None for each that is not there; not a view of one moment.

        `node_reads.read_nodes` does so for any number of them.
        """

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        """Return the children's names, sorted. Errors: NoNode. Fires on CHILDREN, DELETED."""

    async def create(
        self,
        path: str,
        data: bytes = b"",
        *,
        ephemeral: bool = False,
        sequential: bool = False,
        parents: bool = False,
    ) -> str:
        """Create a node and return its path (with ten digits appended if `sequential`).

        `parents`: make missing parents, empty and persistent. Errors: NodeExists, NoNode.
        """

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> int:
        """Replace the data and return the new version. Errors: NoNode, BadVersion."""

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """Delete the node. Errors: NoNode, BadVersion, NotEmpty."""

    async def multi(self, ops: Sequence[Op]) -> list[int]:
        """Do all or nothing; return each op's new version (0 for Create, -1 for Delete and Check).

        Errors: the first failing op's own error, its message naming the op.
        """

    async def sync(self) -> None:
        """Make this client's later reads see everything that anybody did before this call.

        Reads alone may lag behind other clients' writes, by how far a ZooKeeper follower lags.
        """

    async def close(self) -> None:
        """End the session: its ephemeral nodes go. Idempotent."""
