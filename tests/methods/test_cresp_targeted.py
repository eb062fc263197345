"""Targeted CReSP learns from x*: on snooker's exact positions, permuting x* raises the loss."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from experiments.cresp.pictures import Images
from experiments.cresp.processes import Sinusoids, Snooker, draw, sinusoids, snooker
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import eventvec as ev
from eventvec.config import build_method, describe
from eventvec.encoders import GatedHead, Numbers, PlainHead, PointEncoder, SetEncoder, SigmoidHead
from eventvec.encoders.heads import Head
from eventvec.errors import ConfigError, DataError
from eventvec.methods import TargetedCReSP, covariate_use
from eventvec.sequences import Sequences
from eventvec.training.suggestions import suggest
from eventvec.views import ShuffledParts, hold_out
from laws import rng

pytestmark = pytest.mark.usefixtures("named_processes")

MAJORITY = 0.862
"""The accuracy of the more frequent label of each pair, which ignores the time."""


def on_positions(dim: int, width: int, layers: int, head: Head = GatedHead()) -> TargetedCReSP:  # noqa: B008
    torch.manual_seed(0)
    encoder = SetEncoder(PointEncoder(Numbers(4, width=width)), dim=dim, layers=layers, pair="gated")
    return TargetedCReSP(encoder, Snooker(count=1, length=6, observations="positions"), target_head=head)


def train(method: TargetedCReSP, steps: int, lr: float = 0.004, warmup: int = 300) -> None:
    options = {"batch_size": 64, "lr": lr, "warmup": warmup, "validation": 0.0}
    ev.fit(snooker(3000, seed=100), method=method, epochs=steps // 46, **options)


def accuracy(method: TargetedCReSP, training: ev.Dataset, test: ev.Dataset) -> float:
    """Return the test accuracy of a linear model of the prediction at x*: do the balls overlap at that time?"""
    sets = []
    for data, seed in ((training, 1), (test, 2)):
        context = replace(data, sequences=hold_out(draw(data, method.views, seed).sequences))
        time = context.sequences.static["x*"][:, 0]
        z = ev.encode(method.predictor, context.sequences)
        sets.append((z.numpy(), Snooker().overlap(context.sequences, time).numpy()))
    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(*sets[0]).score(*sets[1])


@pytest.mark.slow
def test_the_prediction_learns_to_use_x_star():
    method = on_positions(dim=32, width=32, layers=1)
    before = covariate_use(method, snooker(640, seed=300).sequences, rng())
    train(method, 1000)
    after = covariate_use(method, snooker(640, seed=300).sequences, rng())
    assert before.share < 0.05
    assert after.share > 0.15  # with the plain head .002, at a loss of 2.69
    assert after.loss < 2.6


@pytest.mark.slow
def test_a_linear_model_on_the_prediction_is_better_than_any_that_ignores_x_star():
    method = on_positions(dim=128, width=128, layers=2)
    train(method, 2000)
    assert covariate_use(method, snooker(1280, seed=300).sequences, rng()).share > 0.25
    assert accuracy(method, snooker(3000, seed=100), snooker(3000, seed=301)) > MAJORITY + 0.04


@pytest.mark.slow
def test_the_same_holds_for_pictures_at_the_size_of_a_cpu():
    torch.manual_seed(0)
    encoder = SetEncoder(PointEncoder(Images(dim=128)), dim=128, layers=2, pair="gated")
    method = TargetedCReSP(encoder, Snooker(count=1, length=6))
    train(method, 1012, lr=0.002, warmup=0)
    assert covariate_use(method, snooker(1280, seed=300).sequences, rng()).share > 0.2
    assert accuracy(method, snooker(3000, seed=100), snooker(3000, seed=301)) > MAJORITY + 0.02


# Heads


@pytest.mark.parametrize("head", [GatedHead(), GatedHead(8, 2.0), PlainHead(), SigmoidHead()])
def test_the_target_head_is_described_and_built_again(head):
    method = on_positions(dim=16, width=8, layers=1, head=head)
    again = build_method(describe(method), snooker(1).schema)
    assert again.target_head == head
    again.load_state_dict(method.state_dict())
    x = snooker(8).sequences
    assert torch.equal(again.eval().loss(x, rng()), method.eval().loss(x, rng()))


def test_unknown_observations_of_snooker_are_refused():
    with pytest.raises(ConfigError, match="observations 'sounds' are not known; accepted: pictures, positions"):
        Snooker(observations="sounds")


# Tables, whose numbers have any unit


def table(rows: int = 400, length: int = 8, constant: bool = False) -> ev.Dataset:
    """Return a table of noiseless looks at sinusoids, with x in hundreds and y in thousands."""
    drawn = draw(sinusoids(rows), Sinusoids(count=1, length=length, noise=0.0), seed=1).sequences
    x, y = (drawn.values(name)[:, 0].numpy() for name in ("x", "y"))
    frame = {"id": drawn.rows().numpy(), "t": drawn.steps().numpy(), "x": 100 * x + 700, "y": 1000 * y - 4000}
    frame |= {"x": [3.0] * len(x)} if constant else {}
    fitting = ev.Fitting(log=False)
    return ev.read(pl.DataFrame(frame), key="id", time="t", numeric=["x", "y"], fitting=fitting)


def test_the_defaults_learn_from_a_table_of_single_numbers():
    method = {"method": {"name": "cresp"}, "encoder": {"dim": 32, "layers": 0}}
    run = ev.fit(table(), method=method, epochs=20, batch_size=50, lr=0.01, validation=0.0)
    first, last = run.history[0]["loss"], run.history[-1]["loss"]
    assert last < first - 0.2
    assert run.notes[-1].startswith("the prediction uses x*: ")


def test_contexts_and_targets_are_scaled_alike():
    data = table(rows=20)
    torch.manual_seed(0)
    encoder = SetEncoder(PointEncoder(Numbers(1, 4), schema=data.schema), dim=8, layers=0)
    unscaled = SetEncoder(PointEncoder(Numbers(1, 4), schema=data.schema, scaled=False), dim=8, layers=0)
    unscaled.load_state_dict(encoder.state_dict())
    x, y = (field.scale(data.sequences.columns[field.name]) for field in data.schema.numeric)
    scaled = replace(data.sequences, columns={**data.sequences.columns, "x": x, "y": y})
    assert float(x.std()) == pytest.approx(1, abs=0.01)
    torch.testing.assert_close(encoder(data.sequences), unscaled(scaled))
    first, second = (TargetedCReSP(part, ShuffledParts(1)) for part in (encoder, unscaled))
    second.load_state_dict(first.state_dict())
    torch.testing.assert_close(first.loss(data.sequences, rng()), second.loss(scaled, rng()))


def test_points_without_a_schema_stay_unscaled_when_they_are_built_again():
    data = table(rows=20)
    method = TargetedCReSP(SetEncoder(PointEncoder(Numbers(1, 4)), dim=8, layers=0))
    assert describe(method)["encoder"]["events"]["scaled"] is False
    again = build_method(describe(method), data.schema)
    again.load_state_dict(method.state_dict())
    assert torch.equal(again.encoder(data.sequences), method.encoder(data.sequences))
    events = {"name": "pairs", "observation": {"name": "numbers", "width": 4}}
    config = {"method": {"name": "cresp"}, "encoder": {"name": "set", "dim": 8, "events": events}}
    assert build_method(config, data.schema).encoder.events.scaled


# What cannot be learned from or predicted


def small(width: int | None = 4) -> TargetedCReSP:
    return TargetedCReSP(SetEncoder(PointEncoder(Numbers(1, width)), dim=8, layers=0), projection=4)


def test_single_numbers_as_representations_of_observations_are_refused_before_training(tmp_path: Path):
    with pytest.raises(ConfigError, match=r"must be represented by at least 2 numbers .*, got 1, .* width = 64"):
        ev.fit(table(rows=20), method=small(width=None), epochs=1, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_constant_covariate_is_refused_before_training(tmp_path: Path):
    with pytest.raises(DataError, match=r"covariate 'x' has a single value in all events of 20 rows, .* that varies"):
        ev.fit(table(rows=20, constant=True), method=small(), epochs=1, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
    untargeted = {"method": {"name": "cresp_untargeted"}, "encoder": {"dim": 8}}
    assert ev.fit(table(rows=20, constant=True), method=untargeted, epochs=1).steps


@pytest.mark.parametrize("method", ["cresp", "cresp_untargeted", "fclr"])
@pytest.mark.parametrize("length", [0, 1])
def test_rows_with_fewer_than_two_observations_cannot_be_used(method, length):
    data = table(rows=20, length=2)
    short = replace(data.sequences, lengths=torch.full_like(data.sequences.lengths, length))
    with pytest.raises(DataError, match=r"0 of 20 entities can be used by this method, .* too short"):
        ev.fit(replace(data, sequences=short), method=method, epochs=1)


def test_targets_that_cannot_be_predicted_are_refused():
    context = hold_out(table(rows=3).sequences)
    predictor = small().predictor

    def at(place: torch.Tensor, rows: Sequences = context) -> torch.Tensor:
        return predictor(replace(rows, static={"x*": place}))

    assert at(torch.zeros(3)).shape == (3, 4)
    with pytest.raises(DataError, match="a prediction needs a context, but 2 of 3 rows have no event"):
        at(torch.zeros(3), replace(context, lengths=torch.tensor([0, 4, 0])))
    for bad in (math.nan, math.inf):
        with pytest.raises(DataError, match=r"column 'x\*' is missing or infinite in 1 of 3 "):
            at(torch.tensor([0.0, bad, 0.0]))
    with pytest.raises(DataError, match=r"values have shape \(2,\), but this network takes 1 number per value"):
        at(torch.zeros(3, 2))
    with pytest.raises(DataError, match=r"static\['x\*'\] must have one value for each of 3 rows, got 4"):
        at(torch.zeros(4))


# Several targets of a row, and columns by name


def irregular(rows: int = 40, seed: int = 0, schema: ev.Schema | None = None) -> ev.Dataset:
    """Return a table (time, parameter, value): of each row, parameter a rises with time and b falls."""
    rng_ = np.random.default_rng(seed)
    count = rng_.integers(4, 9, rows)
    entity = np.repeat(np.arange(rows), count)
    time, parameter = rng_.integers(0, 100, len(entity)), rng_.choice(["a", "b"], len(entity))
    value = rng_.normal(size=rows)[entity] + np.where(parameter == "a", 1, -1) * time / 50
    frame = pl.DataFrame({"id": entity, "when": time, "parameter": parameter, "value": value})
    if schema is not None:
        return ev.read(frame, schema=schema)
    roles = {"key": "id", "time": "when", "categorical": ["parameter"], "numeric": ["value"]}
    return ev.read(frame, **roles, fitting=ev.Fitting(log=False))


EVENTS = {"covariates": ["time", "parameter"], "observations": ["value"]}


@pytest.mark.parametrize("name", ["cresp", "metacde"])
def test_each_target_is_a_query_against_the_targets_of_the_batch(name):
    data = irregular()
    torch.manual_seed(0)
    events = {"name": "pairs", "observation": {"name": "numbers", "width": 4}, **EVENTS}
    kind = {"cresp": {"name": "set", "dim": 8, "layers": 0}, "metacde": {"name": "kernel_mean"}}[name]
    tables = {"method": {"name": name, "targets": 3, "projection": 4}, "encoder": {**kind, "events": events}}
    method = build_method(tables, data.schema).eval()
    points, rows = method.encoder.events, method.usable(data.sequences)
    batch = data.sequences[rows]
    view, _ = method.views(batch, rng())
    queries, keys = [], []
    for row in range(len(view)):
        one = view[[row]]
        context = one.slice(torch.tensor([0]), torch.tensor([3]), one.lengths - 3)
        for place in range(3):
            target = one.slice(torch.tensor([0]), torch.tensor([place]), torch.tensor([1]))
            queries.append(method.predictor(replace(context, static={"targets": target}))[0])
            keys.append(points.observation(points.scales["value"].scale(target.values("value")))[0])
    query, key = (torch.nn.functional.normalize(method.project(torch.stack(part)), dim=1) for part in (queries, keys))
    logits = query @ key.T / 0.5
    expected = -logits.log_softmax(1).diagonal().mean()
    torch.testing.assert_close(method.loss(batch, rng()), expected, rtol=1e-4, atol=1e-4)
    assert describe(method)["method"]["targets"] == 3


def test_rows_without_an_event_beside_the_targets_cannot_be_used():
    data = irregular()
    encoder = {"name": "set", "dim": 8, "layers": 0, "events": EVENTS}
    tables = {"method": {"name": "cresp", "targets": 5}, "encoder": encoder}
    method = build_method(suggest(data.sequences, tables), data.schema)
    assert torch.equal(method.usable(data.sequences), data.sequences.lengths > 5)
    with pytest.raises(ConfigError, match="targets must be below the length of views, 6, got 6"):
        TargetedCReSP(method.encoder, Sinusoids(count=1, length=6), targets=6)
    with pytest.raises(ConfigError, match="targets must be at least 1, got 0"):
        TargetedCReSP(method.encoder, targets=0)


def test_covariates_of_single_values_are_named(tmp_path: Path):
    data = irregular()
    columns = data.sequences.columns
    still = {
        **columns,
        "time": torch.zeros_like(columns["time"]),
        "parameter": torch.full_like(columns["parameter"], 2),
    }
    data = replace(data, sequences=replace(data.sequences, columns=still))
    encoder = {"name": "set", "dim": 8, "layers": 0, "events": EVENTS}
    with pytest.raises(DataError, match="covariates 'time', 'parameter' have a single value in all events of 40 rows"):
        ev.fit(data, method={"method": {"name": "cresp"}, "encoder": encoder}, epochs=1, out=tmp_path / "run")


def test_several_targets_of_an_irregular_table_are_learned():
    encoder = {"name": "set", "dim": 32, "layers": 0, "events": EVENTS}
    data = irregular(rows=300)
    run = ev.fit(data, method={"method": {"name": "cresp", "targets": 2}, "encoder": encoder}, epochs=6, batch_size=32,
                 lr=0.01, validation=0.0)  # fmt: skip
    use = covariate_use(run.method, irregular(rows=200, seed=1, schema=data.schema).sequences, rng())
    assert use.chance == math.log(128)
    assert use.share > 0.1
