"""Earlier labels that are computed from events by the rule of `future_labels`, in training as in prediction."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from eventvec.blocks.earlier_labels import earlier_labels, names_of, width_of
from eventvec.blocks.rows import Features, Rows
from eventvec.errors import ConfigError
from eventvec.labels.future_options import FutureOptions
from eventvec.labels.horizons import Rule, name_of_labels
from eventvec.labels.known_labels import known_labels
from eventvec.labels.rules import options_in
from eventvec.learners.task import Target
from eventvec.options import LATEST
from eventvec.schema import Schema
from eventvec.sequences import Array
from eventvec.tables.coding import kind_of
from eventvec.tables.cutoffs import ends
from eventvec.tables.label_times import KNOWN_AT, RULE, TimedLabels, readable
from eventvec.tables.sources import Tabular, read_table
from eventvec.views.cuts import latest

READ = (
    "Earlier labels of each entity are read as features, computed from its events by the rule of future_labels, as "
    "soon as their horizon has ended; earlier_labels='none' (--earlier-labels none) declines."
)
NOT_READ = "Earlier labels are not read as features, although the labels have a rule: "


@dataclass(frozen=True, eq=False)
class LabelsByRule:
    """The entity's own earlier labels that are known by the moment of prediction, computed from its latest events.

    Relations: `EarlierLabels` reads them from a table.

    Args:
        rule: What is labelled.
        target: The label with its classes; its values are not read.
        inclusive: Whether what becomes known at the very moment is read.
        latest: The number of latest events from which labels are computed.
    """

    rule: Rule
    target: Target
    inclusive: bool
    latest: int = LATEST

    @property
    def dim(self) -> int:
        """The number of features."""
        return width_of(self.target)

    @property
    def names(self) -> list[str]:
        """The name of each feature, see `describing.feature_words`."""
        return names_of(self.target)

    def features(self, rows: Rows) -> Features:
        """Return the features, as `Block` has them; all are 0 for a row without events."""
        data, moments = rows.data, rows.moments
        if not self.inclusive:
            moments = ends(data.schema, moments)  # a label is known as soon as the last event of its horizon is read
        values = np.zeros((len(data), self.dim))
        limits = ends(data.schema, moments, self.inclusive)
        for part, histories, labels in known_labels(latest(data.sequences, self.latest), self.rule, limits):
            values[part] = earlier_labels(histories, moments[part], labels, self.target, data.schema, self.inclusive)
        return values, [""] * values.shape[1]


def rule_by_default(
    labels: Tabular, schema: Schema, label: str, values: Array, timed: TimedLabels
) -> tuple[Rule | None, tuple[str, ...]]:
    """Return the rule by which earlier labels are computed, if the table has that of the label, and a note about it.

    Args:
        labels: The table of labels.
        schema: The schema by which the events are read.
        label: The label that is learned.
        values: Its values.
        timed: The labels with their times.
    """
    options = _rules_of(labels, label)
    if not options:
        return None, ()
    try:
        if len(options) > 1:
            raise ConfigError(f"they have {len(options)} rules")
        if timed.moments is None:
            raise ConfigError("the labels have no time")
        if schema.known_at is not None:
            raise ConfigError("events became known later than at their time (known_at)")
        rule = Rule.of(schema, options[0])
        _check_values(rule, values)
    except ConfigError as error:
        return None, (f"{NOT_READ}{error}.",)
    return rule, (READ,)


def _rules_of(labels: Tabular, label: str) -> list[FutureOptions]:
    """Return the different rules of a label that a table has, none if it is no table of `future_labels`."""
    opened = readable(labels, [label, KNOWN_AT, RULE])
    if not {KNOWN_AT, RULE} <= set(opened.types) or kind_of(opened.types[RULE]) != "text":
        return []
    texts = read_table(opened, [RULE])[RULE].cast(pl.String).unique().sort().to_list()
    parsed = [None if text is None else options_in(text) for text in texts]
    rules = list[FutureOptions]()
    for each in parsed:
        if each is None or name_of_labels(each) != label:
            return []
        if (rule := replace(each, observed_until=None)) not in rules:
            rules.append(rule)
    return rules


def _check_values(rule: Rule, values: Array) -> None:
    """Refuse labels of another kind than those of the rule, which were changed since."""
    is_number = values.dtype.kind in "iuf"
    if rule.options.label in ("event", "no_event"):
        fits = values.dtype.kind == "b" or (is_number and np.isin(values, [0, 1]).all())
    else:
        fits = is_number
    if not fits:
        raise ConfigError("the rule gives labels of another kind than those of the table")
