"""`decide`: from which probability on acting pays, and what it costs beside acting on nobody, on everybody, by a rule.

The rows are those that chose nothing of the model, or later ones with labels. The threshold of each part of the
entities is chosen on the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from eventvec.answers import Answer
from eventvec.embedding import Progress
from eventvec.errors import ConfigError, DataError, listed, nearest, shown
from eventvec.models import Model, check_model
from eventvec.models.head import class_place
from eventvec.models.label_columns import class_names
from eventvec.options import accepts, checked, gather, those_of
from eventvec.predicting.decision_answer import answered
from eventvec.predicting.decision_options import DecisionOptions
from eventvec.predicting.decision_rows import given_rows, own_rows
from eventvec.predicting.rows_to_predict import Events
from eventvec.statistics.decision_costs import Costs
from eventvec.tables.read_options import Storage, TableFormat
from eventvec.tables.sources import Tabular

FEWEST = 20
"""The smallest number of entities on which a decision is judged."""


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
        >>> import numpy as np
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
        rows = own_rows(model, name, place)
    else:
        beside = {"static": static, "labels": known, "features": features, "progress": progress}
        reading = those_of(options, TableFormat, Storage)
        rows = given_rows(model, name, classes, place, events, labels, rule, chosen, reading, beside)
    if rows.judged.entities < FEWEST:
        raise DataError(
            f"at least {FEWEST} entities are needed to judge a decision, and there are rows of {rows.judged.entities:,}"
        )
    return answered(rows, costs, name, classes[place], chosen.seed, net_benefit)


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
