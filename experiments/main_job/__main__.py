"""The main job on real data: churn of customers, deaths in intensive care, and the order of engines' histories."""

from __future__ import annotations

import sys

import numpy as np
import polars as pl
import torch

import eventvec as ev
from eventvec.evaluation.result import TOGETHER
from eventvec.learners.metrics import measure
from eventvec.learners.resampled_scores import replicates
from eventvec.sequences import Array
from eventvec.statistics import Estimate, Scores
from eventvec.statistics.resampling import resample
from eventvec.views.sizes import batch_size, slice_bounds
from experiments import data as datasets
from experiments.command_line import Row, print_epoch, run

SEED, FEWEST_FLIGHTS = 0, 10
Reference = dict[tuple[str, str], float]


def churn(small: bool) -> list[Row]:
    """online_retail: which customers do not come back (AUROC, 30 epochs)."""
    data, labels = datasets.online_retail()
    reference = {
        ("embedding", "logistic_regression"): 0.742, ("embedding", "lightgbm"): 0.725,
        ("aggregates", "logistic_regression"): 0.711, ("aggregates", "lightgbm"): 0.733,
        ("both", "logistic_regression"): 0.718, ("both", "lightgbm"): 0.729,
    }  # fmt: skip
    name = "online_retail, churn"
    return _coles(name, data[:80] if small else data, labels, "churn", 30, reference, small)


def death(small: bool) -> list[Row]:
    """physionet2012: who dies in hospital, trained on sets a, b and c, tested on set a (AUROC, 10 epochs)."""
    data, labels = datasets.physionet2012("a" if small else "abc")
    reference = {
        ("embedding", "logistic_regression"): 0.809, ("embedding", "lightgbm"): 0.813,
        ("aggregates", "logistic_regression"): 0.829, ("aggregates", "lightgbm"): 0.839,
        ("both", "logistic_regression"): 0.837, ("both", "lightgbm"): 0.843,
    }  # fmt: skip
    name, labels = "physionet2012 a, death", labels.filter(pl.col("set") == "a")
    return _coles(name, data[:80] if small else data, labels, "In-hospital_death", 10, reference, small)


def flights(small: bool) -> list[Row]:
    """Flights in the package: which aircraft were built in 2002 or later (AUROC, 20 epochs)."""
    data, labels = ev.datasets.flights()
    reference = {
        ("embedding", "logistic_regression"): 0.881, ("embedding", "lightgbm"): 0.925,
        ("aggregates", "logistic_regression"): 0.906, ("aggregates", "lightgbm"): 0.929,
        ("both", "logistic_regression"): 0.913, ("both", "lightgbm"): 0.929,
    }  # fmt: skip
    name, labels = "flights, built in 2002 or later", labels.filter(pl.col("flights") >= FEWEST_FLIGHTS)
    return _coles(name, data[:80] if small else data, labels, "built_2002", 20, reference, small)


def order(small: bool) -> list[Row]:
    """cmapss: whether two adjacent windows of an unseen engine are in order (AUROC of OCP, 5 folds, 400 epochs)."""
    data, _ = datasets.cmapss()
    fold = torch.randperm(len(data), generator=torch.Generator().manual_seed(SEED)) % 5
    tables = {"method": {"name": "ocp"}, "encoder": {"events": {"time": []}}}
    weights, values, parts = resample(len(data), seed=SEED), list[float](), list[Array]()
    for left_out in range(2 if small else 5):
        epochs = 1 if small else 400
        trained = ev.fit(data[fold != left_out], method=tables, epochs=epochs, seed=SEED, progress=print_epoch)
        assert isinstance(trained.method, ev.methods.Order)
        unseen = torch.nonzero(fold == left_out)[:, 0]
        label, logits, engine = _ordered(trained.method, data[unseen].sequences)
        values.append(measure("binary", label, logits)[0])
        parts.append(replicates("binary", label, logits, weights[:, unseen.numpy()[engine]])[:, 0])
    scores = Scores(tuple(values), np.stack(parts, 1))
    return [_row("cmapss, order of unseen engines' windows", "logits", "ocp", scores.estimate, 0.9, len(data))]


def _ordered(method: ev.methods.Order, unseen: ev.Sequences) -> tuple[Array, Array, Array]:
    """Return the labels, the method's logits and the engines of 20 pairs of windows of each engine."""
    engine = torch.arange(len(unseen)).repeat(20)
    engine = engine[method.usable(unseen[engine])]
    views, label = method.pairs(unseen[engine], torch.Generator().manual_seed(SEED))
    method.eval()
    with torch.inference_mode():
        return label.numpy(), method.logits(views).numpy(), engine.numpy()


def _coles(
    name: str, data: ev.Dataset, labels: pl.DataFrame, label: str, epochs: int, reference: Reference, small: bool
) -> list[Row]:
    """Train CoLES at width 128 with the defaults before commit f8364ef, evaluate it, and print the verdict."""
    x = data.sequences
    shortest, longest = slice_bounds(x)
    tables = {
        "method": {
            "name": "coles",
            "views": {"name": "random_slices", "shortest": shortest, "longest": longest, "count": 5},
        },
        "encoder": {"dim": 16 if small else 128, "read_out": ["last"]},
        "fit": {"batch_size": batch_size(x), "beside": []},
    }
    trained = ev.fit(data, method=tables, epochs=1 if small else epochs, seed=SEED, progress=print_epoch)
    models = ["logistic_regression"] if small else ["lightgbm", "logistic_regression"]
    also = ["aggregates", "event_count"]
    answer = ev.evaluate(trained.embed(data), data, labels, label, models=models, also=also)
    print(answer, file=sys.stderr)
    n = answer.facts["n"]
    rows = [
        _row(name, r["features"], r["model"], r["score"], reference.get((r["features"], r["model"])), n)
        for r in answer.rows
    ]
    asked_for = [
        d for d in answer.tables["differences"] if d["a"] == "embedding" or d["b"] in TOGETHER.get(d["a"], ())[1:]
    ]
    return rows + [_row(name, f"{d['a']} − {d['b']}", d["model"], d["difference"], None, n) for d in asked_for]


def _row(name: str, features: str, model: str, score: Estimate, reference: float | None, n: int) -> Row:
    return {
        "data": name, "n": n, "features": features, "model": model,
        "reference": "" if reference is None else reference, "ours": score.value, "interval": score.half_width,
        "difference": "" if reference is None else f"{score.value - reference:+.3f}",
    }  # fmt: skip


TABLES = {"churn": churn, "death": death, "flights": flights, "order": order}


def main() -> None:
    """Run the table that the command line names."""
    run("main_job", TABLES)


if __name__ == "__main__":
    main()
