"""How much memory this process may use: the machine's, or less where a control group bounds it.

A container sees its own group at the root of what is mounted, whatever path it is told; elsewhere
the path leads there, and every group on it counts. Source: Linux' cgroup-v2 (`memory.max`) and
cgroup-v1/memory (`memory.limit_in_bytes`).
"""

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Final

_MEMBERSHIP: Final = Path("/proc/self/cgroup")
_GROUPS: Final = Path("/sys/fs/cgroup")


def memory_bytes(membership: Path = _MEMBERSHIP, groups: Path = _GROUPS) -> int:
    """Return the bytes of memory that this process may use. Errors: none, without groups too.

    `membership`, `groups`: where the system says to which groups it belongs, and shows them.
    """
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min([machine, *_limits(membership, groups)])


def _limits(membership: Path, groups: Path) -> Iterator[int]:
    for folder, path, name in _hierarchies(membership, groups):
        for group in (path, *path.parents):
            limit = _number(folder / group.relative_to("/") / name)
            if limit is not None:
                yield limit


def _hierarchies(membership: Path, groups: Path) -> Iterator[tuple[Path, PurePosixPath, str]]:
    """Return where each hierarchy that bounds memory is, this process' group, the limit's file."""
    try:
        lines = membership.read_text().splitlines()
    except OSError:
        return  # no Linux, or no groups
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if not controllers:
            yield groups, PurePosixPath(path), "memory.max"
        elif "memory" in controllers.split(","):
            yield groups / "memory", PurePosixPath(path), "memory.limit_in_bytes"


def _number(path: Path) -> int | None:
    """Return the number in a file; None if there is none, as where nothing is bounded."""
    try:
        text = path.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None
