"""Values in a dict for each partition."""

from collections.abc import Mapping
from copy import deepcopy

from tailrace.compaction.restoring.checkpoint import Checkpoint
from tailrace.compaction.restoring.digest import Live, live_state
from tailrace.compaction.restoring.records import Changes


class DictSink:
    """Keeps values in this process: `values[partition][key]`. Memory: all that is alive.

    Its checkpoint ends with the process too, but survives an error: the same sink goes on.
    """

    place = "memory"

    def __init__(self) -> None:
        self.values: dict[int, dict[bytes, bytes]] = {}
        self._checkpoint: Checkpoint | None = None

    def load(self) -> Checkpoint | None:
        """Return what was saved last; None if nothing was."""
        return deepcopy(self._checkpoint)

    def clear(self) -> None:
        """Forget everything."""
        self.values.clear()
        self._checkpoint = None

    def save(self, changes: Mapping[int, Changes], checkpoint: Checkpoint) -> None:
        """Apply changes."""
        for partition, some in changes.items():
            values = self.values.setdefault(partition, {})
            alive = {key: value for key, value in some.items() if value is not None}
            values.update(alive)
            if len(alive) < len(some):
                for key in some.keys() - alive.keys():
                    values.pop(key, None)
        self._checkpoint = deepcopy(checkpoint)  # it goes on changing

    def finish(self, checkpoint: Checkpoint) -> dict[int, Live]:
        """Return what is alive."""
        return {
            each: live_state(self.values.setdefault(each, {}).items())
            for each in checkpoint.partitions
        }

    def close(self) -> None:
        """Keep the values: they are what was asked for."""
