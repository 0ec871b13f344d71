"""What goes wrong with the owners of logs, beside all that goes wrong with ledgers."""

import asyncio
from random import Random

from tailrace.core.metadata.store import ANY_VERSION
from tailrace.simulation.logs.client import LogClient
from tailrace.simulation.logs.workload import LogWorkload
from tailrace.simulation.nemesis import Fault, Nemesis

LOG_FAULTS = ("crash_owner", "expire_owners", "break_lock", "crash_owner")


class LogNemesis(Nemesis):
    """Draws faults of one world of logs."""

    _workload: LogWorkload
    # A bookie that will not start any more leaves too few for a new segment, and with several
    # damaged copies a search begins before what it looks for: ledgers judge all that.
    damaged_files = (".log",)
    damage_restart_share = 0.0
    zero_share = 0.0

    def add_log_faults(self) -> None:
        """Let a third of the faults be those of owners."""
        rng = Random(f"{self.world.seed}/log faults")
        more: list[Fault] = [getattr(self, name) for name in LOG_FAULTS]
        share = sum(self._weights) / 2 / len(more)
        self._kinds += more
        self._weights += [share * rng.choice((0, 1, 2)) for _ in more]

    async def crash_owner(self) -> None:
        """Let a process die at one of its next changes of the metadata."""
        client = self._client()
        assert isinstance(client, LogClient)
        store = client.dying
        store.dies_before = self.rng.random() < 0.5
        store.changes_left = self.rng.choice((0, 1, 2, 3, 5, 8))
        process = client.process
        await asyncio.wait([process.died], timeout=self.rng.choice((1.0, 5.0, 20.0)))
        store.changes_left = None
        if not process.alive:
            self._replace_client(client)

    async def expire_owners(self) -> None:
        """End every session at once: all locks are free."""
        sessions = self.world.metadata.sessions
        for number in sorted(sessions):
            sessions[number].expire()

    async def break_lock(self) -> None:
        """Delete the members of a lock: somebody else may own the log beside its owner."""
        metadata = self.world.metadata
        model = self._workload.models[self.rng.choice(list(self._workload.models))]
        lock = model.paths.lock
        if metadata.tree.find(lock) is not None:
            for name in metadata.tree.children(lock):
                metadata.apply(lambda tree, path=f"{lock}/{name}": tree.delete(path, ANY_VERSION))  # type: ignore[misc]
