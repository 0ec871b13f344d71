"""The groups of one shard, of every kind."""

from tailrace.broker.coordinator.config import GroupConfig
from tailrace.broker.coordinator.group import ClassicGroup
from tailrace.broker.coordinator.kinds import Group


class Groups(dict[str, Group]):
    """Groups by id."""

    def __init__(self, config: GroupConfig) -> None:
        super().__init__()
        self._config = config

    def classic(self, group_id: str) -> ClassicGroup | None:
        """Return the group if it speaks the classic protocol."""
        group = self.get(group_id)
        return group if isinstance(group, ClassicGroup) else None

    def make(self, group_id: str) -> Group:
        """Return the group; if there is none, a new empty one, which any member may shape."""
        group = self.get(group_id)
        if group is None:
            group = self[group_id] = ClassicGroup(group_id, self._config)
        return group
