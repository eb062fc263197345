"""`Sequences` against plain Python lists."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import make
from eventvec.sequences import Sequences, join, places, searchsorted, stack

LENGTHS = st.lists(st.integers(0, 6), max_size=6)
SEEDS = st.integers(0, 2**31 - 1)


def nested(lengths: list[int], seed: int = 0) -> Sequences:
    """Return rows with a nested column `word` of letters and a nested static value `name`."""
    x = make.sequences(lengths, seed)
    total = len(x.columns["time"])
    letters = [(seed + 3 * i) % 4 for i in range(total)]
    words = ragged([[100 * i + j for j in range(size)] for i, size in enumerate(letters)])
    names = ragged([[7 * i] * (i % 3) for i in range(len(lengths))])
    return replace(x, columns={**x.columns, "word": words}, static={**x.static, "name": names})


def ragged(lists: list[list[int]]) -> Sequences:
    """Return one row per list, with a column `letter`."""
    sizes = torch.tensor([len(letters) for letters in lists], dtype=torch.int64)
    letters = torch.tensor([letter for letters in lists for letter in letters], dtype=torch.int64)
    return Sequences({"letter": letters}, sizes.cumsum(0) - sizes, sizes)


def slow(x: Sequences, name: str) -> list[list]:
    """Return one column as one list per row."""
    column, spans = x.columns[name], zip(x.starts.tolist(), x.lengths.tolist(), strict=True)
    if isinstance(column, Sequences):
        inner = slow(column, "letter")
        return [[inner[i] for i in range(start, start + length)] for start, length in spans]
    return [[column[i].tolist() for i in range(start, start + length)] for start, length in spans]


def assert_same(x: Sequences, expected: dict[str, list[list]]) -> None:
    for name, rows in expected.items():
        assert repr(slow(x, name)) == repr(rows), name  # as text, in which NaN equals NaN


def all_columns(x: Sequences) -> dict[str, list[list]]:
    """Return each column as one list per row."""
    return {name: slow(x, name) for name in x.columns}


def test_worked_by_hand():
    x = Sequences({"c": torch.arange(10) * 10}, torch.tensor([6, 2, 0]), torch.tensor([2, 0, 3]))
    assert (len(x), x.total, x.longest) == (3, 5, 3)
    assert x.flat().tolist() == [6, 7, 0, 1, 2]
    assert x.rows().tolist() == [0, 0, 2, 2, 2]
    assert x.steps().tolist() == [0, 1, 0, 1, 2]
    assert x.pad(x.values("c"), fill=-1).tolist() == [[60, 70, -1], [-1, -1, -1], [0, 10, 20]]
    assert x.mask().tolist() == [[True, True, False], [False] * 3, [True] * 3]


@given(LENGTHS, SEEDS)
def test_positions_equal_a_loop(lengths, seed):
    x = make.sequences(lengths, seed)
    spans = list(zip(x.starts.tolist(), lengths, strict=True))
    assert x.flat().tolist() == [start + step for start, length in spans for step in range(length)]
    assert x.rows().tolist() == [row for row, length in enumerate(lengths) for _ in range(length)]
    assert x.steps().tolist() == [step for length in lengths for step in range(length)]
    assert (x.total, x.longest) == (sum(lengths), max(lengths, default=0))
    assert repr(x.values("amount").tolist()) == repr([v for row in slow(x, "amount") for v in row])


@given(LENGTHS, SEEDS, st.sampled_from([(), (3,), (2, 2)]))
def test_pad_and_mask_equal_a_loop(lengths, seed, more):
    x = make.sequences(lengths, seed)
    values = torch.randn(x.total, *more, generator=torch.Generator().manual_seed(seed))
    padded, at = x.pad(values, fill=-7), 0
    assert padded.shape == (len(lengths), max(lengths, default=0), *more)
    assert x.mask().shape == padded.shape[:2]
    for row, length in enumerate(lengths):
        assert torch.equal(padded[row, :length], values[at : at + length])
        assert bool((padded[row, length:] == -7).all())
        assert x.mask()[row].tolist() == [step < length for step in range(padded.shape[1])]
        at += length


def test_pad_gives_each_event_its_own_gradient():
    x = make.sequences([2, 0, 3])
    values = torch.randn(5, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda v: x.pad(v, fill=3) ** 2, values)


@given(LENGTHS, SEEDS, st.data())
def test_rows_are_selected_as_from_a_list(lengths, seed, data):
    x, n = nested(lengths, seed), len(lengths)
    rows = data.draw(st.lists(st.integers(-n, n - 1), max_size=5)) if n else []
    assert_same(x[rows], {name: [cells[row] for row in rows] for name, cells in all_columns(x).items()})
    assert_same(x[torch.tensor(rows, dtype=torch.int32)], all_columns(x[rows]))
    assert x[rows].static["row"].tolist() == [list(range(n))[row] for row in rows]
    names = slow(replace(x, starts=torch.arange(n), lengths=torch.ones_like(x.lengths), columns=x.static), "name")
    assert slow(x[rows].static["name"], "letter") == [names[row][0] for row in rows]
    mask = data.draw(st.lists(st.booleans(), min_size=n, max_size=n))
    marked = [row for row in range(n) if mask[row]]
    assert_same(x[torch.tensor(mask, dtype=torch.bool)], all_columns(x[marked]))
    assert_same(x[1:4], {name: cells[1:4] for name, cells in all_columns(x).items()})


def test_selecting_and_slicing_copy_no_event():
    x = make.sequences([3, 4])
    for windows in (x[[1, 0]], x[1:], x.slice(torch.tensor([1]), torch.tensor([1]), torch.tensor([2]))):
        assert all(windows.columns[name] is x.columns[name] for name in x.columns)


@given(LENGTHS, SEEDS, st.data())
def test_slices_equal_list_slices(lengths, seed, data):
    x = nested(lengths, seed)
    cuts = []
    for row in data.draw(st.lists(st.integers(0, len(lengths) - 1), max_size=5)) if lengths else []:
        offset = data.draw(st.integers(0, lengths[row]))
        cuts.append((row, offset, data.draw(st.integers(0, lengths[row] - offset))))
    rows, offset, length = torch.tensor(cuts, dtype=torch.int64).reshape(-1, 3).unbind(1)
    views = x.slice(rows, offset, length)
    assert_same(views, {name: [v[r][o : o + k] for r, o, k in cuts] for name, v in all_columns(x).items()})
    assert views.static["row"].tolist() == rows.tolist()


@pytest.mark.parametrize(("offset", "length"), [(-1, 1), (0, 5), (4, 1), (2, -1), (3, 2)])
def test_a_window_outside_its_row_is_refused(offset, length):
    x = make.sequences([4, 9])
    with pytest.raises(IndexError, match="1 of 2 windows"):
        x.slice(torch.tensor([0, 1]), torch.tensor([offset, 0]), torch.tensor([length, 9]))


@given(LENGTHS, SEEDS)
def test_take_copies_the_selected_events(lengths, seed):
    x = nested(lengths, seed)
    backwards = [start + step for start, k in zip(x.starts.tolist(), lengths, strict=True) for step in range(k)[::-1]]
    reversed_x = x.take(torch.tensor(backwards, dtype=torch.int64), x.lengths)
    assert_same(reversed_x, {name: [row[::-1] for row in rows] for name, rows in all_columns(x).items()})
    assert reversed_x.flat().tolist() == list(range(sum(lengths)))
    assert reversed_x.static is x.static


def test_take_refuses_a_wrong_count():
    x = make.sequences([2, 1])
    with pytest.raises(IndexError, match="lengths must sum to 2, the size of index, got 3"):
        x.take(torch.tensor([0, 1]), x.lengths)


@given(st.lists(LENGTHS, min_size=1, max_size=3), SEEDS, st.booleans())
def test_stack_puts_rows_below_rows(parts, seed, shared):
    xs = [nested(lengths, seed + i) for i, lengths in enumerate(parts)]
    if shared:
        xs = [xs[0]] + [xs[0][:size] for size in range(len(parts) - 1)]
    both = stack(*xs)
    assert_same(both, {name: [row for x in xs for row in slow(x, name)] for name in xs[0].columns})
    assert both.static["row"].tolist() == [v for x in xs for v in x.static["row"].tolist()]
    assert slow(both.static["name"], "letter") == [v for x in xs for v in slow(x.static["name"], "letter")]
    if shared:
        assert all(both.columns[name] is xs[0].columns[name] for name in xs[0].columns)


def test_stack_keeps_the_columns_that_all_parts_have():
    x = make.sequences([2])
    y = Sequences({"code": torch.tensor([9])}, torch.tensor([0]), torch.tensor([1]))
    both = stack(x, y)
    assert list(both.columns) == ["code"]
    assert both.static == {}
    assert slow(both, "code") == [*slow(x, "code"), [9]]


@given(LENGTHS, SEEDS, st.booleans(), st.data())
def test_join_puts_row_after_row(lengths, seed, shared, data):
    x = nested(lengths, seed)
    order = data.draw(st.permutations(range(len(lengths))))
    y = x[list(order)] if shared else nested([lengths[row] for row in order], seed + 1)
    both, seconds = join(x, y), all_columns(y)
    assert_same(both, {n: [a + b for a, b in zip(v, seconds[n], strict=True)] for n, v in all_columns(x).items()})
    segments = [[0] * a + [1] * b for a, b in zip(lengths, y.lengths.tolist(), strict=True)]
    assert slow(both, "segment") == segments
    assert both.static is x.static


@given(LENGTHS, SEEDS, st.booleans(), st.data())
def test_searchsorted_counts_as_a_loop(lengths, seed, right, data):
    total = sum(lengths)
    values = torch.tensor(data.draw(st.lists(st.integers(0, 9), min_size=total, max_size=total)), dtype=torch.int64)
    sizes = torch.tensor(lengths, dtype=torch.int64)
    x = Sequences({"v": values}, sizes.cumsum(0) - sizes, sizes)
    rising = [sorted(row) for row in slow(x, "v")]
    x = replace(x, columns={"v": torch.tensor([v for row in rising for v in row], dtype=torch.int64)})
    bounds = data.draw(st.lists(st.integers(-1, 10), min_size=len(lengths), max_size=len(lengths)))
    counts = searchsorted(x, "v", torch.tensor(bounds, dtype=torch.int64), right)
    before = [[v < b or (right and v == b) for v in row] for row, b in zip(rising, bounds, strict=True)]
    assert counts.tolist() == [sum(row) for row in before]


def test_searchsorted_stays_inside_each_row():
    x = Sequences({"time": torch.tensor([8, 9, 1, 2, 3, 0, 0])}, torch.tensor([2, 0, 5]), torch.tensor([3, 2, 0]))
    assert searchsorted(x, "time", torch.tensor([99, 99, 99])).tolist() == [3, 2, 0]
    assert searchsorted(x, "time", torch.tensor([0, 0, 0])).tolist() == [0, 0, 0]


def test_searchsorted_distinguishes_microseconds_of_today():
    now = 1_700_000_000_000_000
    x = Sequences({"time": torch.tensor([now, now + 1, now + 2])}, torch.tensor([0]), torch.tensor([3]))
    assert searchsorted(x, "time", torch.tensor([now + 1])).tolist() == [1]


@given(LENGTHS, SEEDS, st.booleans())
def test_several_columns_are_selected_as_one_is(lengths, seed, compact):
    x = make.sequences(lengths, seed)
    x = x.take(x.flat(), x.lengths) if compact else x
    for rows in (x, x[torch.arange(len(x)).flip(0)], x[x.lengths == 1]):
        codes, amounts = rows.select(["code", "amount"])
        assert codes.tolist() == [code for row in slow(rows, "code") for code in row]
        torch.testing.assert_close(amounts, rows.values("amount"), rtol=0, atol=0, equal_nan=True)
    assert (x.select(["code"])[0] is x.columns["code"]) == (len(x.columns["code"]) == x.total)


@pytest.mark.parametrize("lengths", [[1], [1, 1, 1], [0, 2], [2], [1, 0], []])
def test_rows_of_one_event_are_known(lengths):
    x = make.sequences(lengths)
    assert x.single == (lengths != [] and set(lengths) == {1})
    assert x.steps().tolist() == [step for length in lengths for step in range(length)]
    assert x.rows().tolist() == [row for row, length in enumerate(lengths) for _ in range(length)]


def test_a_nested_column_has_no_flat_values():
    with pytest.raises(TypeError, match="'word' is nested"):
        nested([1, 2]).values("word")


def test_moving_to_a_device_moves_all_tensors_and_only_if_needed():
    x = nested([2, 1])
    assert x.to("cpu") is x
    moved = x.to("meta")
    assert moved.device.type == "meta"
    assert moved.columns["word"].columns["letter"].device.type == "meta"
    assert moved.static["name"].starts.device.type == "meta"


@given(st.lists(st.booleans(), max_size=9), st.integers(0, 3))
def test_places_are_those_of_nonzero_and_then_0(mask: list[bool], more: int) -> None:
    expected = [place for place, value in enumerate(mask) if value]
    result = places(torch.tensor(mask, dtype=torch.bool), len(expected) + more)
    assert result.tolist() == expected + [0] * more
