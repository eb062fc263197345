"""Aggregates against plain loops, against numbers worked by hand, and on difficult rows."""

from __future__ import annotations

import statistics

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from eventvec import sequences
from eventvec.dataset import Dataset
from eventvec.encoders import aggregates
from eventvec.encoders.aggregates import Aggregates, aggregate_features
from eventvec.errors import ConfigError
from eventvec.schema import FIRST, MISSING, UNKNOWN, Categorical, Numeric, Schema
from eventvec.sequences import Sequences


def a_schema(categorical: dict[str, int], numeric: tuple[str, ...]) -> Schema:
    columns = tuple(Categorical(name, tuple(f"v{i}" for i in range(size))) for name, size in categorical.items())
    return Schema(
        "key",
        "time",
        "integer",
        categorical=columns,
        numeric=tuple(Numeric(name) for name in numeric),
        gap=Numeric("gap", True),
    )


def slow(x: Sequences, schema: Schema, values: int) -> list[list[float]]:
    """Return the aggregates with one Python loop per row, column and value."""

    def mean(numbers: list[float]) -> float:
        return statistics.fmean(numbers) if numbers else 0.0

    def std(numbers: list[float]) -> float:
        return statistics.stdev(numbers) if len(numbers) > 1 else 0.0

    rows = []
    for start, length in zip(x.starts.tolist(), x.lengths.tolist(), strict=True):
        events = {name: column[start : start + length].tolist() for name, column in x.columns.items()}
        row = [float(length)]
        for column in schema.numeric:
            numbers = [v for v in events[column.name] if v == v]
            row += [sum(numbers), mean(numbers), std(numbers), min(numbers, default=0.0), max(numbers, default=0.0)]
        for column in schema.categorical:
            codes = events[column.name]
            counted = range(FIRST, FIRST + min(values, len(column.values)))
            row += [float(codes.count(code)) for code in counted]
            for number in schema.numeric:
                pairs = list(zip(codes, events[number.name], strict=True))
                parts = [[v for c, v in pairs if c == code and v == v] for code in counted]
                row += [mean(part) for part in parts] + [std(part) for part in parts]
            row.append(float(len({code for code in codes if code != MISSING})))
        rows.append(row)
    return rows


def random_rows(rng: np.random.Generator, schema: Schema, lengths: list[int]) -> Sequences:
    """Return rows at random positions with an event of no row between them, and missing and unknown values."""
    sizes = torch.tensor(lengths, dtype=torch.long)
    total = int(sizes.sum()) + len(lengths)
    starts = torch.zeros(len(lengths), dtype=torch.long)
    order = torch.from_numpy(rng.permutation(len(lengths))).long()
    starts[order] = (sizes[order] + 1).cumsum(0) - sizes[order] - 1
    columns = {c.name: torch.from_numpy(rng.integers(0, c.size, total).astype(np.int32)) for c in schema.categorical}
    for number in schema.numeric:
        drawn = rng.normal(100, 10, total).astype(np.float32)
        drawn[rng.random(total) < 0.3] = np.nan
        columns[number.name] = torch.from_numpy(drawn)
    return Sequences(columns, starts, sizes)


@given(
    st.lists(st.integers(0, 9), max_size=8),
    st.integers(0, 2),
    st.lists(st.integers(0, 5), max_size=2),
    st.integers(0, 4),
    st.integers(0, 2**32 - 1),
)
def test_equals_plain_loops(lengths, numbers, sizes, values, seed):
    schema = a_schema({f"c{i}": size for i, size in enumerate(sizes)}, tuple(f"n{i}" for i in range(numbers)))
    x = random_rows(np.random.default_rng(seed), schema, lengths)
    encoder = Aggregates(schema, values)
    z = encoder(x)
    assert z.shape == (len(lengths), encoder.dim)
    assert z.dtype == torch.float32
    assert len(encoder.names) == encoder.dim
    expected = torch.tensor(slow(x, schema, values), dtype=torch.float64).reshape(z.shape)
    torch.testing.assert_close(z.double(), expected, rtol=1e-5, atol=1e-5)


def test_worked_by_hand():
    schema = a_schema({"mcc": 2}, ("amount",))
    codes = torch.tensor([FIRST, FIRST, FIRST + 1, UNKNOWN, UNKNOWN, MISSING], dtype=torch.int32)
    amount = torch.tensor([1.0, 3.0, torch.nan, 8.0, torch.nan, 4.0])
    encoder = Aggregates(schema)
    z = encoder(Sequences({"mcc": codes, "amount": amount}, torch.tensor([0]), torch.tensor([6])))
    named = dict(zip(encoder.names, z[0].tolist(), strict=True))
    assert named == pytest.approx(
        {
            "events": 6,
            "amount: sum": 16,
            "amount: mean": 4,
            "amount: std": (26 / 3) ** 0.5,
            "amount: min": 1,
            "amount: max": 8,
            "mcc=v0: count": 2,
            "mcc=v1: count": 1,
            "amount where mcc=v0: mean": 2,
            "amount where mcc=v1: mean": 0,
            "amount where mcc=v0: std": 2**0.5,
            "amount where mcc=v1: std": 0,
            "mcc: distinct": 3,
        },
        rel=1e-6,
    )


def test_only_the_most_frequent_values_get_columns_but_all_count_as_distinct():
    schema = a_schema({"c": 5}, ())
    encoder = Aggregates(schema, values=2)
    codes = torch.tensor([2, 3, 4, 5, 6, 6, 1], dtype=torch.int32)
    assert encoder.names == ("events", "c=v0: count", "c=v1: count", "c: distinct")
    z = encoder(Sequences({"c": codes}, torch.tensor([0]), torch.tensor([7])))
    assert z.tolist() == [[7, 1, 1, 6]]


@pytest.mark.parametrize("offset", [0.0, 1e6, 1.6e7])
def test_the_standard_deviation_is_exact_beside_a_large_mean(offset):
    schema = a_schema({"c": 1}, ("n",))
    values = torch.tensor([1.0, 2.0, 3.0, 4.0] * 500) + offset
    x = Sequences({"c": torch.full((2000,), FIRST), "n": values}, torch.tensor([0]), torch.tensor([2000]))
    encoder = Aggregates(schema)
    named = dict(zip(encoder.names, encoder(x)[0].tolist(), strict=True))
    truth = float(np.std(values.double().numpy(), ddof=1))
    assert named["n: std"] == pytest.approx(truth, rel=1e-6)
    assert named["n where c=v0: std"] == pytest.approx(truth, rel=1e-6)


def test_the_maximum_of_negative_numbers_is_negative():
    x = Sequences({"n": torch.tensor([-7.0, -3.0, torch.nan])}, torch.tensor([0]), torch.tensor([3]))
    encoder = Aggregates(a_schema({}, ("n",)))
    named = dict(zip(encoder.names, encoder(x)[0].tolist(), strict=True))
    assert (named["n: min"], named["n: max"]) == (-7, -3)


def test_the_standard_deviation_of_equal_numbers_is_exactly_zero():
    x = Sequences({"n": torch.full((7,), 0.1)}, torch.tensor([0]), torch.tensor([7]))
    assert Aggregates(a_schema({}, ("n",)))(x)[0, 3] == 0


def test_a_sum_beyond_the_range_of_float32_is_its_largest_number():
    x = Sequences({"n": torch.tensor([3e38, 3e38, -3e38, -3e38])}, torch.tensor([0, 2]), torch.tensor([2, 2]))
    encoder = Aggregates(a_schema({}, ("n",)))
    largest = torch.finfo(torch.float32).max
    assert encoder(x)[:, encoder.names.index("n: sum")].tolist() == [largest, -largest]
    assert encoder(x)[:, encoder.names.index("n: mean")].tolist() == pytest.approx([3e38, -3e38])


def test_empty_rows_give_zeros_and_no_rows_give_no_aggregates():
    schema = a_schema({"c": 3}, ("n",))
    encoder = Aggregates(schema)
    x = random_rows(np.random.default_rng(0), schema, [0, 4, 0])
    assert encoder(x)[[0, 2]].abs().sum() == 0
    assert encoder(x[[]]).shape == (0, encoder.dim)


@pytest.mark.parametrize("size", [1, 30, 200])
def test_the_block_size_has_no_influence(monkeypatch, size):
    schema = a_schema({"c": 4, "d": 2}, ("n",))
    x = random_rows(np.random.default_rng(1), schema, [3, 0, 17, 1, 5, 9])
    z = Aggregates(schema)(x)
    monkeypatch.setattr(sequences, "BLOCK", size)
    assert torch.equal(Aggregates(schema)(x), z)


def test_blocks_have_at_most_their_size(monkeypatch):
    monkeypatch.setattr(sequences, "BLOCK", 20)
    lengths = torch.tensor([3, 3, 3, 100, 0, 0, 0])
    x, blocks = Sequences({}, lengths.cumsum(0) - lengths, lengths), list[slice]()
    aggregates.by_blocks(x, 5, 1, lambda rows, block: blocks.append(block) or torch.zeros(len(rows), 1))
    assert [row for block in blocks for row in range(7)[block]] == list(range(7))
    assert all(int((lengths[b] + 5).sum()) <= 20 + int((lengths[b] + 5).max()) for b in blocks)
    assert len(blocks) > 2


def test_other_rows_do_not_leak():
    schema = a_schema({"c": 4}, ("n",))
    x = random_rows(np.random.default_rng(2), schema, [4, 5, 6])
    before = Aggregates(schema)(x)
    x.columns["n"][x[[0, 2]].flat()] = 1e9
    x.columns["c"][x[[0, 2]].flat()] = UNKNOWN
    assert torch.equal(Aggregates(schema)(x)[1], before[1])


def test_aggregates_of_a_view_are_those_of_its_events():
    schema = a_schema({"c": 4}, ("n",))
    x = random_rows(np.random.default_rng(3), schema, [6, 8])
    views = x.slice(torch.tensor([1, 0, 1]), torch.tensor([2, 0, 0]), torch.tensor([4, 6, 2]))
    torch.testing.assert_close(
        Aggregates(schema)(views).double(), torch.tensor(slow(views, schema, 200)).double(), rtol=1e-5, atol=1e-5
    )


def test_aggregates_have_no_parameters_and_refuse_a_negative_number_of_values():
    assert not list(Aggregates(a_schema({"c": 1}, ())).state_dict())
    with pytest.raises(ConfigError, match="values must be at least 0, got -1"):
        Aggregates(a_schema({"c": 1}, ()), values=-1)


def test_aggregate_features_of_a_dataset():
    schema = a_schema({"c": 2}, ("n",))
    x = random_rows(np.random.default_rng(4), schema, [3, 2])
    z, names = aggregate_features(Dataset(pa.array([1, 2]), x, schema), values=1)
    assert isinstance(z, np.ndarray)
    assert z.dtype == np.float32
    encoder = Aggregates(schema, values=1)
    assert names == encoder.names
    np.testing.assert_array_equal(z, encoder(x).numpy())


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_same_on_an_accelerator():
    schema = a_schema({"c": 4}, ("n",))
    x = random_rows(np.random.default_rng(5), schema, [6, 0, 8])
    z = Aggregates(schema)(x.to("cuda"))
    assert z.device.type == "cuda"
    torch.testing.assert_close(z.cpu(), Aggregates(schema)(x))
