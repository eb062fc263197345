"""Whether a result is too good to be true, in one sentence: a score near 1, or one feature that copies the label."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from eventvec.errors import shown
from eventvec.evaluation.result import EARLIER, Evaluation
from eventvec.learners.task import Target
from eventvec.sequences import Array

SUSPICIOUS = 0.995
"""The score from which a result is too good to be true."""
BY_CHANCE = 0.001
"""The expected number of features without information that may reach it; labels for which it is larger are left out."""
OPENING = "Too good to be true: "
"""The beginning of a verdict about such a result."""
LIKELY, SAMPLE = 0.9, 500
"""The strength on a sample, of about so many rows on each side, from which all rows of a feature are ranked."""
BLOCK = 2_000_000
"""The number of values that are ranked together."""


def suspicion(evaluation: Evaluation) -> str:
    """Return the sentence about a score or a feature that reaches `SUSPICIOUS`; empty if there is none.

    Of several classes the accuracy and the macro-F1 must both be that high, because one frequent class gives a high
    accuracy.
    """
    is_earlier = any(result.features == EARLIER for result in evaluation.results)
    return doubt([_highest_score(evaluation), evaluation.strongest], is_earlier)


def doubt(reasons: Sequence[str], earlier_labels: bool) -> str:
    """Return the sentence about a result that is too good to be true, for some reasons; empty if all are empty."""
    reasons = [reason for reason in reasons if reason]
    if not reasons:
        return ""
    delay = "whether earlier labels were known after their delay, " if earlier_labels else ""
    return (
        f"{OPENING}{', and '.join(reasons)}; check whether events at or after the label's time are read, {delay}"
        "whether a column copies the label, and whether rows repeat."
    )


def _highest_score(evaluation: Evaluation) -> str:
    """Return what the highest score is of, if it is suspicious; each of several labels has its own."""
    best, reason = SUSPICIOUS, ""
    for result in evaluation.results:
        for label, scores in (result.labels or {"": result.main}).items():
            lowest = min(scores.mean, result.secondary.mean) if evaluation.task == "multiclass" else scores.mean
            if lowest >= best and (not reason or lowest > best):
                metric = f"auroc on {shown(label)}" if label else evaluation.metric
                best, reason = lowest, f"{result.features} scores {scores.mean:.3f} {metric} ({result.model})"
    return reason


def strongest(labelled: Target, groups: Array | None, named: Mapping[str, tuple[Array, Sequence[str]]]) -> str:
    """Return what the strongest single feature is, if it is suspicious and not so by chance; empty otherwise.

    `named` has `(n, d)` features with a text for each, `groups` `(n,)` codes of rows that are never split; the rows of
    one count once as evidence against chance. A class counts by its AUROC against the others in either direction,
    numbers by the squared rank correlation, both without weights.
    """
    best, reason = SUSPICIOUS, ""
    targets = list(_targets(labelled))
    tested = len(targets) * sum(values.shape[1] for values, _ in named.values())
    for what, y, rows in targets:
        side = y > 0 if y.dtype == bool else max(y > np.median(y), y < np.median(y), key=np.sum)
        units = rows if groups is None else groups[rows]
        if tested * _by_chance(len(np.unique(units[side])), len(np.unique(units[~side]))) >= BY_CHANCE:
            continue
        sample = np.concatenate([each[:: max(1, len(each) // SAMPLE)] for each in map(np.flatnonzero, (side, ~side))])
        for values, names in named.values():
            columns = np.flatnonzero(_strengths(values[rows[sample]], y[sample]) >= LIKELY)
            strengths = _strengths(values[np.ix_(rows, columns)], y)
            if len(columns) and (highest := strengths.max()) >= best and (not reason or highest > best):
                best = highest
                reason = f"the feature {names[columns[strengths.argmax()]]} alone {what} of {best:.3f}"
    return reason


def _targets(labelled: Target) -> Iterator[tuple[str, Array, Array]]:
    """Return what a feature does, and `(m,)` booleans or numbers at `(m,)` rows, for each class and label."""
    for label in labelled.each:
        if label.task == "numeric":
            yield "has a squared rank correlation", label.y, label.rows
        elif label.task == "binary":
            yield f"predicts {shown(label.name)} with an AUROC", label.y == 1, label.rows
        else:
            for code, value in enumerate(label.classes):
                yield f"tells {shown(value)} from the other classes with an AUROC", label.y == code, label.rows


def _strengths(x: Array, y: Array) -> Array:
    """Return `(d,)` the larger of AUROC and 1 - AUROC of each feature for booleans, or its squared rank correlation."""
    from scipy.stats import rankdata  # type: ignore[import-untyped]

    n = len(y)
    centred = y.astype(float) if y.dtype == bool else rankdata(y) - (n + 1) / 2
    step, parts = max(1, BLOCK // n), [np.zeros(0)]
    for start in range(0, x.shape[1], step):
        ranks = rankdata(x[:, start : start + step].T, axis=1) - (n + 1) / 2
        products = np.abs(ranks @ centred)
        if y.dtype == bool:
            parts.append(0.5 + products / (y.sum() * (~y).sum()))
        else:
            variances = (ranks**2).sum(1) * (centred**2).sum()
            parts.append(products**2 / np.where(variances > 0, variances, 1))
    return np.concatenate(parts)


def _by_chance(m: int, k: int) -> float:
    """Return at most the probability that a feature without information reaches `SUSPICIOUS` in either direction.

    Of `m + k` values in random order, the orders of which at most `t` of the `m k` pairs are the wrong way round are as
    many as the partitions of the numbers up to `t` into at most `m` parts, none above `k` (Mann and Whitney 1947). The
    bound `k` is left out, which counts more. Ties count as half a wrong pair each. They at most double the probability,
    since ties in random order have fewer wrong pairs than that as often as more. From 30 on each side on, it is below
    1e-15.
    """
    few, many = min(m, k, 30), max(m, k)
    counts = np.zeros(1 + int((1 - SUSPICIOUS) * few * many + 1e-9))
    counts[0] = 1
    for part in range(1, few + 1):
        padded = np.pad(counts, (0, -len(counts) % part)).reshape(-1, part)
        counts = padded.cumsum(0).reshape(-1)[: len(counts)]
    return float(4 * counts.sum() / math.comb(few + many, few))
