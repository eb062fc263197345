"""Stochastic-process methods on intensive-care stays: values at unseen (time, parameter), and who dies in hospital.

All methods are trained for equally many epochs, at each of two rates.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from eventvec.learners.resampled_scores import replicates
from eventvec.statistics.resampling import resample
from experiments.command_line import Row
from experiments.cresp import icu_deaths, icu_stays
from experiments.cresp.icu_networks import (
    EPOCHS,
    SEED,
    SETTINGS,
    UNTRAINED,
    Arm,
    Outcome,
    load,
    outcome,
    tasks,
    values_errors,
)
from experiments.cresp.icu_stays import DEATH, KEY, Array, Task
from experiments.jobs import side_by_side

RATES = (0.002, 0.005)
BASELINE = "smoothed"
"""How the name of the baseline begins with which neural processes are compared."""


def physionet(small: bool, keep: Path) -> list[Row]:
    """Error of held-out values of intensive-care stays, use of x*, and AUROC of death (3,000 training stays)."""
    events, stays = load(small)
    each = arms(small)
    outcomes = dict(zip(each, side_by_side(outcome, [(arm, small, keep) for arm in each]), strict=True))
    rows = [row for task in tasks(small) for row in _forecasts(task, outcomes)]
    rows += [row for arm, result in outcomes.items() if result.use for row in _use(arm, result)]
    aggregates, auroc = icu_deaths.predictions(icu_stays.aggregates(events), stays, SEED)
    rows += _deaths(stays, "aggregates", aggregates, auroc, {})
    untrained = next(run for arm, run in outcomes.items() if arm.name == UNTRAINED)
    references = {"aggregates": aggregates["logistic"], UNTRAINED: untrained.deaths["logistic"]}
    for arm, result in outcomes.items():
        others = {name: values for name, values in references.items() if name != arm.name}
        rows += _deaths(stays, arm, result.deaths, result.validation["death auroc"], others)
    return rows


def arms(small: bool) -> list[Arm]:
    """Return the networks of the study, those first that take longest; the small one has one rate."""
    trained = [name for name in SETTINGS if name != UNTRAINED]
    rates, epochs = (RATES[:1], 1) if small else (RATES, EPOCHS)
    return [Arm(name, lr, epochs) for name in trained for lr in rates] + [Arm(UNTRAINED, 0.0, 0)]


def _forecasts(task: Task, outcomes: Mapping[Arm, Outcome]) -> list[Row]:
    """Return error, negative log-likelihood and coverage of baselines and neural processes on the test stays."""
    validation, test = task.part("validation"), task.part("test")
    truth = test.targets["value"].to_numpy().astype(float)
    stay = test.targets[KEY].rank("dense").to_numpy() - 1
    weights = resample(int(stay.max()) + 1, seed=SEED).astype(float)
    chosen = icu_stays.baselines(validation, validation)
    predictions: dict[str | Arm, Array] = {
        name: np.stack([mean, _deviations(validation, chosen[name], test)], 1)
        for name, mean in icu_stays.baselines(test, validation).items()
    }
    best = next(moments[:, 0] for name, moments in predictions.items() if str(name).startswith(BASELINE))
    predictions |= {arm: run.moments[task.name] for arm, run in outcomes.items() if task.name in run.moments}
    rows: list[Row] = []
    for model, moments in predictions.items():
        errors = values_errors(test, moments)
        seen = outcomes[model].validation if isinstance(model, Arm) else {}
        squared, nll = (seen.get(f"{task.name} {name}") for name in errors)
        rmse = None if squared is None else float(np.sqrt(squared))
        rows.append(_row(task.name, model, "rmse", *_mean(errors["squared error"], stay, weights, np.sqrt), rmse))
        rows.append(_row(task.name, model, "nll", *_mean(errors["nll"], stay, weights), nll))
        inside = (np.abs(truth - moments[:, 0]) <= 1.96 * moments[:, 1]).astype(float)
        rows.append(_row(task.name, model, "coverage", *_mean(inside, stay, weights)))
        if isinstance(model, Arm):
            gain = errors["squared error"] - np.square(truth - best)
            rows.append(_row(task.name, model, "squared error − smoothed", *_mean(gain, stay, weights)))
    return rows


def _deviations(validation: Task, prediction: Array, test: Task) -> Array:
    """Return the deviation of a baseline's residuals for each test target: that of its parameter in validation.

    The variance of a parameter is averaged with the variance of all residuals, which counts as 10 residuals.
    """
    squared = (validation.targets["value"] - pl.Series(prediction)).pow(2)
    overall = float(squared.mean())  # type: ignore[arg-type]
    of_parameter = validation.targets.select("parameter", squared=squared).group_by("parameter")
    variances = of_parameter.agg(variance=(pl.col("squared").sum() + 10 * overall) / (pl.len() + 10))
    joined = test.targets.select("parameter").join(variances, on="parameter", how="left", maintain_order="left")
    return joined["variance"].fill_null(overall).sqrt().to_numpy()


def _mean(
    values: Array, stay: Array, weights: Array, transform: Callable[[Any], Any] = lambda value: value
) -> tuple[float, float, float]:
    """Return a transformed mean over targets, and its 95 % interval by a bootstrap over stays."""
    sums, counts = np.bincount(stay, values), np.bincount(stay)
    resampled = transform((weights @ sums) / (weights @ counts))
    low, high = np.quantile(resampled, (0.025, 0.975))
    return float(transform(values.mean())), float(low), float(high)


def _use(arm: Arm, result: Outcome) -> list[Row]:
    """Return the loss of targeted CReSP on test stays, beside that with permuted x*."""
    use = result.use
    assert use is not None
    measures = {"loss": use.loss, "loss, x* permuted": use.permuted, "floor": use.floor, "chance": use.chance}
    return [_row("use of x*", arm, measure, value) for measure, value in measures.items()]


def _deaths(
    stays: pl.DataFrame, model: str | Arm, predictions: Mapping[str, Array], validation: float,
    references: Mapping[str, Array],
) -> list[Row]:  # fmt: skip
    """Return the AUROC of death on test stays, and the difference of logistic regression to that on other features.

    The AUROC of logistic regression on validation stays is beside it.
    """
    truth = stays.filter(part="test")[DEATH].to_numpy()
    weights = resample(len(truth), seed=SEED)
    aurocs = {name: _aurocs(truth, values, weights) for name, values in predictions.items()}
    rows = [
        _row("death", model, f"auroc, {name}", *_ends(values), validation if name == "logistic" else None)
        for name, values in aurocs.items()
    ]
    return rows + [
        _row("death", model, f"auroc − {name}", *_ends(aurocs["logistic"] - _aurocs(truth, values, weights)))
        for name, values in references.items()
    ]


def _aurocs(truth: Array, prediction: Array, weights: Array) -> Array:
    """Return `(1 + replicates,)` the AUROC on the test stays, and on resampled ones."""
    return replicates("binary", truth, prediction, np.vstack([np.ones_like(weights[:1]), weights]))[:, 0]


def _ends(values: Array) -> tuple[float, float, float]:
    """Return the first value, and the ends of the 95 % interval of the others."""
    low, high = np.nanquantile(values[1:], (0.025, 0.975))
    return float(values[0]), float(low), float(high)


def _row(
    task: str, model: str | Arm, measure: str, value: float, low: float | None = None, high: float | None = None,
    validation: float | None = None,
) -> Row:  # fmt: skip
    """Return a row with the epochs and the rate of a network, and the same measure on validation stays."""
    name, epochs, rate = (model.name, model.epochs, model.lr or "") if isinstance(model, Arm) else (model, "", "")
    return {
        "task": task, "model": name, "epochs": epochs, "rate": rate, "measure": measure, "value": value,
        "interval": "" if low is None or high is None else f"{low:.3f} to {high:.3f}",
        "validation": "" if validation is None else validation,
    }  # fmt: skip
