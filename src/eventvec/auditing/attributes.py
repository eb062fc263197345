"""Which protected columns can be read from the vectors: beyond chance, and beyond simple features of the events."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from eventvec.answers import Answer
from eventvec.auditing.audit_options import AuditOptions
from eventvec.auditing.findings import Row, judged, unanswered
from eventvec.dataset import Dataset
from eventvec.errors import DataError
from eventvec.evaluation import EvaluationOptions, evaluate
from eventvec.examples.labelled import join_examples
from eventvec.learners.metrics import METRICS
from eventvec.options import those_of
from eventvec.statistics.corrections import together
from eventvec.statistics.estimates import decimal
from eventvec.tables import Embeddings
from eventvec.tables.label_times import labels_beside
from eventvec.tables.read_options import LabelTime
from eventvec.tables.sources import Tabular

OPPONENTS = ("aggregates", "handcrafted", "event_count", "untrained")
"""The features of the same events that need no training."""
ALSO = ("aggregates", "event_count")
"""Those of them that are scored on request."""


def attribute_findings(
    z: Embeddings, data: Dataset, protected: Tabular, columns: Sequence[str], options: AuditOptions, level: float
) -> tuple[list[Row], list[str]]:
    """Return one answer for each protected column, and notes.

    A column is revealed if the interval of the cross-validated score of a model on the vectors lies above chance. It is
    revealed beyond simple features if the vectors are ahead of each of these in the same folds. The intervals are those
    of `evaluate`, widened so that they hold together for all columns (Bonferroni).
    """
    width = together(len(columns), level)
    findings, notes = [], []
    for column in columns:
        try:
            result = evaluate(z, data, protected, column, also=ALSO, **those_of(vars(options), EvaluationOptions))
        except DataError as error:
            if "there is no column" in str(error) or "has no column" in str(error):
                raise
            findings.append(unanswered("attribute", column, f"{column}: {error}."))
            continue
        findings.append(_finding(result, _chance(result, z, protected, column), width))
        notes += [f"{column}: {note}" for note in result.notes]
    return findings, notes


def _finding(result: Answer, chance: float, width: float) -> Row:
    cells, name, metric = result.basis.deciding, result.facts["label"], result.facts["metric"]
    ours, opponents = cells["embedding"].main, {each: cells[each].main for each in OPPONENTS if each in cells}
    score = ours.estimate.widened(width)
    if not math.isfinite(score.half_width):
        why = "the test parts are too small for an interval; use fewer folds"
        return unanswered("attribute", name, f"{name} is unknown: {why}.")
    leads = {each: (ours - other).estimate.widened(width) for each, other in opponents.items()}
    beyond = all(lead.place == "ahead" for lead in leads.values())
    best = max(opponents, key=lambda each: opponents[each].mean)
    rival = f"reveal more than {best} of the same events ({decimal(opponents[best].mean)})"
    most = f"a lead of more than {decimal(max(leads[best].high, 0))} can be excluded"
    return judged(
        "attribute",
        name,
        (f"{name} can be read from the vectors", f"{name} was not found in the vectors"),
        f"{metric} {score} ({cells['embedding'].model}), where guessing has {decimal(chance)}",
        score,
        {each: other.mean for each, other in opponents.items()},
        beyond=beyond,
        more=f" They {rival}." if beyond else f" They are not shown to {rival}; {most}.",
        metric=metric,
        chance=chance,
    )


def _chance(result: Answer, z: Embeddings, protected: Tabular, column: str) -> float:
    """Return the score of guessing: half, the share of the most frequent class of the entities, or no variance."""
    if result.facts["metric"] != METRICS["multiclass"][0]:
        return 0.5 if result.facts["metric"] == METRICS["binary"][0] else 0.0
    counts = np.bincount(join_examples(z, labels_beside(z, protected, [column], LabelTime())).target().y)
    return float(counts.max() / counts.sum())
