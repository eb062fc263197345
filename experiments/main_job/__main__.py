"""The main job on real data: churn of customers, deaths in intensive care, and the order of engines' histories."""

from __future__ import annotations

import numpy as np
import polars as pl
import torch
from sklearn.metrics import roc_auc_score

import eventvec as ev
from eventvec import config
from eventvec.encoders.aggregates import aggregate_features
from eventvec.evaluation import Evaluation, half_width, join_labels, score_features
from experiments import data as datasets
from experiments.command_line import Row, print_epoch, run

SEED = 0


def churn(small: bool) -> list[Row]:
    """online_retail: which customers do not come back (AUROC, 30 epochs)."""
    data, labels = datasets.online_retail()
    if small:
        data = data[:600]
    evaluation = _evaluate_coles(data, labels, "churn", {"epochs": 1 if small else 30}, small)
    reference = {
        ("embedding", "logistic_regression"): 0.742, ("embedding", "lightgbm"): 0.725,
        ("aggregates", "logistic_regression"): 0.711, ("aggregates", "lightgbm"): 0.733,
        ("both", "logistic_regression"): 0.718, ("both", "lightgbm"): 0.729,
    }  # fmt: skip
    return _rows("online_retail churn", evaluation, reference)


def death(small: bool) -> list[Row]:
    """physionet2012: who dies in hospital, trained on sets a, b and c, tested on set a (AUROC, 10 epochs)."""
    data, labels = datasets.physionet2012("a" if small else "abc")
    settings = {"epochs": 1 if small else 10}
    if small:
        data = data[:400]
    labels = labels.filter(pl.col("set") == "a")
    evaluation = _evaluate_coles(data, labels, "In-hospital_death", settings, small)
    reference = {
        ("embedding", "logistic_regression"): 0.809, ("embedding", "lightgbm"): 0.813,
        ("aggregates", "logistic_regression"): 0.829, ("aggregates", "lightgbm"): 0.839,
        ("both", "logistic_regression"): 0.837, ("both", "lightgbm"): 0.843,
    }  # fmt: skip
    return _rows("physionet2012 a, death", evaluation, reference)


def order(small: bool) -> list[Row]:
    """cmapss: whether two adjacent windows of an unseen engine are in order (AUROC of OCP, 5 folds, 400 epochs)."""
    data, _ = datasets.cmapss()
    folds, scores = 5, []
    fold = torch.randperm(len(data), generator=torch.Generator().manual_seed(SEED)) % folds
    settings: config.Table = {"method": {"name": "ocp"}, "encoder": {"events": {"time": []}}}
    tables = config.suggest(data.sequences, {**settings, "fit": {"epochs": 1 if small else 400}})
    for left_out in range(2 if small else folds):
        torch.manual_seed(SEED)
        method = config.build_method(tables, data.schema)
        assert isinstance(method, ev.methods.Order)
        ev.fit(method, data[fold != left_out], seed=SEED, progress=print_epoch, **tables["fit"])
        scores.append(_order_auroc(method, data[fold == left_out]))
    return [_row("cmapss, order of unseen engines' windows", "logits", "ocp", np.array(scores), 0.9, len(data))]


def _order_auroc(method: ev.methods.Order, unseen: ev.Dataset) -> float:
    """Return the AUROC of the method's logits on 20 pairs of windows of each engine."""
    rng = torch.Generator().manual_seed(SEED)
    x = unseen.sequences[torch.arange(len(unseen)).repeat(20)]
    views, label = method.pairs(x[method.usable(x)], rng)
    method.eval()
    with torch.inference_mode():
        return float(roc_auc_score(label, method.logits(views)))


def _evaluate_coles(
    data: ev.Dataset, labels: pl.DataFrame, label: str, settings: config.Table, small: bool
) -> Evaluation:
    """Train CoLES at width 128 with the defaults that follow from the data, and evaluate it beside aggregates."""
    tables = config.suggest(data.sequences, {"encoder": {"dim": 16 if small else 128}, "fit": settings})
    torch.manual_seed(SEED)
    method = config.build_method(tables, data.schema)
    ev.fit(method, data, seed=SEED, progress=print_epoch, **tables["fit"])
    z = ev.encode(method.encoder, data.sequences).numpy()
    joined = join_labels(data.keys, data.schema.key, labels, label)
    features = {"embedding": z[joined.positions], "aggregates": aggregate_features(data)[0][joined.positions]}
    models = ["logistic_regression"] if small else ["lightgbm", "logistic_regression", "knn"]
    return score_features(features, joined.labels, label=label, models=models)


def _rows(name: str, evaluation: Evaluation, reference: dict[tuple[str, str], float]) -> list[Row]:
    n = evaluation.n
    rows = [
        _row(name, r.features, r.model, np.array(r.main.values), reference.get((r.features, r.model)), n)
        for r in evaluation.results
    ]
    for d in evaluation.differences:
        rows.append(_row(name, f"{d.a} − {d.b}", d.model, np.array(d.main.values), None, n))
    return rows


def _row(
    name: str,
    features: str,
    model: str,
    scores: np.ndarray[tuple[int], np.dtype[np.float64]],
    reference: float | None,
    n: int,
) -> Row:
    ours = float(scores.mean())
    difference = "" if reference is None else f"{ours - reference:+.3f}"
    return {
        "data": name, "n": n, "features": features, "model": model,
        "reference": reference if reference is not None else "",
        "ours": ours, "interval": half_width(list(scores)), "difference": difference,
    }  # fmt: skip


TABLES = {"churn": churn, "death": death, "order": order}


def main() -> None:
    """Run the table that the command line names."""
    run("main_job", TABLES)


if __name__ == "__main__":
    main()
