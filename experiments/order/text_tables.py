"""The tables of the study of language models: every training, the scores on labels, and the attention."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from eventvec.statistics import Scores as Scored
from experiments.command_line import Row
from experiments.differences import Paired
from experiments.jobs import side_by_side
from experiments.order import published
from experiments.order.note_protocol import FRACTIONS, Array, Scores, comparison_rows
from experiments.order.text_study import (
    ENTITY,
    LANGUAGE,
    OCP,
    PCL,
    PLAIN,
    RANDOM,
    WORDS,
    Arm,
    fold_scores,
    vectors,
    word_accuracy,
)

RATES = {OCP: 3e-5, PCL: 3e-5, ENTITY: 3e-5, LANGUAGE: 2e-4}
"""The learning rates: for pairs that of OCP, chosen by accuracy on held-out pairs; by the loss on held-out notes."""
TRIALS = [*(Arm(OCP, lr) for lr in (3e-5, 1e-4)), *(Arm(LANGUAGE, lr) for lr in (5e-5, 2e-4))]
SEEDS = 3
"""The number of trainings of each model, as in the paper."""
SHOWN = 30
"""The number of tokens in the table of attention."""


def text_trainings(small: bool, keep: Path) -> list[Row]:
    """Every training on texts: the score by which rate and epoch are chosen, and the accuracy on unseen pairs."""
    arms = [arm for of_encoder in _arms(small).values() for arm in of_encoder if arm.lr]
    arms += [] if small else [arm for arm in TRIALS if arm not in arms]
    rows = [
        {
            "encoder": arm.objective, "lr": f"{arm.lr:g}", "seed": "ABC"[arm.seed],
            "chosen": RATES[arm.objective] == arm.lr,
            "held out": (min if arm.objective == LANGUAGE else max)(about["validation"]), "epoch": about["epoch"],
            **{name: about.get(name) for name in ("tested", "± tested", "pairs")}, "seconds": about["seconds"],
        }
        for arm, (_, about) in zip(arms, side_by_side(vectors, [(arm, keep) for arm in arms]), strict=True)
    ]  # fmt: skip
    held_out, tested = word_accuracy(small)
    words = {"encoder": f"{WORDS}, linear, all pairs of {OCP}", "held out": held_out, **tested}
    return [*rows, {name: words.get(name) for name in rows[0]}]


def texts(small: bool, keep: Path) -> list[Row]:
    """Tables 1, 4 and 5: language models under a linear layer by share of labels, and the lead of OCP over each."""
    scores = _scores(small, keep)
    return [*lead_rows("auc", scores, published.AUC), *lead_rows("precision", scores, published.PRECISION)]


def attention(small: bool, keep: Path) -> list[Row]:
    """The tokens with the highest mean attention of OCP's last layer, on pairs of packages that no training saw."""
    arms = _arms(small)
    side_by_side(vectors, [(arm, keep) for arm in (*arms[OCP], *arms[PLAIN])])
    (before,) = (vectors(arm, keep)[1]["attention"] for arm in arms[PLAIN])
    of_seeds = [vectors(arm, keep)[1]["attention"] for arm in arms[OCP]]
    means = {token: float(np.mean([of_seed[token] for of_seed in of_seeds])) for token in of_seeds[0]}
    ranked = sorted(means, key=lambda token: -means[token])[:SHOWN]
    return [
        {
            "token": token, "OCP": means[token],
            **{f"seed {'ABC'[seed]}": of_seed[token] for seed, of_seed in enumerate(of_seeds)},
            "before training": before[token], "paper": "above .1" if token in published.ATTENDED else "",
        }
        for token in ranked
    ]  # fmt: skip


def lead_rows(metric: str, scores: Scores, paper: Mapping[str, published.Lead]) -> list[Row]:
    """Return one row per encoder and fraction: its score, and the lead of OCP with its 95 % interval.

    Args:
        metric: `auc` or `precision`.
        scores: Of all encoders.
        paper: The published leads of OCP, and its published scores.
    """
    rows, place = [], ("auc", "precision").index(metric)
    for row in comparison_rows("", scores, OCP):
        encoder, fraction = row["features"], row["fraction"]
        value, wins = paper.get(encoder, {}).get(fraction, (None, None))
        ours, of_runs = row[metric if encoder == OCP else f"{metric} behind"], scores[encoder, fraction][..., place]
        half_width = interval(scores[OCP, fraction][..., place], of_runs)
        rows.append(
            {
                "score": metric, "encoder": encoder, "fraction": fraction, "mean": row[metric],
                "std": row[f"{metric} std"], "OCP ahead by": row[f"{metric} behind"],
                "± 95 %": None if encoder == OCP else half_width, "p": row[f"{metric} p"],
                "wins": row[f"{metric} wins"], "paper": value, "paper wins": wins,
                "difference": None if value is None else ours - value,
                "seeds": ", ".join(f"{run.mean():.3f} ± {run.std(ddof=1):.3f}" for run in of_runs.T),
            }
        )  # fmt: skip
    return rows


def interval(ours: Array, other: Array) -> float:
    """Return the half-width of the 95 % interval of a mean difference over folds and runs.

    Args:
        ours: `(folds, runs)` scores.
        other: The same of another encoder, whose runs are independent of ours, or `(folds, 1)`.

    Example:
        >>> round(interval(np.array([[0.7], [0.8], [0.6]]), np.array([[0.6], [0.6], [0.6]])), 3)
        0.248
    """
    return Paired(tuple(Scored(tuple(map(float, run))) for run in (ours - other).T)).interval


def _scores(small: bool, keep: Path) -> Scores:
    fractions = FRACTIONS[:1] if small else FRACTIONS
    arms = _arms(small)
    jobs = [(arm, keep, fractions) for of_encoder in arms.values() for arm in of_encoder]
    by_arm = dict(zip((job[0] for job in jobs), side_by_side(fold_scores, jobs), strict=True))
    return {
        (encoder, fraction): np.stack([by_arm[arm][:, i] for arm in of_encoder], 1)
        for encoder, of_encoder in arms.items()
        for i, fraction in enumerate(fractions)
    }


def _arms(small: bool) -> dict[str, list[Arm]]:
    """Return the runs of each encoder; what has no random part has one run."""
    if small:
        return {OCP: [Arm(OCP, RATES[OCP], small=True)], PLAIN: [Arm(PLAIN, small=True)]}
    trained = {name: [Arm(name, RATES[name], seed) for seed in range(SEEDS)] for name in (OCP, PCL, ENTITY, LANGUAGE)}
    untrained = [Arm(RANDOM, seed=seed) for seed in range(SEEDS)]
    return {**trained, PLAIN: [Arm(PLAIN)], RANDOM: untrained, WORDS: [Arm(WORDS)]}
