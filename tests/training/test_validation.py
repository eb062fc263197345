"""Which rows are trained on and held out, and whether there is anything to tell events apart by."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest
import torch
from torch import Tensor, nn

import make
from eventvec.sequences import Sequences
from eventvec.texts import text_column
from eventvec.training.validation import alike, split, validate

SETTINGS = {"seed": 3, "validation": 0.25, "patience": None, "batch_size": 4, "precision": "float32"}


class Noting(nn.Module):
    """A method that notes what it is asked about, and whose loss is a number drawn."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[list[int]] = []

    def forward(self, batch: Sequences, rng: torch.Generator) -> Tensor:
        self.asked.append(batch.static["row"].tolist())
        return torch.rand((), generator=rng) + self.training

    def usable(self, x: Sequences) -> Tensor:
        return x.lengths > 1


def test_rows_are_split_once_and_for_all():
    x = make.sequences([3, 0, 5, 1, 4, 2, 9, 9, 2, 7, 1])
    rows, held, notes = split(Noting(), x, SETTINGS)
    assert (len(rows), len(held)) == (6, 2)
    assert sorted([*rows.tolist(), *held.tolist()]) == [0, 2, 4, 5, 6, 7, 8, 9]
    assert notes[0].startswith("3 of 11 entities cannot be used")
    again, other = split(Noting(), x, SETTINGS), split(Noting(), x, {**SETTINGS, "seed": 4})
    assert torch.equal(rows, again[0])
    assert not torch.equal(rows, other[0])


def test_the_measure_is_the_same_each_time_and_the_last_partial_batch_is_left_out():
    x, method = make.sequences([3] * 12), Noting().train()
    held = torch.arange(10)
    first, again = (validate(method, x, held, SETTINGS) for _ in range(2))
    assert first == again
    assert first is not None
    assert first < 1  # in evaluation mode
    assert method.asked == 2 * [[0, 1, 2, 3], [4, 5, 6, 7]]


def rows(**columns: Tensor | Sequences) -> Sequences:
    """Return rows of the events 1 and 2, and 3."""
    return Sequences(columns, torch.tensor([1, 3]), torch.tensor([2, 1]))


@pytest.mark.parametrize(
    ("column", "found"),
    [
        (torch.tensor([9, 4, 4, 4, 9]), True),  # what no row names does not count
        (torch.tensor([4, 4, 4, 5, 4]), False),
        (torch.tensor([0.0, math.nan, math.nan, math.nan, 0.0]), True),
        (torch.tensor([1.0, 1.0, math.nan, 1.0, 1.0]), False),
        (torch.tensor([[9, 9], [1, 2], [1, 2], [1, 2], [9, 9]]), True),
        (torch.tensor([[1, 2], [1, 2], [1, 2], [1, 3], [1, 2]]), False),
        (text_column(pa.array(["a"] * 5)), False),  # texts are not read for this
    ],
)
def test_events_are_alike_when_every_column_says_the_same(column, found):
    time = torch.arange(5)
    assert alike(rows(time=time, v=column)) == found
    assert alike(rows(v=column, time=time, gap=torch.tensor([9.0, math.nan, 3.0, math.nan, 9.0]))) == found
    assert not alike(rows(v=column, gap=torch.tensor([3.0, 2.0, 3.0, 3.0, 3.0])))
