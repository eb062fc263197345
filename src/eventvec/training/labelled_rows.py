"""What heads learn from: histories as of the times of their labels, the labels, and the caller's tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import numpy as np

from eventvec.blocks.earlier_labels import EARLIER, EarlierLabels
from eventvec.blocks.labels_by_rule import LabelsByRule, rule_by_default
from eventvec.blocks.rows import Block, Rows
from eventvec.blocks.static_values import STATIC, StaticValues, of_static
from eventvec.blocks.untrained import BLOCKS
from eventvec.dataset import Dataset
from eventvec.embedding import with_moment
from eventvec.errors import ConfigError, listed, shown
from eventvec.examples.labelled import Examples, join_examples, static_groups
from eventvec.learners.inputs import column, positive
from eventvec.learners.row_groups import groups_of
from eventvec.learners.task import Target
from eventvec.models import Model
from eventvec.models.label_samples import copied
from eventvec.models.learned import LEARNED, NETWORK
from eventvec.sequences import Array
from eventvec.tables import attach, read
from eventvec.tables.frames import with_key
from eventvec.tables.label_times import fitted_later, hides_later, labelled_histories, labels_beside
from eventvec.tables.read_options import DECLINED, LabelTime
from eventvec.tables.sources import Tabular, columns_of, kept
from eventvec.tables.times import duration
from eventvec.training.head_options import HeadOptions
from eventvec.training.head_training import HeadRows
from eventvec.training.network_training import NetworkTraining


@dataclass(frozen=True, eq=False)
class LabelSources:
    """What is learned, and from what.

    Args:
        table: The table of labels; or without `names`, one label for each row of the data.
        names: The columns to predict.
        events: The events, if they are a data set already.
        read: Reads them otherwise, with further options of `ev.read`. Where labels have times, it reads twice, so
            vocabularies and scales are those of the events before these times.
        time: Which events are read for a label.
        options: How labels are learned.
        numeric: Whether they are predicted as numbers, and not as classes; None to infer it.
        static: A table with the key and columns about the entity.
        base: A model whose blocks and heads are kept, and whose blocks are read, its vectors among them.
    """

    table: Any
    names: tuple[str, ...]
    events: Dataset | None = None
    read: Callable[..., Dataset] = read
    time: LabelTime = LabelTime()  # noqa: RUF009 - it is frozen
    options: HeadOptions = HeadOptions()  # noqa: RUF009 - it is frozen
    numeric: bool | None = None
    static: Tabular | None = None
    base: Model | None = None


@dataclass(frozen=True, eq=False)
class LabelledRows:
    """What heads learn from.

    Args:
        rows: The rows of all labels.
        blocks: The blocks that are known before the training, and read no label.
        of_heads: What each head learns from.
        label_time: The column with the times of the labels; None if they have none.
        notes: Sentences about what was counted, and which events are read.
    """

    rows: Rows
    blocks: Mapping[str, Block]
    of_heads: tuple[HeadRows, ...]
    label_time: str | None
    notes: tuple[str, ...]


def read_for_labels(events: Any, options: Mapping[str, Any], base: Model | None, **cuts: Any) -> Dataset:
    """Return the events of a table, cut at times if any are given; those for a base are read by its schema.

    Args:
        events: The table.
        options: The options of `ev.read`; with a base, those of `tables.read_options.TableFormat`.
        base: A model whose blocks read the events.
        cuts: Fields of `tables.read_options.Cuts`.
    """
    if base is not None:
        return read(events, schema=base.schema, **options, **cuts)
    if cuts and options.get("store") is not None:
        raise ConfigError(
            "a store holds the events of one reading, and labels with times need two, because vocabularies come from "
            "earlier events; leave store out, or give data that were read with cutoffs= and store="
        )
    return read(events, **options, **cuts)


def labelled_rows(asked: LabelSources) -> LabelledRows:
    """Return what heads learn from; refuse labels for which the base has a head."""
    if (base := asked.base) is not None:
        if known := next((name for name in asked.names if name in base.heads), None):
            raise ConfigError(f"the model {base.id} has a head for {shown(known)} already")
        if any(head.inclusive != asked.time.inclusive for head in base.heads.values()):
            raise ConfigError("the heads of a model read events by one rule: give inclusive as the other heads have it")
    return _of_array(asked.events, asked) if asked.events is not None and not asked.names else _of_table(asked)


def _of_table(asked: LabelSources) -> LabelledRows:
    """Return what heads learn from a table of labels."""
    labels, weight = kept(with_key(asked.table)), asked.options.weight
    if weight is not None and not isinstance(weight, str):
        raise ConfigError(f"weight must name a column of the table of labels, got {type(weight).__name__}")
    groups = asked.options.groups
    if groups is not None and not isinstance(groups, str):
        raise ConfigError(f"groups must name a column of the table of labels, got {type(groups).__name__}")
    data = asked.read() if asked.events is None else asked.events
    kinds = (data.schema.categorical, data.schema.numeric, data.schema.bags)
    taken = {each.name for kind in kinds for each in kind}
    if among := next((label for label in asked.names if label in taken), None):
        raise ConfigError(
            f"the label {shown(among)} is also a column of the events, which are features; rename it in the table of "
            "labels, or leave the column out: categorical=, numeric="
        )
    subgroups = groups if groups in columns_of(labels) else None
    timed = labels_beside(data, labels, list(asked.names), asked.time, weight=weight, subgroups=subgroups)
    histories = labelled_histories(data, timed)
    notes = histories.notes
    is_read_again = asked.events is None and asked.base is None and timed.time is not None and data.moments is None
    if is_read_again:
        rows = timed.table.filter(~timed.missing).select(timed.key, timed.time).drop_nulls()
        histories = asked.read(cutoffs=rows, cutoff_column=timed.time, inclusive=asked.time.inclusive)
    examples = join_examples(with_moment(_with_static(histories, asked)), timed, of="rows")
    if groups is not None and timed.subgroups is None:
        examples = replace(examples, subgroups=static_groups(examples.rows, groups, columns_of(labels)))
    if not is_read_again:
        runs = asked.base.info["holdouts"] if asked.base else ()
        notes += fitted_later(data.schema, runs, examples.times)
    own, about_rules = dict[str, Block](), list[str]()
    values = examples.labels if isinstance(examples.labels, dict) else {examples.name: examples.labels}
    if asked.options.earlier_labels is None:
        for name, each in values.items():
            rule, about = rule_by_default(labels, histories.schema, name, each, timed)
            if rule is not None:
                target = _target(examples, name, each, asked).empty
                own[name] = LabelsByRule(rule, target, asked.time.inclusive, asked.options.latest)
            about_rules += about
    notes = tuple(dict.fromkeys([*notes, *examples.notes, *about_rules]))
    return _learned(replace(examples, notes=notes), values, asked, own)


def _of_array(data: Dataset, asked: LabelSources) -> LabelledRows:
    """Return what a head learns from one label for each row of the data."""
    y, weight = column(asked.table, "labels", len(data)), asked.options.weight
    weights = None if weight is None else column(weight, "weight", len(data))
    if asked.options.earlier_labels not in (None, DECLINED):
        raise ConfigError("earlier_labels needs a table of labels with times; give one with label= and label_time=")
    rows = with_moment(_with_static(data, asked))
    name = "label"
    groups = asked.options.groups
    if groups is not None:
        groups = static_groups(rows, groups) if isinstance(groups, str) else column(groups, "groups", len(rows))
    examples = Examples(rows, name, y, np.arange(len(y)), weights, notes=rows.notes, subgroups=groups)
    target = _target(examples, name, y, asked)
    if missing := len(y) - len(target.y):
        note = f"{missing:,} of {len(y):,} rows have no label."
        examples = replace(examples[target.rows], notes=(*examples.notes, note))
    return _learned(examples, {name: y[target.rows]}, asked, {})


def _with_static(data: Dataset, asked: LabelSources) -> Dataset:
    """Return the data with the static columns of the caller's table; refuse a label among them."""
    if asked.static is not None:
        data = attach(data, with_key(asked.static))
    if among := next((label for label in asked.names if label in data.sequences.static), None):
        raise ConfigError(
            f"the label {shown(among)} is also a static column, which is a feature; leave it out of static="
        )
    return data


def _target(examples: Examples[Dataset], name: str, values: Array, asked: LabelSources) -> Target:
    """Return a label with its task, classes for all but numbers unless it is inferred."""
    one = replace(examples, name=name, labels=values)
    target = one.target("numeric" if asked.numeric else None)
    return one.target("multiclass") if target.task == "numeric" and asked.numeric is False else target


def _learned(
    examples: Examples[Dataset], values: Mapping[str, Array], asked: LabelSources, own: Mapping[str, Block]
) -> LabelledRows:
    """Return what heads learn from examples, each from those that have its label."""
    weights = None if examples.weights is None else positive(examples.weights)
    data, timed = replace(examples.rows, notes=examples.notes), examples.timed
    named = asked.options.groups if isinstance(asked.options.groups, str) else "groups"
    groups = None if examples.subgroups is None else groups_of(examples.subgroups, named)
    time = None if timed is None else timed.time
    known = {} if timed is None or timed.moments is None else dict.fromkeys(values, timed)
    rows = Rows(data, known, {name: with_key(table) for name, table in asked.options.features.items()}, None)
    of_heads = list[HeadRows]()
    start = asked.base if asked.base and LEARNED in asked.base.blocks else None
    for name, each in values.items():
        target = _target(examples, name, each, asked)
        places = None if len(target.y) == len(examples) else target.rows
        of_label = examples if places is None else examples[places]
        _refuse_learned(asked.base, of_label.rows, target)
        counts = None if weights is None else weights[target.rows]
        network = NetworkTraining(of_label.rows, target, counts, start) if asked.options.network else None
        block = own.get(name) or _from_table(rows, target, asked, time)
        blocks = {} if block is None else {EARLIER: block}
        subgroups = None if groups is None else (groups[0][target.rows], groups[1])
        of_heads.append(HeadRows(places, target, of_label.entities, counts, blocks, network, subgroups))
    blocks = _blocks(rows, asked)
    return LabelledRows(rows, blocks, tuple(of_heads), time, (*examples.notes, *_without_times(rows, time, asked.base)))


def _without_times(rows: Rows, time: str | None, base: Model | None) -> Iterator[str]:
    """Yield a note for each source of features without times, if labels have times."""
    if time is None:
        return
    if static := _static(rows.data, base):
        yield hides_later(f"The static columns {listed(shown(each.name) for each in static.fields)}", "have")
    for name, table in rows.features.items():
        if time not in columns_of(table):
            yield hides_later(f"The table of features {shown(name)}")


def _refuse_learned(base: Model | None, data: Dataset, target: Target) -> None:
    """Refuse a model whose encoder has learned the label, by its name or by its values."""
    if base is None:
        return
    name = target.name if target.name in base.lineage.labels else None
    name = name or copied(base.lineage.samples, data, target.y, target.task == "numeric")
    if name is not None:
        copy = "" if name == target.name else f", of which {shown(target.name)} is a copy"
        raise ConfigError(
            f"the model {base.id} has learned the label {shown(name)}{copy}, and its vectors reveal it for the "
            "entities of its training; give a model that has not"
        )


def _blocks(rows: Rows, asked: LabelSources) -> dict[str, Block]:
    """Return the blocks that depend on more than the events and read no label, and those of the base."""
    blocks: dict[str, Block] = {}
    static, base = _static(rows.data, asked.base), asked.base
    if static is not None:
        blocks[STATIC] = static
    for name in asked.options.features:
        if name in (*BLOCKS, STATIC, EARLIER, LEARNED, NETWORK) or not name:
            raise ConfigError(
                f"a table of features may not be called {shown(name)}; rename it: features={{'mine': table}}"
            )
    if base is None:
        return blocks
    base.check_schema(rows.data.schema)
    known = base.blocks.get(STATIC)
    if static is not None and isinstance(known, StaticValues):
        columns = [each.name for each in known.fields]
        if further := next((each.name for each in static.fields if each.name not in columns), None):
            raise ConfigError(
                f"the model {base.id} reads the static columns {listed(map(shown, columns))}, and a further head adds "
                f"none: leave out {shown(further)}"
            )
    return {**blocks, **base.blocks}


def _static(data: Dataset, base: Model | None) -> StaticValues | None:
    """Return the block of the static columns of the data, without those that the encoder of a base has learned."""
    learned = {*base.lineage.labels} - {*base.declared.static_inputs} if base else set[str]()
    return of_static(data.schema, [name for name in data.sequences.static if name not in learned])


def _from_table(rows: Rows, target: Target, asked: LabelSources, time: str | None) -> Block | None:
    """Return the block of a label's earlier values in its table, if it is read."""
    delay = asked.options.earlier_labels
    if delay in (None, DECLINED):
        return None
    labels = rows.labels.get(target.name)
    if time is None or labels is None:
        raise ConfigError(
            "earlier_labels needs the time of each label; name its column in the table of labels: label_time="
        )
    if isinstance(delay, timedelta) and delay % timedelta(seconds=1):
        raise ConfigError("earlier_labels must be whole seconds, because a folder holds them so")
    duration(rows.data.schema, delay)
    return EarlierLabels(labels.key, target.empty, delay, asked.time.inclusive)
