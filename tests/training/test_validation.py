"""Which rows are trained on and held out, the validation loss and score, and whether events differ in any column."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

import pyarrow as pa
import pytest
import torch
from torch import Tensor, nn

import make
from eventvec.dataset import text_column
from eventvec.errors import DataError
from eventvec.sequences import Sequences
from eventvec.training import FitOptions, fit
from eventvec.training.validation import BATCHES, all_equal, size_note, split, validate, validation_batches

OPTIONS = FitOptions(epochs=1, seed=3, validation=0.25, batch_size=4, precision="float32")


class Recording(nn.Module):
    """A method that records its batches, and whose loss is a random number, above 1 in training mode."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[list[int]] = []
        self.encoder = nn.Identity()

    def forward(self, batch: Sequences, rng: torch.Generator) -> Tensor:
        self.batches.append(batch.static["row"].tolist())
        return torch.rand((), generator=rng) + self.training

    def usable(self, x: Sequences) -> Tensor:
        return x.lengths > 1


def test_rows_are_split_in_the_same_way_each_time():
    x = make.sequences([3, 0, 5, 1, 4, 2, 9, 9, 2, 7, 1])
    (rows, held_out, _), notes = split(Recording(), x, OPTIONS)
    assert (len(rows), len(held_out)) == (6, 2)
    assert sorted([*rows.tolist(), *held_out.tolist()]) == [0, 2, 4, 5, 6, 7, 8, 9]
    assert notes[0].startswith("3 of 11 entities cannot be used")
    again, other = split(Recording(), x, OPTIONS), split(Recording(), x, replace(OPTIONS, seed=4))
    assert torch.equal(rows, again[0].training)
    assert not torch.equal(rows, other[0].training)


class Stratified(Recording):
    """A method whose rows are of two classes, one of them rare."""

    def strata(self, x: Sequences) -> Tensor:
        row = x.static["row"]
        assert isinstance(row, Tensor)
        return (row % 10 == 3).long()


def test_each_class_has_its_share_in_the_validation_and_in_each_of_its_batches():
    x = make.sequences([3] * 200)
    options = replace(OPTIONS, batch_size=10)
    (rows, held_out, _), _ = split(Stratified(), x, options)
    assert sorted([*rows.tolist(), *held_out.tolist()]) == list(range(200))
    assert int((held_out % 10 == 3).sum()) == 5
    assert [int((batch % 10 == 3).sum()) for batch in validation_batches(held_out, options.batch_size)] == [1] * 5
    other = split(Stratified(), x, replace(options, seed=4))[0].held_out
    assert set(other.tolist()) != set(held_out.tolist())
    random = split(Recording(), x, options)[0].held_out
    assert int((random % 10 == 3).sum()) != 5  # with this seed; without strata the count varies
    single = split(Stratified(), x[[0, 1, 2, 3, 4, 5, 6, 7]], options)
    assert 3 in single[0].training.tolist()  # the only row of a class is trained on


@pytest.mark.parametrize(("patience", "notes"), [(None, 0), (2, 1)])
def test_one_row_is_too_few_for_validation(patience, notes):
    x = make.sequences([3] * 7)
    (rows, held_out, _), sentences = split(Recording(), x, replace(OPTIONS, patience=patience))
    assert (len(rows), len(held_out), len(sentences)) == (7, 0, notes)
    assert all("training cannot stop early" in sentence for sentence in sentences)
    assert validation_batches(held_out, OPTIONS.batch_size) == ()


class Comparing(Recording):
    """A method whose loss depends on the number of rows in a batch."""

    compares_rows = True


def test_a_validation_on_smaller_batches_is_noted_for_losses_that_compare_rows():
    training, held_out = torch.arange(60), torch.arange(12)
    (note,) = size_note(Comparing(), training, held_out, 64)
    assert note.startswith("the loss compares the rows of a batch, 60 in training and 12 in the validation")
    assert size_note(Recording(), training, held_out, 64) == ()
    assert size_note(Comparing(), training, held_out, 12) == ()
    assert size_note(Comparing(), training, held_out[:0], 64) == ()
    data = make.dataset([12] * 40)
    options = {"shortest": 3, "longest": 6, "epochs": 1, "validation": 0.25}
    notes = {size: fit(data, method="coles", batch_size=size, **options).notes for size in (10, 16)}
    assert [any("16 in training and 10 in the validation" in note for note in notes[size]) for size in notes] == [0, 1]


def test_one_usable_row_is_too_few_for_training():
    with pytest.raises(DataError, match=r"1 of 3 entities can be used .*, at least 2 are needed.*longest has 4 events"):
        split(Recording(), make.sequences([4, 1, 0]), OPTIONS)


def test_the_validation_loss_is_the_same_each_time_and_the_last_partial_batch_is_left_out():
    x, method = make.sequences([3] * 12), Recording().train()
    batches = validation_batches(torch.arange(10), OPTIONS.batch_size)
    (first, score), (again, _) = (validate(method, x, batches, OPTIONS) for _ in range(2))
    assert score is None
    assert first == again
    assert len(first) == 2
    assert max(first) < 1  # in evaluation mode
    assert method.batches == 2 * [[0, 1, 2, 3], [4, 5, 6, 7]]


def test_the_cost_of_a_validation_is_bounded_in_batches_and_in_seconds():
    batches = validation_batches(torch.arange(100_000), OPTIONS.batch_size)
    assert torch.cat(batches).tolist() == list(range(4 * BATCHES))
    x = make.sequences([3] * 12)
    batches = validation_batches(torch.arange(12), OPTIONS.batch_size)
    every, _ = validate(Recording(), x, batches, OPTIONS)
    assert validate(Recording(), x, batches, OPTIONS, seconds=0) == (every[:1], None)  # the first is always computed


class Scored(Recording):
    """A method whose score is the sum of the rows that it is given."""

    scored_by = "sum"

    def validation_score(self, batches: Iterable[Sequences]) -> float:
        assert not self.training
        assert not torch.is_grad_enabled()
        return float(sum(batch.static["row"].sum() for batch in batches))


class Slow(Scored):
    """A method that takes a second for the loss of a batch and another one for its part of the score."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds = 0.0

    def perf_counter(self) -> float:
        return self.seconds

    def forward(self, batch: Sequences, rng: torch.Generator) -> Tensor:
        self.seconds += 1
        return super().forward(batch, rng)

    def validation_score(self, batches: Iterable[Sequences]) -> float:
        for _ in batches:
            self.seconds += 1
        return 0.0


@pytest.mark.parametrize(("seconds", "count"), [(3.9, 1), (4, 2), (math.inf, 3)])
def test_the_time_of_a_validation_includes_the_score(monkeypatch: pytest.MonkeyPatch, seconds: float, count: int):
    method = Slow()
    monkeypatch.setattr("eventvec.training.validation.time", method)
    losses, _ = validate(
        method, make.sequences([3] * 12), validation_batches(torch.arange(12), OPTIONS.batch_size), OPTIONS, seconds
    )
    assert len(losses) == count


def test_the_score_is_of_the_rows_of_all_batches_that_are_used():
    x = make.sequences([3] * 12)
    batches = validation_batches(torch.arange(12), OPTIONS.batch_size)
    every, _ = validate(Recording(), x, batches, OPTIONS)
    assert validate(Scored(), x, batches, OPTIONS) == (every, sum(range(12)))
    assert validate(Scored(), x, batches, OPTIONS, seconds=0) == (every[:1], 0 + 1 + 2 + 3)
    assert validate(Scored(), x, (), OPTIONS) == ([], None)


def rows(**columns: Tensor | Sequences) -> Sequences:
    """Return rows of the events 1 and 2, and 3."""
    return Sequences(columns, torch.tensor([1, 3]), torch.tensor([2, 1]))


@pytest.mark.parametrize(
    ("column", "equal"),
    [
        (torch.tensor([9, 4, 4, 4, 9]), True),  # events outside the rows do not count
        (torch.tensor([4, 4, 4, 5, 4]), False),
        (torch.tensor([0.0, math.nan, math.nan, math.nan, 0.0]), True),
        (torch.tensor([1.0, 1.0, math.nan, 1.0, 1.0]), False),
        (torch.tensor([[9, 9], [1, 2], [1, 2], [1, 2], [9, 9]]), True),
        (torch.tensor([[1, 2], [1, 2], [1, 2], [1, 3], [1, 2]]), False),
        (text_column(pa.array(["a"] * 5)), False),  # texts are not compared
    ],
)
def test_events_are_equal_if_all_columns_but_the_time_are(column, equal):
    time = torch.arange(5)
    assert all_equal(rows(time=time, v=column)) == equal
    assert all_equal(rows(v=column, time=time, gap=torch.tensor([9.0, math.nan, 3.0, math.nan, 9.0]))) == equal
    assert not all_equal(rows(v=column, gap=torch.tensor([3.0, 2.0, 3.0, 3.0, 3.0])))
