"""Predictions at places: one context and place at a time, moments by integration, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from experiments.cresp.processes import Sinusoids, draw, sinusoids
from scipy import integrate, stats

import eventvec as ev
from eventvec.encoders import PointEncoder, SetEncoder
from eventvec.errors import ConfigError, DataError
from eventvec.methods import CNP
from eventvec.predicting import grids
from eventvec.predicting.grids import predictions, raw_moments
from eventvec.schema import Numeric
from eventvec.tables.prediction_places import Places
from eventvec.views import hold_out

PLACES = pl.DataFrame({"when": [5, 50, 99], "parameter": ["a", "b", "a"]})
ENCODERS = {"cresp": "set", "metacde": "kernel_mean", "cnp": "set", "acnp_cross": "cross_attention"}


def looks(rows: int = 30, seed: int = 0) -> pl.DataFrame:
    """Return an irregular table (time, parameter, value): of each row, parameter a rises with time and b falls."""
    rng = np.random.default_rng(seed)
    entity = np.repeat([f"p{i:03}" for i in range(rows)], rng.integers(3, 9, rows))
    when, parameter = rng.integers(0, 100, len(entity)), rng.choice(["a", "b"], len(entity))
    level = rng.normal(size=rows)[np.unique(entity, return_inverse=True)[1]]
    value = level + np.where(parameter == "a", 1, -1) * when / 50
    return pl.DataFrame({"id": entity, "when": when, "parameter": parameter, "value": value})


def read(log: bool = False, **options: Any) -> ev.Dataset:
    roles = {"key": "id", "time": "when", "categorical": ["parameter"], "numeric": ["value"]}
    return ev.read(looks(), **roles, fitting=ev.Fitting(log=log), **options)


def fitted(name: str, data: ev.Dataset) -> ev.Model:
    events = {"covariates": ["time", "parameter"], "observations": ["value"]}
    encoder = {"name": ENCODERS[name], "events": events} | ({} if name == "metacde" else {"dim": 8})
    return ev.fit(data, method={"method": {"name": name}, "encoder": encoder}, epochs=1)


@cache
def trained(name: str) -> ev.Model:
    return fitted(name, read())


def alone(run: ev.Model, data: ev.Dataset, row: int, when: int, parameter: str) -> torch.Tensor:
    """Return the output of the predictor for one entity at one place."""
    code = 2 + run.schema.categorical[0].values.index(parameter)
    columns = {"time": torch.tensor([when]), "parameter": torch.tensor([code])}
    target = ev.Sequences(columns, torch.tensor([0]), torch.tensor([1]))
    x = replace(data.sequences[[row]], static={"targets": target})
    with torch.no_grad():
        return run.method.predictor(x)[0]


@pytest.mark.parametrize("name", ENCODERS)
@pytest.mark.parametrize("keyed", [False, True])
def test_predictions_equal_those_of_one_entity_and_place_at_a_time(name, keyed, monkeypatch):
    monkeypatch.setattr(grids, "PIECE", 2)  # three places are two pieces
    monkeypatch.setattr(grids, "PER_BATCH", 30)
    run, data = trained(name), read()
    run.method.eval()
    at = PLACES
    pairs = [(row, *place) for row in range(len(data)) for place in PLACES.iter_rows()]
    if keyed:
        at = pl.DataFrame({"id": ["p003", "p001", "p003"]}).hstack(PLACES)
        pairs = [(row, *place) for row, place in zip([3, 1, 3], PLACES.iter_rows(), strict=True)]
    table = ev.predict(run, looks(), at=at)
    assert table.column("id").to_pylist() == [data.keys[row].as_py() for row, _, _ in pairs]
    assert table.column("when").to_pylist() == [when for _, when, _ in pairs]
    assert table.column("parameter").to_pylist() == [parameter for _, _, parameter in pairs]
    expected = torch.stack([alone(run, data, *pair) for pair in pairs])
    if "prediction" in table.column_names:
        predicted = np.stack(table.column("prediction").to_numpy())
    else:
        field = run.schema.numeric[0]
        expected = expected * field.std + torch.tensor([field.mean, 0])
        predicted = np.stack([table.column(f"value_{end}").to_numpy() for end in ("mean", "std")], 1)
    np.testing.assert_allclose(predicted, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["cresp", "cnp"])
def test_an_entity_with_a_missing_value_has_null_predictions_and_others_have_theirs(name):
    first = pl.col("id").is_first_distinct() & pl.col("id").is_in(["p002", "p007"])
    events = looks().with_columns(value=pl.when(~first).then("value"))
    run = fitted(name, ev.read(events, key="id", time="when", categorical=["parameter"], numeric=["value"]))
    assert (run.usable, sum("2 of 30 entities cannot be used" in note for note in run.notes)) == (28, 1)
    lacking = pl.col("id").is_in(["p002", "p007"])
    table = pl.from_arrow(ev.predict(run, events, at=PLACES))
    others = pl.from_arrow(ev.predict(run, events.filter(~lacking), at=PLACES))
    assert table.filter(~lacking).equals(others)
    predicted = table.filter(lacking)
    assert len(predicted) == 2 * len(PLACES)
    for column in set(table.columns) - {"id", "when", "parameter"}:
        assert predicted[column].null_count() == len(predicted)
        assert others[column].null_count() == 0
    with pytest.raises(DataError, match="the encoder can read none of the 6 rows to predict: a value that it needs"):
        ev.predict(run, events.filter(lacking), at=PLACES)


def test_a_label_of_an_entity_with_a_missing_value_is_null():
    events = looks().with_columns(
        value=pl.when(~pl.col("id").is_first_distinct() | (pl.col("id") != "p002")).then("value")
    )
    people = pl.DataFrame({"id": [f"p{i:03}" for i in range(30)], "kind": ["a", "b"] * 15})
    roles = {"key": "id", "time": "when", "categorical": ["parameter"], "numeric": ["value"], "fitting": ev.Fitting(1)}
    data = ev.read(events, **roles, static=people, static_columns={"kind": "categorical"})
    points = {"name": "pairs", "covariates": ["time", "parameter"], "observations": ["value"]}
    encoder = {"name": "set", "dim": 8, "events": points}
    run = ev.fit(data, method={"method": {"name": "supervised", "label": "kind"}, "encoder": encoder}, epochs=1)
    table = ev.predict(run, events)
    assert [row["id"] for row in table.to_pylist() if row["prediction"] is None] == ["p002"]
    assert [row["id"] for row in table.to_pylist() if row["p_a"] is None] == ["p002"]


@pytest.mark.parametrize(("mean", "deviation"), [(0.3, 0.4), (-1.0, 1.5), (2.0, 0.05)])
def test_the_moments_of_a_logarithmic_column_equal_integrals(mean, deviation):
    field = Numeric("amount", log=True, mean=0.5, std=1.2)
    normal = stats.norm(mean, deviation)

    def raw(power: int, center: float = 0.0) -> float:
        def weighted(z: float) -> float:
            value = float(field.unscale(torch.tensor(z, dtype=torch.float64)))
            return (value - center) ** power * float(normal.pdf(z))

        edges = (mean - 12 * deviation, -field.mean / field.std, mean + 12 * deviation)
        return sum(integrate.quad(weighted, *sorted(part))[0] for part in (edges[:2], edges[1:])
                   if part[0] < part[1])  # fmt: skip

    moments = raw_moments(field, torch.tensor(mean).double(), torch.tensor(deviation).double())
    center = raw(1)
    assert [float(part) for part in moments] == pytest.approx([center, raw(2, center) ** 0.5], rel=0.01)


def test_a_process_is_predicted_at_its_columns():
    data = draw(sinusoids(20), Sinusoids(count=1, length=8), seed=1)
    run = ev.fit(data, method=CNP(SetEncoder(PointEncoder(), dim=8, layers=0)), epochs=1)
    table = ev.predict(run, data, at=pl.DataFrame({"x": [-1.0, 0.0, 2.5]}))
    assert table.column_names == ["function", "x", "y_mean", "y_std"]
    assert len(table) == 60
    assert min(table.column("y_std").to_pylist()) > 0


def test_observations_of_several_numbers_are_lists():
    x = ev.Sequences({"x": torch.rand(3), "y": torch.rand(3, 4)}, torch.tensor([0]), torch.tensor([3]))
    method = CNP(SetEncoder(PointEncoder(ev.encoders.Numbers(4)), dim=8, layers=0))
    columns = predictions(method, x, Places(np.zeros(2, int), {}, {"x": torch.rand(2)}))
    assert {name: column.type.list_size for name, column in columns.items()} == {"y_mean": 4, "y_std": 4}
    assert method.training


def test_several_times_of_an_entity_are_predicted_each():
    run = trained("cnp")
    cutoffs = pl.DataFrame({"id": ["p001", "p001", "p002"], "at": [90, 100, 100]})
    at = pl.DataFrame({"id": ["p002", "p001"], "when": [99, 99], "parameter": ["a", "b"]})
    table = ev.predict(run, looks(), at=at, cutoffs=cutoffs, cutoff_column="at")
    assert table.select(["id", "at", "parameter"]).to_pylist() == [
        {"id": "p002", "at": 100, "parameter": "a"},
        {"id": "p001", "at": 90, "parameter": "b"},
        {"id": "p001", "at": 100, "parameter": "b"},
    ]


@pytest.mark.parametrize("name", ENCODERS)
def test_a_context_is_encoded_once_for_all_of_its_places(name, monkeypatch):
    run, data, encoded = trained(name), read(), []
    forward = PointEncoder.forward
    monkeypatch.setattr(PointEncoder, "forward", lambda points, x: (encoded.append(x.total), forward(points, x))[1])
    ev.predict(run, data, at=pl.concat([PLACES] * 50))
    assert sum(encoded) == data.sequences.total


def test_progress_counts_the_rows():
    calls = []
    ev.predict(trained("cresp"), looks(), at=PLACES, progress=lambda done, total: calls.append((done, total)))
    assert calls[-1] == (30, 30)


def test_what_cannot_be_predicted_is_refused():
    run = trained("cnp")
    with pytest.raises(
        ConfigError, match=r"the method CNP predicts at places; .* the covariates 'when', 'parameter': at= \(--at\)"
    ):
        ev.predict(run, looks())
    coles = ev.fit(read(), method={"method": {"name": "ocp"}, "encoder": {"dim": 4}}, epochs=1)
    with pytest.raises(ConfigError, match=f"the model {coles.id} does not predict at places; leave out at="):
        ev.predict(coles, looks(), at=PLACES)
    data = run.read(looks())
    lengths = data.sequences.lengths.clone()
    lengths[3] = 0
    empty = replace(data, sequences=replace(data.sequences, lengths=lengths))
    with pytest.raises(DataError, match="1 of 30 rows to predict have no event to predict from; name the places of"):
        ev.predict(run, empty, at=PLACES)
    with pytest.raises(
        DataError, match="returned 60 vectors for 30 rows, but each needs one; a row with several targets"
    ):
        ev.encode(run.method.predictor, hold_out(data.sequences, 2))
    with torch.no_grad():
        next(iter(run.encoder.parameters())).fill_(float("nan"))
    with pytest.raises(DataError, match="90 of 90 predictions are not finite"):
        ev.predict(run, looks(), at=PLACES)


def test_names_that_the_predictions_have_already_are_refused():
    frame = looks().rename({"parameter": "value_mean"})
    roles = {"key": "id", "time": "when", "categorical": ["value_mean"], "numeric": ["value"]}
    events = {"covariates": ["time", "value_mean"], "observations": ["value"]}
    data = ev.read(frame, **roles)
    run = ev.fit(data, method={"method": {"name": "cnp"}, "encoder": {"dim": 8, "events": events}}, epochs=1)
    places = PLACES.rename({"parameter": "value_mean"})
    with pytest.raises(ConfigError, match="the covariate 'value_mean' is called like a column of the predictions"):
        ev.predict(run, frame, at=places)
    with pytest.raises(ConfigError, match="the key is called 'when', like a column of the predictions"):
        ev.predict(trained("cresp"), looks(), at=PLACES, key_as="when")
