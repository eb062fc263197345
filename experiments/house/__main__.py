"""The main job on real data: churn of customers, deaths in intensive care, the order of engines' histories."""

from __future__ import annotations

import numpy as np
import polars as pl
import torch
from sklearn.metrics import roc_auc_score

import eventvec as ev
from eventvec import config
from eventvec.encoders.aggregates import aggregate_features
from eventvec.evaluation import Evaluation, evaluate, half_width, join_labels
from experiments import data as datasets
from experiments.tables import Row, main, told

SEED = 0


def churn(small: bool) -> list[Row]:
    """online_retail: which customers never come back (AUROC, 30 epochs)."""
    data, labels = datasets.online_retail()
    found = _worth(data, labels, "churn", {"epochs": 1 if small else 30}, small)
    reference = {
        ("embedding", "logistic_regression"): 0.742, ("embedding", "lightgbm"): 0.725,
        ("aggregates", "logistic_regression"): 0.711, ("aggregates", "lightgbm"): 0.733,
        ("both", "logistic_regression"): 0.718, ("both", "lightgbm"): 0.729,
    }  # fmt: skip
    return _rows("online_retail churn", found, reference)


def death(small: bool) -> list[Row]:
    """physionet2012: who dies in hospital, trained on sets a, b and c, tested on set a (AUROC, 10 epochs)."""
    data, labels = datasets.physionet2012("a" if small else "abc")
    settings = {"epochs": 1 if small else 10}
    if small:
        data = data[:400]
    found = _worth(data, labels.filter(pl.col("set") == "a"), "In-hospital_death", settings, small)
    reference = {
        ("embedding", "logistic_regression"): 0.809, ("embedding", "lightgbm"): 0.813,
        ("aggregates", "logistic_regression"): 0.829, ("aggregates", "lightgbm"): 0.839,
        ("both", "logistic_regression"): 0.837, ("both", "lightgbm"): 0.843,
    }  # fmt: skip
    return _rows("physionet2012 a, death", found, reference)


def order(small: bool) -> list[Row]:
    """cmapss: are two adjacent windows of an unseen engine in order (AUROC of OCP, 5 folds of engines, 400 epochs)."""
    data, _ = datasets.cmapss()
    folds, scores = 5, []
    fold = torch.randperm(len(data), generator=torch.Generator().manual_seed(SEED)) % folds
    chosen: config.Table = {"method": {"name": "ocp"}, "encoder": {"events": {"time": []}}}
    tables = config.suggest(data.sequences, {**chosen, "fit": {"epochs": 2 if small else 400}})
    for held in range(2 if small else folds):
        torch.manual_seed(SEED)
        method = config.build_method(tables, data.schema)
        assert isinstance(method, ev.Order)
        ev.fit(method, data[fold != held], seed=SEED, progress=told, **tables["fit"])
        scores.append(_ordered(method, data[fold == held]))
    return [_row("cmapss, order of unseen engines' windows", "logits", "ocp", np.array(scores), 0.9, len(data))]


def _ordered(method: ev.Order, unseen: ev.Dataset) -> float:
    """Return the AUROC of the method's logits over 20 pairs of each engine."""
    rng = torch.Generator().manual_seed(SEED)
    x = unseen.sequences[torch.arange(len(unseen)).repeat(20)]
    views, label = method.pairs(x[method.usable(x)], rng)
    method.eval()
    with torch.inference_mode():
        return float(roc_auc_score(label, method.logits(views)))


def _worth(data: ev.Dataset, labels: pl.DataFrame, label: str, settings: config.Table, small: bool) -> Evaluation:
    """Train CoLES with the defaults that follow from the data at width 128, and evaluate it beside aggregates."""
    tables = config.suggest(data.sequences, {"encoder": {"dim": 16 if small else 128}, "fit": settings})
    torch.manual_seed(SEED)
    method = config.build_method(tables, data.schema)
    ev.fit(method, data, seed=SEED, progress=told, **tables["fit"])
    z = ev.embed(method.encoder, data).numpy()
    joined = join_labels(data.keys, data.schema.key, labels, label)
    features = {"embedding": z[joined.positions], "aggregates": aggregate_features(data)[0][joined.positions]}
    models = ["logistic_regression"] if small else ["lightgbm", "logistic_regression", "knn"]
    return evaluate(features, joined.labels, label=label, models=models)


def _rows(name: str, found: Evaluation, reference: dict[tuple[str, str], float]) -> list[Row]:
    rows = [
        _row(name, r.features, r.model, np.array(r.main.values), reference.get((r.features, r.model)), found.n)
        for r in found.results
    ]
    for d in found.differences:
        rows.append(_row(name, f"{d.a} − {d.b}", d.model, np.array(d.main.values), None, found.n))
    return rows


def _row(
    name: str,
    features: str,
    model: str,
    scores: np.ndarray[tuple[int], np.dtype[np.float64]],
    known: float | None,
    n: int,
) -> Row:
    ours = float(scores.mean())
    difference = "" if known is None else f"{ours - known:+.3f}"
    return {
        "data": name, "n": n, "features": features, "model": model, "reference": known if known is not None else "",
        "ours": ours, "interval": half_width(list(scores)), "difference": difference,
    }  # fmt: skip


if __name__ == "__main__":
    main("house", {"churn": churn, "death": death, "order": order})
