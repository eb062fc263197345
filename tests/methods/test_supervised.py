"""Supervised: its loss by hand, labels that are missing, fine-tuning from a run, predictions with names and units."""

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
from eventvec import checkpoint
from eventvec.errors import CheckpointError, ConfigError, DataError
from eventvec.methods import Supervised
from eventvec.prediction import predict
from eventvec.schema import Categorical, Numeric
from eventvec.sequences import Sequences
from eventvec.views import Altered, RejectionSlices

SIZE = 160


def frames(seed: int = 0) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return events and labels: three habits of buying, and a spending power; every fourth entity has no label."""
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
    shown = pl.when(pl.col("id") % 4 != 0)
    return events, people.with_columns(shown.then("habit").alias("habit"), shown.then("income").alias("income"))


@pytest.fixture(scope="module")
def data() -> ev.Dataset:
    events, people = frames()
    return ev.read(events, key="id", time="t", categorical=["code"], numeric=["amount"], static=people)


@pytest.fixture(scope="module")
def truth() -> pl.DataFrame:
    """Return the labels of those who are not shown any."""
    rng = np.random.default_rng(0)
    habit, wealth = rng.integers(0, 3, SIZE), rng.normal(0, 1, SIZE)
    names = pl.Series("habit", habit).replace_strict({0: "calm", 1: "young", 2: "pirate"})
    return pl.DataFrame({"habit": names, "income": 50_000 + 10_000 * wealth})[::4]


def encoder(data: ev.Dataset, seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return ev.GRU(ev.EventEncoder(data.schema), dim=16)


def supervised(data: ev.Dataset, label: str = "habit", seed: int = 0) -> Supervised:
    return Supervised(encoder(data, seed), data.schema, label)


def weights(module: nn.Module) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in module.state_dict().items()}


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


class Given(nn.Module):
    """An encoder that returns what stands in a static column."""

    dim = 2

    def forward(self, x: Sequences) -> Tensor:
        z = x.static["z"]
        assert isinstance(z, Tensor)
        return z


def given(target: Categorical | Numeric, labels: list[float]) -> tuple[Supervised, Sequences]:
    """Return a method with the head y = [z0 + 1, 2 z1] (or their sum) and rows with z = (i, -i)."""
    schema = replace(make.schema(), static=(target,))
    method = Supervised(Given(), schema, target.name)
    weight = torch.tensor([[1.0, 0.0], [0.0, 2.0]])
    bias = torch.tensor([1.0, 0.0])
    if isinstance(target, Numeric):
        weight, bias = weight.sum(0, keepdim=True), bias.sum()[None]
    method.head.load_state_dict({"weight": weight, "bias": bias})
    n = len(labels)
    static = {"z": torch.arange(n).float()[:, None] * torch.tensor([1.0, -1.0]), target.name: torch.tensor(labels)}
    return method, Sequences({}, torch.zeros(n).long(), torch.zeros(n).long(), static)


def test_classification_is_the_mean_cross_entropy_of_the_classes():
    method, x = given(Categorical("kind", ("a", "b")), [2, 3, 3])
    expected = 0.0
    for row, label in enumerate([0, 1, 1]):
        logits = [row + 1.0, -2.0 * row]
        expected += math.log(sum(map(math.exp, logits))) - logits[label]
    torch.testing.assert_close(method.loss(x, torch.Generator()).item(), expected / 3)
    torch.testing.assert_close(method.predictor(x), torch.tensor([[1.0, 0.0], [2.0, -2.0], [3.0, -4.0]]))


@pytest.mark.parametrize("log", [False, True])
def test_regression_is_the_mean_squared_error_of_the_standardised_label(log: bool):
    field = Numeric("kind", log=log, mean=2.0, std=4.0)
    method, x = given(field, [6.0, -2.0])
    scaled = [(value - 2.0) / 4.0 for value in ((math.log1p(6), -math.log1p(2)) if log else (6.0, -2.0))]
    out = [1.0, 1.0 + 1.0 - 2.0]
    expected = sum((said - label) ** 2 for said, label in zip(out, scaled, strict=True)) / 2
    torch.testing.assert_close(method.loss(x, torch.Generator()).item(), expected)
    raw = [said * 4.0 + 2.0 for said in out]
    raw = [math.copysign(math.expm1(abs(value)), value) for value in raw] if log else raw
    torch.testing.assert_close(method.predictor(x), torch.tensor(raw)[:, None])  # in the label's unit


def test_rows_without_a_label_are_not_usable(data: ev.Dataset):
    method, x = given(Categorical("kind", ("a", "b")), [0, 1, 2, 3])
    assert method.usable(x).tolist() == [False, False, True, True]
    method, x = given(Numeric("kind"), [math.nan, 0.0])
    assert method.usable(x).tolist() == [False, True]
    for label in ("habit", "income"):
        usable = supervised(data, label).usable(data.sequences)
        assert usable.tolist() == [row % 4 != 0 for row in range(SIZE)]


def test_what_cannot_be_learned_is_refused(data: ev.Dataset):
    with pytest.raises(ConfigError, match="there is no static column 'habt'; did you mean 'habit'"):
        supervised(data, "habt")
    with pytest.raises(ConfigError, match=r"static column 'profile' is of kind vector, which is no label"):
        Supervised(make.encoder("gru"), make.schema(), "profile")
    with pytest.raises(ConfigError, match="'kind' has 1 classes in the schema; at least 2 are needed"):
        given(Categorical("kind", ("a",)), [2])
    plain = ev.read(frames()[0], schema=data.schema)
    with pytest.raises(DataError, match="the data has no static column 'habit'; give a table with it"):
        ev.fit(supervised(data), plain, epochs=1)
    nobody = replace(data, sequences=data.sequences[::4])
    with pytest.raises(DataError, match="0 of 40 entities"):
        ev.fit(supervised(data), nobody, epochs=1)


def test_a_label_that_is_the_same_everywhere_is_refused(data: ev.Dataset):
    calm = data.sequences[[row for row in range(SIZE) if row % 4 and data.sequences.static["habit"][row] == 3]]
    assert 10 < len(calm) < SIZE / 2
    sentence = f"static column 'habit' has one and the same value in all {len(calm)} rows that have any; at least 2"
    with pytest.raises(DataError, match=sentence):
        ev.fit(supervised(data), replace(data, sequences=calm), epochs=1)
    method, x = given(Numeric("kind"), [math.nan, 4.0, 4.0])
    with pytest.raises(DataError, match="one and the same value in all 2 rows"):
        method.usable(x)
    assert method.usable(x[:2]).tolist() == [False, True]  # one row alone says nothing of others


# Views, and the head of the paper's fine-tuning


def test_views_are_windows_with_the_label_of_their_row_in_training_only():
    torch.manual_seed(0)
    x, slices = make.sequences([9, 4, 7, 0]), ev.RandomSlices(count=3, shortest=2, longest=5)
    kind = torch.tensor([2, 3, 4, 2])
    x = Sequences(x.columns, x.starts, x.lengths, {"kind": kind})
    method = Supervised(make.encoder("gru", batch_norm=False), make.schema(), "kind", slices)
    assert method.usable(x).all()  # of a short row, there is one window: itself

    def mean(rows: Sequences, labels: Tensor) -> float:
        chances = [method.head(method.encoder(rows[[i]])).softmax(1)[0, label - 2] for i, label in enumerate(labels)]
        return -float(torch.stack(chances).log().mean().detach())

    views, source = slices(x, torch.Generator().manual_seed(5))
    assert method.train().loss(x, torch.Generator().manual_seed(5)).item() == pytest.approx(mean(views, kind[source]))
    assert method.eval().loss(x, torch.Generator()).item() == pytest.approx(mean(x, kind))
    assert mean(views, kind[source]) != pytest.approx(mean(x, kind), rel=1e-3)


def test_one_slice_may_stand_for_a_row_and_what_may_leave_a_row_out_is_refused():
    x = make.sequences([9, 4, 7, 1])
    x = Sequences(x.columns, x.starts, x.lengths, {"kind": torch.tensor([2, 3, 4, 2])})
    one = ev.RandomSlices(count=1, shortest=2, longest=5)
    method = Supervised(make.encoder("gru"), make.schema(), "kind", Altered(one, dropout=0.0)).train()
    views, source = one(x, torch.Generator().manual_seed(5))
    assert source.tolist() == [0, 1, 2, 3]
    expected = nn.functional.cross_entropy(method.head(method.encoder(views)), torch.tensor([0, 1, 2, 0]))
    torch.testing.assert_close(method.loss(x, torch.Generator().manual_seed(5)), expected)
    with pytest.raises(ConfigError, match="views is cut by RejectionSlices, which may leave rows out; accepted: Ra"):
        Supervised(make.encoder("gru"), make.schema(), "kind", Altered(RejectionSlices()))


def test_the_head_for_fine_tuning_normalises_the_embedding():
    schema = replace(make.schema(), static=(Categorical("kind", ("a", "b")),))
    method = Supervised(Given(), schema, "kind", batch_norm=True).train()
    z = torch.tensor([[1.0, 5.0], [3.0, 5.0], [5.0, 8.0]])
    static = {"z": z, "kind": torch.tensor([2, 3, 3])}
    x = Sequences({}, torch.zeros(3).long(), torch.zeros(3).long(), static)
    linear = method.head[-1]
    unit = (z - z.mean(0)) / (z.var(0, unbiased=False) + 1e-5).sqrt()
    expected = nn.functional.cross_entropy(linear(unit), torch.tensor([0, 1, 1]))
    torch.testing.assert_close(method.loss(x, torch.Generator()), expected)
    mean, var = 0.1 * z.mean(0), 0.9 + 0.1 * z.var(0)  # what one batch leaves, read in evaluation
    torch.testing.assert_close(method.eval().predictor(x), linear((z - mean) / (var + 1e-5).sqrt()))
    assert method.predictor.dim == 2


def test_views_and_the_head_are_written_down_and_learn(data: ev.Dataset, truth: pl.DataFrame, tmp_path: Path):
    torch.manual_seed(0)
    slices = Altered(ev.RandomSlices(count=2, shortest=5, longest=15), dropout=0.2)
    method = Supervised(encoder(data), data.schema, "habit", slices, batch_norm=True)
    ev.fit(method, data, epochs=8, batch_size=16, lr=0.01, out=tmp_path / "run")
    run = ev.load(tmp_path / "run")
    assert run.method.views == slices
    plain = ev.read(frames()[0], schema=run.schema)
    found = pl.DataFrame(predict(run.method, plain))["prediction"]
    assert (found.gather_every(4) == truth["habit"]).mean() > 0.85


# It learns, and says what it learned


def test_classes_are_learned_and_predicted_by_name(data: ev.Dataset, truth: pl.DataFrame):
    method = supervised(data)
    result = ev.fit(method, data, epochs=8, batch_size=16, lr=0.01)
    assert result.usable == SIZE * 3 // 4
    plain = ev.read(frames()[0], schema=data.schema)  # no labels are needed any more
    found = pl.DataFrame(predict(method, plain))
    assert found.columns == ["id", "prediction", *(f"p_{value}" for value in method.target.values)]
    assert set(method.target.values) == {"calm", "young", "pirate"}
    unseen = found.filter(pl.col("id") % 4 == 0)
    assert (unseen["prediction"] == truth["habit"]).mean() > 0.85  # chance is 1/3; none of these had a label
    chances = found.select(pl.col("^p_.*$"))
    assert np.allclose(chances.sum_horizontal(), 1, atol=1e-5)
    for row, logits in enumerate(ev.embed(method.predictor, plain)[:5].tolist()):
        total = sum(map(math.exp, logits))
        by_name = dict(zip(method.target.values, logits, strict=True))
        assert found["prediction"][row] == max(by_name, key=by_name.__getitem__)
        for value, logit in by_name.items():
            assert found[f"p_{value}"][row] == pytest.approx(math.exp(logit) / total, rel=1e-4)


def test_numbers_are_learned_in_their_own_unit(data: ev.Dataset, truth: pl.DataFrame):
    method = supervised(data, "income")
    ev.fit(method, data, epochs=12, batch_size=16, lr=0.01)
    found = pl.DataFrame(predict(method, data))
    assert found.columns == ["id", "prediction"]
    unseen, income = found["prediction"].to_numpy()[::4], truth["income"].to_numpy()
    assert 1 - ((unseen - income) ** 2).sum() / ((income - income.mean()) ** 2).sum() > 0.8


def test_predicting_changes_nothing(data: ev.Dataset):
    for training in (True, False):
        method = supervised(data).train(training)
        before = weights(method)
        predict(method, data)
        assert same(before, weights(method))
        assert all(module.training == training for module in method.modules())
    assert not any("predictor" in name for name in weights(method))  # no weight is there twice


def test_what_predicts_nothing_is_refused(data: ev.Dataset):
    with pytest.raises(ConfigError, match="a CoLES predicts no label"):
        predict(ev.CoLES(encoder(data)), data)
    with pytest.raises(ConfigError, match="key is called 'prediction', like a column"):
        predict(supervised(data), replace(data, schema=replace(data.schema, key_as="prediction")))


# Saved, loaded, resumed


class Killed(Exception):
    pass


def test_a_killed_run_resumes_and_loads_to_the_same_predictions(data: ev.Dataset, tmp_path: Path):
    settings: dict[str, Any] = {"epochs": 3, "batch_size": 32, "checkpoint_every": 2, "seed": 3}
    whole = supervised(data)
    ev.fit(whole, data, out=tmp_path / "whole", **settings)

    def killed(record: ev.train.Record) -> None:
        if record["step"] == 5:
            raise Killed

    with pytest.raises(Killed):
        ev.fit(supervised(data), data, out=tmp_path / "cut", progress=killed, **settings)
    gone_on = supervised(data, seed=9)
    ev.fit(gone_on, data, out=tmp_path / "cut", resume=True, **settings)
    assert same(weights(whole), weights(gone_on))
    run = ev.load(tmp_path / "cut")
    assert run.config["method"] == {"name": "supervised", "label": "habit", "batch_norm": False}
    plain = ev.read(frames()[0], schema=run.schema)
    assert predict(run.method, plain).equals(predict(whole, data))
    assert "learning from the static column `habit`" in (tmp_path / "cut" / "README.md").read_text()


def test_other_labels_are_other_data(data: ev.Dataset, tmp_path: Path):
    ev.fit(supervised(data), data, epochs=1, out=tmp_path / "run")
    events, people = frames()
    people[1, "income"] = 1.0
    other = ev.read(events, key="id", time="t", categorical=["code"], numeric=["amount"], static=people)
    with pytest.raises(CheckpointError, match="other data"):
        ev.fit(supervised(other), other, epochs=1, out=tmp_path / "run", resume=True)


# Fine-tuning


@pytest.fixture(scope="module")
def run(data: ev.Dataset, tmp_path_factory: pytest.TempPathFactory) -> checkpoint.Run:
    path = tmp_path_factory.mktemp("runs") / "coles"
    method = ev.CoLES(encoder(data), ev.RandomSlices(count=3, shortest=3, longest=12))
    ev.fit(method, data, epochs=6, batch_size=32, out=path)
    return ev.load(path)


def test_fine_tuning_begins_with_the_weights_of_the_run(data: ev.Dataset, run: checkpoint.Run):
    method = supervised(data, seed=5)
    assert not same(weights(method.encoder), weights(run.encoder))
    head = weights(method.head)
    checkpoint.begin_from(method, data.schema, run)
    assert same(weights(method.encoder), weights(run.encoder))
    assert same(weights(method.head), head)
    ev.fit(method, data, epochs=1, lr=1e-9, validation=0)
    before, after = weights(run.encoder), weights(method.encoder)
    moved = {name: (after[name] - before[name]).abs().max() for name in before if "norm" not in name}
    assert max(moved.values()) < 1e-6  # it went on from there, at the rate it was told
    assert not torch.equal(after["cells.0.weight_ih_l0"], before["cells.0.weight_ih_l0"])


def test_few_labels_are_enough_for_a_trained_encoder(data: ev.Dataset, run: checkpoint.Run, truth: pl.DataFrame):
    few = data[[row for row in range(SIZE) if row % 4][:18]]
    method = supervised(data)
    checkpoint.begin_from(method, data.schema, run)
    ev.fit(method, few, epochs=60, batch_size=12, lr=0.01, validation=0)
    found = pl.DataFrame(predict(method, data))["prediction"].gather_every(4)
    assert (found == truth["habit"]).mean() > 0.75


def test_a_frozen_encoder_is_judged_by_its_head_then_tuned_at_its_own_rate(data: ev.Dataset, run: checkpoint.Run):
    method = Supervised(encoder(data), data.schema, "habit", batch_norm=True)
    checkpoint.begin_from(method, data.schema, run)
    head = weights(method.head)
    ev.fit(method, data, epochs=2, batch_size=12, lr=0.01, freeze=2, validation=0)
    assert same(weights(method.encoder), weights(run.encoder))  # running statistics too
    assert not same(weights(method.head), head)
    ev.fit(method, data, epochs=1, batch_size=12, lr=0.01, encoder_lr=1e-9, schedule="constant", validation=0)
    before, after = weights(run.encoder), weights(method.encoder)
    moved = {name: float((after[name] - before[name]).abs().max()) for name in before if "norm" not in name}
    assert 0 < max(moved.values()) < 1e-6


def test_an_encoder_that_does_not_fit_is_refused(data: ev.Dataset, run: checkpoint.Run):
    events, people = frames()
    other = ev.read(events.with_columns(pl.col("code").replace({"rum": "gin"})), key="id", time="t", static=people)
    with pytest.raises(CheckpointError, match=r"another schema .* \(they differ in categorical\)"):
        checkpoint.begin_from(supervised(other), other.schema, run)
    wide = Supervised(ev.GRU(ev.EventEncoder(data.schema), dim=8), data.schema, "habit")
    with pytest.raises(CheckpointError, match="has another shape than this one"):
        checkpoint.begin_from(wide, data.schema, run)
    with pytest.raises(ConfigError, match=r"encoder.dim is 8, that of .* is 16; leave it out"):
        checkpoint.encoder_table(run, {"dim": 8, "from": "x"})
    assert checkpoint.encoder_table(run, {"dim": 16})["from"] == str(run.path)
