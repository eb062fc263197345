"""Models with heads: several labels on blocks that are computed once, further heads, and learners of the caller."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor
from sklearn.neighbors import KNeighborsClassifier

import eventvec as ev
from commands import answer, invoke
from eventvec.blocks.untrained import EventBlock

pytestmark = pytest.mark.usefixtures("few_kernels")
N, LENGTH = 120, 8


def events(seed: int = 0) -> pl.DataFrame:
    """Return events of cards, of which those with an even number mostly buy tea."""
    rng, card = np.random.default_rng(seed), np.repeat(np.arange(N), LENGTH)
    tea = rng.random(N * LENGTH) < np.where(card % 2, 0.3, 0.7)
    return pl.DataFrame(
        {
            "card": card,
            "day": np.tile(np.arange(LENGTH), N),
            "what": np.where(tea, "tea", "ink"),
            "paid": rng.random(N * LENGTH),
        }
    )


def labels() -> pl.DataFrame:
    """Return a label of two classes, and one of numbers."""
    rng = np.random.default_rng(1)
    return pl.DataFrame({"card": np.arange(N), "even": np.arange(N) % 2 == 0, "spend": rng.normal(size=N)})


def data() -> ev.Dataset:
    return ev.read(events(), key="card", time="day")


def test_several_labels_have_the_heads_that_each_would_have_alone() -> None:
    both = ev.fit(data(), labels=labels(), label=["even", "spend"])
    assert list(both.heads) == ["even", "spend"]
    predicted = ev.predict(both, events())
    assert predicted.column_names == ["card", "even_prediction", "even_p_false", "even_p_true", "spend_prediction"]
    for name, columns in {"even": ["p_false", "p_true"], "spend": ["prediction"]}.items():
        alone = ev.fit(data(), labels=labels(), label=name)
        assert ev.predict(alone, events()).column_names[-len(columns) :] == columns
        for column in columns:
            one = ev.predict(alone, events()).column(column).to_numpy()
            assert np.array_equal(predicted.column(f"{name}_{column}").to_numpy(), one)


def test_each_head_learns_from_the_rows_that_have_its_label() -> None:
    some = labels().with_columns(spend=pl.when(pl.col("card") < 80).then(pl.col("spend")))
    both = ev.fit(data(), labels=some, label=["even", "spend"])
    assert {name: head.info["rows"] for name, head in both.heads.items()} == {"even": N, "spend": 80}


def test_a_further_head_makes_a_new_model_and_keeps_blocks_states_and_heads(tmp_path: Path) -> None:
    run = ev.fit(data(), method="coles", epochs=1, dim=8)
    first = ev.fit_head(run, data(), labels(), "even", out=tmp_path / "first")
    second = ev.fit_head(ev.load(tmp_path / "first"), data(), labels(), "spend")
    assert (list(run.heads), list(first.heads), list(second.heads)) == ([], ["even"], ["even", "spend"])
    assert len({run.id, first.id, second.id}) == 3
    assert first.states_of == second.states_of != run.states_of  # the first head brought blocks of its own
    assert np.array_equal(second.embed(events()).values, run.embed(events()).values)
    even = {
        model: ev.predict(model, events()).column(name).to_numpy()
        for model, name in ((first, "p_true"), (second, "even_p_true"))
    }
    assert np.array_equal(*even.values())
    early, late = events().filter(pl.col("day") < 5), events().filter(pl.col("day") >= 5)
    ev.update(first, early, tmp_path / "state.db")
    fresh = ev.update(second, late, tmp_path / "state.db").embeddings
    assert fresh is not None
    assert np.allclose(fresh.values, run.embed(events()).values, atol=1e-5)


def test_a_label_is_learned_once() -> None:
    model = ev.fit(data(), labels=labels(), label="even")
    with pytest.raises(ev.ConfigError, match="has a head for 'even' already"):
        ev.fit_head(model, data(), labels(), "even")
    static = ev.read(events(), key="card", time="day", static=labels().select("card", "even"))
    network = ev.fit(static, method="supervised", label="even", label_time="none", epochs=1, dim=4)
    assert ev.predict(network, events()).column_names == ["card", "prediction", "p_false", "p_true"]
    with pytest.raises(ev.ConfigError, match="has learned the label 'even', and its vectors reveal it"):
        ev.fit_head(network, data(), labels(), "even")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "fit needs a method, such as method=\"coles\", or labels= and label=, and not both"),
        ({"method": "coles", "labels": labels(), "label": "even"}, "and not both"),
        ({"labels": labels()}, "label must be the name of a column"),
        ({"labels": labels(), "label": ["even", "even"]}, "several distinct ones"),
        ({"labels": labels(), "label": "even", "epochs": 1}, "epochs"),
        ({"labels": labels(), "label": "even", "metric": "mae"}, "is for numbers, and 'even' has classes"),
        ({"labels": labels(), "label": "even", "encoder": "gru"}, "encoder, resume and device are of methods"),
    ],
)  # fmt: skip
def test_what_cannot_be_asked_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ev.ConfigError, match=message):
        ev.fit(data(), **options)


@pytest.mark.slow
def test_blocks_are_fitted_to_rows_before_those_that_are_scored() -> None:
    """Of a panel with times of a calendar, the latest fifth of the rows is scored: what they hold moves no block."""
    rng, months, n = np.random.default_rng(0), 5, 60
    start = np.datetime64("2024-01-01", "us")
    at = start + np.tile(np.arange(6 * months), n) * np.timedelta64(5, "D")
    table = pl.DataFrame({"card": np.repeat(np.arange(n), 6 * months), "at": at, "paid": rng.random(len(at))})
    times = start + (1 + np.arange(months)) * np.timedelta64(30, "D")
    of = pl.DataFrame(
        {"card": np.repeat(np.arange(n), months), "known": np.tile(times, n), "up": rng.random(n * months) < 0.5}
    )
    read = ev.read(table, key="card", time="at")
    changed = table.with_columns(paid=pl.when(pl.col("at") >= times[-2]).then(0.5).otherwise(pl.col("paid")))
    models = [ev.fit(each, labels=of, label="up") for each in (read, ev.read(changed, schema=read.schema))]
    assert models[0].heads["up"].info["scores"].latest is not None
    blocks = [model.blocks["convolutions"] for model in models]
    assert all(isinstance(block, EventBlock) for block in blocks)
    first, second = (block.tensors for block in blocks if isinstance(block, EventBlock))
    assert first.keys() == second.keys()
    assert all(np.array_equal(first[name], second[name]) for name in first)


def test_learners_of_the_caller_are_weighed_beside_ours() -> None:
    mine = {"forest": ExtraTreesClassifier(50, random_state=0), "near": KNeighborsClassifier(9)}
    model = ev.fit(data(), labels=labels(), label="even", models=mine)
    learners = {learner for _, learner in model.heads["even"].stack.models}
    assert "forest" in learners
    alone = ExtraTreesClassifier(50, random_state=0)
    assert not hasattr(mine["forest"], "classes_")  # copies are trained
    assert alone.get_params() == mine["forest"].get_params()
    numbers = ev.EventRegressor(models={"forest": ExtraTreesRegressor(20, random_state=0)}, progress=False)
    numbers.fit(data(), labels()["card"].to_numpy() % 2 + 0.0)
    assert np.isfinite(numbers.predict(data())).all()
    predicted = ev.predict(model, events()).column("p_true").to_numpy()
    assert ((predicted > 0.5) == labels()["even"].to_numpy()).mean() > 0.6


def test_a_learner_that_no_folder_can_hold_is_named_when_it_is_saved(tmp_path: Path) -> None:
    model = ev.fit(data(), labels=labels(), label="even", models={"forest": ExtraTreesClassifier(50, random_state=0)})
    with pytest.raises(ev.ConfigError, match="'forest' is a ExtraTreesClassifier, which could be kept only by pickle"):
        model.save(tmp_path / "model")
    assert not (tmp_path / "model").exists()
    with pytest.raises(ev.ConfigError, match="could be kept only by pickle"):  # before anything is trained
        ev.fit(data(), labels=labels(), label="never", models={"mine": KNeighborsClassifier()}, out=tmp_path / "model")


@pytest.mark.parametrize(
    ("models", "message"),
    [
        ({"trees": ExtraTreesClassifier()}, "a model may not be called 'trees'"),
        ({"": ExtraTreesClassifier()}, "may not be called"),
        ({"mine": ExtraTreesRegressor()}, "must be a classifier .* because the label has classes"),
        ({"mine": ExtraTreesClassifier}, "must be a classifier"),
        ({"mine": "lightgbm"}, "must be a classifier"),
    ],
)
def test_what_is_no_learner_for_the_label_is_refused(models: dict[str, Any], message: str) -> None:
    with pytest.raises(ev.ConfigError, match=message):
        ev.fit(data(), labels=labels(), label="even", models=models)


def test_a_learner_without_weights_is_refused_where_labels_have_some() -> None:
    weighted = labels().with_columns(counts=pl.lit(1.0) + pl.col("card") % 2)
    with pytest.raises(ev.ConfigError, match="the model 'near' takes no sample_weight"):
        ev.fit(data(), labels=weighted, label="even", weight="counts", models={"near": KNeighborsClassifier()})


@pytest.mark.slow
@pytest.mark.parametrize("library", ["catboost", "xgboost"])
def test_learners_with_a_format_of_their_own_come_back_with_the_folder(library: str, tmp_path: Path) -> None:
    package = pytest.importorskip(library)
    made = {
        "catboost": lambda: package.CatBoostClassifier(
            iterations=30, verbose=0, allow_writing_files=False, thread_count=1
        ),
        "xgboost": lambda: package.XGBClassifier(n_estimators=30, max_depth=2, learning_rate=0.05, n_jobs=1),
    }
    model = ev.fit(data(), labels=labels(), label="even", models={"mine": made[library]()}, out=tmp_path / "model")
    loaded = ev.load(tmp_path / "model")
    assert "mine" in {learner for _, learner in loaded.heads["even"].stack.models}
    assert ev.predict(loaded, events()).equals(ev.predict(model, events()))


def test_the_command_learns_several_labels_a_further_one_and_shows_a_plan(tmp_path: Path) -> None:
    events().write_parquet(tmp_path / "events.parquet")
    labels().write_parquet(tmp_path / "labels.parquet")
    read = [
        "--events",
        tmp_path / "events.parquet",
        "--key",
        "card",
        "--time",
        "day",
        "--labels",
        tmp_path / "labels.parquet",
    ]
    plan = answer("fit", *read, "--label", "even", "--label", "spend", "--dry-run")
    assert plan["rows"] == N
    assert plan["seconds"] > 0
    assert {row["label"] for row in plan["learners"]} == {"even", "spend"}
    assert {column["name"] for column in plan["columns"]} >= {"card", "day", "what", "paid"}
    told = answer("fit", *read, "--label", "even", "--out", tmp_path / "one")
    assert told["blocks"] == ["handcrafted", "codes", "convolutions"]
    more = [*read[:2], *read[6:]]
    answer("fit", "--from", tmp_path / "one", *more, "--label", "spend", "--out", tmp_path / "two")
    assert list(ev.load(tmp_path / "two").heads) == ["even", "spend"]
    several = answer("fit", *read, "--label", "even", "--label", "spend", "--out", tmp_path / "both")
    assert set(several["labels"]) == {"even", "spend"}
    refused = invoke("fit", "--from", tmp_path / "one", *read, "--label", "spend", "--out", tmp_path / "three")
    assert (refused.exit_code, "whose schema reads the events" in refused.output) == (2, True)


def with_static(**columns: Any) -> ev.Dataset:
    return ev.read(events(), key="card", time="day", static=pl.DataFrame({"card": np.arange(N), **columns}))


def test_static_columns_come_back_in_their_order(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    read = with_static(a=rng.normal(size=N), b=rng.normal(size=N), y=np.arange(N) % 2 == 0)
    network = {"method": {"name": "supervised", "label": "y", "static_inputs": ["b"], "label_time": "none"}}
    base = ev.fit(read, method=network, epochs=1, dim=4)
    spend = pl.DataFrame({"card": np.arange(N), "w": np.asarray(read.sequences.static["a"]) > 0})
    model = ev.fit_head(base, read, spend, "w", out=tmp_path / "model")
    before, after = (ev.predict(each, read).column("w_p_true") for each in (model, ev.load(tmp_path / "model")))
    assert before.equals(after)
    assert [each.name for each in model.blocks["static"].fields] == ["a", "b"]  # type: ignore[attr-defined]


def test_a_further_head_reads_the_static_columns_of_the_model_and_no_others() -> None:
    rng = np.random.default_rng(0)
    first = with_static(age=rng.normal(size=N))
    base = ev.fit(first, labels=labels(), label="even")
    other = ev.read(
        events(), schema=base.schema.__class__(**{**vars(base.schema), "static": ()}),
    )  # fmt: skip
    table = pl.DataFrame({"card": np.arange(N), "age": rng.normal(size=N), "size": rng.normal(size=N)})
    with pytest.raises(ev.ConfigError, match="reads the static columns 'age', and a further head adds none: leave out"):
        ev.fit_head(base, ev.attach(other, table), labels(), "spend")
    both = ev.fit_head(base, first, labels(), "spend")
    assert both.blocks["static"] is base.blocks["static"]


def test_heads_of_one_model_read_events_by_one_rule() -> None:
    dated = labels().with_columns(day=pl.lit(6))
    base = ev.fit(data(), labels=dated, label="even", label_time="day")
    with pytest.raises(ev.ConfigError, match="read events by one rule"):
        ev.fit_head(base, data(), dated, "spend", label_time="day", inclusive=True)
    with pytest.raises(ev.ConfigError, match="by their own rule; leave out inclusive"):
        ev.predict(base, events(), cutoffs=dated.select("card", "day"), cutoff_column="day", inclusive=True)


def test_vectors_of_a_model_come_without_its_heads_and_keep_their_name(tmp_path: Path) -> None:
    run = ev.fit(data(), method="coles", epochs=1, dim=8, beside=[])
    named = run.embed(events()).metadata["run"]
    model = ev.fit_head(run, data(), labels(), "even", out=tmp_path / "model")
    assert run.embed(events()).metadata["run"] == model.embed(events()).metadata["run"] == named == run.id
    assert ev.load(tmp_path / "model").embed(events()).metadata["run"] == run.id
    again = ev.EventClassifier(vector=model, progress=False).fit(data(), labels(), "even")
    assert list(again.model_.heads) == ["even"]


def test_a_model_with_a_head_predicts_at_places_too() -> None:
    points = {"covariates": ["time", "what"], "observations": ["paid"]}
    base = ev.fit(data(), method={"method": {"name": "cnp"}, "encoder": {"dim": 8, "events": points}}, epochs=1)
    model = ev.fit_head(base, data(), labels(), "even")
    at = pl.DataFrame({"day": [3], "what": ["tea"]})
    assert ev.predict(model, events(), at=at).equals(ev.predict(base, events(), at=at))
    assert ev.predict(model, events()).column_names == ["card", "prediction", "p_false", "p_true"]


def test_two_labels_whose_predictions_would_have_one_name_are_refused() -> None:
    table = labels().select("card", x=pl.Series(["p", "prediction"] * (N // 2)), x_p=pl.col("even"))
    with pytest.raises(ev.ConfigError, match="two labels have predictions of the name 'x_p_prediction'"):
        ev.fit(data(), labels=table, label=["x", "x_p"])
    static = ev.read(events(), key="card", time="day", static=labels().select("card", x=table["x"]))
    network = ev.fit(static, method="supervised", label="x", label_time="none", epochs=1, dim=4)
    random = table.with_columns(x_p=np.random.default_rng(2).random(N) < 0.5)
    with pytest.raises(ev.ConfigError, match="two labels have predictions of the name 'x_p_prediction'"):
        ev.fit_head(network, data(), random, "x_p")


def test_trees_have_rows_enough_however_few_values_they_may_read() -> None:
    model = ev.fit(data(), labels=labels(), label="even", most_values=2)
    assert any("a random sample: 100 of 120 rows" in note for note in model.heads["even"].notes)
