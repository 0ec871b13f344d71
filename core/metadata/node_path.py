"""What is a node's path, and how much a request may carry: the same in every store."""

from collections.abc import Sequence
from typing import Final

from tailrace.core.errors import OverCapacity
from tailrace.core.metadata.store import NODE_BYTES_MAX, Create, Op, SetData

FRAME_BYTES_MAX: Final = 1_040_000
"""A request with paths and all; ZooKeeper's jute.maxbuffer (1 MiB less 1) ends the connection."""

OP_BYTES: Final = 64
"""More than an operation takes beside path and data: kind, version, access list."""


def split_path(path: str) -> tuple[str, str]:
    """Return (parent, name) of a path; the root is ("", "/"). Errors: ValueError is our own bug."""
    if path == "/":
        return "", "/"
    parent, _, name = path.rpartition("/")
    if not path.startswith("/") or not name or not _is_plain(path):
        raise ValueError(f"not a node path: {path!r}")
    return parent or "/", name


def _is_plain(path: str) -> bool:
    """Refuse what ZooKeeper refuses: empty and relative names, and the null character."""
    if "//" in path or "\0" in path:
        return False
    return "/." not in path or not {".", ".."} & set(path.split("/"))


def check_size(path: str, data: bytes) -> None:
    """Refuse data that a node cannot hold. Errors: OverCapacity."""
    if len(data) > NODE_BYTES_MAX:
        raise OverCapacity(f"{path}: {len(data)} bytes, a node holds at most {NODE_BYTES_MAX}")


def check_ops(ops: Sequence[Op]) -> None:
    """Refuse a `multi` that no store takes. Errors: ValueError (a path), OverCapacity."""
    data_bytes = frame_bytes = 0
    for op in ops:
        split_path(op.path)
        frame_bytes += len(op.path.encode()) + OP_BYTES
        if isinstance(op, Create | SetData):
            data_bytes += len(op.data)
    if data_bytes > NODE_BYTES_MAX or data_bytes + frame_bytes > FRAME_BYTES_MAX:
        raise OverCapacity(
            f"{data_bytes} bytes of data in one multi of {len(ops)} operations, "
            f"at most {NODE_BYTES_MAX} and {FRAME_BYTES_MAX} with their paths"
        )
