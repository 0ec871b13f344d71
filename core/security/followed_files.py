"""What is made of settings and the files that they name, made again when one of them changes.

It is made whole and then takes the place of the former one; what cannot be used changes nothing.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, Generic, NamedTuple, TypeVar

from tailrace.core.runtime.forever import Forever
from tailrace.core.runtime.job_pool import JobPool
from tailrace.core.runtime.tasks import Tasks
from tailrace.core.security.keys import InvalidKeys
from tailrace.core.security.tls_config import TlsStores

logger = logging.getLogger(__name__)

C = TypeVar("C", bound=TlsStores)
T = TypeVar("T")

CHECK_S: Final = 1.0
"""Distance of checks whether a file has changed."""
READ_S_MAX: Final = 30.0


class _Stamp(NamedTuple):
    """What changes when a file does."""

    inode: int
    size: int
    changed_ns: int


class FollowedFiles(Generic[C, T]):
    """Keeps `current`. All calls come from the loop.

    Invariant: `current` is whole, and is of files as they were together at one check.
    """

    def __init__(
        self, name: str, config: C, make: Callable[[C], T], changed: Callable[[T | None], None]
    ) -> None:
        """Make it once. Blocks. `changed`: hears what was made again; None: it cannot be used.

        `make` may raise InvalidKeys. Errors: InvalidKeys.
        """
        self._config = config
        self._make = make
        self._changed = changed
        self._stamps: tuple[_Stamp | None, ...] | None = _stamps(config.files)
        self.current = make(config)
        self._pool = JobPool(name, 1)
        self._tasks = Tasks(name)
        self._checks = Forever(f"{name}.reload")
        self._is_followed = False

    def start(self) -> None:
        """Follow the files, if there are any. Idempotent."""
        if self._stamps != () and not self._is_followed:
            self._is_followed = True
            self._tasks.start(self._checks.run(self._check_later), "reload")

    async def check(self, config: C) -> None:
        """Try other files or settings out. Errors: InvalidKeys."""
        if config != self._config:
            made, why_not = await self._pool.call(lambda: self._tried(config), READ_S_MAX)
            if made is None:
                raise InvalidKeys(why_not)

    def configure(self, config: C) -> None:
        """Take other files or settings into use, at the next check."""
        if config != self._config:
            self._config, self._stamps = config, None
            self.start()

    async def close(self) -> None:
        """Follow them no more. Idempotent."""
        await self._tasks.close()
        await self._pool.close(READ_S_MAX)

    async def _check_later(self) -> None:
        await asyncio.sleep(CHECK_S)
        config = self._config
        stamps = _stamps(config.files)
        if stamps == self._stamps:
            return
        made, why_not = await self._pool.call(lambda: self._tried(config), READ_S_MAX)
        if config is self._config:  # else there is news already
            self._stamps = stamps
        if made is None:
            logger.error("tls_not_reloaded: the former certificate stays error=%s", why_not)
        else:
            self.current = made
        self._changed(made)

    def _tried(self, config: C) -> tuple[T | None, str]:
        """Return what was made, or why it was not."""
        try:
            return self._make(config), ""
        except InvalidKeys as error:
            return None, str(error)


def _stamps(files: Iterable[Path]) -> tuple[_Stamp | None, ...]:
    return tuple(map(_stamp, files))


def _stamp(file: Path) -> _Stamp | None:
    """Return what changes with a file; None: it is not there, or not to be seen."""
    try:
        found = file.stat()
    except OSError:
        return None
    return _Stamp(found.st_ino, found.st_size, found.st_mtime_ns)
