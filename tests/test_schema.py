"""Schemas and data sets: scales, JSON, indexing, fingerprints."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
import torch

from eventvec import sequences
from eventvec.dataset import Dataset
from eventvec.errors import CheckpointError
from eventvec.schema import Categorical, Numeric, Schema, Vector
from eventvec.sequences import Sequences
from eventvec.tables import Fitting, read

EVENTS = pl.DataFrame(
    {
        "card": [3, 1, 2, 1, 3, 3],
        "day": [5, 1, 9, 2, 4, 6],
        "shop": ["a", "b", None, "a", "b", "b"],
        "amount": [1.0, -2.5, 3.0, None, 0.0, 7.0],
    }
)


def dataset(events: pl.DataFrame = EVENTS, **options: object) -> Dataset:
    columns = {"key": "card", "time": "day", "categorical": ["shop"], "numeric": ["amount"]}
    return read(events, **{**columns, "fitting": Fitting(min_count=1), **options})  # type: ignore[arg-type]


def test_a_number_is_scaled_as_its_formula_says():
    field = Numeric("amount", log=True, mean=0.5, std=2.0)
    values = [-3.0, 0.0, 10.0]
    expected = [(math.copysign(math.log1p(abs(value)), value) - 0.5) / 2 for value in values]
    assert field.scale(torch.tensor(values)).tolist() == pytest.approx(expected)
    assert math.isnan(field.scale(torch.tensor([math.nan])).item())


@pytest.mark.parametrize("log", [False, True])
def test_unscaling_undoes_scaling(log: bool):
    field, values = Numeric("amount", log=log, mean=0.5, std=2.0), torch.tensor([-3.0, 0.0, 10.0, 700.0])
    torch.testing.assert_close(field.unscale(field.scale(values)), values)


def test_a_bin_is_the_number_of_edges_up_to_a_value():
    edges, values = (-1.0, 0.5, 2.0), [float("nan"), -9.0, -1.0, 0.0, 0.5, 1.0, 2.0, 9.0]
    slow = [0 if math.isnan(value) else 1 + sum(edge <= value for edge in edges) for value in values]
    assert Numeric("v", edges=edges).bins(torch.tensor(values)).tolist() == slow


@pytest.mark.parametrize("edges", [[1.0, 1.0], [2.0, 1.0]])
def test_edges_that_are_not_ascending_are_refused(edges: list[float]):
    text = json.dumps({**json.loads(dataset().schema.to_json()), "numeric": [{"name": "v", "edges": edges}]})
    with pytest.raises(CheckpointError, match="the edges of column 'v' must be finite and ascending"):
        Schema.from_json(text)


def test_schemas_with_other_edges_code_events_alike():
    """An earlier version wrote none."""
    schema = Schema("id", "t", "integer", numeric=(Numeric("v", edges=(1.0,)),))
    assert schema.difference(replace(schema, numeric=(Numeric("v"),))) is None


def test_a_vector_is_scaled_component_by_component():
    field = Vector("profile", (1.0, -1.0), (2.0, 0.5))
    assert field.size == 2
    assert field.scale(torch.tensor([[3, 0], [1, -1]])).tolist() == [[1.0, 2.0], [0.0, 0.0]]
    assert bool(field.scale(torch.full((1, 2), math.nan)).isnan().all())


def test_a_schema_survives_json():
    schema = Schema(
        "card",
        "at",
        "timestamp",
        time_zone="Europe/Paris",
        categorical=(Categorical("shop", ("b", "ä")),),
        numeric=(Numeric("x", False, 0.1, 3.0),),
        gap=Numeric("gap", mean=1 / 3),
        key_as="id",
    )
    assert Schema.from_json(schema.to_json()) == schema
    assert (schema.clock, schema.key_out) == (True, "id")


@pytest.mark.parametrize(
    ("change", "where"),
    [({"time_kind": "moon"}, "time_kind"), ({"key": 5}, "key"), ({"numeric": [{}]}, "numeric.0.name")],
)
def test_a_damaged_schema_is_refused_with_the_place_of_the_damage(change: dict[str, object], where: str):
    text = json.dumps({**json.loads(dataset().schema.to_json()), **change})
    with pytest.raises(CheckpointError, match=f"schema.json is damaged: {where}"):
        Schema.from_json(text)
    with pytest.raises(CheckpointError, match="damaged"):
        Schema.from_json("{")


@pytest.mark.parametrize(
    ("rows", "keys"),
    [
        ([2, 0], [3, 1]),
        ([0, 0, 1], [1, 1, 2]),
        ([-1], [3]),
        ([], []),
        (slice(1, None), [2, 3]),
        (slice(None, None, 2), [1, 3]),
        ([True, False, True], [1, 3]),
        (np.array([False, True, False]), [2]),
        (np.array([1, 2], np.int32), [2, 3]),
        (torch.tensor([2]), [3]),
        (torch.tensor([True, True, False]), [1, 2]),
        (([1, 0], ...), [2, 1]),
        ((np.array([1]), slice(None)), [2]),
        (1, [2]),
    ],
)
def test_rows_are_indexed_as_in_numpy(rows: object, keys: list[int]):
    data = dataset()
    part = data[rows]  # type: ignore[index]
    times = {1: [1, 2], 2: [9], 3: [4, 5, 6]}
    assert part.keys.to_pylist() == keys
    assert part.shape == (len(part),) == (len(keys),)
    assert part.sequences.values("time").tolist() == [time for key in keys for time in times[key]]
    assert part.sequences.columns["time"] is data.sequences.columns["time"]  # nothing is copied


@pytest.mark.parametrize("rows", [[3], [-4], [True, False], [0.5]])
def test_invalid_rows_are_refused(rows: list[float]):
    with pytest.raises(IndexError):
        dataset()[rows]


def test_scikit_learn_splits_a_data_set():
    from sklearn.model_selection import KFold
    from sklearn.utils import _safe_indexing

    data = dataset()
    folds = [_safe_indexing(data, test).keys.to_pylist() for _, test in KFold(3).split(data)]
    assert folds == [[1], [2], [3]]


def test_the_fingerprint_does_not_depend_on_the_order_of_rows_or_the_type_of_source():
    expected = dataset().fingerprint
    assert dataset(EVENTS[::-1]).fingerprint == expected
    assert dataset(EVENTS.sample(fraction=1, shuffle=True, seed=1)).fingerprint == expected
    assert dataset(EVENTS.with_columns(pl.col("card").cast(pl.Int16))).fingerprint == expected
    assert dataset(EVENTS.to_pandas()).fingerprint == expected  # type: ignore[arg-type]


@pytest.mark.parametrize("column", EVENTS.columns)
@pytest.mark.parametrize("row", range(EVENTS.height))
def test_the_fingerprint_depends_on_every_value(column: str, row: int):
    other = {"card": 4, "day": 50, "shop": "c", "amount": 0.25}[column]
    value = pl.when(pl.int_range(pl.len()) == row).then(pl.lit(other)).otherwise(column)
    changed = EVENTS.with_columns(value.alias(column))
    assert dataset(changed).fingerprint != dataset().fingerprint


def test_the_fingerprint_depends_on_vocabularies_windows_and_the_order_of_rows():
    data = dataset()
    renamed = dataset(EVENTS.with_columns(shop=pl.col("shop").replace({"a": "c"})))
    assert renamed.fingerprint != data.fingerprint
    shorter = replace(data, sequences=replace(data.sequences, lengths=data.sequences.lengths - 1))
    assert len({data.fingerprint, shorter.fingerprint, data[[1, 0, 2]].fingerprint, data[[0, 1]].fingerprint}) == 4


def test_the_fingerprint_does_not_depend_on_the_layout_of_events(monkeypatch: pytest.MonkeyPatch):
    n, events = 57, 400
    generator = torch.Generator().manual_seed(0)
    lengths = torch.randint(0, 15, (n,), generator=generator)
    starts = (torch.rand(n, generator=generator) * (events - lengths)).long()
    columns = {"time": torch.arange(events), "amount": torch.rand(events, 2, generator=generator)}
    windows = Sequences(columns, starts, lengths)
    schema = dataset().schema
    keys = pa.array([f"k{i}" for i in range(n)])
    contiguous = windows.take(windows.flat(), lengths)
    fingerprints = {Dataset(keys, contiguous, schema).fingerprint}
    for size in (1, 7, 10**6):
        monkeypatch.setattr(sequences, "BLOCK", size)
        fingerprints.add(Dataset(keys, windows, schema).fingerprint)
    assert len(fingerprints) == 1


def test_uuid_and_text_keys_have_a_fingerprint():
    x = Sequences({"time": torch.arange(2)}, torch.arange(2), torch.ones(2, dtype=torch.long))
    raw = [bytes(16), bytes(range(16))]
    kinds = (pa.uuid(), pa.binary(16))
    assert len({Dataset(pa.array(raw, kind), x, dataset().schema).fingerprint for kind in kinds}) == 1
    texts = (["ab", "c"], ["a", "bc"])
    assert len({Dataset(pa.array(keys), x, dataset().schema).fingerprint for keys in texts}) == 2


def test_a_data_set_moves_between_devices():
    moved = dataset().to("meta")
    assert moved.sequences.device.type == "meta"
    assert moved.keys.to_pylist() == [1, 2, 3]
    assert repr(dataset()) == "Dataset(3 entities, 6 events, 2 fields)"
