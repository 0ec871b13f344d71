"""Producers whose transaction is being verified with its coordinator, in one partition. Pure.

Between the coordinator's yes and the append an abort's marker may be written; the yes then speaks
of a transaction that is over. So every verification has a guard, and a transactional batch or a
marker of the producer takes it away. The lowest sequence that was to be verified is kept until one
is appended: when it was refused for the moment, no later batch may overtake it.
Source: reference Kafka 4.6; VerificationStateEntry, VerificationGuard (Kafka 4.3.1).
"""

from tailrace.protocol.records.batch import BatchHeader

VERIFICATIONS_MAX = 10_000
"""Of one partition; beyond it the oldest is forgotten, and its batch refused: INVALID_TXN_STATE."""


class _Verification:
    """What is known of one producer's first batch."""

    __slots__ = ("bumps_epoch", "epoch", "guard", "lowest_sequence", "since_ms")

    def __init__(
        self, header: BatchHeader, guard: int, since_ms: int, *, bumps_epoch: bool
    ) -> None:
        self.guard = guard
        self.epoch = header.producer_epoch
        self.lowest_sequence = header.base_sequence
        self.since_ms = since_ms
        self.bumps_epoch = bumps_epoch


class Verifications:
    """The verifications of one partition that no append has used yet."""

    __slots__ = ("_guards", "_of")

    def __init__(self) -> None:
        self._of: dict[int, _Verification] = {}  # by producer id, the oldest first
        self._guards = 0

    def __len__(self) -> int:
        return len(self._of)

    def begin(self, header: BatchHeader, now_ms: int, *, bumps_epoch: bool) -> int:
        """Return the guard under which a batch may be appended once the coordinator said yes.

        `bumps_epoch`: the producer's epoch rises with every transaction (transaction version 2).
        """
        known = self._of.get(header.producer_id)
        if known is None:
            if len(self._of) >= VERIFICATIONS_MAX:
                del self._of[next(iter(self._of))]
            self._guards += 1
            known = _Verification(header, self._guards, now_ms, bumps_epoch=bumps_epoch)
            self._of[header.producer_id] = known
        elif header.producer_epoch > known.epoch:
            known.epoch, known.lowest_sequence = header.producer_epoch, header.base_sequence
        elif header.producer_epoch == known.epoch:
            known.lowest_sequence = min(known.lowest_sequence, header.base_sequence)
        return known.guard

    def holds(self, producer_id: int, guard: int) -> bool:
        """Whether nothing of the producer went into the log since `begin` gave the guard."""
        known = self._of.get(producer_id)
        return known is not None and known.guard == guard

    def is_early(self, header: BatchHeader, *, knows_batches: bool) -> bool:
        """Whether a batch would overtake another one of its producer.

        `knows_batches`: the partition knows a batch of the producer's epoch. If it does not, a
        producer whose epoch rises with every transaction begins with sequence 0.
        """
        known = self._of.get(header.producer_id)
        if known is None:
            return False
        if known.bumps_epoch and header.base_sequence != 0 and not knows_batches:
            return True
        return header.base_sequence > known.lowest_sequence

    def forget(self, producer_id: int) -> None:
        """Take a producer's guard away: its batch or its marker goes into the log."""
        self._of.pop(producer_id, None)

    def expire(self, before_ms: int) -> None:
        """Forget what was begun before `before_ms`."""
        for key in [key for key, each in self._of.items() if each.since_ms < before_ms]:
            del self._of[key]
