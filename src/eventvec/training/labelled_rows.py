"""What a predictor learns from: histories as of the times of their labels, the labels, and the caller's tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from eventvec.blocks.caller_features import CallerFeatures
from eventvec.blocks.earlier_labels import EARLIER, EarlierLabels
from eventvec.blocks.labels_by_rule import LabelsByRule, rule_by_default
from eventvec.blocks.rows import Block, Rows
from eventvec.blocks.static_values import STATIC, StaticValues, of_static
from eventvec.blocks.untrained import BLOCKS
from eventvec.dataset import Dataset, repeated, storage
from eventvec.embedding import with_moment
from eventvec.errors import ConfigError, listed, shown
from eventvec.examples.joined_labels import join_timed
from eventvec.labels.horizons import Rule
from eventvec.learners.inputs import column, positive
from eventvec.learners.task import Target, target
from eventvec.models import Model
from eventvec.models.label_samples import copied
from eventvec.models.learned import LEARNED, NETWORK
from eventvec.sequences import Array
from eventvec.tables import attach
from eventvec.tables.coding import factorize
from eventvec.tables.frames import with_key
from eventvec.tables.label_times import TimedLabels, fitted_later, hides_later, labelled_histories, untimed
from eventvec.tables.read_options import DECLINED, LabelTime
from eventvec.tables.sources import Tabular, columns_of, kept
from eventvec.tables.times import Duration, duration
from eventvec.training.head_training import Lesson
from eventvec.training.network_lessons import NetworkLesson


@dataclass(frozen=True)
class Learning:
    """What is learned, and from what beside the events.

    Args:
        label: The column to predict; None if the labels are an array.
        numeric: Whether it is predicted as a number, and not as classes.
        time: Which events are read for a label.
        static: A table with the key and columns about the entity.
        weight: The column of the weights, or with an array of labels the weights.
        earlier_labels: The time after which a label is known; `DECLINED` to read no earlier labels; None to compute
            them from the events if the table of labels has their rule.
        features: Tables of the caller's features by name.
        vector: A run whose vectors are read.
        network: Whether a network is trained, from the encoder of the run if there is one.
    """

    label: str | None
    numeric: bool
    time: LabelTime
    static: Tabular | None = None
    weight: Any = None
    earlier_labels: Duration | None = None
    features: Mapping[str, Tabular] = field(default_factory=dict)
    vector: Model | None = None
    network: bool = False


@dataclass(frozen=True, eq=False)
class Learned:
    """What a predictor learns from, with the column of the times of labels and notes."""

    lesson: Lesson
    label_time: str | None
    notes: tuple[str, ...]


def of_table(events: Dataset | None, read: Callable[..., Dataset], labels: Tabular, asked: Learning) -> Learned:
    """Return what a predictor learns from a table of labels.

    Args:
        events: The events, if they are a data set already.
        read: Reads the events, with further options of `ev.read`. Where labels have times, it reads twice, so
            vocabularies and scales are those of the events before these times.
        labels: The table of labels.
        asked: What is learned.
    """
    labels, label = kept(with_key(labels)), asked.label
    if not isinstance(label, str):
        raise ConfigError(
            f"one label is learned at a time, got {shown(label)}; name one column, and fit one model for each label"
        )
    if asked.weight is not None and not isinstance(asked.weight, str):
        raise ConfigError(f"weight must name a column of the table of labels, got {type(asked.weight).__name__}")
    data = read() if events is None else events
    kinds = (data.schema.categorical, data.schema.numeric, data.schema.bags)
    taken = {each.name for kind in kinds for each in kind}
    if label in taken:
        raise ConfigError(
            f"the label {shown(label)} is also a column of the events, which are features; rename it in the table of "
            "labels, or leave the column out: categorical=, numeric="
        )
    further = [asked.weight] if asked.weight else []
    histories, timed, key = labelled_histories(data, labels, [label], further, None, asked.time)
    notes = list(histories.notes[len(data.notes) :])
    if events is None and asked.vector is None and timed.time is not None and data.moments is None:
        rows = timed.table.select(key, timed.time).drop_nulls()
        histories = read(cutoffs=rows, cutoff_column=timed.time, inclusive=asked.time.inclusive)
    elif timed.moments is not None:
        runs = asked.vector.info["holdouts"] if asked.vector else ()
        notes += fitted_later(data.schema, runs, timed.moments.drop_nulls().to_numpy())
    joined = join_timed(
        histories.keys, data.schema.key_out, timed, label, table_key=key, group=None, moments=histories.moments,
        origin=histories.origin.options, weight=asked.weight, of="rows",
    )  # fmt: skip
    if timed.time is None and histories.moments is None and histories.origin.until is None:
        notes.append(untimed(asked.time.label_time))
    assert isinstance(joined.labels, np.ndarray)
    rule, about_rule = None, tuple[str, ...]()
    if asked.earlier_labels is None:
        rule, about_rule = rule_by_default(labels, histories.schema, label, joined.labels, timed)
    notes = [*data.notes, *notes, *joined.notes, *about_rule]
    complete = replace(_with_static(histories, asked), notes=tuple(notes))
    rows_of = with_moment(complete)[joined.positions]
    weights = None if joined.weights is None else positive(joined.weights)
    timed_or_none = timed if timed.moments is not None else None
    return _learned(rows_of, joined.labels, weights, asked, timed_or_none, key, rule)


def of_array(data: Dataset, labels: Any, asked: Learning) -> Learned:
    """Return what a predictor learns from one label for each row of the data."""
    y = column(labels, "labels", len(data))
    weights = None if asked.weight is None else positive(column(asked.weight, "weight", len(data)))
    if asked.earlier_labels not in (None, DECLINED):
        raise ConfigError("earlier_labels needs a table of labels with times; give one with label= and label_time=")
    return _learned(with_moment(_with_static(data, asked)), y, weights, asked, None, None, None)


def _with_static(data: Dataset, asked: Learning) -> Dataset:
    """Return the data with the static columns of the caller's table; refuse the label among them."""
    if asked.static is not None:
        data = attach(data, with_key(asked.static))
    if asked.label in data.sequences.static:
        raise ConfigError(
            f"the label {shown(asked.label)} is also a static column, which is a feature; leave it out of static="
        )
    return data


def _learned(
    data: Dataset,
    labels: Array,
    weights: Array | None,
    asked: Learning,
    timed: TimedLabels | None,
    key: str | None,
    rule: Rule | None,
) -> Learned:
    """Return what a predictor learns from rows with their labels."""
    of_label = _target(labels, asked)
    if missing := len(labels) - len(of_label.y):
        data, weights = data[of_label.rows], None if weights is None else weights[of_label.rows]
        data = replace(data, notes=(*data.notes, f"{missing:,} of {len(labels):,} rows have no label."))
    known = {} if timed is None or asked.label is None else {asked.label: timed}
    rows = Rows(data, known, {name: with_key(table) for name, table in asked.features.items()}, None)
    entities = factorize(pa.chunked_array([storage(data.keys)]))[0].astype(np.int64) if repeated(data.keys) else None
    time = None if timed is None else timed.time
    network = NetworkLesson(data, of_label, weights, asked.vector) if asked.network else None
    extra, own = _extra(rows, of_label, asked, time), _own(rows, of_label, asked, time, key, rule)
    lesson = Lesson(rows, of_label, data.moments, entities, weights, extra, own, network)
    return Learned(lesson, time, (*data.notes, *_without_times(rows, extra, time)))


def _without_times(rows: Rows, extra: Mapping[str, Block], time: str | None) -> Iterator[str]:
    """Yield a note for each source of features without times, if labels have times."""
    if time is None:
        return
    for name, family in extra.items():
        if isinstance(family, StaticValues):
            yield hides_later(f"The static columns {listed(shown(each.name) for each in family.fields)}", "have")
        elif isinstance(family, CallerFeatures) and time not in columns_of(rows.features[name]):
            yield hides_later(f"The table of features {shown(name)}")


def _target(labels: Array, asked: Learning) -> Target:
    name = asked.label or "label"
    if asked.numeric:
        return target(labels, "numeric", name)
    found = target(labels, None, name)
    return target(labels, "multiclass", name) if found.task == "numeric" else found


def _refuse_learned(run: Model, data: Dataset, of_label: Target) -> None:
    """Refuse a run that has learned the label, by its name or by its values."""
    name = of_label.name if of_label.name in run.lineage.labels else None
    name = name or copied(run.lineage.samples, data, of_label.y, of_label.task == "numeric")
    if name is not None:
        copy = "" if name == of_label.name else f", of which {shown(of_label.name)} is a copy"
        raise ConfigError(
            f"the run {run.id} has learned the label {shown(name)}{copy}, and its vectors reveal it for the entities "
            "of its training; give a run that has not"
        )


def _extra(rows: Rows, of_label: Target, asked: Learning, time: str | None) -> dict[str, Block]:
    """Return the blocks that depend on more than the events and read no label, in the order in which they are tried."""
    blocks: dict[str, Block] = {}
    static = of_static(rows.data.schema, list(rows.data.sequences.static))
    if static is not None:
        blocks[STATIC] = static
    for name in asked.features:
        if name in (*BLOCKS, STATIC, EARLIER, LEARNED, NETWORK) or not name:
            raise ConfigError(
                f"a table of features may not be called {shown(name)}; rename it: features={{'mine': table}}"
            )
        blocks[name] = CallerFeatures.of(name, rows, time)
    if asked.vector is not None:
        _refuse_learned(asked.vector, rows.data, of_label)
        asked.vector.check_schema(rows.data.schema)
        blocks |= asked.vector.blocks
    return blocks


def _own(
    rows: Rows, of_label: Target, asked: Learning, time: str | None, key: str | None, rule: Rule | None
) -> dict[str, Block]:
    """Return the block of the label's earlier values, if it is read."""
    if rule is not None:
        return {EARLIER: LabelsByRule(rule, of_label.empty, asked.time.inclusive)}
    if asked.earlier_labels in (None, DECLINED):
        return {}
    if time is None or key is None:
        raise ConfigError(
            "earlier_labels needs the time of each label; name its column in the table of labels: label_time="
        )
    assert asked.earlier_labels is not None
    duration(rows.data.schema, asked.earlier_labels)
    return {EARLIER: EarlierLabels(key, of_label.empty, asked.earlier_labels, asked.time.inclusive)}
