"""`fit --labels` and `predict` on the command line: the same predictions as in Python, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from tests.commands import answer, invoke

import eventvec as ev

pytestmark = pytest.mark.usefixtures("few_kernels")

N = 60
COLUMNS = ["--key", "card", "--time", "day", "--numeric", "paid"]


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with events, of which the later ones tell the label, and labels at a time."""
    folder, rng = tmp_path_factory.mktemp("tables"), np.random.default_rng(0)
    card, churn = np.repeat(np.arange(N), 5), rng.permutation(N) % 2
    early = pl.DataFrame(
        {"card": card, "day": rng.integers(0, 50, len(card)), "paid": rng.random(len(card)) + card % 2}
    )
    late = pl.DataFrame({"card": np.arange(N), "day": 60, "paid": 100.0 * churn})
    pl.concat([early, late], how="vertical_relaxed").write_parquet(folder / "events.parquet")
    names = np.where((np.arange(N) % 2 == 1) ^ (rng.random(N) < 0.1), "yes", "no")
    labels = pl.DataFrame({"card": np.arange(N), "day": 50, "churn": names, "spend": rng.random(N) + np.arange(N) % 2})
    labels.write_parquet(folder / "labels.parquet")
    return folder


def test_a_label_is_learned_and_predicted(tables: Path, tmp_path: Path) -> None:
    events, labels, out = tables / "events.parquet", tables / "labels.parquet", tmp_path / "model"
    of_label = ["--labels", labels, "--label", "churn"]
    fitted = answer("fit", "--events", events, *COLUMNS, *of_label, "--out", out)
    assert fitted["label"] == "churn"
    assert fitted["metric"] == "auroc"
    assert 0.5 < fitted["score"]["value"] <= 1
    predictions = tmp_path / "p.parquet"
    cutoffs = ["--cutoffs", labels, "--cutoff-column", "day"]
    refused = " ".join(invoke("embed", out, events, "-o", tmp_path / "z.parquet").stderr.split())
    assert "has no block of vectors; it predicts churn: ev.predict (eventvec predict)" in refused
    score = fitted["verdict"].split("AUROC ")[1].split(":")[0]
    assert f"| `churn` | binary | {score} | {N} | {N} |" in (card := invoke("card", out).stdout)
    assert invoke("card", out, "--save").exit_code == 0
    assert (out / "README.md").read_text() == card
    told = answer("predict", out, events, "-o", predictions, *cutoffs)
    assert told["columns"] == ["card", "day", "prediction", "p_no", "p_yes"]
    model = ev.EventClassifier("card", "day", numeric=["paid"]).fit(events, labels, "churn")
    expected = model.predict_proba(events, labels)
    np.testing.assert_array_equal(pl.read_parquet(predictions)["p_yes"], expected["p_yes"])
    assert ev.EventClassifier.load(out).predict_proba(events, labels).equals(expected)
    narrow = tmp_path / "cutoffs.parquet"
    pl.read_parquet(labels).select("card", pl.col("day").cast(pl.Int16)).write_parquet(narrow)
    answer("predict", out, events, "-o", predictions, "--cutoffs", narrow)
    assert pl.read_parquet(predictions).join(pl.read_parquet(narrow), on=["card", "day"]).height == N


def test_a_number_is_learned_by_the_regressor(tables: Path, tmp_path: Path) -> None:
    events, labels, out = tables / "events.parquet", tables / "labels.parquet", tmp_path / "model"
    assert (
        answer("fit", "--events", events, *COLUMNS, "--labels", labels, "--label", "spend", "--out", out)["task"]
        == "numeric"
    )
    assert answer("predict", out, events, "-o", tmp_path / "p.parquet")["columns"] == ["card", "prediction"]


def test_weights_earlier_labels_and_features(tables: Path, tmp_path: Path) -> None:
    rng, out = np.random.default_rng(1), tmp_path / "model"
    months = pl.DataFrame({"card": np.repeat(np.arange(N), 3), "day": np.tile([20, 35, 50], N)})
    months = months.with_columns(churn=(pl.col("card") + (pl.col("day") == 35)) % 2, counts=rng.integers(1, 4, 3 * N))
    scores = pl.DataFrame({"card": np.arange(N), "score": rng.random(N)})
    paths = {name: str(tmp_path / f"{name}.parquet") for name in ("months", "scores")}
    months.write_parquet(paths["months"])
    scores.write_parquet(paths["scores"])
    events, labels, features = tables / "events.parquet", ["--labels", paths["months"]], ["--features", paths["scores"]]
    given = [*labels, "--label", "churn", "--weight", "counts", "--earlier-labels", "10", *features]
    answer("fit", "--events", events, *COLUMNS, *given, "--out", out)
    model = ev.EventClassifier("card", "day", numeric=["paid"], progress=False)
    beside = {"scores": paths["scores"]}
    model.fit(events, paths["months"], "churn", weight="counts", earlier_labels=10, features=beside)
    assert "earlier_labels" in model.model_.heads["churn"].blocks
    expected = model.predict_proba(events, months, labels=months, features=beside)
    predicted = tmp_path / "p.parquet"
    answer("predict", out, events, "--cutoffs", paths["months"], *labels, *features, "-o", predicted)
    np.testing.assert_array_equal(pl.read_parquet(predicted)["p_1"], expected["p_1"])
    result = invoke("predict", out, events, "--cutoffs", paths["months"], *features, "-o", tmp_path / "q.parquet")
    assert result.exit_code == 1
    assert "give the table of 'churn' as known so far: labels= (--labels)" in " ".join(result.stderr.split())


def test_a_store_is_refused_where_events_are_read_twice(tables: Path, tmp_path: Path) -> None:
    arguments = ["--labels", tables / "labels.parquet", "--label", "churn", "--out", tmp_path / "model"]
    result = invoke("fit", "--events", tables / "events.parquet", *COLUMNS, "--store", tmp_path / "store", *arguments)
    assert result.exit_code == 2
    assert "a store holds the events of one reading" in " ".join(result.stderr.split())
    assert not (tmp_path / "model").exists()
    assert not (tmp_path / "store.labels").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--labels", "L"], "give --labels TABLE and --label COLUMN together"),
        (["--weight", "w", "--out", "OUT"], "give --labels TABLE and --label COLUMN together"),
        (
            ["--labels", "L", "--label", "churn", "--features", "a.csv", "--features", "b/a.csv"],
            "two tables called 'a'",
        ),
        (["--labels", "L", "--label", "churn", "--method", "supervised"], "--method is of networks"),
        (["--labels", "L", "--label", "churn", "--epochs", "3"], "--epochs is of networks"),
        (["--labels", "L", "--label", "churn"], "name the folder to write: --out FOLDER"),
        (["--labels", "L", "--label", "churn", "--cutoffs", "L"], "labels have times of their own: --label-time"),
        (["--labels", "L", "--label", "absent", "--out", "OUT"], "has no column 'absent'"),
        (["--labels", "EMPTY", "--label", "churn", "--out", "OUT"], "the label table has no rows; give it the labels"),
    ],
)
def test_what_no_predictor_takes_is_refused(options: list[str], message: str, tables: Path, tmp_path: Path) -> None:
    pl.read_parquet(tables / "labels.parquet").clear().write_parquet(tmp_path / "empty.parquet")
    places = {"L": str(tables / "labels.parquet"), "OUT": str(tmp_path / "model")}
    places["EMPTY"] = str(tmp_path / "empty.parquet")
    words = [places.get(word, word) for word in options]
    result = invoke("fit", "--events", tables / "events.parquet", *COLUMNS, *words)
    assert result.exit_code in (1, 2)
    assert message in " ".join(result.stderr.split())
    assert not (tmp_path / "model").exists()


def test_kinds_of_columns_that_are_inferred_are_said(tables: Path, tmp_path: Path) -> None:
    events = pl.read_parquet(tables / "events.parquet").with_columns(shop=pl.col("card") % 3)
    events.write_parquet(tmp_path / "events.parquet")
    roles = ["--events", tmp_path / "events.parquet", "--key", "card", "--time", "day"]
    of_label = ["--labels", tables / "labels.parquet", "--label", "churn", "--out", tmp_path / "model"]
    assert "note: kinds of columns of whole numbers are inferred: 'shop'" in invoke("fit", *roles, *of_label).stderr
