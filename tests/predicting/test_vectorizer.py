"""The scikit-learn estimator: six lines on a frame, frames of every library, and scikit-learn's own laws."""

from __future__ import annotations

import inspect
import pickle
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import sklearn
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import estimator_checks

import eventvec as ev

N = 60


def events() -> pl.DataFrame:
    """Return a shop's receipts: half of the customers buy other goods, at other prices."""
    rng = np.random.default_rng(0)
    card = np.repeat(np.arange(N), 20)
    kind = rng.integers(0, 4, len(card)) + 4 * (card % 2)
    return pl.DataFrame(
        {
            "card": [f"c{each:02}" for each in card],
            "when": pl.Series(rng.integers(0, 10**6, len(card))).cast(pl.Datetime("ms")),
            "goods": [f"g{each}" for each in kind],
            "paid": np.round(rng.gamma(2, 5 + 5 * (card % 2)), 2),
        }
    )


def labels() -> pl.DataFrame:
    return pl.DataFrame({"card": [f"c{each:02}" for each in range(N)], "churn": [each % 2 == 0 for each in range(N)]})


def fitted(source: Any = None, **options: Any) -> ev.EventVectorizer:
    return ev.EventVectorizer(key="card", time="when", epochs=2, **options).fit(events() if source is None else source)


@pytest.fixture(scope="module")
def vectorizer() -> ev.EventVectorizer:
    return fitted()


def test_six_lines_on_a_pandas_frame(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    receipts, churned = events().to_pandas(), labels().to_pandas()
    mine = receipts.groupby("card")["paid"].agg(["count", "sum"])

    m = ev.EventVectorizer(key="card", time="when", epochs=2).fit(receipts)
    z = m.transform(receipts)
    result = m.evaluate(churned, "churn", features={"mine": mine}, models=["logistic_regression"])
    clf = m.fine_tune(churned, "churn", epochs=20)
    m.save(tmp_path / "run")
    similar = m.similar("c03", 10)

    assert isinstance(z, pd.DataFrame)
    assert (z.index.name, len(z), list(z.columns)) == ("card", N, list(m.get_feature_names_out()))
    assert {"embedding", "handcrafted", "mine"} <= set(result.frame()["features"])
    assert str(" ".join(result.verdict)) in " ".join(capsys.readouterr().out.split())
    predicted = ev.predict(clf, receipts).to_pandas().set_index("card")
    probabilities = predicted[["p_false", "p_true"]]
    assert np.allclose(probabilities.sum(axis=1), 1, atol=1e-6)
    truth = churned.set_index("card")["churn"].loc[predicted.index]
    assert ((predicted["p_true"] > 0.5) == truth).mean() > 0.9
    assert (predicted["prediction"] == probabilities.idxmax(axis=1).str.removeprefix("p_")).all()
    assert similar.shape == (10, 1)
    assert pd.testing.assert_frame_equal(ev.EventVectorizer.load(tmp_path / "run").transform(receipts), z) is None


def of_library(library: str, folder: Path) -> Any:
    frame = events()
    if library == "path":
        frame.write_parquet(folder / "events.parquet")
        return folder / "events.parquet"
    arrow = frame.to_arrow()
    sources = {"polars": frame, "lazy": frame.lazy(), "pandas": frame.to_pandas(), "arrow": arrow}
    return sources[library] if library in sources else duckdb.sql("select * from arrow")


@pytest.mark.parametrize(
    ("library", "kind"),
    [
        ("pandas", pd.DataFrame), ("polars", pl.DataFrame), ("lazy", pl.DataFrame), ("arrow", pa.Table),
        ("duckdb", pl.DataFrame), ("path", pl.DataFrame),
    ],
)  # fmt: skip
def test_a_frame_of_the_same_library_comes_out(
    library: str, kind: type[Any], tmp_path: Path, vectorizer: ev.EventVectorizer
) -> None:
    source = of_library(library, tmp_path)
    out = vectorizer.transform(source)
    assert isinstance(out, kind)
    table = pa.Table.from_pandas(out.reset_index()) if library == "pandas" else pa.table(out)
    expected = vectorizer.run_.embed(events())
    assert table.column_names == ["card", *vectorizer.get_feature_names_out()]
    assert table.column("card").to_pylist() == expected.keys.to_pylist()
    values = np.stack([table.column(name).to_numpy() for name in table.column_names[1:]], 1)
    assert np.allclose(values, expected.values, atol=1e-6)
    near = vectorizer.similar("c03", 5, events=of_library(library, tmp_path))
    assert isinstance(near, kind)
    same = fitted(of_library(library, tmp_path)).transform(events())
    assert np.allclose(same.drop("card").to_numpy(), expected.values, atol=1e-5)


def test_one_customer_from_a_list_of_dictionaries(vectorizer: ev.EventVectorizer) -> None:
    rows = events().filter(pl.col("card") == "c07").to_dicts()
    one = vectorizer.transform(rows)
    all_of_them = vectorizer.transform(events()).filter(pl.col("card") == "c07")
    assert np.allclose(one.drop("card").to_numpy(), all_of_them.drop("card").to_numpy(), atol=1e-6)


def test_options_of_reading_are_passed_on() -> None:
    baskets = events().group_by("card", "when").agg("goods")
    vectorizer = fitted(baskets, reading={"explode": ["goods"], "hashed": ["goods"]})
    assert vectorizer.run_.schema.explode == ("goods",)
    assert vectorizer.transform(baskets).columns == ["card", *vectorizer.get_feature_names_out()]


def test_a_format_applies_to_later_tables_and_a_cut_to_those_of_fit_alone(tmp_path: Path) -> None:
    frame = events().with_columns(pl.col("when").dt.truncate("1s"))
    texts = frame.with_columns(pl.col("when").dt.strftime("%d/%m/%Y %H:%M:%S"))
    cut = "1970-01-01T00:10:00"
    reading = {"time_format": "%d/%m/%Y %H:%M:%S", "until": cut}
    vectorizer = fitted(texts, reading=reading)
    assert np.allclose(
        vectorizer.transform(texts).drop("card").to_numpy(), vectorizer.run_.embed(frame).values, atol=1e-5
    )
    model = vectorizer.fine_tune(labels(), "churn", epochs=1)
    assert ev.predict(model, texts).shape == (N, 4)
    cut_near = vectorizer.similar("c03", 3)
    expected = vectorizer.similar("c03", 3, events=ev.until(vectorizer.run_.read(frame), cut))
    assert cut_near.equals(expected)
    assert not cut_near.equals(vectorizer.similar("c03", 3, events=texts))
    vectorizer.save(tmp_path / "run")
    assert ev.EventVectorizer.load(tmp_path / "run").transform(texts).equals(vectorizer.transform(texts))


def test_the_nearest_are_those_of_the_largest_cosine(vectorizer: ev.EventVectorizer) -> None:
    z = vectorizer.run_.embed(events())
    cosines, learned = {}, z.values[:, slice(*z.parts["learned"])]
    for key, vector in zip(z.keys.to_pylist(), learned, strict=True):
        anchor = learned[z.keys.to_pylist().index("c11")]
        cosines[key] = float(vector @ anchor / np.linalg.norm(vector) / np.linalg.norm(anchor))
    del cosines["c11"]
    expected = sorted(cosines, key=lambda key: -cosines[key])[:4]
    near = vectorizer.similar("c11", 4)
    assert near["card"].to_list() == expected
    assert near["similarity"].to_list() == pytest.approx([cosines[key] for key in expected], abs=1e-5)


def test_fine_tuning_returns_a_model_of_the_label(vectorizer: ev.EventVectorizer, tmp_path: Path) -> None:
    spent = events().group_by("card").agg(pl.col("paid").sum())
    assert ev.predict(vectorizer.fine_tune(spent, "paid", epochs=2), events()).column_names == ["card", "prediction"]
    model = vectorizer.fine_tune(labels(), "churn", epochs=1)
    assert ev.predict(model, vectorizer.run_.read(events())[[3, 4]]).shape == (2, 4)
    assert ev.predict(ev.load(model.save(tmp_path / "tuned").path), events()).num_rows == N


def test_columns_of_the_table_of_labels_are_inputs(vectorizer: ev.EventVectorizer) -> None:
    people = labels().with_columns(segment=pl.Series(["a", "b", "c"] * 20)).to_pandas().set_index("card")
    model = vectorizer.fine_tune(people, "churn", static_inputs=["segment"], epochs=1)
    assert ev.predict(model, events(), static=people).column_names == ["card", "prediction", "p_false", "p_true"]
    with pytest.raises(ev.EventvecError, match="segment"):
        ev.predict(model, events())


# scikit-learn


def dataset() -> ev.Dataset:
    return ev.read(events(), key="card", time="when")


def small(**options: Any) -> ev.EventVectorizer:
    return ev.EventVectorizer(epochs=1, progress=False, **options)


def test_entities_are_the_samples_of_pipelines_and_searches() -> None:
    data = dataset()
    y = labels()["churn"].to_numpy()
    pipeline = make_pipeline(small(), StandardScaler(), LogisticRegression())
    assert cross_val_score(pipeline, data, y, cv=3).mean() > 0.9
    methods = ["coles", {"method": {"name": "coles"}, "encoder": {"dim": 8}}]
    search = GridSearchCV(pipeline, {"eventvectorizer__method": methods}, cv=2).fit(data, y)
    assert search.best_estimator_.predict(data).shape == (N,)
    assert len(search.cv_results_["mean_test_score"]) == 2


def test_set_output_and_the_global_setting_choose_the_library(vectorizer: ev.EventVectorizer) -> None:
    data, chosen = dataset(), clone(vectorizer).set_output(transform="pandas")
    assert isinstance(clone(chosen).fit(data).transform(data), pd.DataFrame)
    assert isinstance(vectorizer.transform(data), np.ndarray)
    with sklearn.config_context(transform_output="polars"):
        assert isinstance(vectorizer.transform(data), pl.DataFrame)
    out = make_pipeline(small(), StandardScaler()).set_output(transform="pandas").fit_transform(data)
    assert out.index.name == "card"
    with pytest.raises(ev.ConfigError, match=r"transform 'numpy' is not known; .*default, pandas, polars"):
        vectorizer.set_output(transform="numpy")


WITHOUT_DATA = {
    "check_estimator_cloneable", "check_no_attributes_set_in_init", "check_parameters_default_constructible",
    "check_get_params_invariance", "check_set_params", "check_estimator_repr", "check_mixin_order",
    "check_do_not_raise_errors_in_init_or_set_param", "check_estimator_tags_renamed", "check_valid_tag_types",
}  # fmt: skip
"""scikit-learn's checks that give an estimator no data. All others give it a numeric array with one row per sample,
which is no table of events; those of them that have a meaning here are repeated below with events."""


@pytest.mark.parametrize("name", sorted(WITHOUT_DATA))
def test_the_checks_of_scikit_learn_that_need_no_data_pass(name: str) -> None:
    check = getattr(estimator_checks, name, None)
    if check is None:
        pytest.skip(f"scikit-learn {sklearn.__version__} has no {name}")
    check("EventVectorizer", ev.EventVectorizer())


def test_scikit_learn_has_no_other_check_for_what_takes_no_array() -> None:
    generator = getattr(estimator_checks, "estimator_checks_generator", None)
    if generator is None:
        pytest.skip(f"scikit-learn {sklearn.__version__} does not list its checks")
    assert {check.func.__name__ for _, check in generator(small())} <= WITHOUT_DATA


def test_fitting_changes_no_parameter_and_transforming_changes_nothing() -> None:
    data, estimator = dataset(), small()
    before = dict(estimator.get_params())
    assert estimator.fit(data) is estimator
    assert estimator.get_params() == before
    state = dict(vars(estimator))
    first = estimator.transform(data)
    assert vars(estimator).keys() == state.keys()
    assert all(vars(estimator)[name] is value for name, value in state.items())
    assert np.array_equal(first, estimator.transform(data))


def test_a_second_fit_and_fit_transform_give_the_same_vectors() -> None:
    data = dataset()
    first = small().fit(data).transform(data)
    assert np.array_equal(first, small().fit_transform(data))
    again = small().fit(data[:30]).fit(data)
    assert np.array_equal(first, again.transform(data))
    assert not np.array_equal(first, small(random_state=1).fit_transform(data))


def test_a_vector_does_not_depend_on_other_entities_or_their_order(vectorizer: ev.EventVectorizer) -> None:
    data = dataset()
    whole, order = vectorizer.transform(data), np.random.default_rng(0).permutation(N)
    assert np.allclose(vectorizer.transform(data[order]), whole[order], atol=1e-5)
    assert np.allclose(vectorizer.transform(data[[5]]), whole[[5]], atol=1e-5)


def test_a_pickled_vectorizer_gives_the_same_vectors(vectorizer: ev.EventVectorizer) -> None:
    copy = pickle.loads(pickle.dumps(vectorizer))
    assert np.array_equal(copy.transform(dataset()), vectorizer.transform(dataset()))


def test_the_docstring_describes_each_parameter() -> None:
    text = inspect.getdoc(ev.EventVectorizer) or ""
    assert all(f"    {name}: " in text for name in ev.EventVectorizer().get_params())


# Refusals


def test_what_cannot_be_done_is_refused_in_a_sentence(vectorizer: ev.EventVectorizer, tmp_path: Path) -> None:
    with pytest.raises(NotFittedError):
        ev.EventVectorizer().transform(events())
    with pytest.raises(ev.ConfigError, match="time is not given; name the column"):
        ev.EventVectorizer(key="card").fit(events())
    with pytest.raises(ev.ConfigError, match="time is not given, but tiem is; name the column"):
        ev.EventVectorizer(key="card", tiem="when").fit(events())
    with pytest.raises(ev.ConfigError, match="there is no option 'cout'; did you mean 'count'"):
        vectorizer.similar("c01", cout=3)
    with pytest.raises(ev.DataError, match=r"the key is not among the 60 entities") as error:
        vectorizer.similar("c99")
    assert "c99" not in str(error.value)
    with pytest.raises(ev.ConfigError, match="count must be at least 1, got 0"):
        vectorizer.similar("c01", 0)
    vectorizer.save(tmp_path / "run")
    with pytest.raises(ev.CheckpointError, match="holds a model already"):
        vectorizer.save(tmp_path / "run")
    loaded = ev.EventVectorizer.load(tmp_path / "run")
    with pytest.raises(ev.ConfigError, match="which holds no events; give them: events="):
        loaded.similar("c01")
    assert loaded.similar("c01", 3, events=events()).equals(vectorizer.similar("c01", 3))


def test_a_share_held_out_is_tested(vectorizer: ev.EventVectorizer) -> None:
    apart = fitted(holdout=0.3)
    result = apart.evaluate(labels(), "churn", holdout=True, models=["logistic_regression"])
    assert result.facts["protocol"] == "holdout"
    with pytest.raises(ev.ConfigError, match="held no entities out"):
        vectorizer.evaluate(labels(), "churn", holdout=True)
