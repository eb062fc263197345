"""The rows on which a decision is judged: those that chose nothing in a head, or labels with their events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from eventvec.blocks.earlier_labels import EARLIER, EarlierLabels
from eventvec.dataset import Dataset
from eventvec.errors import ConfigError, DataError, listed, shown
from eventvec.examples.labelled import Examples, join_examples
from eventvec.learners.inputs import positive
from eventvec.models import Model
from eventvec.models.head import Head
from eventvec.predicting.decision_options import DecisionOptions
from eventvec.predicting.prediction import predicted
from eventvec.predicting.rows_to_predict import Events
from eventvec.sequences import Array
from eventvec.statistics.decision_costs import Judged
from eventvec.tables.frames import with_key
from eventvec.tables.keys import align, align_rows, distinct_keys
from eventvec.tables.label_times import TimedLabels, labelled_histories, labels_beside, moments_of
from eventvec.tables.read_options import LabelTime
from eventvec.tables.sources import Tabular, columns_of, kept, open_source, read_table

LATEST = "The rows are the latest ones of the model's labels, each predicted from earlier rows of other entities."
BY_ENTITY = (
    "The rows are all of the model's labels, each predicted from other entities. Later times may differ; labels that "
    "became known later, given with their events, show it. Intervals of the model are wider because its trainings "
    "overlap."
)
NEW = "The labels must be new to the model: on rows that it learned from, its decisions look better than they are."
EARLIER_ALONE = "The earlier labels are those of the table of labels alone; known= (--known) names a table of all."


@dataclass(frozen=True, eq=False)
class DecisionRows:
    """Rows on which a decision is judged.

    Args:
        judged: The rows.
        factor: By what variances of the model's costs are multiplied, because its trainings overlap.
        by_rule: `(n,)` bool, whether the caller's rule acts on each row; None without a rule.
        notes: Sentences about the rows.
    """

    judged: Judged
    factor: float
    by_rule: Array | None
    notes: tuple[str, ...]


def own_rows(model: Model, name: str, place: int) -> DecisionRows:
    """Return the rows of a head that chose nothing in it.

    Args:
        model: The model.
        name: The label.
        place: The place of the class that is a case.

    Raises:
        ConfigError: If the label has no such rows.
    """
    scores = model.heads[name].info["scores"] if name in model.heads else None
    if scores is None:
        why = "there were too few" if name in model.heads else "networks keep none"
        raise ConfigError(
            f"the model has no rows of {shown(name)} that it did not learn from, because {why}; give events and labels "
            "that are new to it (MODEL EVENTS LABELS)"
        )
    held = scores.held_out
    p = held.predictions.astype(np.float64)
    p = np.stack([1 - p, p], 1) if p.ndim == 1 else p
    judged = Judged(p[:, place], (held.y == place).astype(np.float64), held.weights, held.groups)
    return DecisionRows(judged, scores.factor, None, (BY_ENTITY if scores.latest is None else LATEST,))


def given_rows(
    model: Model,
    name: str,
    classes: list[str],
    place: int,
    events: Events,
    labels: Tabular,
    rule: Tabular | None,
    chosen: DecisionOptions,
    reading: Mapping[str, Any],
    beside: Mapping[str, Any],
) -> DecisionRows:
    """Return rows with labels, predicted as of the times of their labels.

    Args:
        model: The model.
        name: The label.
        classes: Its classes.
        place: The place of the class that is a case.
        events: The events.
        labels: The table of labels.
        rule: Whom the caller's rule acts on, if there is one.
        chosen: The options.
        reading: The formats of tables.
        beside: What `predict` reads beside the events.
    """
    head = model.heads.get(name)
    model = replace(model, heads={} if head is None else {name: head})  # other heads may need further tables
    if not isinstance(events, Dataset):
        reading = {**model.info.get("reading", {}), **reading}
    data = model.read(events, **reading, until=chosen.until)
    timed = _timed(data, kept(with_key(labels)), name, head, chosen)
    notes, block = [NEW], None if head is None else head.blocks.get(EARLIER)
    if head is not None and isinstance(block, EarlierLabels) and beside["labels"] is None:
        time = [] if timed.time is None else [pl.col(timed.time).alias(str(head.label_time))]
        earlier = timed.table.select(pl.col(timed.key).alias(block.key), name, *time)
        beside, notes = {**beside, "labels": earlier}, [NEW, EARLIER_ALONE]
    table, rows = predicted(model, labelled_histories(data, timed), at=None, **beside)
    examples = join_examples(rows.data, timed, of="rows")
    notes += examples.notes
    several = len(model.heads) + len(model.declared.label_fields) > 1
    column = table.column(f"{name}_p_{classes[place]}" if several else f"p_{classes[place]}")
    probabilities = column.to_numpy()[examples.positions].astype(np.float64)
    if (missing := np.isnan(probabilities)).any():
        notes.append(f"{int(missing.sum()):,} rows that the model cannot read were left out.")
        examples, probabilities = examples[~missing], probabilities[~missing]
    units = np.arange(len(examples)) if examples.units is None else examples.units
    groups = np.unique(units, return_inverse=True)[1].astype(np.int64)
    weights = np.ones(len(examples)) if examples.weights is None else positive(examples.weights)
    judged = Judged(probabilities, _cases(examples, classes, place), weights, groups)
    return DecisionRows(judged, 1.0, None if rule is None else acts_by_rule(rule, examples), tuple(notes))


def _timed(data: Dataset, labels: Tabular, name: str, head: Head | None, chosen: DecisionOptions) -> TimedLabels:
    """Return the labels with their times, by default in the column that had those of the training."""
    time = chosen.label_time
    if time is None and head is not None and head.label_time in columns_of(labels):
        time = head.label_time
    options = LabelTime(time, head is not None and head.inclusive)
    timed = labels_beside(data, labels, [name], options, key=chosen.key, group=chosen.group, weight=chosen.weight)
    if chosen.until is not None and timed.time is not None:
        raise ConfigError(
            f"until is for labels without times, and these have theirs in {shown(timed.time)}; leave out until "
            "(--until), or say that they have none: label_time='none' (--no-label-time)"
        )
    return timed


def _cases(examples: Examples[Dataset], classes: list[str], place: int) -> Array:
    """Return `(m,)` 1 for the rows of a class and 0 for others; refuse labels that the model does not know."""
    texts = pa.array(np.asarray(examples.labels), from_pandas=True).cast(pa.string())
    if unknown := sorted(set(pc.unique(texts).to_pylist()) - {*classes}):
        raise DataError(
            f"the label {shown(examples.name)} has {listed(map(shown, unknown))}, which the model did not learn; its "
            f"classes are {listed(map(shown, classes))}"
        )
    return np.asarray(pc.equal(texts, classes[place]).to_numpy(zero_copy_only=False), np.float64)


def acts_by_rule(rule: Tabular, examples: Examples[Dataset]) -> Array:
    """Return `(m,)` bool, whether a rule acts on each row of examples.

    Args:
        rule: A table with the key, the column of the times of the labels if a key has several rows, and one column of
            booleans or of 0 and 1. Rows of other keys and times are not read.
        examples: The rows.

    Raises:
        DataError: If the table has other columns or values, a row of examples is not in it, or it says both of one row.
    """
    table, rows = read_table(open_source(with_key(rule))), examples.rows
    key, time = rows.schema.key_in(table.columns), None if examples.timed is None else examples.timed.time
    others = [name for name in table.columns if name not in (key, time)]
    if key not in table.columns or len(others) != 1:
        raise DataError(
            f"the rule has the columns {listed(map(shown, table.columns))}; accepted: a table with the key "
            f"{shown(key)}, the time of the label if keys have several, and one column of booleans or of 0 and 1"
        )
    values = table[others[0]]
    is_flag = values.dtype == pl.Boolean or (values.dtype.is_numeric() and ((values == 0) | (values == 1)).all())
    if values.null_count() or not is_flag:
        raise DataError(f"the column {shown(others[0])} of the rule has other values than 0 and 1, or missing ones")
    if time is not None and time in table.columns and rows.moments is not None:
        table = table.with_columns(moments_of(table[time], rows.schema, "the rule")[0].alias(time))
        of_rows, places = np.arange(len(rows)), align_rows(rows.keys, rows.moments, table, key, time)
    else:
        of_rows, distinct = distinct_keys(rows.keys)
        places = align(distinct, table, key)
    known, acts = places >= 0, values.cast(pl.Int64).to_numpy()
    told = np.full(of_rows.max() + 1, -1)
    told[places[known]] = acts[known]
    if (told[places[known]] != acts[known]).any():
        raise DataError(
            "the rule says both 0 and 1 of one row; give one row for each key, or name the time of the labels in it"
        )
    if absent := int((told[of_rows] < 0).sum()):
        raise DataError(
            f"the rule says nothing of {absent:,} of {len(rows):,} rows with labels; give a 0 where it does not act"
        )
    return np.asarray(told[of_rows] == 1)
