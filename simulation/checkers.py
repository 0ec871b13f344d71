"""What must hold in every schedule: models that hear of each event and know what may follow.

A broken promise is kept as a `Violation` with its time; the run goes on, so that one seed shows all
that its first fault led to. Nothing here looks into the code under test: it hears what writers and
readers were told, what bookies answered, and what the metadata service stored.
"""

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from typing_extensions import override

from tailrace.core.ledger.schedule import Schedules
from tailrace.core.metadata.layout import LedgerPaths
from tailrace.core.metadata.ledger_metadata import LedgerMetadata, LedgerState, decode_ledger
from tailrace.core.metadata.store import Node
from tailrace.protocol.bookkeeper.messages import (
    AddRequest,
    AddResponse,
    ReadRequest,
    ReadResponse,
    Request,
    Response,
    StatusCode,
    WriteFlag,
)
from tailrace.protocol.ids import BookieId, EntryId, LedgerId

PATHS = LedgerPaths("/ledgers")
_ORDER = {LedgerState.OPEN: 0, LedgerState.IN_RECOVERY: 1, LedgerState.CLOSED: 2}

Reply: TypeAlias = Callable[[Response], None]
Submit: TypeAlias = Callable[[Request, Reply], None]


class Violation(NamedTuple):
    at_s: float
    what: str

    @override
    def __str__(self) -> str:
        return f"{self.at_s:.6f}: {self.what}"


@dataclass(slots=True)
class LedgerModel:
    """One ledger as its users know it."""

    ledger_id: LedgerId
    seed: int
    metadata: LedgerMetadata
    pushed: EntryId = -1
    confirmed: EntryId = -1
    """What a writer was told to be safe."""
    writer: str = ""
    """Name of the client that writes it."""
    deleted: bool = False
    readers: dict[str, EntryId] = field(default_factory=dict)
    lengths: list[int] = field(default_factory=list)
    """Cumulative payload bytes at each entry."""

    def payload(self, entry_id: EntryId) -> bytes:
        """Return the only bytes that this entry may have."""
        draw = zlib.crc32(b"%d %d %d" % (self.seed, self.ledger_id, entry_id))
        size = draw % 200 if draw % 16 else draw % 9_000
        if draw % 251 == 0:
            size = 70_000
        head = b"%d:%d:" % (self.ledger_id, entry_id)
        return (head + bytes((draw + i) & 0xFF for i in range(16)) * (size // 16 + 1))[
            : max(size, len(head))
        ]

    def length(self, entry_id: EntryId) -> int:
        """Return the ledger's length at an entry. Unit: bytes of payload."""
        while len(self.lengths) <= entry_id:
            before = self.lengths[-1] if self.lengths else 0
            self.lengths.append(before + len(self.payload(len(self.lengths))))
        return self.lengths[entry_id] if entry_id >= 0 else 0


class Checker:
    """All ledgers of one schedule."""

    def __init__(self, seed: int, now_s: Callable[[], float]) -> None:
        self.seed = seed
        self.ledgers: dict[LedgerId, LedgerModel] = {}
        self.violations: list[Violation] = []
        self.within_promise = True
        """Whether no more was lost than BookKeeper promises to survive."""
        self.entries_checked = 0
        self.ensemble_changes = 0
        self.recoveries = 0
        """Ledgers that were closed out of recovery."""
        self.bookies: dict[BookieId, BookieChecker] = {}
        self.knows_payloads = True
        """Whether workloads say what they write; else only bookies and metadata are judged."""
        self.regions: dict[BookieId, str] = {}
        self.regions_min = 0
        """Regions that hold what is confirmed."""
        self._now_s = now_s

    def fail(self, what: str) -> None:
        self.violations.append(Violation(self._now_s(), what))

    def expect(self, holds: bool, what: str) -> None:
        if not holds:
            self.fail(what)

    # What the metadata service stored

    def on_node(self, path: str, node: Node | None) -> None:
        ledger_id = PATHS.ledger_id(path)
        if ledger_id is None:
            return
        model = self.ledgers.get(ledger_id)
        if node is None:
            if model is not None:
                model.deleted = True
            return
        metadata = decode_ledger(node.data)
        if model is None:
            pushed = -1 if self.knows_payloads else 2**62
            self.ledgers[ledger_id] = LedgerModel(ledger_id, self.seed, metadata, pushed)
            self.expect(metadata.state is LedgerState.OPEN, f"ledger {ledger_id} born {metadata}")
            return
        self._check_change(model, model.metadata, metadata)
        model.metadata = metadata

    def _check_change(self, model: LedgerModel, old: LedgerMetadata, new: LedgerMetadata) -> None:
        name = f"ledger {model.ledger_id}"
        self.expect(
            _ORDER[new.state] >= _ORDER[old.state], f"{name} went from {old.state} to {new.state}"
        )
        firsts = [first for first, _ in new.fragments]
        self.expect(firsts == sorted(set(firsts)) and firsts[0] == 0, f"{name} fragments {firsts}")
        kept = old.fragments[:-1]
        if new.is_closed:  # fragments without entries may go
            kept = tuple(f for f in kept if f.first_entry_id <= max(new.last_entry_id, 0))
        self.expect(
            new.fragments[: len(kept)] == kept
            and (new.is_closed or len(new.fragments) >= len(old.fragments)),
            f"{name}: fragments {old.fragments} became {new.fragments}",
        )
        for first, ensemble in new.fragments:
            self.expect(
                len(set(ensemble)) == new.ensemble_size, f"{name} ensemble {first} {ensemble}"
            )
        if old.is_closed:
            self.expect(old == new, f"{name} changed after it was closed: {old} -> {new}")
        elif new.is_closed:
            self.recoveries += old.state is LedgerState.IN_RECOVERY
            self._check_close(model, new)
        elif new.fragments[-1] != old.fragments[-1]:
            self.ensemble_changes += 1
            self.expect(
                firsts[-1] <= model.confirmed + 1,
                f"{name}: a fragment begins at {firsts[-1]}, confirmed up to {model.confirmed}",
            )
            for entry_id in range(firsts[-1], model.confirmed + 1):
                self._check_copies(model, new, entry_id)

    def _check_close(self, model: LedgerModel, new: LedgerMetadata) -> None:
        name, last = f"ledger {model.ledger_id}", new.last_entry_id
        if self.within_promise:
            self.expect(
                last >= model.confirmed,
                f"{name} closed at {last}, but {model.confirmed} was acknowledged",
            )
        self.expect(last <= model.pushed, f"{name} closed at {last}, {model.pushed} was written")
        for entry_id in range(max(last - 30, 0), last + 1):
            self._check_copies(model, new, entry_id)
        if last <= model.pushed and self.knows_payloads:
            self.expect(
                new.length == model.length(last),
                f"{name} closed at {last} with length {new.length}, not {model.length(last)}",
            )

    # What writers and readers were told

    def on_confirmed(self, model: LedgerModel, lac: EntryId) -> None:
        name = f"ledger {model.ledger_id}"
        self.expect(lac >= model.confirmed, f"{name}: LAC went from {model.confirmed} to {lac}")
        self.expect(lac <= model.pushed, f"{name}: confirmed {lac}, pushed {model.pushed}")
        if model.metadata.is_closed:
            self.expect(
                lac <= model.metadata.last_entry_id,
                f"{name}: {lac} acknowledged after it was closed at {model.metadata.last_entry_id}",
            )
        for entry_id in range(model.confirmed + 1, lac + 1):
            self._check_copies(model, model.metadata, entry_id)
        model.confirmed = max(model.confirmed, lac)

    def _check_copies(
        self, model: LedgerModel, metadata: LedgerMetadata, entry_id: EntryId
    ) -> None:
        """Check that what is confirmed lies on Qa of the bookies that the metadata names for it."""
        if entry_id > model.pushed:
            return
        fragments = Schedules(metadata.fragments, metadata.write_quorum, metadata.ack_quorum)
        bookies = fragments.of(entry_id).write_bookies(entry_id)
        key = (model.ledger_id, entry_id)
        holders = [b for b in bookies if key in self.bookies[b].stored]
        self.expect(
            len(holders) >= metadata.ack_quorum,
            f"ledger {model.ledger_id} entry {entry_id} is confirmed and lies on {holders} of"
            f" {bookies}",
        )
        self.expect(
            len({self.regions.get(b) for b in holders}) >= self.regions_min,
            f"ledger {model.ledger_id} entry {entry_id} is confirmed and lies on {holders}, in"
            f" fewer than {self.regions_min} regions",
        )

    def on_reader_lac(self, model: LedgerModel, reader: str, lac: EntryId) -> None:
        """Hear how far a reader may read: never back, never beyond what is confirmed."""
        before = model.readers.get(reader, -1)
        self.expect(
            lac >= before, f"ledger {model.ledger_id}: {reader} went back {before} -> {lac}"
        )
        model.readers[reader] = max(lac, before)
        metadata = model.metadata
        limit = max(model.confirmed, metadata.last_entry_id if metadata.is_closed else -1)
        self.expect(
            lac <= limit, f"ledger {model.ledger_id}: {reader} sees LAC {lac}, confirmed {limit}"
        )

    def on_entry(
        self, model: LedgerModel, entry_id: EntryId, length: int, payload: memoryview
    ) -> None:
        self.entries_checked += 1
        name = f"ledger {model.ledger_id} entry {entry_id}"
        if entry_id > model.pushed:
            self.fail(f"{name} was read and never written (last is {model.pushed})")
            return
        self.expect(payload == model.payload(entry_id), f"{name} was read with other bytes")
        self.expect(length == model.length(entry_id), f"{name} was read with length {length}")


class BookieChecker:
    """One bookie over all its lives: what it answered is so for ever."""

    def __init__(self, name: str, checker: Checker) -> None:
        self.name = name
        self.damaged = False
        """Its disk was tampered with: it may lose what it had, and has to say so. It never denies
        what it acknowledged, and lifts no fence."""
        self.may_be_torn = False
        """The damage may look like what a power loss has torn: then it cannot know of it."""
        self.stored: dict[tuple[LedgerId, EntryId], None] = {}
        """Entries whose add it answered with success, synced or not."""
        self.acked: dict[tuple[LedgerId, EntryId], None] = {}
        self.fenced: dict[LedgerId, None] = {}
        self._denied: dict[tuple[LedgerId, EntryId], None] = {}
        """Entries that it told a recovery it has not."""
        self._acked_before_fence: dict[tuple[LedgerId, EntryId], None] = {}
        self._submitted: dict[tuple[LedgerId, EntryId], set[int]] = {}
        self._checker = checker
        self.bookie_id = BookieId(name)
        self.gives_up = False
        """It may have removed what others keep: a crash leaves untold what a collection did."""

    def listen(self, submit: Submit, request: Request, reply: Reply) -> None:
        """Submit a request and hear its answer."""
        if type(request) is AddRequest:
            self._on_add(request, submit, reply)
        elif type(request) is ReadRequest:
            self._on_read(request, submit, reply)
        else:
            submit(request, reply)

    def on_removed(self, ledger_id: LedgerId) -> None:
        """Hear that the bookie removed a ledger: it is deleted, or closed and others keep it."""
        model = self._checker.ledgers.get(ledger_id)
        if model is None or model.deleted:
            return
        self._checker.expect(
            not self._must_keep(model),
            f"bookie {self.name} removed ledger {ledger_id}, which it has to keep",
        )
        for known in (self.acked, self._acked_before_fence):
            for key in [key for key in known if key[0] == ledger_id]:
                del known[key]

    def _may_lack(self, model: LedgerModel) -> bool:
        return self.gives_up and not self._must_keep(model)

    def _must_keep(self, model: LedgerModel) -> bool:
        fragments = model.metadata.fragments
        named = any(self.bookie_id in fragment.ensemble for fragment in fragments)
        return named or not model.metadata.is_closed

    def _on_add(self, request: AddRequest, submit: Submit, reply: Reply) -> None:
        key = (request.ledger_id, request.entry_id)
        self._submitted.setdefault(key, set()).add(zlib.crc32(b"".join(request.body)))
        is_fenced = request.ledger_id in self.fenced

        def replied(response: Response) -> None:
            if isinstance(response, AddResponse) and response.status is StatusCode.EOK:
                self.stored[key] = None
                self._on_added(request, key, is_fenced=is_fenced)
            reply(response)

        submit(request, replied)

    def _on_added(
        self, request: AddRequest, key: tuple[LedgerId, EntryId], *, is_fenced: bool
    ) -> None:
        """`is_fenced`: a fence was answered before the add came.

        One that came before may be acknowledged later (a slow disk), unless a recovery was told
        meanwhile that it is not there.
        """
        self._checker.expect(
            request.recovery or self.may_be_torn or not (is_fenced or key in self._denied),
            f"bookie {self.name} acknowledged {key} after it answered a fence",
        )
        if request.write_flags & WriteFlag.DEFERRED_SYNC.value:
            return  # answered before it is synced, if the bookie likes
        self.acked[key] = None
        if not request.recovery:
            self._acked_before_fence[key] = None

    def _on_read(self, request: ReadRequest, submit: Submit, reply: Reply) -> None:
        key = (request.ledger_id, request.entry_id)
        known = key in self.acked

        def replied(response: Response) -> None:
            nonlocal known
            if request.fence and key in self._acked_before_fence:
                known = True  # a fence sees what was added before it, however late it was durable
            if response.status in (StatusCode.EOK, StatusCode.ENOENTRY, StatusCode.ENOLEDGER):
                if request.fence:
                    self.fenced[request.ledger_id] = None
                if request.previous_lac is None and isinstance(response, ReadResponse):
                    self._check_read(request, response, known=known)
            reply(response)

        submit(request, replied)

    def _check_read(self, request: ReadRequest, response: ReadResponse, *, known: bool) -> None:
        """`known`: the entry was acknowledged before, so the answer must show it."""
        key = (request.ledger_id, request.entry_id)
        model = self._checker.ledgers.get(request.ledger_id)
        if self.may_be_torn or request.entry_id < 0 or model is None or model.deleted:
            return
        if response.status is not StatusCode.EOK:
            if request.fence:
                self._denied[key] = None
            self._checker.expect(
                not known or self._may_lack(model),
                f"bookie {self.name} says {response.status.name} of {key}, which it acknowledged"
                f" (fence={request.fence})",
            )
        elif response.body is not None and not self.damaged:  # else its reader's digest judges it
            self._checker.expect(
                zlib.crc32(response.body) in self._submitted.get(key, ()),
                f"bookie {self.name} gave other bytes for {key} than it was given",
            )
