"""`explain`: why a model predicts what it does for each row, and which features drive its predictions in all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from eventvec.answers import Answer
from eventvec.attribution.left_out import without_column
from eventvec.blocks.matrices import features_of
from eventvec.blocks.rows import Rows
from eventvec.dataset import Dataset
from eventvec.embedding import Progress
from eventvec.errors import ConfigError, DataError, nearest, shown
from eventvec.learners.contributions import raw_scores
from eventvec.learners.fitted import probabilities
from eventvec.models import Model, check_model
from eventvec.models.head import Head
from eventvec.models.reasons import HeadReasons, Name, Reasons
from eventvec.options import accepts, at_least
from eventvec.predicting.predictor_answer import explained
from eventvec.predicting.reason_words import ReasonWords
from eventvec.predicting.rows_to_predict import PredictionSources, identifying, rows_to_predict
from eventvec.sequences import Array
from eventvec.tables.frames import with_key
from eventvec.tables.keys import texts
from eventvec.tables.other_data import check_data
from eventvec.tables.read_options import Cuts, TableFormat
from eventvec.tables.sources import Tabular

LINES, MOST = 4, 50
"""The numbers of reasons in a verdict, and of features that are ranked over all rows."""


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
        contributions over all rows.

    Raises:
        ConfigError: If the model has no such head or class.
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
        return explained(head)
    if not isinstance(events, Dataset):
        options = {**model.info.get("reading", {}), **options}
    if options.pop("inclusive", None) not in (None, head.inclusive):
        raise ConfigError("the heads of the model read events by their own rule; leave out inclusive (--inclusive)")
    cuts = {name: options.pop(name) for name in ("until", "cutoffs", "cutoff_column") if name in options}
    static = None if static is None else with_key(static)
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


def _class(head: Head, of: Any) -> int | None:
    """Return the place of the class to explain; None for the predicted one of several, or for numbers."""
    if of is None:
        return 1 if head.target.task == "binary" else None
    if str(of) not in head.class_names:
        known = f"accepted: {', '.join(map(shown, head.class_names))}" if head.class_names else "it is a number"
        raise ConfigError(f"{shown(head.target.name)} has no class {shown(str(of))}; {known}")
    return head.class_names.index(str(of))


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
        self.place = _class(self.head, of)
        self.reasons = HeadReasons(self.head, model.blocks, model.schema)
        self.words: ReasonWords | None = None

    def answer(self, rows: Rows, progress: Progress | None = None) -> Answer:
        """Return the reasons of the predictions of rows."""
        head, n = self.head, len(rows.data)
        identity = pl.DataFrame(identifying(rows))
        names, parts, total = list[Name](), list[dict[str, pl.DataFrame]](), np.zeros(1)
        for part, found in self.reasons.of(rows):
            names = found.names
            self.words = self.words or ReasonWords(self.model, head, names)
            tables, values = _tables(self, found, identity[part], self.words)
            parts.append(tables)
            total = total + np.abs(values).sum(0)
            if progress:
                progress(min(part.stop, n), n)
        if not parts:
            raise DataError("there is no row to explain")
        order = np.argsort(-total, kind="stable")[:MOST]
        features = [
            {**names[place]._asdict(), "contribution": float(total[place]) / n}
            for place in order.tolist()
            if total[place]
        ]
        frames = {name: pl.concat([each[name] for each in parts]) for name in parts[0]}
        told: dict[str, Any] = {name: frame.to_dicts() for name, frame in frames.items()} | {"features": features}
        if ranking := _ranking(self, rows):
            told["ranking"] = ranking
        unit = "the unit of the label" if head.target.task == "numeric" else "log-odds"
        notes = [f"Contributions are in {unit}; with the baseline and the rest they add up to the score."]
        notes += ["What a network reads has no contributions; its columns are ranked instead."] if ranking else []
        verdict = _of_row(head, told) if n == 1 else _of_rows(head, features, n)
        facts = {"label": head.target.name, "task": head.target.task, "rows": n, "model": self.model.id}
        return Answer(
            verdict, told, (*rows.data.notes, *notes), facts=facts, title=f"Why {head.target.name} is predicted so"
        )


def _tables(
    explainer: Explainer, found: Reasons, identity: pl.DataFrame, words: ReasonWords
) -> tuple[dict[str, pl.DataFrame], Array]:
    """Return the tables of some rows, and `(n, m)` the contributions to the score that is explained."""
    classes, score, values, rest, baseline = _of_one(explainer, found)
    n, of_class = len(score), explainer.head.class_names
    rows = identity.with_columns(
        *([pl.Series("class", of_class)[classes]] if of_class else []),
        prediction=_predicted(explainer.head, found.scores, classes), score=score, baseline=baseline, rest=rest,
    )  # fmt: skip
    best = np.argsort(-np.abs(values), axis=1, kind="stable")[:, : explainer.top]
    named = pl.DataFrame(found.names, schema=["feature", "column", "block"], orient="row")
    given = pl.Series("value", np.take_along_axis(found.given, best, 1).ravel()).fill_nan(None)
    of_best = pl.Series("contribution", np.take_along_axis(values, best, 1).ravel())
    phrases = [words.of_row(row, places) for row, places in zip(found.given, best.tolist(), strict=True)]
    because = pl.Series("because", [phrase for of_row in phrases for phrase in of_row], pl.String)
    who = identity[np.repeat(np.arange(n), best.shape[1])]
    parts = [who, of_best.to_frame(), because.to_frame(), named[best.ravel()], given.to_frame()]
    told = pl.concat(parts, how="horizontal").filter(pl.col("contribution") != 0)
    by = {"columns": [_column(name) for name in found.names], "blocks": [name.block for name in found.names]}
    sums = {name: _sums(identity, values, of_features, name[:-1]) for name, of_features in by.items()}
    return {"reasons": told, "rows": rows, **sums}, values


def _sums(identity: pl.DataFrame, values: Array, of_features: list[str], name: str) -> pl.DataFrame:
    """Return what the features of each column, or of each block, contribute together to each row."""
    groups, place = np.unique(np.array(of_features, object), return_inverse=True)
    sums = values @ (place[:, None] == np.arange(len(groups)))
    long = identity[np.repeat(np.arange(len(values)), len(groups))]
    of_groups = pl.Series(name, np.tile(groups, len(values)).astype(str))
    return long.with_columns(of_groups, pl.Series("contribution", sums.ravel()))


def _column(name: Name) -> str:
    return name.column or name.block.replace("_", " ")


def _of_one(explainer: Explainer, found: Reasons) -> tuple[Array, Array, Array, Array, Array]:
    """Return the place of the class that is explained in each row, its score, contributions, rest and baseline."""
    scores, rows = found.scores, np.arange(len(found.rest))
    if scores.shape[1] > 1:
        place = scores.argmax(1) if explainer.place is None else np.full(len(rows), explainer.place)
        return place, scores[rows, place], found.values[rows, :, place], found.rest[rows, place], found.baseline[place]
    sign = -1.0 if explainer.place == 0 else 1.0
    place, baseline = np.full(len(rows), explainer.place or 0), np.full(len(rows), sign * found.baseline[0])
    return place, sign * scores[:, 0], sign * found.values[:, :, 0], sign * found.rest[:, 0], baseline


def _predicted(head: Head, scores: Array, classes: Array) -> Array:
    """Return `(n,)` numbers, or the probabilities of classes."""
    if head.target.task == "multiclass":
        return np.asarray(probabilities("multiclass", scores)[np.arange(len(scores)), classes])
    of_second = probabilities(head.target.task, scores[:, 0])
    return of_second if head.target.task == "numeric" else np.where(classes == 1, of_second, 1 - of_second)


def _ranking(explainer: Explainer, rows: Rows) -> list[dict[str, Any]]:
    """Return by how much raw scores move if the values of a column are missing in what networks read."""
    head, blocks = explainer.head, explainer.model.blocks
    read = {name: head.blocks[name] if name in head.blocks else blocks[name] for name in head.used}
    networks = {name: block for name, block in read.items() if getattr(block, "is_network", False)}
    if not networks:
        return []
    features, x = features_of(read, rows), rows.data.sequences

    def score(without: str | None) -> Array:
        changed = (
            {}
            if without is None
            else features_of(networks, replace(rows, data=replace(rows.data, sequences=without_column(x, without))))
        )
        predicted = head.predict({**features, **changed}, len(rows.data))
        return raw_scores(head.target.task, predicted[:, 1] if head.target.task == "binary" else predicted)

    whole = score(None)
    columns = [each.name for each in (*rows.data.schema.fields, *rows.data.schema.nested)]
    moved = [{"column": name, "moves": float(np.abs(score(name) - whole).mean())} for name in columns]
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
