"""What a predictor learns from: histories as of the times of their labels, the labels, and the caller's tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from eventvec.blocks.families import (
    EARLIER,
    STATIC,
    VECTOR,
    CallerFeatures,
    EarlierLabels,
    Encoded,
    Family,
    Rows,
    StaticValues,
    check_name,
    empty_target,
    of_static,
)
from eventvec.blocks.labels_by_rule import LabelsByRule, rule_by_default
from eventvec.dataset import Dataset
from eventvec.embedding import with_moment
from eventvec.errors import ConfigError, listed, shown
from eventvec.examples.labelled import Examples, join_examples
from eventvec.labels.horizons import Rule
from eventvec.learners.inputs import column, positive
from eventvec.learners.task import Target
from eventvec.predicting.event_predictor import Lesson
from eventvec.predicting.frames import with_key
from eventvec.predicting.network_family import NetworkLesson
from eventvec.runs import Run
from eventvec.runs.label_samples import copied
from eventvec.tables import attach
from eventvec.tables.label_times import fitted_later, hides_later, labelled_histories, labels_beside
from eventvec.tables.read_options import DECLINED, LabelTime
from eventvec.tables.sources import Tabular, columns_of, kept
from eventvec.tables.times import Duration, duration


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
    vector: Run | None = None
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
    timed = labels_beside(data, labels, [label], asked.time, weight=asked.weight)
    histories = labelled_histories(data, timed)
    notes = histories.notes
    is_read_again = events is None and asked.vector is None and timed.time is not None and data.moments is None
    if is_read_again:
        rows = timed.table.filter(~timed.missing).select(timed.key, timed.time).drop_nulls()
        histories = read(cutoffs=rows, cutoff_column=timed.time, inclusive=asked.time.inclusive)
    examples = join_examples(with_moment(_with_static(histories, asked)), timed, of="rows")
    if not is_read_again:
        runs = asked.vector.info["holdouts"] if asked.vector else ()
        notes += fitted_later(data.schema, runs, examples.times)
    assert isinstance(examples.labels, np.ndarray)
    rule, about_rule = None, tuple[str, ...]()
    if asked.earlier_labels is None:
        rule, about_rule = rule_by_default(labels, histories.schema, label, examples.labels, timed)
    notes = tuple(dict.fromkeys([*notes, *examples.notes, *about_rule]))
    return _learned(replace(examples, notes=notes), asked, rule)


def of_array(data: Dataset, labels: Any, asked: Learning) -> Learned:
    """Return what a predictor learns from one label for each row of the data."""
    y = column(labels, "labels", len(data))
    weights = None if asked.weight is None else column(asked.weight, "weight", len(data))
    if asked.earlier_labels not in (None, DECLINED):
        raise ConfigError("earlier_labels needs a table of labels with times; give one with label= and label_time=")
    rows = with_moment(_with_static(data, asked))
    examples = Examples(rows, asked.label or "label", y, np.arange(len(y)), weights, notes=rows.notes)
    return _learned(examples, asked, None)


def _with_static(data: Dataset, asked: Learning) -> Dataset:
    """Return the data with the static columns of the caller's table; refuse the label among them."""
    if asked.static is not None:
        data = attach(data, with_key(asked.static))
    if asked.label in data.sequences.static:
        raise ConfigError(
            f"the label {shown(asked.label)} is also a static column, which is a feature; leave it out of static="
        )
    return data


def _learned(examples: Examples[Dataset], asked: Learning, rule: Rule | None) -> Learned:
    """Return what a predictor learns from examples, of which arrays may have some without a label."""
    weights = None if examples.weights is None else positive(examples.weights)
    examples, notes = replace(examples, weights=weights), examples.notes
    of_label = examples.target("numeric" if asked.numeric else None)
    if of_label.task == "numeric" and not asked.numeric:
        of_label = examples.target("multiclass")
    if missing := len(examples) - len(of_label.y):
        notes += (f"{missing:,} of {len(examples):,} rows have no label.",)
        examples = examples[of_label.rows]
    data, timed = replace(examples.rows, notes=notes), examples.timed
    tables = {name: with_key(table) for name, table in asked.features.items()}
    rows = Rows(data, None if timed is None or timed.moments is None else timed, tables, None)
    network = NetworkLesson(data, of_label, examples.weights, asked.vector) if asked.network else None
    extra = _extra(rows, of_label, asked, rule)
    lesson = Lesson(rows, of_label, data.moments, examples.entities, examples.weights, extra, network)
    time = None if timed is None else timed.time
    return Learned(lesson, time, (*notes, *_without_times(rows, extra, time)))


def _without_times(rows: Rows, extra: Mapping[str, Family], time: str | None) -> Iterator[str]:
    """Yield a note for each source of features without times, if labels have times."""
    if time is None:
        return
    for name, family in extra.items():
        if isinstance(family, StaticValues):
            yield hides_later(f"The static columns {listed(shown(each.name) for each in family.fields)}", "have")
        elif isinstance(family, CallerFeatures) and time not in columns_of(rows.features[name]):
            yield hides_later(f"The table of features {shown(name)}")


def _refuse_learned(run: Run, data: Dataset, of_label: Target) -> None:
    """Refuse a run that has learned the label, by its name or by its values."""
    name = of_label.name if of_label.name in run.lineage.labels else None
    name = name or copied(run.lineage.samples, data, of_label.y, of_label.task == "numeric")
    if name is not None:
        copy = "" if name == of_label.name else f", of which {shown(of_label.name)} is a copy"
        raise ConfigError(
            f"the run {run.id} has learned the label {shown(name)}{copy}, and its vectors reveal it for the entities "
            "of its training; give a run that has not"
        )


def _extra(rows: Rows, of_label: Target, asked: Learning, rule: Rule | None) -> dict[str, Family]:
    """Return the families that depend on more than the events, in the order in which they are tried."""
    families: dict[str, Family] = {}
    static = of_static(rows.data.schema, list(rows.data.sequences.static))
    if static is not None:
        families[STATIC] = static
    if rule is not None:
        families[EARLIER] = LabelsByRule(rule, empty_target(of_label), asked.time.inclusive)
    elif asked.earlier_labels not in (None, DECLINED):
        if rows.labels is None:
            raise ConfigError(
                "earlier_labels needs the time of each label; name its column in the table of labels: label_time="
            )
        assert asked.earlier_labels is not None
        duration(rows.data.schema, asked.earlier_labels)
        families[EARLIER] = EarlierLabels(
            rows.labels.key, empty_target(of_label), asked.earlier_labels, asked.time.inclusive
        )
    for name in asked.features:
        check_name(name)
        families[name] = CallerFeatures.of(name, rows, rows.labels.time if rows.labels else None)
    if asked.vector is not None:
        _refuse_learned(asked.vector, rows.data, of_label)
        asked.vector.check_schema(rows.data.schema)
        families[VECTOR] = Encoded(asked.vector.encoder)
    return families
