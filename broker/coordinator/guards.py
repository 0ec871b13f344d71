"""Transactional commits between their coordinator's yes and their write.

A marker may be written in between: by a timeout, by a client that aborts. The yes then speaks of a
transaction that is over, and the commit would begin one that nobody ends. So whoever asks takes a
guard first, and a marker of the producer takes all its guards away.
Source: reference Kafka 4.6; VerificationGuard.
"""

from itertools import count


class Guards:
    """Guards by producer. Bounds: one for each request that is being verified."""

    __slots__ = ("_held", "_numbers")

    def __init__(self) -> None:
        self._held: dict[int, set[int]] = {}
        self._numbers = count(1)

    def __len__(self) -> int:
        return sum(map(len, self._held.values()))

    def begin(self, producer_id: int) -> int:
        """Return a guard; it is to be given back."""
        guard = next(self._numbers)
        self._held.setdefault(producer_id, set()).add(guard)
        return guard

    def holds(self, producer_id: int, guard: int) -> bool:
        """Say whether no marker has come since."""
        return guard in self._held.get(producer_id, ())

    def give_back(self, producer_id: int, guard: int) -> bool:
        """Return whether no marker has come since."""
        held = self._held.get(producer_id, set())
        is_held = guard in held
        held.discard(guard)
        if not held:
            self._held.pop(producer_id, None)
        return is_held

    def break_all(self, producer_id: int) -> None:
        """Take a marker that is to be written."""
        self._held.pop(producer_id, None)
