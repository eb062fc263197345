"""Whether each constant of the predictor's rule is well chosen: the rule without it, with others, and beside LightGBM.

The rows are halves for choosing and the training parts of published protocols, so no test row is read. Each row is
predicted by models that were trained on other entities, with weights from other entities; where labels have times of a
calendar, the latest fifth of the rows is predicted from earlier ones, as in `learners.held_out_scores`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import polars as pl
import torch

import eventvec as ev
from eventvec import files
from eventvec.blocks.matrices import matrix
from eventvec.blocks.rows import Features, Rows
from eventvec.blocks.static_values import STATIC, of_static
from eventvec.blocks.untrained import blocks_for, of_predictor
from eventvec.embedding import with_moment
from eventvec.errors import ConfigError
from eventvec.learners import prepared, stacking
from eventvec.learners.fitted import probabilities
from eventvec.learners.held_out_scores import SHARE, latest_rows
from eventvec.learners.metrics import Task, measure
from eventvec.learners.prepared import LINEAR, TREES, Prepared, surprise
from eventvec.learners.single_learners import Samples, decided, lightgbm
from eventvec.learners.stacking import Cell, assembled, crossed, logits, out_of_parts, parts_of
from eventvec.sequences import Array
from eventvec.training.head_training import ALL, HANDCRAFTED, learned_sets
from experiments.command_line import Row
from experiments.jobs import side_by_side
from experiments.protocols.problems import PROBLEMS
from experiments.worth.halves import LABELS, problem

PROTOCOLS = (
    "undecided-accepted", "undecided-cancelled", "undecided-declined",
    "races-top3-rolling", "races-dnf-rolling", "races-position-rolling", "applications-declined", "devices",
)  # fmt: skip
"""Protocols of `experiments.protocols`, of which the rows to train on are read."""
CARRIERS = {"panel-DL": "DL", "panel-UA": "UA"}
"""Airlines; the label is whether an aircraft is idle in the two weeks after the first of a month."""
DATA = (*LABELS, *PROTOCOLS, *CARRIERS)
MOST, SMALL = 30_000, 500
"""The largest number of rows, about, by a sample of entities; the latter in the small mode."""
RULE, BOOSTED, MIXED = "rule", "LightGBM, two seeds", "rule, .3 of it LightGBM"
SEEDS, SHARE_OF_BOOSTED = (42, 43), 0.3
OF_CLASSES = "AUROC, log loss"
MEASURES: Mapping[Task, str] = {"binary": OF_CLASSES, "multiclass": "accuracy, log loss", "numeric": "−MAE, MSE"}
OF_TREES: Mapping[str, Mapping[str, Any]] = {
    "rounds 150": {"ROUNDS": 150, "CLASS_ROUNDS": 75}, "rounds 600": {"ROUNDS": 600, "CLASS_ROUNDS": 300},
    "fraction .1": {"FRACTION": 0.1}, "fraction .5": {"FRACTION": 0.5}, "L2 1": {"L2": 1.0}, "depth 4": {"DEPTH": 4},
    "common values kept": {"COMMON": 1.0},
}  # fmt: skip
OF_LINEAR: Mapping[str, Mapping[str, Any]] = {
    "components 64": {"COMPONENTS": 64}, "farthest 10": {"FARTHEST": 10.0},
    "penalties 1e-4 to .1": {"PENALTIES": (1e-4, 1e-3, 1e-2, 1e-1)}, "penalty .01 alone": {"PENALTIES": (1e-2,)},
}  # fmt: skip
"""Settings by name, each with the constants of `learners` that it changes.

Those of trees change the trees of the two sets with the largest prior shares, to save time.
"""
PULLS = (1.0, 100.0, 1000.0)
Labelled = tuple[ev.Dataset, Array, Task]
"""Rows, and their labels: codes from 0, or numbers."""


@dataclass(frozen=True, eq=False)
class Study:
    """What the settings are compared on.

    Args:
        name: A name of `DATA`.
        data: The rows.
        job: Their labels and entities, without features.
        parts: `(n,)` the part of each row.
        late: `(n,)` bool, the latest fifth of the rows; None if all rows are scored.
        sets: The blocks of each set of features.
        prior: The prior share of each model.
    """

    name: str
    data: ev.Dataset
    job: Samples
    parts: Array
    late: Array | None
    sets: Mapping[str, tuple[str, ...]]
    prior: Mapping[Cell, float]

    @cached_property
    def blocks(self) -> dict[str, Features]:
        """The features of each family, which only trainings need."""
        rows, schema = Rows(self.data), self.data.schema
        blocks = {name: of_predictor(name, rows).features(rows) for name in blocks_for(schema)}
        static = of_static(schema, list(self.data.sequences.static))
        return blocks if static is None else blocks | {STATIC: static.features(rows)}

    def features(self, name: str) -> Samples:
        """Return the job with a set of features."""
        return replace(self.job, x=matrix(self.blocks, self.sets[name])[0])

    @property
    def learned(self) -> Array:
        """`(n,)` bool, the rows from which is learned."""
        return np.full(len(self.parts), True) if self.late is None else ~self.late

    @property
    def scored(self) -> Array:
        """`(n,)` bool, the rows that are scored."""
        return np.full(len(self.parts), True) if self.late is None else self.late

    def together(self, predictions: Mapping[Cell, Array], prior: Mapping[Cell, float] | None = None) -> Array:
        """Return the predictions of the scored rows by all models together."""
        return crossed(self.job, predictions, prior or self.prior, self.parts, self.learned, self.scored)


def rule_rows(names: Sequence[str], keep: Path, small: bool) -> list[Row]:
    """Return a row for each data set and setting, and for each setting its mean over the data sets with classes."""
    keep.mkdir(parents=True, exist_ok=True)
    tables: list[list[Row]] = side_by_side(rows_of, [(name, keep, small) for name in names])
    rows = [row for table in tables for row in table]
    return [*rows, *means(rows)]


def rows_of(name: str, keep: Path, small: bool) -> list[Row]:
    """Return a row for each setting on a data set: score, loss, and how much higher they are than those of the rule."""
    study = load(name, small)
    task, y, rows = study.job.task, study.job.y[study.scored], list[Row]()
    for setting, predicted in settings(study, keep, small):
        main, second = measure(task, y, decided(task, predicted))
        score, loss = -second if task == "numeric" else main, float(surprise(task, logits(task, predicted), y).mean())
        first = rows[0] if rows else {"score": score, "loss": loss}
        rows.append(
            {"data": name, "n": len(y), "measures": MEASURES[task], "setting": setting,
             "score": score, "difference": score - first["score"], "up": None,
             "loss": loss, "difference of loss": loss - first["loss"]}
        )  # fmt: skip
    return rows


def means(rows: Sequence[Row]) -> list[Row]:
    """Return mean differences of each setting over the `n` data sets of two classes with it; `up` of them rise."""
    of_classes = [row for row in rows if row["measures"] == OF_CLASSES]
    result = []
    for setting in dict.fromkeys(row["setting"] for row in of_classes):
        each = [row for row in of_classes if row["setting"] == setting]
        mean = {name: float(np.mean([row[name] for row in each])) for name in ("difference", "difference of loss")}
        mean["up"] = sum(row["difference"] > 0 for row in each)
        about = {"data": "mean", "n": len(each), "measures": OF_CLASSES, "setting": setting}
        result.append(dict.fromkeys(rows[0]) | about | mean)
    return result


def settings(study: Study, keep: Path, small: bool) -> Iterator[tuple[str, Array]]:
    """Yield each setting with the predictions of the scored rows, those of the rule first.

    No constants are changed where there are several classes, because trainings take long.
    """
    task, cells = study.job.task, list(study.prior)

    def kept(setting: str, compute: Callable[[], Mapping[Cell, Array]]) -> dict[Cell, Array]:
        name = "-".join([study.name, *setting.replace(",", "").split(), *["small"] * small])
        return _kept(keep / f"rule-{name}.npz", compute)

    def changed(setting: str, changes: Mapping[str, Any], changing: Sequence[Cell]) -> dict[Cell, Array]:
        return kept(setting, lambda: with_changes(study, changing, changes))

    rule = changed(RULE, {}, cells)
    base = study.together(rule)
    boosted = kept(BOOSTED, lambda: {(HANDCRAFTED, BOOSTED): _boosted(study)})[HANDCRAFTED, BOOSTED][study.scored]
    mixed = (1 - SHARE_OF_BOOSTED) * logits(task, base) + SHARE_OF_BOOSTED * logits(task, boosted)
    yield from ((RULE, base), (BOOSTED, boosted), (MIXED, probabilities(task, mixed)))
    if with_responses := [cell for cell in cells if "responses" in study.sets[cell[0]]]:
        sets = {name: tuple(part for part in parts if part != "responses") for name, parts in study.sets.items()}
        without = kept("without responses", lambda: with_changes(replace(study, sets=sets), with_responses, {}))
        yield "without responses", study.together(rule | without)
    trees = [cell for cell in cells if cell[1] == TREES and cell[0].startswith((HANDCRAFTED, ALL))]
    linear = [cell for cell in cells if cell[1] == LINEAR]
    for all_changes, changing in ((OF_TREES, trees), (OF_LINEAR, linear)) if task != "multiclass" else ():
        for setting, changes in list(all_changes.items())[: 1 if small else None]:
            yield setting, study.together(rule | changed(setting, changes, changing))
    for pull in PULLS:
        with patch.object(stacking, "PULL", pull):
            yield f"pull {pull:g}", study.together(rule)
    yield "equal prior shares", study.together(rule, dict.fromkeys(rule, 1.0))
    yield "hand-crafted alone", study.together({cell: rule[cell] for cell in cells if cell[0].startswith(HANDCRAFTED)})
    for cell in cells:
        yield f"without {cell[1]} on {cell[0]}", study.together({each: rule[each] for each in cells if each != cell})
    if task == "binary" and study.late is not None:
        yield from shifted(study, rule)


def with_changes(study: Study, cells: Sequence[Cell], changes: Mapping[str, Any]) -> dict[Cell, Array]:
    """Return the predictions of all rows, out of parts, by models that are trained with other constants.

    Args:
        study: The rows.
        cells: The models.
        changes: Constants of `learners.prepared` by name, which have their values again afterwards.
    """
    of_sets = {name: Prepared(study.features(name)) for name in dict.fromkeys(name for name, _ in cells)}
    with ExitStack() as patched:
        for name, value in changes.items():
            patched.enter_context(patch.object(prepared, name, value))
        return out_of_parts(of_sets, cells, study.parts, study.learned)


def _boosted(study: Study) -> Array:
    """Return the mean predictions, out of parts, of boosted trees with two seeds on hand-crafted features."""
    job, of_parts = study.features(HANDCRAFTED), []
    for part in range(study.parts.max() + 1):
        train, test = np.flatnonzero(study.learned & (study.parts != part)), np.flatnonzero(study.parts == part)
        of_parts.append(np.mean([lightgbm(replace(job.part(train, test), seed=seed)) for seed in SEEDS], axis=0))
    return assembled(of_parts, study.parts)


def shifted(study: Study, rule: Mapping[Cell, Array]) -> Iterator[tuple[str, Array]]:
    """Yield the rule without what it adds to its logits, and with numbers that follow from other earlier rows."""
    from scipy.optimize import minimize_scalar  # type: ignore[import-untyped]

    moments, y, every = study.data.moments, study.job.y, np.full(len(study.parts), True)
    assert moments is not None
    weigh = stacking.weigh
    with patch.object(stacking, "weigh", lambda *given: (weigh(*given)[0], 0.0)):
        scores = logits("binary", crossed(study.job, rule, study.prior, study.parts, study.learned, every))
    yield "no offset", probabilities("binary", scores[study.scored])
    cut = np.sort(moments[study.learned])[int(study.learned.sum() * (1 - SHARE))]
    recent = study.learned & (moments >= cut)

    def cost(rows: Array, pull: float, offset: float) -> float:
        return float(surprise("binary", scores[rows] + offset, y[rows]).sum() + pull * offset**2)

    for name, rows, pull in (
        ("all earlier rows", study.learned, 0.0),
        ("their latest fifth", recent, 0.0),
        ("their latest fifth, pulled", recent, stacking.PULL),
    ):
        shift = minimize_scalar(partial(cost, rows, pull)).x
        yield f"offset of {name}", probabilities("binary", scores[study.scored] + shift)


def _kept(file: Path, compute: Callable[[], Mapping[Cell, Array]]) -> dict[Cell, Array]:
    """Return the predictions of models, from a file if it exists."""
    if not file.exists():
        computed = {"|".join(cell): each for cell, each in compute().items()}
        with files.whole(file) as draft, draft.open("wb") as written:
            np.savez(written, **computed)  # type: ignore[arg-type]
    with np.load(file) as stored:
        return {(name.split("|")[0], name.split("|")[1]): stored[name] for name in stored.files}


def load(name: str, small: bool) -> Study:
    """Return a data set of `DATA` with the models of the rule."""
    data, y, task = _sampled(*_whole(name, small), SMALL if small else MOST)
    entities = _entities(data)
    groups = None if len(np.unique(entities)) == len(y) else entities
    classes = 0 if task == "numeric" else int(y.max()) + 1
    job = Samples(task, classes, np.empty((len(y), 0)), y, np.empty((0, 0)), 0, num_threads=1, groups=groups)
    if (parts := parts_of(job)) is None:
        raise ConfigError(f"{name} has too few rows for parts; leave out --small or name another data set")
    static = [] if of_static(data.schema, list(data.sequences.static)) is None else [STATIC]
    sets, prior = learned_sets(blocks_for(data.schema) + static, task, "mae" if task == "numeric" else None)
    latest = latest_rows(job, data.moments if data.schema.clock else None)
    late, parts = (None, parts) if latest is None else latest
    return Study(name, data, job, parts, late, sets, prior)


def _whole(name: str, small: bool) -> Labelled:
    """Return all rows of a data set of `DATA`."""
    if name in CARRIERS:
        return _panel(CARRIERS[name])
    if name in PROTOCOLS:
        protocol = PROBLEMS[name]()
        return with_moment(protocol.train), protocol.y, protocol.task
    half = problem(name, "choose", small)
    y = np.unique(half.y, return_inverse=True)[1]
    return with_moment(half.data[torch.from_numpy(half.rows)]), y, "binary"


def _panel(carrier: str) -> Labelled:
    """Return whether aircraft are idle from the first of each month on; the last month with labels is left out."""
    flights = ev.datasets.flights_frames()[0].filter(pl.col("carrier") == carrier)
    whole = ev.read(flights, key="tailnum", time="time")
    labels = pl.DataFrame(ev.future_labels(whole, every="1mo", horizon="14d", name="idle"))
    past = labels.filter(pl.col("time") < labels["time"].max())
    data = ev.read(flights, key="tailnum", time="time", cutoffs=past, cutoff_column="time")
    assert data.moments is not None
    times = past.select("tailnum", pl.col("time").dt.epoch("us"), "idle").rows()
    idle = {(key, time): value for key, time, value in times}
    y = np.array([idle[row] for row in zip(data.keys.to_pylist(), data.moments.tolist(), strict=True)])
    return with_moment(data), y.astype(int), "binary"


def _entities(data: ev.Dataset) -> Array:
    """Return `(n,)` the code of the entity of each row."""
    return np.unique([str(key) for key in data.keys.to_pylist()], return_inverse=True)[1]


def _sampled(data: ev.Dataset, y: Array, task: Task, most: int) -> Labelled:
    """Return the rows of so many entities at random that about `most` are left."""
    if len(y) <= most:
        return data, y, task
    entities = _entities(data)
    count = int(entities.max()) + 1
    chosen = np.random.default_rng(0).permutation(count)[: int(count * most / len(y))]
    kept = np.flatnonzero(np.isin(entities, chosen))
    return data[torch.from_numpy(kept)], y[kept], task
