"""The generated sets of the CoLES study: their labels follow from one thing, and from nothing else."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from experiments.coles.generated import GENERATED, LONGEST, SHORTEST, Generated
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import cross_val_predict
from sklearn.preprocessing import StandardScaler

SETS = {name: make(2000, seed=3) for name, make in GENERATED.items()}
CEILINGS = {"order": 0.995, "habits": 0.95, "rates": 0.98}
HALF = 4 * 0.013  # four standard errors of an AUROC of .5 on 2,000 labels


def counts(generated: Generated) -> np.ndarray:
    table = generated.events.group_by("entity", "code").len().pivot("code", index="entity", values="len").fill_null(0)
    return table.sort("entity").drop("entity").to_numpy()


def gaps(generated: Generated) -> pl.DataFrame:
    gap = pl.col("second").diff().over("entity").alias("gap")
    return generated.events.with_columns(gap).drop_nulls().group_by("entity").agg(
        pl.col("gap").mean().alias("mean"), pl.col("gap").clip(1).log().mean().alias("mean of log"),
        pl.col("gap").clip(1).log().std().alias("std of log"),
    ).sort("entity")  # fmt: skip


def auroc(features: np.ndarray, generated: Generated) -> float:
    x, y = StandardScaler().fit_transform(np.asarray(features, float)), generated.labels["label"].to_numpy()
    score = cross_val_predict(LogisticRegression(C=0.01), x, y, cv=5, method="decision_function")
    return float(roc_auc_score(y, score))


@pytest.mark.parametrize("name", SETS)
def test_the_oracle_predicts_the_label_and_the_number_of_events_does_not(name: str) -> None:
    generated = SETS[name]
    lengths = generated.events.group_by("entity").len().sort("entity")["len"].to_numpy()
    assert (lengths.min(), lengths.max()) == (SHORTEST, LONGEST)
    assert 0.45 < generated.labels["label"].mean() < 0.55
    assert roc_auc_score(generated.labels["label"], generated.oracle) == pytest.approx(CEILINGS[name], abs=0.01)
    assert auroc(lengths[:, None], generated) == pytest.approx(0.5, abs=HALF)
    again = GENERATED[name](2000, seed=3)
    assert again.events.equals(generated.events)
    assert not GENERATED[name](2000, seed=4).events.equals(generated.events)


@pytest.mark.parametrize(("name", "carried"), [("order", False), ("habits", True), ("rates", False)])
def test_counts_of_codes_carry_the_label_of_habits_only(name: str, carried: bool) -> None:
    assert (auroc(counts(SETS[name]), SETS[name]) > 0.5 + HALF) == carried


@pytest.mark.parametrize(("name", "carried"), [("order", False), ("habits", False), ("rates", True)])
def test_times_between_events_carry_the_label_of_rates_only(name: str, carried: bool) -> None:
    assert (auroc(gaps(SETS[name]).drop("entity").to_numpy(), SETS[name]) > 0.5 + HALF) == carried


def test_the_mean_time_between_events_does_not_carry_the_label_of_rates() -> None:
    assert auroc(gaps(SETS["rates"])["mean"].log().to_numpy()[:, None], SETS["rates"]) == pytest.approx(0.5, abs=0.07)


def test_order_is_a_ring_that_is_gone_round_forward_or_backward() -> None:
    generated = SETS["order"]
    code = generated.events["code"].str.slice(5).cast(pl.Int64).to_numpy()
    entity = generated.events["entity"].to_numpy()
    forward = np.zeros(2000)
    for i in range(1, len(code)):  # the slow truth of the oracle, without the rare jumps inside the ring
        if entity[i] == entity[i - 1] and code[i] < 3 and code[i - 1] < 3 and code[i] != code[i - 1]:
            forward[entity[i]] += 1 if (code[i] - code[i - 1]) % 3 == 1 else -1
    assert roc_auc_score(generated.labels["label"], forward) > 0.99
    assert np.corrcoef(forward, generated.oracle)[0, 1] > 0.99


def test_habits_are_shares_of_groups_whose_codes_appear_together() -> None:
    table = counts(SETS["habits"]).astype(float)
    together = np.corrcoef(table.T)
    np.fill_diagonal(together, 0)
    companions = (together > 0.08).sum(1)
    assert np.median(companions) == pytest.approx(19, abs=2)  # the others of a group of 20
