"""What is too good to be true: against loops, silent for random features, and copies of a label in the events."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy.stats import rankdata, spearmanr
from sklearn.metrics import roc_auc_score

import eventvec as ev
from eventvec.blocks.handcrafted_sets import feature_texts
from eventvec.encoders.handcrafted import Handcrafted
from eventvec.errors import ConfigError
from eventvec.evaluation import suspicion
from eventvec.evaluation.suspicion import OPENING
from eventvec.schema import Categorical, Numeric, Schema

N, DAYS = 120, 10
MODELS: dict[str, Any] = {"models": ["logistic_regression"], "folds": 3}
CHECKS = "check whether events at or after the label's time are read, whether a column copies the label"


# Single features, against slow loops


def test_strengths_equal_a_loop_over_features_and_ties_count_half() -> None:
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(size=(50, 8)), rng.integers(0, 3, (50, 8)), np.ones((50, 1))], 1)
    y = rng.random(50) < 0.3
    scores = [roc_auc_score(y, column) for column in x.T]
    assert suspicion._strengths(x, y) == pytest.approx([max(score, 1 - score) for score in scores])
    numbers = rng.integers(0, 9, 50).astype(float)
    squares = [spearmanr(numbers, column).statistic ** 2 for column in x.T[:-1]]
    assert suspicion._strengths(x, numbers) == pytest.approx([*squares, 0])


def test_blocks_of_columns_do_not_change_strengths(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(30, 25)), rng.random(30) < 0.5
    whole = suspicion._strengths(x, y)
    monkeypatch.setattr(suspicion, "BLOCK", 90)
    assert (suspicion._strengths(x, y) == whole).all()


@pytest.mark.parametrize("level", [0.995, 0.85, 0.7])
@pytest.mark.parametrize(("m", "k"), [(1, 7), (2, 7), (3, 5), (4, 4), (6, 3)])
def test_chance_is_that_of_all_orders_and_at_least_that_of_ties(
    m: int, k: int, level: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every choice of the positive rows, for features without ties and with all kinds of them."""
    monkeypatch.setattr(suspicion, "SUSPICIOUS", level)
    rng, n = np.random.default_rng(0), m + k
    labels = np.array([np.isin(np.arange(n), chosen) for chosen in combinations(range(n), m)])

    def share(x: Any) -> float:
        scores = (labels @ rankdata(x) - m * (m + 1) / 2) / (m * k)
        return float((np.maximum(scores, 1 - scores) > level - 1e-9).mean())

    bound = suspicion._by_chance(m, k)
    misordered = (1 - level) * m * k
    if misordered < min(max(m, k) + 1, m * k / 2):  # no part is above the bound, and no order counts on both sides
        assert share(np.arange(n)) == pytest.approx(bound / 2)
    assert all(share(rng.integers(0, 1 + i % 4, n)) <= bound for i in range(12))


def test_a_sample_of_the_rows_finds_what_all_rows_show() -> None:
    """Near the limit, with few positive rows, the answer is that of the loop over all rows."""
    rng = np.random.default_rng(0)
    y = np.arange(30_000) % 200 == 0
    x = rng.normal(size=(len(y), 40)) + y[:, None] * np.linspace(3.2, 4.2, 40)
    scores = np.array([roc_auc_score(y, column) for column in x.T])
    assert 8 < (scores >= 0.995).sum() < 32
    for part in (scores < 0.995, scores >= 0.995):
        text = suspicion.strongest(*unnamed(y), {"x": (x[:, part], [f"x{i}" for i in np.flatnonzero(part)])})
        expected = f"the feature x{scores.argmax()} alone predicts 'label' with an AUROC of {scores.max():.3f}"
        assert text == (expected if part[scores.argmax()] else "")


def unnamed(labels: Any, groups: Any = None) -> tuple[Any, Any]:
    return ev.learners.task.target(labels), groups


@pytest.mark.parametrize("seed", range(8))
def test_random_features_of_small_tables_stay_silent(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(20, 4000))
    x[:, ::2] = rng.random((20, 2000)) < 0.1  # most of these are 0
    few = np.arange(20) < 2
    assert suspicion._strengths(x, few).max() == 1  # there is one to cry about
    small = [few, np.arange(20) % 3, np.arange(10.0), np.where(few, np.arange(20) + 0.5, 0.0)]
    for labels in (*small, {"a": few, "b": np.arange(20) < 3}):
        rows = len(labels) if isinstance(labels, np.ndarray) else 20
        assert suspicion.strongest(*unnamed(labels), {"x": (x[:rows], list("x") * 4000)}) == ""


@pytest.mark.parametrize("seed", range(4))
def test_rows_of_one_entity_are_no_evidence_against_chance(seed: int) -> None:
    """Each of 12 entities has 30 rows of equal features and labels: one of 4,000 features fits by chance."""
    entity, rng = np.arange(360) % 12, np.random.default_rng(seed)
    x, y = rng.normal(size=(12, 4000))[entity], entity < 4
    names = {"x": (x, list("x") * 4000)}
    assert suspicion.strongest(*unnamed(y), names) != ""
    assert suspicion.strongest(*unnamed(y, entity), names) == ""


# Copies of a label in the events


def tables(**columns: Any) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return events of 120 cards with further columns, each from `(N, DAYS)` values, and labels without relation."""
    rng = np.random.default_rng(0)
    events = {"card": np.repeat(np.arange(N), DAYS), "day": np.tile(np.arange(DAYS), N)}
    events |= {"paid": rng.exponential(size=N * DAYS), "shop": rng.choice(["tea", "coffee"], N * DAYS)}
    further = {name: np.broadcast_to(values, (N, DAYS)).reshape(-1) for name, values in columns.items()}
    labels = {"card": np.arange(N), "churn": CHURN, "kind": KIND, "worth": WORTH, "weight": 0.1 + rng.random(N)}
    return pl.DataFrame(events | further), pl.DataFrame(labels)


RNG = np.random.default_rng(1)
CHURN, KIND, WORTH = RNG.random(N) < 0.3, np.array(["a", "b", "c"])[np.arange(N) % 3], RNG.normal(size=N)
ONCE = np.arange(DAYS) == 4
"""On which day a copy of the label is."""


def evaluated(label: Any = "churn", change: Any = None, options: Any = None, **columns: Any) -> ev.Answer:
    events, labels = tables(**columns)
    data = ev.read(events, key="card", time="day")
    z = ev.embed(ev.encoders.GRU(ev.encoders.EventEncoder(data.schema), dim=2), data)
    labels = labels if change is None else labels.with_columns(change)
    models = ["ridge"] if label == "worth" else ["logistic_regression"]
    return ev.evaluate(z, data, labels, label, **MODELS | {"models": models}, **(options or {}))


COPIES = {
    "category": ({"status": np.where(CHURN[:, None] & ONCE, "closed", "open")}, "'status", "status"),
    "number": ({"fee": CHURN[:, None] * ONCE * 3.5}, "'fee: ", "fee"),
    "count": ({"note": np.where(np.arange(DAYS) < np.where(CHURN, 6, 3)[:, None], "x", "y")}, "'note", "note"),
    "constant": ({"group=of": np.where(CHURN, 7.5, 0.25)[:, None] + np.zeros(DAYS)}, "'group=of: ", "group=of"),
}


@pytest.mark.parametrize(("columns", "feature", "column"), COPIES.values(), ids=COPIES)
def test_a_column_that_copies_the_label_is_named(columns: Any, feature: str, column: str) -> None:
    verdict = " ".join(evaluated(**columns).verdict)
    assert verdict.startswith(OPENING)
    assert f"the feature {feature}" in verdict
    assert f"of the column '{column}' alone predicts 'churn' with an AUROC of 1.000; {CHECKS}, and whether" in verdict
    assert verdict.count(OPENING) == 1
    assert "the embedding" in verdict.partition("rows repeat. ")[2].lower()  # the rest follows


def test_without_a_copy_nothing_is_said() -> None:
    for label in ("churn", "kind", "worth", ["churn", "other"]):
        assert OPENING not in evaluated(label, pl.col("card").is_in(list(range(0, N, 2))).alias("other")).verdict


def test_a_list_column_that_copies_the_label_is_named() -> None:
    events, labels = tables()
    codes = [["x", "closed"] if CHURN[card] and day == 4 else ["x"] for card, day in events["card", "day"].rows()]
    data = ev.read(events.with_columns(codes=pl.Series(codes)), key="card", time="day", summed=["codes"])
    z = ev.embed(ev.encoders.GRU(ev.encoders.EventEncoder(data.schema), dim=2), data)
    doubt, *_ = ev.evaluate(z, data, labels, "churn", **MODELS).verdict
    assert "'codes=closed: count' of the column 'codes' alone" in doubt


def test_classes_numbers_and_one_of_several_labels_are_told() -> None:
    some = np.where((KIND == "b")[:, None] & ONCE, "B", "other")
    verdict = " ".join(evaluated("kind", some=some).verdict)
    assert "of the column 'some' alone tells 'b' from the other classes with an AUROC of 1.000" in verdict
    near = np.exp(WORTH)[:, None] * ONCE
    assert "of the column 'near' alone has a squared rank correlation of 1.000" in " ".join(
        evaluated("worth", near=near).verdict
    )
    status = np.where(CHURN[:, None] & ONCE, "closed", "open")
    other = pl.Series("other", np.random.default_rng(3).random(N) < 0.5)
    missing = pl.when(pl.col("card") % 5 > 0).then("churn").alias("churn")
    verdict = " ".join(evaluated(["other", "churn"], [other, missing], {"weight": "weight"}, status=status).verdict)
    assert verdict.startswith(f"{OPENING}")
    assert " scores 1.000 auroc on 'churn' (logistic_regression), and the feature 'status" in verdict
    assert "alone predicts 'churn' with an AUROC of 1.000" in verdict


def test_weights_and_missing_labels_do_not_hide_a_copy() -> None:
    status = np.where(CHURN[:, None] & ONCE, "closed", "open")
    missing = pl.when(pl.col("card") % 4 > 0).then("churn").alias("churn")
    e = evaluated(change=missing, options={"weight": "weight"}, status=status)
    assert e.facts["n"] == 90
    assert "of the column 'status' alone predicts 'churn'" in " ".join(e.verdict)


def test_the_sentence_is_in_terminal_json_and_page_and_opens_a_page_of_several_labels() -> None:
    doubtful, plain = evaluated(status=np.where(CHURN[:, None] & ONCE, "closed", "open")), evaluated("kind")
    assert repr(doubtful).count(OPENING) == 1
    assert doubtful.to_dict()["verdict"].startswith(OPENING)
    page = ev.report(None, evaluations=[doubtful, plain])
    assert page.verdict[0].startswith(OPENING)


@pytest.mark.parametrize("copies", [True, False])
def test_a_column_of_own_features_that_copies_the_label_is_named(copies: bool) -> None:
    rng = np.random.default_rng(2)
    late = np.where(CHURN if copies else rng.random(N) < 0.3, 9.0, 1.0) + 0.01 * rng.random(N)
    mine = pl.DataFrame({"card": range(N), "spent": rng.normal(size=N), "late fees": late})
    verdict = " ".join(evaluated(options={"features": {"mine": mine}}).verdict)
    named = "the feature 'late fees' of 'mine' alone predicts 'churn' with an AUROC of 1.000"
    assert (named in verdict) == verdict.startswith(OPENING) == copies


# Scores of sets of features


def test_a_score_of_a_set_is_suspicious_without_names() -> None:
    rng = np.random.default_rng(0)
    y, noise = rng.random(200) < 0.4, rng.normal(size=(200, 3))
    mine = noise + 20 * y[:, None]
    verdict = ev.score_features({"embedding": noise, "mine": mine}, y, label="churn", **MODELS).verdict[0]
    assert verdict.startswith(f"{OPENING}mine scores 1.000 auroc (logistic_regression); {CHECKS}")
    names = {"mine": ["a", "b", "c"]}
    verdict = ev.score_features({"embedding": noise, "mine": mine}, y, label="churn", names=names, **MODELS).verdict[0]
    assert "mine scores 1.000 auroc (logistic_regression), and the feature a alone predicts 'churn'" in verdict


def test_a_frequent_class_is_no_reason() -> None:
    y = np.where(np.arange(2000) < 10, np.arange(2000) % 2, 2)
    e = ev.score_features({"x": np.random.default_rng(0).normal(size=(2000, 2))}, y, **MODELS)
    assert e.basis.results[0].main.mean >= 0.995
    assert OPENING not in " ".join(e.verdict)


@pytest.mark.parametrize("names", [{"x": ["a"]}, {"y": ["a", "b"]}])
def test_names_need_a_text_for_each_feature(names: Any) -> None:
    with pytest.raises(ConfigError, match="names must have a text for each feature of a set, got "):
        ev.score_features({"x": np.zeros((20, 2))}, np.arange(20) % 2, names=names)


def test_a_feature_is_of_the_longest_column_with_which_its_name_begins() -> None:
    shops = Categorical("shop", ("a: b", "c where paid=d"))
    numbers = (Numeric("paid"), Numeric("paid: net"))
    schema = Schema("card", "day", "integer", categorical=(shops,), numeric=numbers)
    texts = feature_texts(schema, Handcrafted(schema))
    for text in (
        "'events'",
        "'time: recency' of the column 'day'",
        "'gap: mean' of the column 'day'",
        "'paid: sum' of the column 'paid'",
        "'paid: net: sum' of the column 'paid: net'",
        "'shop=a: b: count' of the column 'shop'",
        "'paid where shop=a: b: mean' of the column 'paid'",
        "'shop: distinct' of the column 'shop'",
    ):
        assert text in texts
