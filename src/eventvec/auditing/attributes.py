"""Which protected columns can be read from the vectors: beyond chance, and beyond simple features of the events."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from eventvec.auditing.areas import largest_leak
from eventvec.auditing.findings import Finding, untold
from eventvec.dataset import Dataset
from eventvec.errors import DataError
from eventvec.evaluation import METRICS, Evaluation, evaluate
from eventvec.evaluation.conclusion import deciding_cell
from eventvec.evaluation.intervals import NORMAL, quantile
from eventvec.evaluation.joined_labels import rows_among
from eventvec.reporting.charts import METRIC_NAMES
from eventvec.tables import Embeddings
from eventvec.tables.sources import Tabular, read_table

OPPONENTS = ("aggregates", "handcrafted", "event_count", "untrained")
"""The features of the same events that need no training."""


def attribute_findings(
    z: Embeddings,
    data: Dataset,
    protected: Tabular,
    columns: Sequence[str],
    *,
    models: Sequence[str] | None,
    folds: int,
    seed: int,
    level: float,
) -> tuple[list[Finding], list[str]]:
    """Return one answer for each protected column, and notes.

    A column is revealed if the interval of the cross-validated score of a model on the vectors lies above chance. It is
    revealed beyond simple features if the vectors are ahead of each of these in the same folds. The intervals are those
    of `evaluate`, widened so that they hold together for all columns (Bonferroni).
    """
    widths = quantile(level / len(columns)) / NORMAL
    findings, notes = [], []
    for column in columns:
        try:
            result = evaluate(z, data, protected, column, models=models, folds=folds, seed=seed)
        except DataError as error:
            if "there is no column" in str(error) or "has no column" in str(error):
                raise
            findings.append(untold("attribute", column, f"{column}: {error}."))
            continue
        findings.append(_finding(result, _chance(result, z, protected, column, data.schema.key_out), widths))
        notes += [f"{column}: {note}" for note in result.notes]
    return findings, notes


def _finding(result: Evaluation, chance: float, widths: float) -> Finding:
    model, _ = deciding_cell(result)
    cells = {each.features: each.main for each in result.results if each.model == model}
    score, opponents = cells["embedding"], {name: cells[name].mean for name in OPPONENTS if name in cells}
    low, high = score.mean - widths * score.interval, score.mean + widths * score.interval
    if not math.isfinite(score.interval):
        why = "the test parts are too small for an interval; use fewer folds"
        return untold("attribute", result.label, f"{result.label} cannot be told: {why}.")
    most = largest_leak(score.mean, widths * score.interval, chance)
    leads = [cells["embedding"] - cells[name] for name in opponents]
    beyond = bool(leads) and all(lead.mean > widths * lead.interval for lead in leads)
    name, metric = result.label, METRIC_NAMES[result.metric]
    best = max(opponents, key=opponents.__getitem__) if opponents else ""
    how = f"{metric} {score.mean:.3f} ± {widths * score.interval:.3f} ({model}), where guessing has {chance:.3f}"
    if low > chance:
        answer = "yes"
        sentence = f"{name} can be read from the vectors: {how}."
        if beyond:
            sentence += f" They reveal more than {best} of the same events ({opponents[best]:.3f})."
        elif best:
            lead = cells["embedding"] - cells[best]
            most = lead.mean + widths * lead.interval
            sentence += (
                f" They are not shown to reveal more than {best} of the same events do ({opponents[best]:.3f}); a lead "
                f"of more than {max(most, 0):.3f} can be excluded."
            )
    else:
        answer = "not found"
        sentence = f"{name} was not found in the vectors: {how}; a score above {most:.3f} can be excluded."
    return Finding("attribute", name, answer, beyond, sentence, metric, score.mean, low, high, chance, opponents)  # type: ignore[arg-type]


def _chance(result: Evaluation, z: Embeddings, protected: Tabular, column: str, key: str) -> float:
    """Return the score of guessing: half, the share of the most frequent class of the entities, or no variance."""
    if result.metric != METRICS["multiclass"][0]:
        return 0.5 if result.metric == METRICS["binary"][0] else 0.0
    frame = read_table(protected, [key, column])
    rows = rows_among(z, frame[key].alias("").to_arrow(), key)
    counts = frame[column].gather(rows[rows >= 0]).drop_nulls().value_counts()["count"].to_numpy()
    return float(np.max(counts) / np.sum(counts))
