"""Leader epochs: where each ends, who wrote an offset, and the codec."""

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.broker.partition import leader_epochs as module
from tailrace.broker.partition.leader_epochs import EpochStart, LeaderEpochs
from tailrace.protocol.errors import DecodeError

EPOCHS = LeaderEpochs((EpochStart(2, 10), EpochStart(5, 20), EpochStart(9, 50)))


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (-1, (-1, -1)),
        (1, (1, 10)),
        (2, (2, 20)),
        (4, (2, 20)),
        (5, (5, 50)),
        (9, (9, 77)),
        (10, (-1, -1)),
    ],
)
def test_an_epoch_ends_where_the_next_one_begins(asked: int, answer: tuple[int, int]) -> None:
    assert EPOCHS.end_of(asked, log_end_offset=77) == answer


def test_without_epochs_nothing_is_known() -> None:
    assert LeaderEpochs().end_of(0, 0) == (-1, -1)
    assert LeaderEpochs().epoch_of(3) == -1


@pytest.mark.parametrize(("offset", "epoch"), [(9, -1), (10, 2), (19, 2), (20, 5), (1000, 9)])
def test_an_offset_belongs_to_the_owner_that_wrote_it(offset: int, epoch: int) -> None:
    assert EPOCHS.epoch_of(offset) == epoch


def test_an_owner_that_wrote_nothing_leaves_no_trace() -> None:
    epochs = LeaderEpochs()
    for epoch, start in [(1, 0), (2, 0), (3, 5), (4, 5), (6, 8)]:
        epochs.begin(epoch, start)
    assert epochs.entries == ((2, 0), (4, 5), (6, 8))


def test_the_list_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EPOCHS_MAX", 3)
    epochs = LeaderEpochs()
    for epoch in range(10):
        epochs.begin(epoch, epoch)
    assert [entry.epoch for entry in epochs.entries] == [7, 8, 9]


def test_what_the_log_start_overtakes_is_forgotten() -> None:
    epochs = LeaderEpochs(EPOCHS.entries)
    epochs.forget_before(20)
    assert epochs.entries == ((5, 20), (9, 50))
    epochs.forget_before(33)
    assert epochs.entries == ((5, 33), (9, 50))
    epochs.forget_before(99)
    assert epochs.entries == ((9, 99),)


def test_the_codec_round_trips_and_refuses_every_cut() -> None:
    data = EPOCHS.encode()
    again, end = LeaderEpochs.decode(data)
    assert (again.entries, end) == (EPOCHS.entries, len(data))
    for length in range(len(data)):
        with pytest.raises(DecodeError):
            LeaderEpochs.decode(data[:length])


def test_a_list_that_does_not_rise_is_refused() -> None:
    for entries in [((5, 1), (5, 2)), ((5, 2), (6, 2)), ((6, 1), (5, 2))]:
        data = LeaderEpochs(tuple(EpochStart(*e) for e in entries)).encode()
        with pytest.raises(DecodeError):
            LeaderEpochs.decode(data)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=80))
def test_random_bytes_decode_or_are_refused(data: bytes) -> None:
    with contextlib.suppress(DecodeError):
        LeaderEpochs.decode(data)
