"""What a group's members are promised, watched where the coordinator answers.

- a partition has one owner in a generation: no two members are ever given it;
- committed offsets never go back: what was confirmed, or told, is told again or more.
"""

from collections.abc import Callable

from tailrace.simulation.checkers import Violation


class GroupChecker:
    """One group of one schedule. Owners are named by what outlives a restart of a static member."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self.violations: list[Violation] = []
        self.assignments = 0
        self.commits = 0
        self.generation = 0
        """The highest that was handed out."""
        self._now_s = now_s
        self._owners: dict[tuple[int, int], str] = {}
        self._known: dict[int, int] = {}
        self._last: dict[int, tuple[str, int]] = {}

    def fail(self, what: str) -> None:
        self.violations.append(Violation(self._now_s(), what))

    def on_assigned(self, generation: int, owner: str, partitions: list[int]) -> None:
        """Take what a member was given."""
        self.assignments += 1
        self.generation = max(self.generation, generation)
        for partition in partitions:
            former = self._owners.setdefault((generation, partition), owner)
            if former != owner:
                self.fail(f"partition {partition} of generation {generation}: {former}, {owner}")

    def known(self, partition: int) -> int:
        """Return what nobody may fall behind who asks from now on."""
        return self._known.get(partition, -1)

    def on_committed(self, who: str, generation: int, partition: int, offset: int) -> None:
        """Take a commit that was confirmed just now.

        A member may overtake itself within its generation: a request of its own that came late.
        """
        self.commits += 1
        is_own = self._last.get(partition) == (who, generation)
        if offset < self.known(partition) and not is_own:
            self.fail(f"{who} took partition {partition} back to {offset}")
        self._last[partition] = (who, generation)
        self._known[partition] = offset

    def on_told(self, who: str, partition: int, offset: int, known_before: int) -> None:
        """Take a committed offset that a member was told, and what was known when it asked."""
        if offset < min(known_before, self.known(partition)):
            self.fail(f"{who} was told {offset} of partition {partition}, after {known_before}")
        self._known[partition] = max(self.known(partition), offset)
