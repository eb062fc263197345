"""Who dies in hospital, predicted from features of stays by logistic regression and by boosted trees."""

from __future__ import annotations

import numpy as np
import polars as pl

from experiments.cresp.icu_stays import DEATH, Array

REGULARISATION = (0.0001, 0.001, 0.01, 0.1)


def predictions(features: Array, stays: pl.DataFrame, seed: int) -> tuple[dict[str, Array], float]:
    """Return `(test stays,)` the predictions of each model, and the AUROC of logistic regression on validation stays.

    Args:
        features: `(stays, dim)`, in the order of the table.
        stays: Have the columns `part` and `In-hospital_death`.
        seed: Of the boosted trees.
    """
    part, death = stays["part"].to_numpy(), stays[DEATH].to_numpy()
    linear, auroc = _logistic(features, death, part)
    return {"logistic": linear, "boosting": _boosting(features, death, part, seed)}, auroc


def _logistic(features: Array, death: Array, part: Array) -> tuple[Array, float]:
    """Return the predictions for test stays, and the AUROC on validation stays, by which the penalty is chosen."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import roc_auc_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    training, validation, test = (part == name for name in ("training", "validation", "test"))
    fitted = [
        make_pipeline(StandardScaler(), LogisticRegression(C=c, max_iter=2000)).fit(features[training], death[training])
        for c in REGULARISATION
    ]
    aurocs = [
        float(roc_auc_score(death[validation], model.decision_function(features[validation]))) for model in fitted
    ]
    best = int(np.argmax(aurocs))
    return np.asarray(fitted[best].decision_function(features[test])), aurocs[best]


def _boosting(features: Array, death: Array, part: Array, seed: int) -> Array:
    """Return the predictions of LightGBM for test stays."""
    from lightgbm import LGBMClassifier

    training, test = part == "training", part == "test"
    model = LGBMClassifier(
        n_estimators=300, learning_rate=0.03, max_depth=6, subsample=0.5, subsample_freq=1, colsample_bytree=0.5,
        random_state=seed, n_jobs=1, verbose=-1,
    )  # fmt: skip
    return np.asarray(model.fit(features[training], death[training]).predict_proba(features[test]))[:, 1]
