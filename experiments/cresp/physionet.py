"""Stochastic-process methods on intensive-care stays: values at unseen (time, parameter), and who dies in hospital."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, ClassVar, cast

import numpy as np
import polars as pl
import torch
from torch import Tensor

import eventvec as ev
from eventvec.encoders.at_places import CrossAttention
from eventvec.encoders.heads import GatedHead, PlainHead
from eventvec.encoders.points import Numbers, PointEncoder, points_of
from eventvec.encoders.sets import SetEncoder
from eventvec.evaluation.resampled_scores import replicates
from eventvec.methods import CNP, CReSP, TargetedCReSP, covariate_use
from eventvec.predicting.grids import encode_targets
from eventvec.statistics.resampling import resample
from eventvec.tables.prediction_places import read_places
from eventvec.views import ShuffledParts
from eventvec.views.draws import integers, shuffled_order
from experiments.command_line import Row, print_epoch
from experiments.cresp import icu_stays
from experiments.cresp.icu_stays import DEATH, FEWEST, KEY, Array, Task
from experiments.jobs import side_by_side

SEED = 0
STAYS, SMALL_STAYS = (3000, 700, 1500), (70, 40, 40)
UNTRAINED = "untrained"
REGULARISATION = (0.0001, 0.001, 0.01, 0.1)


@dataclass(frozen=True)
class Settings:
    """The sizes and the training of a method.

    Args:
        covariates: The columns of the covariate.
        dim: The size of the embedding.
        layers: The blocks of self-attention of methods that have it.
        head: The network on context and x* of neural processes.
        targets: The targets of each row of a neural process, and of targeted CReSP.
        length: The events of a training view with its targets, or of both views of untargeted methods.
        later: The share of training rows whose targets are later than the context.
        epochs: The passes over the training stays.
        lr: The highest learning rate.
        warmup: The steps in which the learning rate rises.
    """

    covariates: tuple[str, ...] = ("hours", "parameter")
    dim: int = 128
    layers: int = 2
    head: PlainHead | GatedHead = field(default_factory=PlainHead)
    targets: tuple[int, int] = (16, 4)
    length: int = 144
    later: float = 0.5
    epochs: int = 8
    lr: float = 0.002
    warmup: int = 100


SETTINGS = {
    "targeted": Settings(), "acnp": Settings(head=GatedHead()), "cresp": Settings(),
    "acnp_cross": Settings(lr=0.005, epochs=32), "cnp": Settings(head=GatedHead(), lr=0.005, epochs=40),
    "fclr": Settings(epochs=16), UNTRAINED: Settings(),
}  # fmt: skip
"""The settings of each method, those first that take longest."""


@dataclass(frozen=True)
class CutStays:
    """Views of stays for targeted methods: targets first, and then a context, both in random order.

    For a share of the rows, the targets are later than the context in the order of events: a random number of a row's
    last events may be targets, and the others the context. For all other rows, both are random events.

    Args:
        length: The most events of a view.
        targets: The events of a view that are targets.
        later: The share of rows whose targets are later.
    """

    length: int
    targets: int
    later: float
    count: ClassVar[int] = 1

    def usable(self, x: ev.Sequences) -> Tensor:
        """Return `(n,)` bool: the rows with enough events."""
        return x.lengths >= self.targets + FEWEST

    def __call__(self, batch: ev.Sequences, rng: torch.Generator) -> tuple[ev.Sequences, Tensor]:
        """Return `(views, source)`, one view of each row."""
        row, n = batch.rows(), batch.lengths
        later = torch.rand(len(batch), generator=rng, device=batch.device) < self.later
        late = self.targets + integers(n - self.targets - FEWEST + 1, rng)  # how many events may be targets
        random = shuffled_order(row, rng)
        eligible = (batch.steps() >= (n - late)[row])[random] | ~later[row]
        order = random[(2 * row + (~eligible).long()).argsort(stable=True)]
        first = torch.where(later, late, self.targets)[row]  # the place of the first context event
        step = batch.steps()
        selected = (step < self.targets) | ((step >= first) & (step < first + self.length - self.targets))
        lengths = torch.zeros_like(n).index_add(0, row, selected.long())
        return batch.take(batch.flat()[order[selected]], lengths), torch.arange(len(batch), device=batch.device)


@dataclass(frozen=True)
class Result:
    """What a trained method gives: predictions for each task, embeddings of all stays, and whether x* is used."""

    moments: dict[str, Array]
    embedding: Array
    use: ev.methods.CovariateUse | None


def physionet(small: bool) -> list[Row]:
    """Error of held-out values of intensive-care stays, use of x*, and AUROC of death (3,000 training stays)."""
    events, stays = _load(small)
    tasks = [make(events, SEED) for make in (icu_stays.interpolation, icu_stays.forecasting)]
    chosen = {name: replace(each, epochs=1, dim=32, length=32) if small else each for name, each in SETTINGS.items()}
    jobs = [(name, settings, small) for name, settings in chosen.items()]
    results = dict(zip(SETTINGS, side_by_side(trained, jobs), strict=True))
    rows = [row for task in tasks for row in _forecasts(task, results)]
    rows += _use(results["targeted"].use)
    features = {name: result.embedding for name, result in results.items()}
    rows += _deaths(stays, {"aggregates": icu_stays.aggregates(events), **features})
    return with_training(rows, chosen)


def with_training(rows: list[Row], settings: Mapping[str, Settings]) -> list[Row]:
    """Return rows with the epochs and the rate that their model was trained with: 0 epochs without training."""
    about = {name: {"epochs": each.epochs, "rate": each.lr} for name, each in settings.items() if name != UNTRAINED}
    about[UNTRAINED] = {"epochs": 0, "rate": ""}
    return [{**row, **about.get(row["model"], {"epochs": "", "rate": ""})} for row in rows]


@cache
def _load(small: bool) -> tuple[pl.DataFrame, pl.DataFrame]:
    return icu_stays.load(*(SMALL_STAYS if small else STAYS), SEED)


def trained(name: str, settings: Settings, small: bool) -> Result:
    """Return the predictions and embeddings of a method that was trained on the training stays, or was not trained."""
    events, _ = _load(small)
    data = icu_stays.dataset(events.filter(part="training").drop("part"))
    method = build(name, data.schema, settings)
    if name != UNTRAINED:
        ev.fit(
            method, data, epochs=settings.epochs, batch_size=64, lr=settings.lr, warmup=settings.warmup, clip=1.0,
            validation=0.0, seed=SEED, progress=print_epoch,
        )  # fmt: skip
    moments = {}
    if isinstance(method, CNP):
        for task in (make(events, SEED) for make in (icu_stays.interpolation, icu_stays.forecasting)):
            moments[task.name] = predicted(method, task.part("test"), data.schema)
    use = None
    if isinstance(method, TargetedCReSP):
        unseen = icu_stays.dataset(events.filter(part="test").drop("part"), data.schema)
        use = covariate_use(method, unseen.sequences, torch.Generator().manual_seed(SEED))
    every = icu_stays.dataset(events.drop("part"), data.schema)
    embedding = ev.encode(method.encoder, every.sequences, events_per_batch=8192).numpy()
    return Result(moments, embedding, use)


def build(name: str, schema: ev.schema.Schema, settings: Settings) -> Any:
    """Return a method by its name, before training."""
    torch.manual_seed(SEED)
    numbers = Numbers(1, width=settings.dim) if name == "targeted" else None
    points = PointEncoder(numbers, schema=schema, covariates=settings.covariates, observations=("value",))
    layers = 0 if name in ("cnp", "fclr", "acnp_cross") else settings.layers
    encoder = (CrossAttention if name == "acnp_cross" else SetEncoder)(points, settings.dim, layers)
    if name in ("cresp", "fclr", UNTRAINED):
        return CReSP(encoder, ShuffledParts(2, longest=settings.length // 2))
    targets = settings.targets[name == "targeted"]
    views = cast(ShuffledParts, CutStays(settings.length, targets, settings.later))
    if name == "targeted":
        return TargetedCReSP(encoder, views, targets=targets)
    return CNP(encoder, views, settings.head, targets=targets)


def predicted(method: CNP, task: Task, schema: ev.schema.Schema) -> Array:
    """Return `(targets, 2)` the mean and the standard deviation that a neural process predicts for each target."""
    data = icu_stays.dataset(task.context.drop("part"), schema)
    covariates = points_of(method.encoder).covariates
    at = task.targets.drop("part", "value")
    places = read_places(data, at, covariates, None)
    return encode_targets(method, data.sequences, places.rows, places.values).numpy()


def _forecasts(task: Task, results: dict[str, Result]) -> list[Row]:
    """Return error, negative log-likelihood and coverage of baselines and neural processes on the test stays."""
    validation, test = task.part("validation"), task.part("test")
    truth = test.targets["value"].to_numpy().astype(float)
    stay = test.targets[KEY].rank("dense").to_numpy() - 1
    weights = resample(int(stay.max()) + 1, seed=SEED).astype(float)
    chosen = icu_stays.baselines(validation, validation)
    predictions = {}
    for name, mean in icu_stays.baselines(test, validation).items():
        predictions[name] = mean, _deviations(validation, chosen[name], test)
    for name, result in results.items():
        if task.name in result.moments:
            moments = result.moments[task.name].astype(float)
            predictions[name] = moments[:, 0], moments[:, 1]
    rows: list[Row] = []
    for name, (mean, deviation) in predictions.items():
        squared = np.square(truth - mean)
        rows.append(_row(task.name, name, "rmse", *_mean(squared, stay, weights, np.sqrt)))
        nll = np.square((truth - mean) / deviation) / 2 + np.log(deviation) + np.log(2 * np.pi) / 2
        rows.append(_row(task.name, name, "nll", *_mean(nll, stay, weights)))
        inside = (np.abs(truth - mean) <= 1.96 * deviation).astype(float)
        rows.append(_row(task.name, name, "coverage", *_mean(inside, stay, weights)))
    best = next(mean for name, (mean, _) in predictions.items() if name.startswith("smoothed"))
    for name, (mean, _) in predictions.items():
        if name in results:
            gain = np.square(truth - mean) - np.square(truth - best)
            rows.append(_row(task.name, name, "squared error − smoothed", *_mean(gain, stay, weights)))
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


def _use(use: ev.methods.CovariateUse | None) -> list[Row]:
    """Return the loss of targeted CReSP on test stays, beside that with permuted x*."""
    assert use is not None
    print(use, file=sys.stderr)
    measures = {"loss": use.loss, "loss, x* permuted": use.permuted, "floor": use.floor, "chance": use.chance}
    return [_row("use of x*", "targeted", measure, value) for measure, value in measures.items()]


def _deaths(stays: pl.DataFrame, features: dict[str, Array]) -> list[Row]:
    """Return the AUROC of death on test stays; logistic regression's penalty is chosen on validation stays."""
    part, death = stays["part"].to_numpy(), stays[DEATH].to_numpy()
    test = part == "test"
    weights = resample(int(test.sum()), seed=SEED)
    models = [(name, model) for name in features for model in (_logistic, _boosting)]
    rows = []
    for name, model in models:
        prediction = model(features[name], death, part)
        score, *interval = _auroc(death[test], prediction, weights)
        rows.append(_row("death", name, f"auroc, {model.__name__[1:]}", score, *interval))
    return rows


def _auroc(truth: Array, prediction: Array, weights: Array) -> tuple[float, float, float]:
    values = replicates("binary", truth, prediction, np.vstack([np.ones_like(weights[:1]), weights]))[:, 0]
    low, high = np.nanquantile(values[1:], (0.025, 0.975))
    return float(values[0]), float(low), float(high)


def _logistic(features: Array, death: Array, part: Array) -> Array:
    """Return the predictions of logistic regression for test stays."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import roc_auc_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    training, validation, test = (part == name for name in ("training", "validation", "test"))
    fitted = [
        make_pipeline(StandardScaler(), LogisticRegression(C=c, max_iter=2000)).fit(features[training], death[training])
        for c in REGULARISATION
    ]
    best = max(
        fitted, key=lambda model: roc_auc_score(death[validation], model.decision_function(features[validation]))
    )
    return np.asarray(best.decision_function(features[test]))


def _boosting(features: Array, death: Array, part: Array) -> Array:
    """Return the predictions of LightGBM for test stays."""
    from lightgbm import LGBMClassifier

    training, test = part == "training", part == "test"
    model = LGBMClassifier(
        n_estimators=300, learning_rate=0.03, max_depth=6, subsample=0.5, subsample_freq=1, colsample_bytree=0.5,
        random_state=SEED, n_jobs=1, verbose=-1,
    )  # fmt: skip
    return np.asarray(model.fit(features[training], death[training]).predict_proba(features[test]))[:, 1]


def _row(task: str, model: str, measure: str, value: float, low: float | None = None, high: float | None = None) -> Row:
    interval = "" if low is None or high is None else f"{low:.3f} to {high:.3f}"
    return {"task": task, "model": model, "measure": measure, "value": value, "interval": interval}
