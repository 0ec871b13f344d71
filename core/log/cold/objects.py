"""Objects below one URL: the only module that uses what fsspec gives.

Every call runs in a thread, within a time limit. Whatever a driver's library raises comes out as
ColdObjectNotFound or ColdStorageUnavailable. An object is written once, under a name of its own,
and is trusted only by what the metadata says of it: no renaming, which not all stores have whole.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from tailrace.core.errors import (
    ColdObjectNotFound,
    ColdStorageUnavailable,
    CoreError,
    OverCapacity,
    Unavailable,
)
from tailrace.core.log.cold.config import ColdConfig
from tailrace.core.runtime.files import Files, SystemFiles
from tailrace.core.runtime.job_pool import JobPool
from tailrace.protocol.ids import Buffer

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

logger = logging.getLogger(__name__)

T = TypeVar("T")

_LOCAL: Final = ("file", "local")


class Objects:
    """What is stored below a URL. Names are relative to it, with slashes."""

    def __init__(self, config: ColdConfig, files: Files | None = None) -> None:
        """`files`: what syncs a local directory's names."""
        self._config = config
        self._files = files or SystemFiles()
        self._reads = JobPool("cold.read", config.reads_max)
        self._writes = JobPool("cold.write", config.uploads_max)
        self._opened: tuple[AbstractFileSystem, str] | None = None

    async def read(self, name: str, position: int, size: int) -> bytes:
        """Return a range of an object; fewer bytes only at its end. Cost: one ranged read.

        Errors: ColdObjectNotFound, ColdStorageUnavailable; so for all of these.
        """

        def read(fs: "AbstractFileSystem", path: str) -> bytes:
            try:
                return bytes(fs.cat_file(path, start=position, end=position + size))
            except FileNotFoundError:
                raise
            except OSError:
                if int(fs.size(path)) > position:
                    raise
                return b""  # S3 refuses a range behind the end

        return await self._again(name, read)

    async def size(self, name: str) -> int:
        """Return the size of an object."""
        return await self._again(name, lambda fs, path: int(fs.size(path)))

    async def names(self, directory: str) -> list[str]:
        """Return the names of the objects right below a directory, sorted; [] if there is none."""

        def list_files(fs: "AbstractFileSystem", path: str) -> list[str]:
            try:
                found = fs.ls(path, detail=True, refresh=True)
            except FileNotFoundError:
                return []
            names = (str(each["name"]) for each in found if each["type"] == "file")
            return sorted(f"{directory}/{name.rpartition('/')[2]}" for name in names)

        return await self._again(directory, list_files)

    async def delete(self, name: str) -> None:
        """Delete an object; one that is not there is fine."""

        def remove(fs: "AbstractFileSystem", path: str) -> None:
            try:
                fs.rm_file(path)
            except FileNotFoundError:
                logger.debug("cold_object_gone name=%s", name)

        await self._again(name, remove)

    async def create(self, name: str) -> "Upload":
        """Begin to write a new object; `finish` or `abort` it."""

        def begin(fs: "AbstractFileSystem", path: str) -> Any:
            if _is_local(fs):
                self._files.make_directory(Path(path).parent)
            return fs.open(path, "wb", block_size=self._config.part_bytes)

        return Upload(self, name, await self._run(self._writes, name, begin))

    async def close(self) -> None:
        """End the threads."""
        await self._reads.close(self._config.timeout_ms / 1000)
        await self._writes.close(self._config.timeout_ms / 1000)

    async def write_step(self, name: str, work: "Callable[[AbstractFileSystem, str], T]") -> T:
        """Run one step of an upload in its thread."""
        return await self._run(self._writes, name, work)

    def sync(self, fd: int) -> None:
        """Make a local object's bytes last. In a thread."""
        self._files.sync(fd)

    def sync_name(self, path: str) -> None:
        """Make a local object's name last. In a thread."""
        self._files.sync_directory(Path(path).parent)

    async def _again(self, name: str, work: "Callable[[AbstractFileSystem, str], T]") -> T:
        """Run what may be run twice, as often as allowed while the store does not answer."""
        pause_s = self._config.retry_pause_ms / 1000
        for left in range(self._config.attempts - 1, -1, -1):
            try:
                return await self._run(self._reads, name, work)
            except ColdStorageUnavailable as error:
                if not left:
                    raise
                logger.info("cold_retry name=%s left=%d error=%s", name, left, error)
            await asyncio.sleep(pause_s)
            pause_s *= 2
        raise AssertionError("at least one attempt is made")

    async def _run(
        self, pool: JobPool, name: str, work: "Callable[[AbstractFileSystem, str], T]"
    ) -> T:
        def guarded() -> T:
            try:
                fs, root = self._file_system()
                return work(fs, f"{root}/{name}")
            except FileNotFoundError as error:
                raise ColdObjectNotFound(f"{self._place(name)} is not there") from error
            except Exception as error:  # a driver raises what its library has
                reason = f"{type(error).__name__}: {error}"
                raise ColdStorageUnavailable(f"{self._place(name)}: {reason}") from error

        try:
            return await pool.call(guarded, self._config.timeout_ms / 1000)
        except ColdStorageUnavailable:
            raise
        except (Unavailable, OverCapacity) as error:
            raise ColdStorageUnavailable(f"{self._place(name)}: {error}") from error

    def _file_system(self) -> "tuple[AbstractFileSystem, str]":
        if self._opened is None:
            from fsspec.core import url_to_fs  # 50 ms that only users of cold storage spend

            options = {"skip_instance_cache": True, **self._config.storage_options}
            if "://" in self._config.url and not self._config.url.startswith("file:"):
                options.setdefault("use_listings_cache", False)
            fs, root = url_to_fs(self._config.url, **options)
            self._opened = fs, str(root).rstrip("/")
        return self._opened

    def _place(self, name: str) -> str:
        return f"{self._config.url.rstrip('/')}/{name}"


class Upload:
    """One object that is being written, part by part. One call at a time."""

    def __init__(self, objects: Objects, name: str, file: Any) -> None:
        self.name = name
        self._objects = objects
        self._file = file
        self._one_at_a_time = threading.Lock()  # a step whose caller gave up may still run

    async def write(self, parts: Sequence[Buffer]) -> None:
        """Append. Cost: a copy into the part that is being collected. Errors: as Objects."""

        def write(fs: "AbstractFileSystem", path: str) -> None:
            with self._one_at_a_time:
                for part in parts:
                    self._file.write(part)

        await self._objects.write_step(self.name, write)

    async def finish(self) -> None:
        """Make the object be there, for good: synced, or what a remote store means by done."""

        def finish(fs: "AbstractFileSystem", path: str) -> None:
            with self._one_at_a_time:
                if _is_local(fs):
                    self._file.flush()
                    self._objects.sync(self._file.fileno())
                self._file.close()
                if _is_local(fs):
                    self._objects.sync_name(path)

        await self._objects.write_step(self.name, finish)

    async def abort(self) -> None:
        """Leave nothing behind, as far as the store lets us. Errors: none; they are logged."""

        def abort(fs: "AbstractFileSystem", path: str) -> None:
            with self._one_at_a_time:
                if _is_local(fs):
                    self._file.close()
                    Path(path).unlink(missing_ok=True)
                else:
                    self._file.discard()
                    self._file.closed = True  # its end would complete the upload

        try:
            await self._objects.write_step(self.name, abort)
        except CoreError as error:
            logger.warning("cold_upload_left name=%s error=%s", self.name, error)


def _is_local(fs: "AbstractFileSystem") -> bool:
    protocol = fs.protocol
    return (protocol if isinstance(protocol, str) else protocol[0]) in _LOCAL
