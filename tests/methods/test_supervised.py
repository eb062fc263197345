"""Supervised: its loss by hand, missing labels, views, predictions with names and units, runs and fine-tuning."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from torch import Tensor, nn

import eventvec as ev
import make
from eventvec import models
from eventvec.errors import CheckpointError, ConfigError, DataError
from eventvec.methods import Supervised
from eventvec.schema import Categorical, Numeric
from eventvec.sequences import Sequences
from eventvec.training.setup import set_up, settings
from eventvec.views import Altered, RejectionSlices

SIZE = 160


def frames(seed: int = 0) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return events and labels: one of three habits, and an income; every fourth entity has no label."""
    rng = np.random.default_rng(seed)
    habit, wealth = rng.integers(0, 3, SIZE), rng.normal(0, 1, SIZE)
    bought = np.where(rng.random((SIZE, 20)) < 0.7, habit[:, None], rng.integers(0, 3, (SIZE, 20)))
    events = pl.DataFrame(
        {
            "id": np.repeat(np.arange(SIZE), 20),
            "t": np.tile(np.arange(20), SIZE),
            "code": pl.Series(bought.reshape(-1)).replace_strict({0: "tea", 1: "milk", 2: "rum"}),
            "amount": (wealth[:, None] + rng.normal(0, 0.5, (SIZE, 20))).reshape(-1),
        }
    )
    names = pl.Series("habit", habit).replace_strict({0: "calm", 1: "young", 2: "pirate"})
    people = pl.DataFrame({"id": np.arange(SIZE), "habit": names, "income": 50_000 + 10_000 * wealth})
    labelled = pl.when(pl.col("id") % 4 != 0)
    return events, people.with_columns(labelled.then("habit").alias("habit"), labelled.then("income").alias("income"))


@pytest.fixture(scope="module")
def data() -> ev.Dataset:
    events, people = frames()
    return ev.read(events, key="id", time="t", categorical=["code"], numeric=["amount"], static=people)


@pytest.fixture(scope="module")
def truth() -> pl.DataFrame:
    """Return the labels of the entities without a label."""
    rng = np.random.default_rng(0)
    habit, wealth = rng.integers(0, 3, SIZE), rng.normal(0, 1, SIZE)
    names = pl.Series("habit", habit).replace_strict({0: "calm", 1: "young", 2: "pirate"})
    return pl.DataFrame({"habit": names, "income": 50_000 + 10_000 * wealth})[::4]


def encoder(data: ev.Dataset, seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return ev.encoders.GRU(ev.encoders.EventEncoder(data.schema), dim=16)


def supervised(data: ev.Dataset, label: str = "habit", seed: int = 0) -> Supervised:
    return Supervised(encoder(data, seed), data.schema, label)


def weights(module: nn.Module) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in module.state_dict().items()}


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


class StaticColumn(nn.Module):
    """An encoder that returns a static column."""

    dim = 2

    def forward(self, x: Sequences) -> Tensor:
        z = x.static["z"]
        assert isinstance(z, Tensor)
        return z


def linear(target: Categorical | Numeric, labels: list[float]) -> tuple[Supervised, Sequences]:
    """Return a method with the head y = [z0 + 1, 2 z1] (or their sum) and rows with z = (i, -i)."""
    schema = replace(make.schema(), static=(target,))
    method = Supervised(StaticColumn(), schema, target.name)
    weight = torch.tensor([[1.0, 0.0], [0.0, 2.0]])
    bias = torch.tensor([1.0, 0.0])
    if isinstance(target, Numeric):
        weight, bias = weight.sum(0, keepdim=True), bias.sum()[None]
    method.head.load_state_dict({"weight": weight, "bias": bias})
    n = len(labels)
    static = {"z": torch.arange(n).float()[:, None] * torch.tensor([1.0, -1.0]), target.name: torch.tensor(labels)}
    return method, Sequences({}, torch.zeros(n).long(), torch.zeros(n).long(), static)


def test_classification_is_the_mean_cross_entropy_of_the_classes():
    method, x = linear(Categorical("kind", ("a", "b")), [2, 3, 3])
    expected = 0.0
    for row, label in enumerate([0, 1, 1]):
        logits = [row + 1.0, -2.0 * row]
        expected += math.log(sum(map(math.exp, logits))) - logits[label]
    torch.testing.assert_close(method.loss(x, torch.Generator()).item(), expected / 3)
    torch.testing.assert_close(method.predictor(x), torch.tensor([[1.0, 0.0], [2.0, -2.0], [3.0, -4.0]]))


@pytest.mark.parametrize("log", [False, True])
def test_regression_is_the_mean_squared_error_of_the_standardised_label(log: bool):
    field = Numeric("kind", log=log, mean=2.0, std=4.0)
    method, x = linear(field, [6.0, -2.0])
    scaled = [(value - 2.0) / 4.0 for value in ((math.log1p(6), -math.log1p(2)) if log else (6.0, -2.0))]
    outputs = [1.0, 1.0 + 1.0 - 2.0]
    expected = sum((output - label) ** 2 for output, label in zip(outputs, scaled, strict=True)) / 2
    torch.testing.assert_close(method.loss(x, torch.Generator()).item(), expected)
    raw = [output * 4.0 + 2.0 for output in outputs]
    raw = [math.copysign(math.expm1(abs(value)), value) for value in raw] if log else raw
    torch.testing.assert_close(method.predictor(x), torch.tensor(raw)[:, None])  # in the label's unit


def test_rows_without_a_label_are_not_usable(data: ev.Dataset):
    method, x = linear(Categorical("kind", ("a", "b")), [0, 1, 2, 3])
    assert method.usable(x).tolist() == [False, False, True, True]
    method, x = linear(Numeric("kind"), [math.nan, 0.0])
    assert method.usable(x).tolist() == [False, True]
    for label in ("habit", "income"):
        usable = supervised(data, label).usable(data.sequences)
        assert usable.tolist() == [row % 4 != 0 for row in range(SIZE)]


def test_columns_that_are_no_labels_are_refused(data: ev.Dataset):
    with pytest.raises(ConfigError, match="there is no static column 'habt'; did you mean 'habit'"):
        supervised(data, "habt")
    with pytest.raises(ConfigError, match="must be a categorical or numeric column, got 'profile', which is vector"):
        Supervised(make.encoder("gru"), make.schema(), "profile")
    with pytest.raises(ConfigError, match="label 'kind' must have at least 2 classes in the schema, got 1"):
        linear(Categorical("kind", ("a",)), [2])
    plain = ev.read(frames()[0], schema=data.schema)
    with pytest.raises(DataError, match="the data have no static column 'habit'; give a table with it"):
        ev.fit(plain, method=supervised(data), epochs=1)
    unlabelled = replace(data, sequences=data.sequences[::4])
    for label in ("habit", "income"):
        message = f"static column '{label}' has no value in any row; at least two rows need a label"
        with pytest.raises(DataError, match=message):
            ev.fit(unlabelled, method=supervised(data, label), epochs=1)


def test_labels_that_are_all_equal_are_refused(data: ev.Dataset):
    calm = data.sequences[[row for row in range(SIZE) if row % 4 and data.sequences.static["habit"][row] == 3]]
    assert 10 < len(calm) < SIZE / 2
    message = f"static column 'habit' has a single value in all {len(calm)} rows with a label; at least 2"
    with pytest.raises(DataError, match=message):
        ev.fit(replace(data, sequences=calm), method=supervised(data), epochs=1)
    method, x = linear(Numeric("kind"), [math.nan, 4.0, 4.0])
    with pytest.raises(DataError, match="a single value in all 2 rows"):
        method.usable(x)
    assert method.usable(x[:2]).tolist() == [False, True]  # a single label is not compared


# Views, and the head of the paper's fine-tuning


def test_views_replace_rows_in_training_only_and_keep_the_label():
    torch.manual_seed(0)
    x, slices = make.sequences([9, 4, 7, 0]), ev.views.RandomSlices(count=3, shortest=2, longest=5)
    kind = torch.tensor([2, 3, 4, 2])
    x = Sequences(x.columns, x.starts, x.lengths, {"kind": kind})
    method = Supervised(make.encoder("gru", batch_norm=False), make.schema(), "kind", slices)
    assert method.usable(x).all()  # the only view of a short row is the row

    def mean(rows: Sequences, labels: Tensor) -> float:
        logits = [method.head(method.encoder(rows[[i]])) for i in range(len(labels))]
        probabilities = [row.softmax(1)[0, label - 2] for row, label in zip(logits, labels, strict=True)]
        return -float(torch.stack(probabilities).log().mean().detach())

    views, source = slices(x, torch.Generator().manual_seed(5))
    assert method.train().loss(x, torch.Generator().manual_seed(5)).item() == pytest.approx(mean(views, kind[source]))
    assert method.eval().loss(x, torch.Generator()).item() == pytest.approx(mean(x, kind))
    assert mean(views, kind[source]) != pytest.approx(mean(x, kind), rel=1e-3)


def test_a_single_slice_is_accepted_and_samplers_that_leave_out_rows_are_refused():
    x = make.sequences([9, 4, 7, 1])
    x = Sequences(x.columns, x.starts, x.lengths, {"kind": torch.tensor([2, 3, 4, 2])})
    one = ev.views.RandomSlices(count=1, shortest=2, longest=5)
    method = Supervised(make.encoder("gru"), make.schema(), "kind", Altered(one, dropout=0.0)).train()
    views, source = one(x, torch.Generator().manual_seed(5))
    assert source.tolist() == [0, 1, 2, 3]
    expected = nn.functional.cross_entropy(method.head(method.encoder(views)), torch.tensor([0, 1, 2, 0]))
    torch.testing.assert_close(method.loss(x, torch.Generator().manual_seed(5)), expected)
    with pytest.raises(ConfigError, match=r"views must be drawn by RandomSlices, .* got RejectionSlices"):
        Supervised(make.encoder("gru"), make.schema(), "kind", Altered(RejectionSlices()))


def test_the_head_for_fine_tuning_normalises_the_embedding():
    schema = replace(make.schema(), static=(Categorical("kind", ("a", "b")),))
    method = Supervised(StaticColumn(), schema, "kind", batch_norm=True).train()
    z = torch.tensor([[1.0, 5.0], [3.0, 5.0], [5.0, 8.0]])
    static = {"z": z, "kind": torch.tensor([2, 3, 3])}
    x = Sequences({}, torch.zeros(3).long(), torch.zeros(3).long(), static)
    linear = method.head[-1]
    unit = (z - z.mean(0)) / (z.var(0, unbiased=False) + 1e-5).sqrt()
    expected = nn.functional.cross_entropy(linear(unit), torch.tensor([0, 1, 1]))
    torch.testing.assert_close(method.loss(x, torch.Generator()), expected)
    mean, var = 0.1 * z.mean(0), 0.9 + 0.1 * z.var(0)  # running statistics after one batch, used in evaluation mode
    torch.testing.assert_close(method.eval().predictor(x), linear((z - mean) / (var + 1e-5).sqrt()))
    assert method.predictor.dim == 2


def test_views_and_batch_norm_are_saved_and_learn(data: ev.Dataset, truth: pl.DataFrame, tmp_path: Path):
    torch.manual_seed(0)
    slices = Altered(ev.views.RandomSlices(count=2, shortest=5, longest=15), dropout=0.2)
    method = Supervised(encoder(data), data.schema, "habit", slices, batch_norm=True)
    ev.fit(data, method=method, epochs=8, batch_size=16, lr=0.01, out=tmp_path / "run")
    run = ev.load(tmp_path / "run")
    assert run.method.views == slices
    predictions = pl.DataFrame(ev.predict(run, frames()[0]))["prediction"]
    assert (predictions.gather_every(4) == truth["habit"]).mean() > 0.85


# Training and prediction


def test_classes_are_learned_and_predicted_by_name(data: ev.Dataset, truth: pl.DataFrame):
    method = supervised(data)
    run = ev.fit(data, method=method, epochs=12, batch_size=16, lr=0.01)
    assert run.usable == SIZE * 3 // 4
    plain = ev.read(frames()[0], schema=data.schema)  # without labels
    predictions = pl.DataFrame(ev.predict(run, plain))
    assert predictions.columns == ["id", "prediction", *(f"p_{value}" for value in method.label_fields[0].values)]
    assert set(method.label_fields[0].values) == {"calm", "young", "pirate"}
    unseen = predictions.filter(pl.col("id") % 4 == 0)
    assert (unseen["prediction"] == truth["habit"]).mean() > 0.85  # chance is 1/3; these had no label in training
    probabilities = predictions.select(pl.col("^p_.*$"))
    assert np.allclose(probabilities.sum_horizontal(), 1, atol=1e-5)
    for row, logits in enumerate(ev.encode(method.predictor, plain.sequences)[:5].tolist()):
        total = sum(map(math.exp, logits))
        by_name = dict(zip(method.label_fields[0].values, logits, strict=True))
        assert predictions["prediction"][row] == max(by_name, key=by_name.__getitem__)
        for value, logit in by_name.items():
            assert predictions[f"p_{value}"][row] == pytest.approx(math.exp(logit) / total, rel=1e-4)


def test_numbers_are_predicted_in_their_unit(data: ev.Dataset, truth: pl.DataFrame):
    run = ev.fit(data, method=supervised(data, "income"), epochs=12, batch_size=16, lr=0.01)
    predictions = pl.DataFrame(ev.predict(run, data))
    assert predictions.columns == ["id", "prediction"]
    unseen, income = predictions["prediction"].to_numpy()[::4], truth["income"].to_numpy()
    assert 1 - ((unseen - income) ** 2).sum() / ((income - income.mean()) ** 2).sum() > 0.8


def test_predicting_does_not_change_the_method(data: ev.Dataset):
    run = ev.fit(data, method=(method := supervised(data)), epochs=1)
    for training in (True, False):
        method.train(training)
        before = weights(method)
        ev.predict(run, data)
        assert same(before, weights(method))
        assert all(module.training == training for module in method.modules())
    assert not any("predictor" in name for name in weights(method))  # no weight is saved twice


def test_methods_and_keys_that_allow_no_prediction_are_refused(data: ev.Dataset):
    with pytest.raises(
        ConfigError, match=r"predicts no label, because it has no head; train one: .* or the method supervised"
    ):
        ev.predict(ev.fit(data, method=ev.methods.CoLES(encoder(data)), epochs=1), data)
    run = ev.fit(data, method=supervised(data), epochs=1)
    with pytest.raises(ConfigError, match="key is called 'prediction', like a column"):
        ev.predict(run, replace(data, schema=replace(data.schema, key_as="prediction")))


# Runs


class Killed(Exception):
    pass


def test_a_resumed_run_loads_with_the_predictions_of_an_uninterrupted_one(data: ev.Dataset, tmp_path: Path):
    options: dict[str, Any] = {"epochs": 3, "batch_size": 32, "checkpoint_every": 2, "seed": 3}
    whole = supervised(data)
    run = ev.fit(data, method=whole, out=tmp_path / "whole", **options)

    def killed(record: dict[str, Any]) -> None:
        if record["step"] == 5:
            raise Killed

    with pytest.raises(Killed):
        ev.fit(data, method=supervised(data), out=tmp_path / "cut", progress=killed, **options)
    resumed = supervised(data, seed=9)
    ev.fit(data, method=resumed, out=tmp_path / "cut", resume=True, **options)
    assert same(weights(whole), weights(resumed))
    loaded = ev.load(tmp_path / "cut")
    assert loaded.config["method"] == {
        "name": "supervised", "label": "habit", "batch_norm": False, "inclusive": False,
    }  # fmt: skip
    assert ev.predict(loaded, frames()[0]).equals(ev.predict(run, data))
    assert "from the static column `habit`" in (tmp_path / "cut" / "README.md").read_text()


def test_a_run_does_not_resume_with_other_labels(data: ev.Dataset, tmp_path: Path):
    ev.fit(data, method=supervised(data), epochs=1, out=tmp_path / "run")
    events, people = frames()
    people[1, "income"] = 1.0
    other = ev.read(events, key="id", time="t", categorical=["code"], numeric=["amount"], static=people)
    with pytest.raises(CheckpointError, match="other data"):
        ev.fit(other, method=supervised(other), epochs=1, out=tmp_path / "run", resume=True)


# Fine-tuning


@pytest.fixture(scope="module")
def run(data: ev.Dataset, tmp_path_factory: pytest.TempPathFactory) -> models.Model:
    path = tmp_path_factory.mktemp("runs") / "coles"
    method = ev.methods.CoLES(encoder(data), ev.views.RandomSlices(count=3, shortest=3, longest=12))
    ev.fit(data, method=method, epochs=6, batch_size=32, out=path)
    return ev.load(path)


def started_from(run: models.Model, data: ev.Dataset, **options: object) -> Supervised:
    """Return a method whose encoder has the weights of a run."""
    config = {"method": {"name": "supervised", "label": "habit", **options}}
    method, _ = set_up(data, config, run)
    assert isinstance(method, Supervised)
    return method


def changes(run: models.Model, method: Supervised) -> dict[str, float]:
    """Return the largest change of each weight of the encoder, without running statistics."""
    before, after = weights(run.encoder), weights(method.encoder)
    return {name: float((after[name] - before[name]).abs().max()) for name in before if "norm" not in name}


def test_fine_tuning_starts_from_the_weights_of_the_run(data: ev.Dataset, run: models.Model):
    assert not same(weights(encoder(data, seed=5)), weights(run.encoder))
    method = started_from(run, data)
    assert same(weights(method.encoder), weights(run.encoder))
    ev.fit(data, method=method, epochs=1, lr=1e-9, validation=0)
    assert max(changes(run, method).values()) < 1e-6  # training continued from them, at the given learning rate
    assert changes(run, method)["cells.0.weight_ih_l0"] > 0


@pytest.mark.slow
def test_few_labels_are_enough_for_a_trained_encoder(data: ev.Dataset, run: models.Model, truth: pl.DataFrame):
    few = data[[row for row in range(SIZE) if row % 4][:18]]
    tuned = ev.fit(few, method=started_from(run, data), epochs=60, batch_size=12, lr=0.01, validation=0)
    predictions = pl.DataFrame(ev.predict(tuned, data))["prediction"].gather_every(4)
    assert (predictions == truth["habit"]).mean() > 0.75


def test_freeze_and_encoder_lr_control_the_encoder(data: ev.Dataset, run: models.Model):
    method = started_from(run, data, batch_norm=True)
    head = weights(method.head)
    ev.fit(data, method=method, epochs=2, batch_size=12, lr=0.01, freeze=2, validation=0)
    assert same(weights(method.encoder), weights(run.encoder))  # running statistics too
    assert not same(weights(method.head), head)
    ev.fit(data, method=method, epochs=1, batch_size=12, lr=0.01, encoder_lr=1e-9, schedule="constant", validation=0)
    assert 0 < max(changes(run, method).values()) < 1e-6


def test_an_encoder_that_does_not_fit_is_refused(data: ev.Dataset, run: models.Model):
    events, people = frames()
    other = ev.read(events.with_columns(pl.col("code").replace({"rum": "gin"})), key="id", time="t", static=people)
    with pytest.raises(DataError, match="by another schema than the model's; the two differ in categorical"):
        started_from(run, other)
    with pytest.raises(ConfigError, match=r"encoder.dim must be .* 16, got 8; leave it out"):
        settings(data.sequences, {"encoder": {"dim": 8, "from": "x"}}, run)
    assert settings(data.sequences, {"encoder": {"dim": 16}}, run)["encoder"]["from"] == str(run.path)
