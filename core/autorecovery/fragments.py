"""A ledger's fragments: which entries lie at which place, which may be copied, what comes of it.

    closed    nobody will ever write to it again: every fragment of a closed ledger, and every one
              but the last of another; its entries can be copied and its members replaced in place
    open      the last fragment of a ledger that is not closed: its writer, or who recovers the
              ledger, replaces its members; everybody else leaves it alone

A place is an index of the ensemble. Which fragments there are, and the order of the bookies in
them, never changes here: a replacement stands where the bookie stood whose copies it has.

Why all but the last are closed, also while the ledger is written to: a change of ensemble begins at
LAC + 1, so all before it is confirmed, and nobody edits it but who replaces members, as we do.
Source: BookKeeper LedgerFragment, LedgerFragmentReplicator.updateEnsembleInfo.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple, overload

from typing_extensions import override

from tailrace.core.metadata.ledger_metadata import Fragment, LedgerMetadata
from tailrace.protocol.ids import BookieId, EntryId


class StoredEntries(Sequence[EntryId]):
    """The entries of a run that lie at one place, in order. Cost: nothing is listed."""

    __slots__ = ("_count", "_first", "_offsets", "_size")

    def __init__(self, span: "FragmentSpan", place: int) -> None:
        size = len(span.ensemble)
        self._first = span.first_entry_id
        self._size = size
        self._offsets = [
            offset
            for offset in range(size)
            if (place - span.first_entry_id - offset) % size < span.write_quorum
        ]
        rounds, rest = divmod(span.entry_count, size)
        self._count = rounds * len(self._offsets) + sum(o < rest for o in self._offsets)

    @override
    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, at: int) -> EntryId: ...
    @overload
    def __getitem__(self, at: slice) -> list[EntryId]: ...
    @override
    def __getitem__(self, at: int | slice) -> EntryId | list[EntryId]:
        if isinstance(at, slice):
            return [self[i] for i in range(*at.indices(self._count))]
        if not -self._count <= at < self._count:
            raise IndexError(at)
        rounds, offset = divmod(at % self._count, len(self._offsets))
        return self._first + rounds * self._size + self._offsets[offset]


class FragmentSpan(NamedTuple):
    """One fragment with its end. Shape: first to last entry, inclusive; last = first - 1: empty."""

    first_entry_id: EntryId
    last_entry_id: EntryId
    ensemble: tuple[BookieId, ...]
    write_quorum: int
    is_open: bool = False
    """Nobody knows its end; `last_entry_id` says then how far it is known to be written."""

    @property
    def entry_count(self) -> int:
        """How many entries it has."""
        return self.last_entry_id - self.first_entry_id + 1

    def stored_at(self, place: int) -> StoredEntries:
        """Return which of its entries lie at a place."""
        return StoredEntries(self, place)

    def places_of(self, entry_id: EntryId) -> tuple[int, ...]:
        """Return the places at which an entry lies, in order of preference."""
        size = len(self.ensemble)
        return tuple((entry_id + i) % size for i in range(self.write_quorum))

    def entries_at(self, places: Sequence[int]) -> Iterator[EntryId]:
        """Yield the entries that lie at any of some places, in order, each once."""
        wanted = frozenset(places)
        for entry_id in range(self.first_entry_id, self.last_entry_id + 1):
            if not wanted.isdisjoint(self.places_of(entry_id)):
                yield entry_id


class Replacement(NamedTuple):
    """Who takes a place over, having all entries that lie there."""

    before: BookieId
    after: BookieId


def fragments_of(metadata: LedgerMetadata) -> tuple[FragmentSpan, ...]:
    """Return the fragments of a ledger with their ends; an open one seems to be empty."""
    spans = [
        _span(metadata, fragment, following.first_entry_id - 1)
        for fragment, following in pairwise(metadata.fragments)
    ]
    last = metadata.fragments[-1]
    end = metadata.last_entry_id if metadata.is_closed else last.first_entry_id - 1
    return (*spans, _span(metadata, last, end)._replace(is_open=not metadata.is_closed))


def _span(metadata: LedgerMetadata, fragment: Fragment, last_entry_id: EntryId) -> FragmentSpan:
    if metadata.is_closed:  # Java's writers leave fragments behind the end
        last_entry_id = min(last_entry_id, metadata.last_entry_id)
    first = fragment.first_entry_id
    return FragmentSpan(
        first, max(last_entry_id, first - 1), fragment.ensemble, metadata.write_quorum
    )


def with_replacements(
    current: LedgerMetadata, copied: FragmentSpan, replacements: Mapping[int, Replacement]
) -> LedgerMetadata | None:
    """Return the metadata when copies that were made count; None: not one of them does any more.

    `copied` is the fragment as it was when the copying began. Somebody may have given a place to
    another bookie since, or a replacement another place: then that stands, and ours is dropped.
    Errors: ValueError for an open fragment: what its writer adds would not be in the copy.
    """
    if copied.is_open:
        raise ValueError(f"the members of an open fragment are its writer's: {copied}")
    spans = fragments_of(current)
    for at, span in enumerate(spans):
        is_same = (span.first_entry_id, span.last_entry_id) == copied[:2] and not span.is_open
        if is_same and (ensemble := _replaced(span.ensemble, replacements)) != span.ensemble:
            fragments = list(current.fragments)
            fragments[at] = fragments[at]._replace(ensemble=ensemble)
            return replace(current, fragments=tuple(fragments), ctoken=0)
    return None


def _replaced(
    ensemble: tuple[BookieId, ...], replacements: Mapping[int, Replacement]
) -> tuple[BookieId, ...]:
    members = list(ensemble)
    for place, (before, after) in sorted(replacements.items()):
        if members[place] == before and after not in members:
            members[place] = after
    return tuple(members)
