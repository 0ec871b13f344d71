"""What tests fetch or build once, below `.cache` in the repository, and use offline after that."""

import fcntl
import hashlib
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

CACHE = Path(__file__).parent.parent / ".cache"


def tool(name: str) -> str:
    """Return the path of a tool, or skip the test that needs it."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


@contextmanager
def once(folder: Path, made_from: bytes) -> Iterator[bool]:
    """Yield whether `folder` must be filled (again), while no other worker looks at it.

    It is empty then. If the body fails or skips, the next one fills it again.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    stamp = folder / ".made-from"
    wanted = hashlib.sha256(made_from).hexdigest()
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        todo = not stamp.exists() or stamp.read_text() != wanted
        if todo:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
        yield todo
        stamp.write_text(wanted)
