"""`EventClassifier` and `EventRegressor`: what is read, what is predicted, frames, scikit-learn, saving, refusals."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from safetensors.torch import load_file, save_file
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV

import eventvec as ev
import fits
from eventvec.blocks import untrained
from eventvec.errors import CheckpointError, ConfigError, DataError

N, EVENTS, START = 120, 6, datetime(2024, 1, 1)
KNOWN = START + timedelta(days=200)
OPTIONS: dict[str, Any] = {"categorical": ["what"], "numeric": ["paid"], "progress": False}


hand_crafted_features_alone = pytest.fixture(fits.without_codes, autouse=True, scope="module")


def labels(n: int = N) -> pl.DataFrame:
    """Return for each card whether it leaves, how much it spends next, its type, its time and its weight."""
    rng = np.random.default_rng(1)
    known = [KNOWN + timedelta(hours=int(hours)) for hours in rng.integers(0, 500, n)]
    price = 1 + np.arange(n) % 3
    churn = rng.random(n) < np.array([0.1, 0.5, 0.9])[price - 1]
    return pl.DataFrame(
        {
            "card": range(n), "churn": churn, "spend": 10.0 * price + rng.normal(size=n), "known": known,
            "type": [f"t{each}" for each in price], "weight": rng.uniform(0.5, 2, n),
        }
    )  # fmt: skip


def events(after: str = "tell", n: int = N) -> pl.DataFrame:
    """Return purchases before the time of each label, whose prices depend on the type, and later ones that tell it."""
    rng, table = np.random.default_rng(2), labels(n)
    cards = np.repeat(np.arange(n), EVENTS)
    known = table["known"].to_numpy()[cards]
    seconds = rng.integers(1, 100 * 86_400, len(cards)).astype("timedelta64[s]")
    paid = (1 + cards % 3) * 5 + rng.normal(size=len(cards))
    early = pl.DataFrame(
        {"card": cards, "at": known - seconds, "what": rng.choice(["a", "b"], len(cards)), "paid": paid}
    )
    tell = np.where(table["churn"].to_numpy(), "left", "stays") if after == "tell" else "other"
    late = pl.DataFrame(
        {"card": range(n), "at": table["known"], "what": tell, "paid": 1000.0 if after == "tell" else 0.5}
    )
    parts = [early] if after == "nothing" else [early, late, late.with_columns(pl.col("at") + timedelta(hours=1))]
    return pl.concat([part.with_columns(pl.col("at").cast(pl.Datetime("us"))) for part in parts])


def people(n: int = N) -> pl.DataFrame:
    ages = [None if card % 10 == 0 else 20.0 + 5 * (card % 3) for card in range(n)]
    return pl.DataFrame({"card": range(n), "age": ages, "town": [f"town {card % 4}" for card in range(n)]})


def classifier(**options: Any) -> ev.EventClassifier:
    return ev.EventClassifier("card", "at", **{**OPTIONS, **options})


@pytest.fixture(scope="module")
def fitted() -> ev.EventClassifier:
    return classifier().fit(events(), labels(), "churn")


@pytest.fixture(scope="module")
def with_everything() -> ev.EventClassifier:
    mine = {"mine": people().select("card", level="age")}
    return classifier().fit(
        events(), labels(), "churn", static=people(), earlier_labels="1d", features=mine, weight="weight"
    )


def models_of(model: Any) -> list[Any]:
    """Return everything that was learned, bit for bit."""
    (head,) = model.model_.heads.values()
    stack = head.stack
    learned = [
        each.booster.model_to_string() if hasattr(each, "booster") else (each.mean.tobytes(), each.weights.tobytes())
        for each in stack.models.values()
    ]
    return [model.model_.schema, stack.weights, np.asarray(stack.offset).tobytes(), learned]


@pytest.mark.parametrize("inclusive", [False, True])
def test_events_at_or_after_the_time_of_a_label_change_no_bit(inclusive: bool) -> None:
    moved = labels().with_columns(pl.col("known") - timedelta(microseconds=1)) if inclusive else labels()
    results = []
    for after in ("tell", "nothing"):
        model = classifier().fit(events(after), moved, "churn", inclusive=inclusive)
        predicted = model.predict_proba(events(after), moved)
        results.append((models_of(model), predicted["p_true"].to_numpy().tobytes()))
    assert results[0] == results[1]


def test_whoever_reads_later_events_predicts_the_label() -> None:
    """Otherwise the test above would show nothing."""
    model = classifier().fit(events(), labels(), "churn", label_time="none")
    assert model.explain().facts["score"].value > 0.99
    assert any("label_time is 'none'" in note for note in model.notes_)


def test_probabilities_rank_the_entities_and_are_in_the_order_of_the_classes(fitted: ev.EventClassifier) -> None:
    predicted = fitted.predict_proba(events(), labels())
    assert predicted.columns == ["card", "known", "p_false", "p_true"]
    assert list(fitted.classes_) == [False, True]
    np.testing.assert_allclose(predicted["p_false"] + predicted["p_true"], 1, atol=1e-12)
    assert predicted["known"].to_list() == labels()["known"].to_list()
    assert roc_auc_score(labels()["churn"], predicted["p_true"]) > 0.75
    choice = fitted.predict(events(), labels())
    assert choice["prediction"].to_list() == (predicted["p_true"] > 0.5).to_list()


def test_without_cutoffs_the_moment_is_the_last_event_of_the_data() -> None:
    frame = events("nothing")
    model = classifier().fit(frame, labels().drop("known"), "churn")
    assert any("The labels have no time" in note for note in model.notes_)
    last = frame["at"].max()
    extra = pl.DataFrame({"card": [0], "at": [last], "what": ["a"], "paid": [1.0]}, schema=frame.schema)
    later = pl.concat([frame, extra.with_columns(pl.col("at") + timedelta(days=500))])
    before, after = model.predict_proba(frame)["p_true"], model.predict_proba(later)["p_true"]
    assert (before[1:] != after[1:]).mean() > 0.5  # the cards have been silent for longer


def test_a_stream_is_read_once_and_used_twice(fitted: ev.EventClassifier) -> None:
    stream = pa.RecordBatchReader.from_batches((table := events().to_arrow()).schema, table.to_batches())
    assert models_of(classifier().fit(stream, labels(), "churn")) == models_of(fitted)


@pytest.mark.parametrize("library", ["pandas", "polars", "arrow", "path"])
def test_a_frame_of_the_same_library_comes_out(library: str, fitted: ev.EventClassifier, tmp_path: Path) -> None:
    frame = events()
    frame.write_parquet(tmp_path / "events.parquet")
    source = {"pandas": frame.to_pandas(), "arrow": frame.to_arrow(), "polars": frame}.get(
        library, tmp_path / "events.parquet"
    )
    cutoffs = labels().to_pandas().set_index("card") if library == "pandas" else labels()
    out = fitted.predict_proba(source, cutoffs)
    assert isinstance(out, {"pandas": pd.DataFrame, "arrow": pa.Table}.get(library, pl.DataFrame))
    expected = fitted.predict_proba(frame, labels())["p_true"].to_numpy()
    np.testing.assert_array_equal(np.asarray(out["p_true"]), expected)
    assert library != "pandas" or out.index.name == "card"


def test_several_classes_and_weights() -> None:
    weighted = classifier().fit(events(), labels(), "type", weight="weight")
    predicted = weighted.predict_proba(events(), labels())
    assert predicted.columns == ["card", "known", "p_t1", "p_t2", "p_t3"]
    assert (weighted.predict(events(), labels())["prediction"] == labels()["type"]).mean() > 0.9
    other = classifier().fit(events(), labels(), "type")
    assert models_of(other) != models_of(weighted)


def test_numbers_are_predicted_by_the_regressor(tmp_path: Path) -> None:
    model = ev.EventRegressor("card", "at", **OPTIONS).fit(events(), labels(), "spend")
    predicted = model.predict(events(), labels())
    assert np.corrcoef(predicted["prediction"], labels()["spend"])[0, 1] > 0.9
    assert [row["column"] for row in model.explain().tables["columns"]][:1] in ([], ["paid"])
    model.save(tmp_path / "model")
    again = ev.EventRegressor.load(tmp_path / "model").predict(events(), labels())
    np.testing.assert_array_equal(again["prediction"], predicted["prediction"])
    with pytest.raises(CheckpointError, match=r"holds a regressor; load it: ev.EventRegressor.load"):
        ev.EventClassifier.load(tmp_path / "model")
    assert is_regressor(model)


def test_every_block_is_read(with_everything: ev.EventClassifier) -> None:
    assert set(with_everything.model_.blocks) == {"handcrafted", "static", "mine"}
    assert set(with_everything.model_.heads["churn"].blocks) == {"earlier_labels"}
    assert "'churn' is predicted with AUROC" in str(with_everything)
    tables = with_everything.explain().tables
    sets = {row["features"]: row["blocks"] for row in tables["sets"]}
    assert sets["hand-crafted"] == "handcrafted, static, earlier_labels"
    assert sets["all"] == "handcrafted, mine, static, earlier_labels"
    assert sum(row["weight"] for row in tables["models"]) == pytest.approx(1, abs=0.01)


def test_a_notebook_shows_what_a_trained_model_is_worth(with_everything: ev.EventClassifier) -> None:
    shown = with_everything._repr_mimebundle_()
    assert shown["text/plain"] == str(with_everything)
    assert "&#x27;churn&#x27; is predicted with AUROC" in shown["text/html"]
    assert "is predicted" not in str(ev.EventClassifier(key="card", time="at")._repr_mimebundle_())


def test_a_saved_model_predicts_the_same_bits(with_everything: ev.EventClassifier, tmp_path: Path) -> None:
    tables: dict[str, Any] = {
        "static": people(), "labels": labels(), "features": {"mine": people().select("card", level="age")},
    }  # fmt: skip
    with_everything.save(tmp_path / "model")
    again = ev.EventClassifier.load(tmp_path / "model")
    expected, predicted = (each.predict_proba(events(), labels(), **tables) for each in (with_everything, again))
    assert predicted.equals(expected)
    assert list(again.classes_) == list(with_everything.classes_)
    assert again.explain().to_dict() == with_everything.explain().to_dict()
    assert str(again) == str(with_everything)
    modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "model").iterdir()}
    assert set(modes.values()) == {0o600}
    assert (tmp_path / "model").stat().st_mode & 0o777 == 0o700
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_a_damaged_or_foreign_folder_is_refused_in_one_sentence(fitted: ev.EventClassifier, tmp_path: Path) -> None:
    fitted.save(tmp_path / "model")
    with pytest.raises(CheckpointError, match="holds a model already; choose a new folder"):
        fitted.save(tmp_path / "model")
    with pytest.raises(CheckpointError, match="lies in the model folder"):
        fitted.save(tmp_path / "model" / "inner")
    replace(fitted.model_, heads={}).save(tmp_path / "none")
    with pytest.raises(CheckpointError, match=r"holds a model with 0 heads; use ev.load"):
        ev.EventClassifier.load(tmp_path / "none")
    files = {path.name: path for path in (tmp_path / "model").iterdir()}
    assert files.keys() == {"model.json", "schema.json", "model.safetensors", "README.md"}
    files["README.md"].unlink()  # the card, which nothing reads
    for path in (path for name, path in sorted(files.items()) if name != "README.md"):
        content = path.read_bytes()
        for damaged in (content[: len(content) // 2], b"", content[:-3] + b"999"):
            path.write_bytes(damaged)
            with pytest.raises(CheckpointError):
                ev.EventClassifier.load(tmp_path / "model")
        path.unlink()
        with pytest.raises(CheckpointError):
            ev.EventClassifier.load(tmp_path / "model")
        path.write_bytes(content)
    info = json.loads((tmp_path / "model" / "model.json").read_text())
    (head,) = info["heads"]
    first, *others = head["models"]
    of_model: list[tuple[dict[str, Any], str]] = [
        ({"format": 9}, "has format 9; this eventvec reads 2: upgrade eventvec"),
        ({"files": {}}, "is not the file that was written"),
        ({"heads": []}, "has an unknown tensor"),
        ({"heads": [head, head]}, "two heads predict one label"),
    ]
    changes: list[tuple[dict[str, Any], str]] = [
        ({"offset": [1.0, 2.0]}, "offset has another number of classes"),
        ({"scores": {"by_entity": [0.5]}}, "model.json is damaged"),
        ({"sets": {name: ["absent"] for name in head["sets"]}}, "names the block 'absent', which is not listed"),
        ({"label": 3}, "model.json is damaged"),
        ({"models": []}, "has an unknown tensor"),
        ({"models": head["models"][:-1]}, "has an unknown tensor"),
        ({"models": [*head["models"], first]}, "is listed twice"),
        ({"models": [*head["models"], {**first, "learner": "given"}]}, "holds no predictions"),
        *(({"models": [{**first, "weight": weight}, *others]}, "weight: Input") for weight in (1e308, 0, np.nan)),
        ({"offset": 1e308}, r"model.json is damaged: heads\.0\.offset"),
        ({"offset": [-np.inf]}, r"model.json is damaged: heads\.0\.offset"),
    ]
    for change, message in [*of_model, *(({"heads": [{**head, **each}]}, text) for each, text in changes)]:
        (tmp_path / "model" / "model.json").write_text(json.dumps({**info, **change}))
        with pytest.raises(CheckpointError, match=message):
            ev.EventClassifier.load(tmp_path / "model")


def change_array(folder: Path, name: str, change: Callable[[torch.Tensor], Any]) -> None:
    """Change a tensor of a model, and the digest of its file."""
    tensors = load_file(folder / "model.safetensors")
    change(tensors[name])
    save_file(tensors, folder / "model.safetensors", {"format": "eventvec"})
    fits.sign(folder)


@pytest.mark.parametrize(
    ("learner", "name", "change", "message"),
    [
        ("trees", "left", lambda left: left.fill_(10**6), "a child in boosted trees is out of range"),
        ("trees", "value", lambda value: value.fill_(np.nan), "'value' of boosted trees has NaN"),
        ("trees", "columns", lambda columns: columns.fill_(0), "must be ascending indices"),
        ("linear", "weights", lambda weights: weights.fill_(np.nan), "linear on hand-crafted has NaN"),
        ("linear", "scale", lambda scale: scale.fill_(0), "linear on hand-crafted has NaN"),
    ],
)
def test_models_that_were_tampered_with_are_refused_by_their_content(
    fitted: ev.EventClassifier,
    tmp_path: Path,
    learner: str,
    name: str,
    change: Callable[[torch.Tensor], Any],
    message: str,
) -> None:
    fitted.save(tmp_path / "model")
    (head,) = json.loads((tmp_path / "model" / "model.json").read_text())["heads"]
    place = [each["learner"] for each in head["models"]].index(learner)
    change_array(tmp_path / "model", f"head.0.{place}.{name}", change)
    with pytest.raises(CheckpointError, match=message):
        ev.EventClassifier.load(tmp_path / "model")


def test_numbers_that_no_model_predicts_better_are_saved(tmp_path: Path) -> None:
    """The weights of all models may be 0; what is added is left then."""
    model = ev.EventRegressor("card", "at", **OPTIONS).fit(events(), labels(), "spend")
    head = model.model_.heads["spend"]
    stack = replace(head.stack, models={}, weights={}, offset=3.0)
    model.model_ = replace(model.model_, heads={"spend": replace(head, stack=stack)})
    model.save(tmp_path / "model")
    again = ev.EventRegressor.load(tmp_path / "model")
    assert again.predict(events(), labels())["prediction"].unique().to_list() == [3.0]


def test_a_search_over_parameters_takes_a_data_set() -> None:
    data = ev.read(events("nothing"), key="card", time="at", categorical=["what"], numeric=["paid"])
    y = labels()["churn"].to_numpy()
    search = GridSearchCV(ev.EventClassifier(progress=False), {"random_state": [0, 1]}, scoring="roc_auc", cv=2)
    search.fit(data, y)
    assert search.best_score_ > 0.6
    assert search.predict_proba(data).shape == (N, 2)
    assert set(search.predict(data)) <= {True, False}
    copy = clone(search.best_estimator_)
    assert copy.get_params() == search.best_estimator_.get_params()
    assert is_classifier(copy)
    with pytest.raises(NotFittedError):
        copy.predict_proba(data)


def panel() -> pl.DataFrame:
    """Return four labels of each card, a month apart; a card that has left once has often left again."""
    rng = np.random.default_rng(3)
    at = [START + timedelta(days=110 + 30 * month) for month in range(4)]
    leaves = rng.random((N, 4)) < np.where(rng.random(N) < 0.5, 0.9, 0.1)[:, None]
    return pl.DataFrame(
        {"card": np.repeat(np.arange(N), 4), "known": at * N, "churn": leaves.ravel()},
        schema_overrides={"known": pl.Datetime("us")},
    )


def test_earlier_labels_of_a_panel_are_read_after_their_delay() -> None:
    table = panel()
    model = classifier().fit(events(), table, "churn", earlier_labels="1d")
    without_them = classifier().fit(events(), table, "churn").explain().facts["score"]
    assert (answer := model.explain()).facts["scored"] == "latest"
    assert answer.facts["score"].low > without_them.value
    last = table.filter(pl.col("known") == pl.col("known").max())
    predicted = model.predict_proba(events(), last, labels=table)
    assert roc_auc_score(last["churn"], predicted["p_true"]) > 0.75
    without = table.with_columns(pl.when(pl.col("known") < last["known"][0]).then("churn"))
    np.testing.assert_array_equal(  # its own label is not read
        model.predict_proba(events(), last, labels=without)["p_true"], predicted["p_true"]
    )
    with pytest.raises(DataError, match=r"the model reads earlier labels; give the table of 'churn'"):
        model.predict_proba(events(), last)


def test_a_budget_that_is_used_up_leaves_the_first_model_on_fewer_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter(range(0, 10**6, 100))
    monkeypatch.setattr(time, "monotonic", lambda: next(ticks))
    mine = {"mine": people().select("card", level="age")}
    model = classifier(budget=1.0).fit(events(), labels(), "churn", features=mine)
    assert list(model.model_.heads["churn"].stack.models) == [("hand-crafted", "trees")]
    (left_out,) = (note for note in model.notes_ if note.startswith("The budget left out"))
    assert all(each in left_out for each in ("mine", "linear on hand-crafted"))
    assert "budget=None (--time-budget)" in left_out
    assert any("trained on a random sample: 100 of 120 rows (hand-crafted)" in note for note in model.notes_)


def test_a_budget_that_is_not_used_up_changes_nothing(fitted: ev.EventClassifier) -> None:
    assert models_of(classifier(budget=3600.0).fit(events(), labels(), "churn")) == models_of(fitted)


def test_more_values_than_are_allowed_train_trees_on_a_sample_that_is_named() -> None:
    model = classifier(most_values=2000).fit(events(), labels(), "churn")
    (note,) = (note for note in model.notes_ if "random sample" in note)
    assert "of 120 rows (hand-crafted); most_values= sets its size" in note
    assert model.get_params()["most_values"] == 2000


@pytest.mark.parametrize("threads", [1, 3])
def test_any_number_of_threads_gives_the_same_bits(fitted: ev.EventClassifier, threads: int) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        assert models_of(classifier().fit(events(), labels(), "churn")) == models_of(fitted)
    finally:
        torch.set_num_threads(before)


def test_numbers_may_be_judged_by_absolute_errors(tmp_path: Path) -> None:
    heavy = labels().with_columns(pl.when(pl.col("card") % 10 == 0).then(500.0).otherwise("spend").alias("spend"))
    models = {
        metric: ev.EventRegressor("card", "at", metric=metric, **OPTIONS).fit(events(), heavy, "spend")
        for metric in ("r2", "mae")
    }
    predicted = {metric: model.predict(events(), heavy)["prediction"] for metric, model in models.items()}
    errors = {metric: float(np.abs((each - heavy["spend"]).to_numpy()).mean()) for metric, each in predicted.items()}
    assert errors["mae"] < 0.95 * errors["r2"]
    answer = models["mae"].explain()
    assert answer.facts["metric"] == "mae"
    assert "mean absolute error" in answer.verdict[0]
    models["mae"].save(tmp_path / "model")
    again = ev.EventRegressor.load(tmp_path / "model")
    assert again.metric == "mae"
    assert again.predict(events(), heavy).equals(models["mae"].predict(events(), heavy))


def test_a_block_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(untrained.BLOCKS, "counts", lambda schema: ev.encoders.Aggregates(schema))
    monkeypatch.setitem(
        untrained.BLOCKS, "components", lambda schema: ev.encoders.Compressed(ev.encoders.RunningHandcrafted(schema), 4)
    )
    model = classifier().fit(events(), labels(), "churn")
    sets = {row["features"]: row["blocks"] for row in model.explain().tables["sets"]}
    assert sets["all"] == "handcrafted, counts, components"
    model.save(tmp_path / "model")
    again = ev.EventClassifier.load(tmp_path / "model")
    assert again.predict_proba(events(), labels()).equals(model.predict_proba(events(), labels()))


def test_the_vectors_of_a_model_are_a_block_of_another(tmp_path: Path) -> None:
    data = ev.read(events("nothing"), key="card", time="at", categorical=["what"], numeric=["paid"])
    run = ev.fit(data, method="coles", epochs=1, dim=4, beside=[])
    model = classifier(vector=run).fit(events("nothing"), labels(), "churn")
    assert "learned" in model.model_.blocks
    model.save(tmp_path / "model")
    again = ev.EventClassifier.load(tmp_path / "model")
    assert again.predict_proba(events("nothing"), labels()).equals(model.predict_proba(events("nothing"), labels()))
    tuned = ev.fine_tune(run, data, labels(), "churn", epochs=1)
    with pytest.raises(ConfigError, match="has learned the label 'churn'"):
        classifier(vector=tuned).fit(events("nothing"), labels(), "churn")
    with pytest.raises(ConfigError, match="vector must be a Model, got str"):
        classifier(vector="run").fit(events("nothing"), labels(), "churn")


def test_probabilities_are_calibrated() -> None:
    """The label is drawn with a known probability, so that the expected calibration error is that of the model."""
    n = 1500
    rng = np.random.default_rng(0)
    chance = rng.uniform(0.05, 0.95, n)
    churn = rng.random(n) < chance
    cards = np.repeat(np.arange(n), 4)
    table = pl.DataFrame(
        {"card": cards, "at": np.tile(np.arange(4), n), "paid": chance[cards] + 0.05 * rng.normal(size=len(cards))}
    )
    known = pl.DataFrame({"card": np.arange(n), "churn": churn})
    model = ev.EventClassifier("card", "at", numeric=["paid"], progress=False)
    model.fit(table.filter(pl.col("card") < 1000), known[:1000], "churn")
    predicted = model.predict_proba(table.filter(pl.col("card") >= 1000))["p_true"].to_numpy()
    bins = np.minimum((predicted * 5).astype(int), 4)
    gaps = [abs(predicted[bins == each].mean() - chance[1000:][bins == each].mean()) for each in np.unique(bins)]
    sizes = [(bins == each).mean() for each in np.unique(bins)]
    assert np.dot(gaps, sizes) < 0.05


def test_new_categories_and_empty_histories_are_predicted(fitted: ev.EventClassifier) -> None:
    new = events("nothing").with_columns(what=pl.lit("never seen"))
    assert fitted.predict_proba(new, labels())["p_true"].is_finite().all()
    before = labels().with_columns(pl.when(pl.col("card") < 60).then(pl.lit(START)).otherwise("known").alias("known"))
    empty = fitted.predict_proba(events(), before)
    assert len(empty) == N
    assert empty["p_true"][:60].n_unique() == 1
    assert empty["p_true"][60:].equals(fitted.predict_proba(events(), labels())["p_true"][60:])


def test_tables_that_the_model_reads_are_needed_again(tmp_path: Path) -> None:
    rng, churn = np.random.default_rng(5), labels()["churn"].to_numpy()
    risk, level = (churn + rng.normal(size=N) for _ in range(2))
    static = pl.DataFrame({"card": range(N), "risk": np.where(np.arange(N) % 9 == 0, np.nan, risk)})
    mine = pl.DataFrame({"card": range(N), "level": np.where(np.arange(N) % 7 == 0, np.nan, level)})
    model = classifier().fit(events(), labels(), "churn", static=static, features={"mine": mine})
    assert set(model.model_.blocks) >= {"static", "mine"}
    tables: dict[str, Any] = {"static": static, "features": {"mine": mine}}
    expected = model.predict_proba(events(), labels(), **tables)
    model.save(tmp_path / "model")
    assert ev.EventClassifier.load(tmp_path / "model").predict_proba(events(), labels(), **tables).equals(expected)
    infinite = {"mine": mine.with_columns(level=np.inf)}
    for changed, message in (
        ({"static": None}, "reads the static column 'risk', which the data lack; give a table with it: static="),
        ({"features": None}, "reads the table of features 'mine'; give it"),
        ({"static": static.drop("risk")}, "risk"),
        ({"features": {"mine": mine.rename({"level": "depth"})}}, "has other columns than in training"),
        ({"features": {"mine": mine[5:]}}, "5 of 120 labelled entities have no row"),
        ({"features": infinite}, "has 120 infinite numbers"),
    ):
        with pytest.raises(DataError, match=message):
            model.predict_proba(events(), labels(), **{**tables, **changed})


def conflicting() -> pl.DataFrame:
    """Return two labels for each card and time that contradict each other."""
    return pl.concat([labels(), labels().with_columns(~pl.col("churn"))])


REFUSALS: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (
        lambda: classifier().fit(events(), labels(), ["churn", "type"]),
        ConfigError, r"an estimator learns one label, got .*; ev.fit takes several",
    ),
    (lambda: classifier().fit(events(), labels().with_columns(churn=True), "churn"), DataError, "has one value only"),
    (
        lambda: classifier().fit(events(), labels().rename({"churn": "paid"}), "paid"),
        ConfigError, "also a column of the events",
    ),
    (lambda: classifier().fit(events(), labels(), "churn", static=labels()), ConfigError, "also a static column"),
    (lambda: classifier().fit(events(), labels(), "absent"), DataError, "absent"),
    (lambda: classifier().fit(events(), labels()), ConfigError, "name the column of the table of labels to predict"),
    (lambda: classifier(budget=0).fit(events(), labels(), "churn"), ConfigError, "budget must be above 0"),
    (lambda: classifier(most_values=0).fit(events(), labels(), "churn"), ConfigError, "most_values must be at least 1"),
    (
        lambda: ev.EventRegressor("card", "at", metric="rmse", **OPTIONS).fit(events(), labels(), "spend"),
        ConfigError, "metric 'rmse' is not known; accepted: mae, r2",
    ),
    (lambda: classifier(random_state=-1).fit(events(), labels(), "churn"), ConfigError, "seed must be in"),
    (lambda: ev.EventClassifier().fit(events(), labels(), "churn"), ConfigError, r"key is not given; .*Classifier"),
    (lambda: classifier().fit(events(), labels(), "churn", weight=3), ConfigError, "weight must name a column"),
    (
        lambda: classifier().fit(events(), labels().drop("known"), "churn", earlier_labels="1d"),
        ConfigError, "earlier_labels needs the time of each label",
    ),
    (
        lambda: classifier().fit(events(), labels(), "churn", features={"static": people().select("card", "age")}),
        ConfigError, "may not be called 'static'",
    ),
    (
        lambda: ev.EventRegressor("card", "at", **OPTIONS).fit(events(), labels(), "type"),
        DataError, "a numeric task needs numbers",
    ),
    (
        lambda: classifier().fit(ev.read(events(), key="card", time="at"), np.zeros(3)),
        DataError, r"labels must have one value per label, got shape \(3,\)",
    ),
    (
        lambda: classifier().fit(events(), conflicting(), "churn"),
        DataError, "labelled keys have rows that disagree, so no label is left; keep one row for each key and time$",
    ),
    (
        lambda: classifier().fit(events(), conflicting(), "churn", label_time="none"),
        DataError, "keep one row for each key, or name the column of the times of the labels: label_time=",
    ),
    (lambda: classifier().fit(events(), labels()[:0], "churn"), DataError, "^the label table has no rows; give it the"),
    (
        lambda: classifier().fit(events(), labels().with_columns(pl.col("card").cast(float)), "churn"),
        DataError, r"it holds Float64; .*; cast it: frame\.with_columns\(pl\.col\('card'\)\.cast\(pl\.Int64\)\)",
    ),
    (lambda: classifier(budgett=3), ConfigError, "there is no option 'budgett'; did you mean 'budget'"),
    (lambda: ev.EventRegressor(metrics="mae"), ConfigError, "there is no option 'metrics'; did you mean 'metric'"),
    (
        lambda: classifier().fit(events(), labels(), "churn", label_tim="known"),
        ConfigError, "there is no option 'label_tim'; did you mean 'label_time' or 'label'",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("call", "kind", "message"), REFUSALS)
def test_bad_input_is_refused_in_one_sentence(call: Callable[[], Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        call()


def test_bad_input_to_predictions_is_refused(fitted: ev.EventClassifier) -> None:
    for call, kind, message in (
        (lambda: fitted.predict_proba(events().drop("paid"), labels()), DataError, "paid"),
        (lambda: fitted.predict_proba(events(), labels().select("card")), ConfigError, "no column holds times"),
        (lambda: fitted.predict_proba(events(), labels(), until=KNOWN), ConfigError, "until and cutoffs are both"),
        (
            lambda: fitted.predict_proba(ev.read(events().with_columns(pl.col("what") + "x"), key="card", time="at")),
            DataError, "were read by another schema",
        ),
    ):  # fmt: skip
        with pytest.raises(kind, match=message):
            call()
    data = ev.read(events(), key="card", time="at", **{name: OPTIONS[name] for name in ("categorical", "numeric")})
    for call, message in (
        (lambda: fitted.score(events(), labels(), "churn"), "got DataFrame and the column 'churn'; explain"),
        (lambda: fitted.score(data, labels(), "churn"), "score takes a Dataset.* and one label for each of data.keys"),
        (lambda: fitted.predict(events(), cutofs=labels()), "no option 'cutofs'; did you mean 'cutoffs'"),
        (lambda: fitted.predict_proba(events(), cutofs=labels()), "no option 'cutofs'; did you mean 'cutoffs'"),
    ):  # fmt: skip
        with pytest.raises(ConfigError, match=message):
            call()
    renamed = events().rename({"card": "p_true"})
    model = ev.EventClassifier("p_true", "at", **OPTIONS).fit(renamed, labels().rename({"card": "p_true"}), "churn")
    with pytest.raises(ConfigError, match="is called like a column of the predictions"):
        model.predict_proba(renamed)


def test_a_failed_fit_leaves_the_model_as_it_was(fitted: ev.EventClassifier) -> None:
    before = models_of(fitted)
    with pytest.raises(DataError):
        fitted.fit(events(), labels().with_columns(churn=True), "churn")
    assert models_of(fitted) == before
