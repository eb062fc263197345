"""`decide`: from which probability on acting pays, and what it costs beside acting on nobody, on everybody, by a rule.

The rows are those that chose nothing of the model, or later ones with labels. The threshold of each part of the
entities is chosen on the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eventvec.answers import Answer
from eventvec.blocks.earlier_labels import EARLIER
from eventvec.dataset import Dataset
from eventvec.embedding import Progress
from eventvec.errors import ConfigError, DataError, listed, nearest, shown
from eventvec.examples.labelled import Examples, join_examples
from eventvec.learners.held_out_scores import overlap
from eventvec.learners.inputs import positive
from eventvec.learners.stacking import MANY
from eventvec.models import Model, check_model
from eventvec.models.head import Head, class_place
from eventvec.models.label_columns import class_names
from eventvec.options import accepts, checked, gather, those_of
from eventvec.predicting.caller_rules import acts_by_rule
from eventvec.predicting.decision_answer import Decided, answered
from eventvec.predicting.decision_options import DecisionOptions
from eventvec.predicting.prediction import predicted
from eventvec.predicting.rows_to_predict import Events
from eventvec.sequences import Array
from eventvec.statistics.decision_costs import Costs, Judged
from eventvec.tables.frames import with_key
from eventvec.tables.label_times import TimedLabels, labelled_histories, labels_beside
from eventvec.tables.read_options import LabelTime, Storage, TableFormat
from eventvec.tables.sources import Tabular, columns_of, kept

FEWEST = 20
"""The smallest number of entities on which a decision is judged."""
LATEST = "The rows are the latest ones of the model's labels, each predicted from earlier rows of other entities."
BY_ENTITY = (
    "The rows are all of the model's labels, each predicted from other entities. Later times may differ; labels that "
    "became known later, given with their events, show it. Intervals of the model are wider because its trainings "
    "overlap."
)
NEW = "The labels must be new to the model: on rows that it learned from, its decisions look better than they are."
EARLIER_ALONE = "The earlier labels are those of the table of labels alone; known= (--known) names a table of all."


@accepts(DecisionOptions, TableFormat, Storage)
def decide(
    model: Model,
    events: Events | None = None,
    labels: Tabular | None = None,
    *,
    action: float,
    case: float,
    saves: float = 1.0,
    label: str | None = None,
    of: Any = None,
    rule: Tabular | None = None,
    net_benefit: bool = False,
    static: Tabular | None = None,
    known: Tabular | None = None,
    features: Mapping[str, Tabular] | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Answer:
    """Return on whom to act: the probability from which on it pays, and what that costs beside doing otherwise.

    An action costs `action`, a case costs `case`, and an action prevents the share `saves` of the cases on which one
    acts. So with true probabilities, acting pays from `action / (saves · case)` on, the break-even. Predictions may be
    too high, too low, too bold or too timid, so the threshold is where a recalibration, learned from rows that the
    model did not learn from, reaches the break-even; for calibrated predictions it is near the break-even itself. The
    prediction with the least cost so far would be a noisier choice, see `statistics.decision_costs`.

    The cost is that on other rows than the threshold was chosen on: entities are divided into five parts, and the
    threshold of each part is chosen on the others. Costs and differences have 95 % intervals by resampling entities,
    which choose the thresholds anew. The threshold to use is that of all rows. The break-even is judged beside it, and
    a note says if it costs clearly less or more, which happens if probabilities are not calibrated.

    By default the rows are those of the model's own labels that chose nothing in it, see `Head.info`. With `events` and
    `labels`, they are predicted as of the time of each label, as `predict` does. These labels must be new to the model.

    Relations: `predict` gives the probabilities to which the threshold applies. `evaluate` says how well cases are told
    from others, whatever they cost.

    Args:
        model: A model that predicts classes.
        events: Events of the entities in `labels`, as `Model.read` takes them.
        labels: A table with the key and the label, and the times of the labels if they have some.
        action: What one action costs, above 0.
        case: What one case costs, above 0, in the same unit.
        saves: The share of the cases that an action prevents, in (0, 1]. It is taken as given: only a trial in which
            chance decides who gets an action measures it.
        label: The label, if the model predicts several.
        of: The class that is a case; by default the greater of two, such as true.
        rule: A table with the key, the time of the label if keys have several, and one column of booleans or of 0 and
            1: on whom your own rule acts. It needs `events` and `labels`.
        net_benefit: Whether a table and a chart of the net benefit by threshold are added, a decision curve (Vickers
            and Elkin 2006).
        static: A table with the key and the static columns that the model reads, if it reads any.
        known: For heads that read an entity's earlier labels from a table, that table: the labels of all times; by
            default `labels` alone.
        features: The tables of further features by name, for heads that learned from them.
        progress: Called with the number of entities predicted and of all entities.
        options: The fields of `DecisionOptions` (label_time, key, group, weight, until, seed), and the formats of
            tables as for `Model.read`.

    Returns:
        An answer with the table `policies`: for the model, the break-even, nobody, everybody and the rule, the `cost`
        per 1,000 rows, how much the `model_saves` against it, and the shares `acted` on and of cases `reached`. The
        table `curve` has the cost at thresholds around the chosen one, `parts` the threshold of each part, and
        `net_benefit` the decision curve. Facts are the `threshold` (0 to act on everybody, None on nobody), the
        `break_even`, the number of rows `acted` on by it, the `cost` and the `advantage`: by how much the model costs
        less than the better of nobody and everybody.

    Raises:
        ConfigError: If it is no model that predicts classes, a cost or share is out of range, the model has no rows of
            its own to judge on and none are given, or an option has no meaning without labels.
        DataError: If the tables cannot be used, or there are fewer than 20 entities.

    Example:
        >>> import polars as pl
        >>> import eventvec as ev
        >>> rng = np.random.default_rng(0)
        >>> leaves = rng.random(100) < 0.3
        >>> what = np.where(rng.random((100, 5)) < np.where(leaves, 0.6, 0.3)[:, None], "complaint", "order")
        >>> keys, days = np.repeat(np.arange(100), 5), np.tile(np.arange(5), 100)
        >>> events = pl.DataFrame({"customer": keys, "day": days, "what": what.ravel()})
        >>> labels = pl.DataFrame({"customer": np.arange(100), "leaves": leaves})
        >>> data = ev.read(events, key="customer", time="day")
        >>> model = ev.fit(data, labels=labels, label="leaves", label_time="none")
        >>> answer = ev.decide(model, action=1, case=10, saves=0.3)
        >>> [row["policy"] for row in answer.rows]
        ['model', 'break-even', 'nobody', 'everybody']
        >>> round(answer.facts["break_even"], 3)
        0.333
    """
    check_model(model)
    numbers = {"action": action, "case": case, "saves": saves}
    costs = Costs(**{name: float(checked(name, value, float)) for name, value in numbers.items()})
    chosen = gather(options, DecisionOptions, TableFormat, Storage)
    name, classes = _label(model, label)
    place = _class(classes, of, name)
    if (events is None) != (labels is None):
        raise ConfigError("events and labels are given together or not at all (MODEL EVENTS LABELS)")
    if events is None or labels is None:
        tables = {"rule": rule, "static": static, "known": known, "features": features or None}
        others = {key: value for key, value in options.items() if key != "seed"}
        if without := next((key for key, value in {**tables, **others}.items() if value is not None), None):
            raise ConfigError(
                f"{without} is given without events and labels, and the rows that the model keeps have no keys; add "
                "both (MODEL EVENTS LABELS), or leave it out"
            )
        rows = _own_rows(model, name, place)
    else:
        beside = {"static": static, "labels": known, "features": features, "progress": progress}
        given = _Given(events, kept(with_key(labels)), rule, those_of(options, TableFormat, Storage), beside)
        rows = _given_rows(model, name, classes, place, given, chosen)
    if rows.judged.entities < FEWEST:
        raise DataError(
            f"there are rows of {rows.judged.entities:,} entities to judge a decision on; at least {FEWEST} are needed"
        )
    decided = Decided(rows.judged, costs, name, classes[place], rows.by_rule, rows.factor, chosen.seed)
    return answered(decided, rows.notes, net_benefit)


@dataclass(frozen=True, eq=False)
class _DecisionRows:
    """Rows to judge on, by what the variance of the model's costs is multiplied, whom a rule acts on, and notes."""

    judged: Judged
    factor: float
    by_rule: Array | None
    notes: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class _Given:
    """Events with labels, whom a rule acts on, the formats of tables, and what `predict` reads beside the events."""

    events: Events
    labels: Tabular
    rule: Tabular | None
    reading: Mapping[str, Any]
    beside: Mapping[str, Any]


def _label(model: Model, label: str | None) -> tuple[str, list[str]]:
    """Return the label to decide on and its classes."""
    known = {each.name: class_names(each) for each in model.declared.label_fields}
    known |= {name: head.class_names for name, head in model.heads.items()}
    if not known:
        raise ConfigError(
            f"the model {model.id} predicts no label, because it has no head; train one: ev.fit with labels= (eventvec "
            "fit --labels), or the method supervised"
        )
    if label is None and len(known) > 1:
        raise ConfigError(f"the model predicts {listed(map(shown, known))}; name one: label= (--label)")
    name = next(iter(known)) if label is None else label
    if name not in known:
        raise ConfigError(f"the model predicts no label {shown(name)}; {nearest(name, known)}")
    if not known[name]:
        raise ConfigError(
            f"the label {shown(name)} is a number, and a decision needs classes; learn a label such as whether the "
            "number is above a limit"
        )
    return name, known[name]


def _class(classes: list[str], of: Any, label: str) -> int:
    """Return the place of the class that is a case."""
    if of is None:
        if len(classes) == 2:
            return 1
        raise ConfigError(
            f"the label {shown(label)} has {len(classes):,} classes; name the one that is a case: of= (--of)"
        )
    return class_place(classes, of, label)


def _own_rows(model: Model, name: str, place: int) -> _DecisionRows:
    """Return the rows of a head that chose nothing in it."""
    scores = model.heads[name].info["scores"] if name in model.heads else None
    if scores is None:
        why = "there were too few" if name in model.heads else "networks keep none"
        raise ConfigError(
            f"the model has no rows of {shown(name)} that it did not learn from, because {why}; give events and labels "
            "that are new to it (MODEL EVENTS LABELS)"
        )
    held, several = scores.held_out, scores.held_out.predictions.ndim == 2
    of_one = held.predictions[:, place] if several else np.abs(held.predictions - (1 - place))
    is_case = (held.y == place).astype(np.float64)
    judged = Judged(of_one.astype(np.float64), is_case, held.weights, held.groups)
    if scores.latest is not None:
        return _DecisionRows(judged, 1.0, None, (LATEST,))
    return _DecisionRows(judged, overlap(5 if len(is_case) < MANY else 3), None, (BY_ENTITY,))


def _given_rows(
    model: Model, name: str, classes: list[str], place: int, given: _Given, chosen: DecisionOptions
) -> _DecisionRows:
    """Return rows with labels, predicted as of the times of their labels.

    Args:
        model: The model.
        name: The label.
        classes: Its classes.
        place: The place of the class that is a case.
        given: The events with their labels.
        chosen: The options.
    """
    head = model.heads.get(name)
    model = replace(model, heads={} if head is None else {name: head})  # other heads may need further tables
    reading = {} if isinstance(given.events, Dataset) else {**model.info.get("reading", {}), **given.reading}
    until = {} if chosen.until is None else {"until": chosen.until}
    data = model.read(given.events, **reading, **until)
    timed = _timed(data, given.labels, name, head, chosen)
    beside, notes = given.beside, [NEW]
    if head is not None and EARLIER in head.blocks and beside["labels"] is None:
        beside, notes = {**beside, "labels": given.labels}, [NEW, EARLIER_ALONE]
    table, rows = predicted(model, labelled_histories(data, timed), at=None, **beside)
    examples = join_examples(rows.data, timed, of="rows")
    notes += examples.notes
    names = (f"{name}_p_{classes[place]}", f"p_{classes[place]}")
    column = next(each for each in names if each in table.column_names)
    probabilities = table.column(column).to_numpy()[examples.positions].astype(np.float64)
    if (missing := np.isnan(probabilities)).any():
        notes.append(f"{int(missing.sum()):,} rows that the model cannot read were left out.")
        examples, probabilities = examples[~missing], probabilities[~missing]
    units = np.arange(len(examples)) if examples.units is None else examples.units
    groups = np.unique(units, return_inverse=True)[1].astype(np.int64)
    by_rule = None if given.rule is None else acts_by_rule(given.rule, examples)
    weights = np.ones(len(examples)) if examples.weights is None else positive(examples.weights)
    judged = Judged(probabilities, _cases(examples, classes, place), weights, groups)
    return _DecisionRows(judged, 1.0, by_rule, tuple(notes))


def _timed(data: Dataset, labels: Tabular, name: str, head: Head | None, chosen: DecisionOptions) -> TimedLabels:
    """Return the labels with their times, by default in the column that had those of the training."""
    time = chosen.label_time
    if time is None and head is not None and head.label_time in columns_of(labels):
        time = head.label_time
    options = LabelTime(time, head is not None and head.inclusive)
    return labels_beside(data, labels, [name], options, key=chosen.key, group=chosen.group, weight=chosen.weight)


def _cases(examples: Examples[Dataset], classes: list[str], place: int) -> Array:
    """Return `(m,)` 1 for the rows of a class and 0 for others; refuse labels that the model does not know."""
    texts = pa.array(np.asarray(examples.labels), from_pandas=True).cast(pa.string())
    if unknown := sorted(set(pc.unique(texts).to_pylist()) - {*classes}):
        raise DataError(
            f"the label {shown(examples.name)} has {listed(map(shown, unknown))}, which the model did not learn; its "
            f"classes are {listed(map(shown, classes))}"
        )
    return np.asarray(pc.equal(texts, classes[place]).to_numpy(zero_copy_only=False), np.float64)
