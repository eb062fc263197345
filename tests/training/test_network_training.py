"""A network on the label as a family: trained on each fold's own rows, weighed, saved, and without the future."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import eventvec as ev
import fits
from eventvec.errors import CheckpointError, ConfigError
from eventvec.learners import stacking
from eventvec.models import load
from eventvec.training.network_training import Network, NetworkTraining
from eventvec.training.setup import set_up

N, EVENTS, START = 120, 12, datetime(2024, 1, 1)
KNOWN = START + timedelta(days=30)


hand_crafted_features_alone = pytest.fixture(fits.without_codes, autouse=True, scope="module")


@pytest.fixture
def epochs() -> int:
    """Return the number of epochs, few where nothing need be learned."""
    return 2


@pytest.fixture(autouse=True)
def epochs_in_place_of_seconds(monkeypatch: pytest.MonkeyPatch, epochs: int) -> None:
    """Trainings that are bounded by time depend on how busy the machine is."""

    def short(data: Any, tables: Any, parent: Any) -> Any:
        assert tables["fit"]["time_budget"] > 1
        chosen = {"seed": tables["fit"]["seed"], "epochs": epochs, "lr": 0.03, "batch_size": 32}
        return set_up(data, {**tables, "fit": chosen}, parent)

    monkeypatch.setattr("eventvec.training.network_training.set_up", short)


def events() -> pl.DataFrame:
    """Return events of three habits, in random order in time."""
    rng, cards = np.random.default_rng(0), np.repeat(np.arange(N), EVENTS)
    what = np.where(rng.random(len(cards)) < 0.7, cards % 3, rng.integers(0, 3, len(cards)))
    seconds = rng.integers(0, 60 * 86_400, len(cards))
    at = pl.lit(START) + pl.Series("s", seconds).cast(pl.Duration("ms")) * 1000
    return pl.DataFrame({"card": cards, "what": what.astype(str)}).with_columns(at=at)


def labels() -> pl.DataFrame:
    rng = np.random.default_rng(1)
    habit = np.arange(N) % 3
    churn = rng.random(N) < np.array([0.1, 0.5, 0.9])[habit]
    table = {"card": range(N), "churn": churn, "habit": [f"h{each}" for each in habit], "spend": 100.0 + 30.0 * habit}
    return pl.DataFrame({**table, "weight": rng.uniform(0.5, 2, N)}).with_columns(known=pl.lit(KNOWN))


def panel() -> pl.DataFrame:
    months = [labels().with_columns(pl.col("known") + timedelta(days=10 * month)) for month in range(3)]
    return pl.concat(months)


def model(kind: Any = ev.EventClassifier, **options: Any) -> Any:
    return kind("card", "at", categorical=["what"], numeric=[], progress=False, network=True, budget=600.0, **options)


def head(learned: Any) -> Any:
    (one,) = learned.model_.heads.values()
    return one


@pytest.fixture
def only_the_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weigh the network alone, whatever the other models are worth."""
    weigh = stacking.weigh

    def alone(job: Any, predictions: Any, prior: Any) -> Any:
        return weigh(job, {cell: each for cell, each in predictions.items() if cell[0] == "network"}, prior)

    monkeypatch.setattr(stacking, "weigh", alone)


@pytest.mark.parametrize("epochs", [8])
@pytest.mark.parametrize("label", ["churn", "habit", "spend"])
@pytest.mark.usefixtures("only_the_network", "epochs")
def test_every_kind_of_label_is_learned_saved_and_predicted_to_the_same_bits(label: str, tmp_path: Path) -> None:
    kind = ev.EventRegressor if label == "spend" else ev.EventClassifier
    learned = model(kind).fit(events(), panel(), label, label_time="known", weight="weight")
    assert list(head(learned).blocks) == ["network"]
    assert list(learned.model_.blocks) == (["handcrafted"] if label == "spend" else [])  # intervals read them
    assert learned.explain().facts["score"].value > (0.2 if label == "spend" else 0.6)  # R² or AUROC
    learned.save(tmp_path / "model")
    again = kind.load(tmp_path / "model")
    assert again.network
    call = "predict" if label == "spend" else "predict_proba"
    predicted = getattr(learned, call)(events(), labels())
    assert getattr(again, call)(events(), labels()).equals(predicted)
    run = load(tmp_path / "model" / "network-0")
    assert run.config["method"]["label"] == "label"
    assert run.config["method"]["weight"] == "weight"
    weights = tmp_path / "model" / "network-0" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-4] + b"0000")
    with pytest.raises(CheckpointError, match="is damaged or absent: it is not the file that was written"):
        kind.load(tmp_path / "model")


def test_the_predictions_of_a_fold_know_nothing_of_its_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each network is trained on the rows of its fold alone, and predicts the held-out ones."""
    data = ev.read(events(), key="card", time="at", categorical=["what"], numeric=[])
    y = (np.arange(N) % 3 == 0).astype(int)
    target = ev.learners.task.target(y)
    parts, learned = (np.arange(N) >= 60).astype(int), np.arange(N) % 10 > 0
    seen = list[Any]()
    trained = NetworkTraining.trained

    def watched(self: NetworkTraining, rows: Any, seed: int, seconds: float) -> Network:
        network = trained(self, rows, seed, seconds)
        seen.append((rows, network))
        return network

    monkeypatch.setattr(NetworkTraining, "trained", watched)
    training = NetworkTraining(data, target, None, None)
    predicted = training.out_of_parts(parts, learned, 0, 30.0)
    folds = [np.flatnonzero(learned & (parts != part)) for part in (0, 1)]
    assert [rows.tolist() for rows, _ in seen] == [rows.tolist() for rows in folds]
    each = [network.predictions(data[parts == part].sequences) for part, (_, network) in enumerate(seen)]
    np.testing.assert_array_equal(predicted, np.concatenate(each))
    labelled = training._labelled(folds[0])
    assert (labelled.sequences.static["label"] - 2).tolist() == y[folds[0]].tolist()
    assert labelled.keys.to_pylist() == folds[0].tolist()
    assert [network.model.info["entities"] for _, network in seen] == [len(rows) for rows in folds]


@pytest.mark.usefixtures("only_the_network")
def test_later_events_change_no_prediction() -> None:
    later = events().with_columns(what=pl.when(pl.col("at") >= KNOWN).then(pl.lit("0")).otherwise("what"))
    assert not later.equals(events())
    models = [model().fit(each, labels(), "churn", label_time="known") for each in (events(), later)]
    predictions = [each.predict_proba(table, labels()) for each, table in zip(models, (events(), later), strict=True)]
    assert predictions[0].equals(predictions[1])


@pytest.mark.usefixtures("only_the_network")
@pytest.mark.parametrize("encoder", ["gru", "tcn"])
def test_the_network_starts_from_the_encoder_of_a_run(encoder: str) -> None:
    data = ev.read(events(), key="card", time="at", categorical=["what"], numeric=[])
    run = ev.fit(data, method="coles", encoder=encoder, epochs=1, dim=6, beside=[])
    learned = model(vector=run).fit(data, labels()["churn"].to_numpy())
    network = head(learned).blocks["network"].model
    assert network.encoder.dim == 6
    assert network.info["from"] == run.id
    assert ("auxiliary" in network.config["method"]) == (encoder == "gru")  # the other has no states


def test_a_network_without_weight_is_dropped_and_not_trained_again(monkeypatch: pytest.MonkeyPatch) -> None:
    weigh, trained = stacking.weigh, list[Any]()

    def others(job: Any, predictions: Any, prior: Any) -> Any:
        return weigh(job, {cell: each for cell, each in predictions.items() if cell[0] != "network"}, prior)

    monkeypatch.setattr(stacking, "weigh", others)
    monkeypatch.setattr(NetworkTraining, "out_of_parts", lambda self, parts, *_: np.full(len(parts), 0.5))
    monkeypatch.setattr(NetworkTraining, "trained", lambda *_: trained.append(None))
    learned = model().fit(events(), labels(), "churn", label_time="known")
    assert "network" not in head(learned).used
    assert not trained


def test_the_name_is_taken() -> None:
    mine = pl.DataFrame({"card": range(N), "x": np.arange(N) / 7})
    with pytest.raises(ConfigError, match="may not be called 'network'"):
        model().fit(events(), labels(), "churn", label_time="known", features={"network": mine})
