"""`explain`: why a model predicts what it does for each row, and which features drive its predictions in all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from eventvec.answers import Answer
from eventvec.attribution.left_out import fields_of
from eventvec.blocks.matrices import features_of
from eventvec.blocks.rows import STATE, VALUES, Features, Rows
from eventvec.dataset import Dataset
from eventvec.embedding import Progress
from eventvec.errors import ConfigError, DataError, nearest, shown
from eventvec.learners.contributions import raw_scores
from eventvec.learners.fitted import probabilities
from eventvec.models import Model, check_model
from eventvec.models.head import Head, class_place
from eventvec.models.reasons import HeadReasons, Name, Reasons, ranked
from eventvec.options import accepts, at_least
from eventvec.predicting.predictor_answer import explained
from eventvec.predicting.reason_words import reason_words
from eventvec.predicting.rows_to_predict import PredictionSources, identifying, rows_to_predict
from eventvec.sequences import Array
from eventvec.tables.keys import texts
from eventvec.tables.other_data import check_data
from eventvec.tables.read_options import Cuts, TableFormat
from eventvec.tables.sources import Tabular

LINES = 4
"""The number of reasons in a verdict."""
OWN = {
    "class", "prediction", "score", "baseline", "rest", "because", "feature", "column", "block", "value", "contribution"
}  # fmt: skip
"""The columns of tables besides those that identify a row."""


@accepts(Cuts, TableFormat)
def explain(
    model: Model,
    events: Dataset | Tabular | Sequence[Mapping[str, Any]] | None = None,
    *,
    label: str | None = None,
    key: Any = None,
    of: Any = None,
    top: int = 5,
    static: Tabular | None = None,
    labels: Tabular | None = None,
    features: Mapping[str, Tabular] | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Answer:
    """Return why a model predicts what it does: what each named feature adds to a prediction, or takes from it.

    Contributions are in raw scores, and add up to the prediction with the `baseline`, which is that of no row in
    particular: the mean prediction of trees in training, and that of linear models for mean features without codes. The
    raw score of a class of two is its log-odds, that of several classes the logarithm of its probability minus the mean
    of these logarithms over the classes, and that of a number the number itself.

    Boosted trees are explained by exact TreeSHAP, and linear models exactly. Components are traced to codes, and to the
    columns whose patterns convolutions respond to: of linear models exactly, of trees by shares of squared loadings.
    What networks read, and what the caller's learners predict, is the term `rest`; the columns that a network reads are
    ranked by how far the prediction moves if their values are missing, which is a ranking and no sum.

    Relations: `influence` tells which columns and periods drive vectors, and what a score loses without them.

    Args:
        model: A model with heads.
        events: The events, as for `predict`; None to tell what the model is worth, and which features drive it.
        label: The label to explain; by default the only one.
        key: The key of an entity, to explain it alone.
        of: The class to explain; by default the second of two, and of several the one that is predicted.
        top: The number of reasons told of each row, the largest first.
        static: As for `predict`, as are `labels`, `features` and `progress`.
        options: As for `predict`: until, cutoffs, cutoff_column and the formats of tables.

    Returns:
        Without events, what `EventClassifier.explain` returns. With them, the table `reasons`, with a row for each
        reason: its `contribution`, what it is `because` of, the `feature` with its `value` as computed, the `column`
        and the `block`. Further tables are `rows`, with the `prediction` of each row, its raw `score`, the `baseline`
        and the `rest`; `columns` and `blocks`, with the sums of contributions; and `features`, with the mean sizes of
        contributions over all rows. A key or time with the name of another column has `row_` before it.

    Raises:
        ConfigError: If the model has no such head or class, or what needs events is given without them.
        DataError: If the events cannot be used, or there is no such entity.

    Example:
        >>> import eventvec as ev
        >>> model = ev.load("churn-model")  # doctest: +SKIP
        >>> ev.explain(model, "events.parquet", key=4443, until="2013-12-01")  # doctest: +SKIP
    """
    check_model(model)
    at_least("top", top, 1)
    head = _head(model, label)
    if events is None:
        beside = {"key": key, "of": of, "static": static, "labels": labels, "features": features}
        beside |= {name: options.get(name) for name in ("until", "cutoffs", "cutoff_column")}
        if given := next((name for name, value in beside.items() if value is not None), None):
            option = f"{given}= (--{given.replace('_', '-')})"
            raise ConfigError(f"{option} is for rows of events, and none are given; give events, or leave it out")
        return explained(head)
    if not isinstance(events, Dataset):
        options = {**model.info.get("reading", {}), **options}
    if options.pop("inclusive", None) not in (None, head.inclusive):
        raise ConfigError("the heads of the model read events by their own rule; leave out inclusive (--inclusive)")
    cuts = {name: options.pop(name) for name in ("until", "cutoffs", "cutoff_column") if name in options}
    asked = PredictionSources(**cuts, static=static, labels=labels, features=features)
    rows = rows_to_predict(model, events, asked, options)
    check_data(rows.data, model.info.get("data", {}))
    if key is not None:
        rows = _of_entity(rows, key)
    return Explainer(model, label, of, top).answer(rows, progress)


def _head(model: Model, label: str | None) -> Head:
    """Return the head of a label."""
    if not model.heads:
        raise ConfigError(
            f"the model {model.id} has no head, so no prediction of it has reasons; train one: ev.fit with labels= "
            "(eventvec fit --labels); what drives vectors tells ev.influence"
        )
    if label is None and len(model.heads) > 1:
        raise ConfigError(f"the model predicts {', '.join(map(shown, model.heads))}; name one: label= (--label)")
    if label is not None and label not in model.heads:
        raise ConfigError(f"the model does not predict {shown(label)}; {nearest(label, model.heads)}")
    return model.heads[label or next(iter(model.heads))]


def _of_entity(rows: Rows, key: Any) -> Rows:
    """Return the rows of an entity; its key is in no message."""
    places = np.flatnonzero((texts(rows.data.keys) == str(key)).to_numpy())
    if not len(places):
        raise DataError(
            f"none of {len(rows.data):,} rows has the key that was given as key= (--key); write whole numbers in "
            "digits, UUIDs in lower case"
        )
    cutoffs = None if rows.cutoffs is None else rows.cutoffs.take(pa.array(places))
    return replace(rows, data=rows.data[places], cutoffs=cutoffs)


class Explainer:
    """What explains the predictions of a head, kept for further rows; the arguments are those of `explain`."""

    def __init__(self, model: Model, label: str | None = None, of: Any = None, top: int = 5) -> None:
        self.model, self.head, self.top = model, _head(model, label), top
        names = self.head.class_names
        self.place = class_place(names, of, self.head.target.name) if of is not None else 1 if len(names) == 2 else None
        self.reasons = HeadReasons(self.head, model.blocks, model.schema)

    def answer(self, rows: Rows, progress: Progress | None = None) -> Answer:
        """Return the reasons of the predictions of rows."""
        head, n = self.head, len(rows.data)
        identity = pl.DataFrame(identifying(rows)).rename(lambda name: f"row_{name}" if name in OWN else name)
        names, parts, total = list[Name](), list[dict[str, pl.DataFrame]](), np.zeros(1)
        for part, found in self.reasons.of(rows):
            names = found.names
            tables, values = self._tables(found, identity[part])
            parts.append(tables)
            total = total + np.abs(values).sum(0)
            if progress:
                progress(min(part.stop, n), n)
        if not parts:
            raise DataError("there is no row to explain")
        frames = {name: pl.concat([each[name] for each in parts]) for name in parts[0]}
        features = ranked(names, total / n)
        told: dict[str, Any] = {name: frame.to_dicts() for name, frame in frames.items()} | {"features": features}
        if ranking := _ranking(self.reasons, rows):
            told["ranking"] = ranking
        units = {"numeric": "the unit of the label", "multiclass": "log-odds, centred over the classes"}
        unit = units.get(head.target.task, "log-odds")
        notes = [f"Contributions are in {unit}; with the baseline and the rest they add up to the score."]
        if self.reasons.networks:
            instead = "its columns are ranked instead" if ranking else "it is in the rest"
            notes.append(f"What a network reads has no contributions; {instead}.")
        verdict = _of_row(head, told) if n == 1 else _of_rows(head, features, n)
        facts = {"label": head.target.name, "task": head.target.task, "rows": n, "model": self.model.id}
        return Answer(
            verdict, told, (*rows.data.notes, *notes), facts=facts, title=f"Why {head.target.name} is predicted so"
        )

    def _tables(self, found: Reasons, identity: pl.DataFrame) -> tuple[dict[str, pl.DataFrame], Array]:
        """Return the tables of some rows, and `(n, m)` the contributions to the score that is explained."""
        task, of_class, n = self.head.target.task, self.head.class_names, len(found.rest)
        every, scores = np.arange(n), found.scores
        several = scores.shape[1] > 1
        chosen = scores.argmax(1) if several and self.place is None else np.full(n, self.place or 0)
        output, sign = (chosen, 1.0) if several else (np.zeros(n, int), -1.0 if of_class and self.place == 0 else 1.0)
        values, score = sign * found.values[every, :, output], sign * scores[every, output]
        rows = identity.with_columns(
            *([pl.Series("class", of_class)[chosen]] if of_class else []),
            prediction=probabilities(task, scores)[every, output] if several else probabilities(task, score),
            score=score, baseline=sign * found.baseline[output], rest=sign * found.rest[every, output],
        )  # fmt: skip
        best = np.argsort(-np.abs(values), axis=1, kind="stable")[:, : self.top]
        words = reason_words(self.reasons, found, best)
        named = pl.DataFrame(found.names, schema=["feature", "column", "block"], orient="row")
        told = pl.concat([identity[np.repeat(every, best.shape[1])], named[best.ravel()]], how="horizontal")
        told = told.with_columns(
            because=pl.Series(words, dtype=pl.String),
            value=pl.Series(np.take_along_axis(found.given, best, 1).ravel()),
            contribution=pl.Series(np.take_along_axis(values, best, 1).ravel()),
        ).select(*identity.columns, "contribution", "because", "feature", "column", "block", "value")
        told = told.filter(pl.col("contribution") != 0)
        by = {"column": [name.source for name in found.names], "block": [name.block for name in found.names]}
        sums = {f"{name}s": _sums(identity, values, of_features, name) for name, of_features in by.items()}
        return {"reasons": told, "rows": rows, **sums}, values


def _sums(identity: pl.DataFrame, values: Array, of_features: list[str], name: str) -> pl.DataFrame:
    """Return what the features of each column, or of each block, contribute together to each row."""
    groups, place = np.unique(np.array(of_features, object), return_inverse=True)
    sums = values @ (place[:, None] == np.arange(len(groups)))
    long = identity[np.repeat(np.arange(len(values)), len(groups))]
    of_groups = pl.Series(name, np.tile(groups, len(values)).astype(str))
    return long.with_columns(of_groups, pl.Series("contribution", sums.ravel()))


def _ranking(reasons: HeadReasons, rows: Rows) -> list[dict[str, Any]]:
    """Return by how much raw scores move if the values of a column are missing in what networks read.

    From a store, nothing is told of a network whose running state is there, and not the events behind it.
    """
    head, networks, x = reasons.head, reasons.networks, rows.data.sequences
    if not networks or x.static.keys() & {kind + name for kind in (STATE, VALUES) for name in networks}:
        return []
    features = features_of(reasons.blocks, rows)

    def score(changed: Mapping[str, Features]) -> Array:
        predicted = head.predict({**features, **changed}, len(rows.data))
        return raw_scores(head.target.task, predicted[:, 1] if head.target.task == "binary" else predicted)

    whole, moved = score({}), list[dict[str, Any]]()
    for field in fields_of(x.take(x.flat(), x.lengths), rows.data.schema):
        changed = replace(rows, data=replace(rows.data, sequences=field.without()))
        moved.append(
            {"column": field.name, "moves": float(np.abs(score(features_of(networks, changed)) - whole).mean())}
        )
    return sorted(moved, key=lambda each: -each["moves"])


def _of_row(head: Head, told: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the decision of one row: its prediction and its first reasons."""
    (row,) = told["rows"]
    what = shown(head.target.name) + (f" = {row['class']}" if "class" in row else "")
    value = f"{row['prediction']:.3g}" if head.target.task == "numeric" else f"{row['prediction']:.3f}"
    lines = [f"{what} is predicted with {value}: a score of {row['score']:+.2f}, from {row['baseline']:+.2f}."]
    sums = dict[str, float]()
    for each in told["reasons"]:
        sums[each["because"]] = sums.get(each["because"], 0.0) + each["contribution"]  # some features say the same
    largest = sorted(sums.items(), key=lambda each: -abs(each[1]))[:LINES]
    return (*lines, *(f"{size:+.2f}  {because}" for because, size in largest))


def _of_rows(head: Head, features: list[dict[str, Any]], n: int) -> tuple[str, ...]:
    """Return the decision of several rows: the features that move most."""
    lines = [f"What moves the predictions of {shown(head.target.name)} most, over {n:,} rows:"]
    return (*lines, *(f"{each['contribution']:.2f}  {each['feature']}" for each in features[:LINES]))
