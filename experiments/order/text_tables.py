"""The tables of the study of language models: every training, the scores on labels, and the attention."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import t  # type: ignore[import-untyped]

from eventvec.statistics import Scores as Scored
from experiments.command_line import Row
from experiments.differences import Paired
from experiments.jobs import side_by_side
from experiments.order import published
from experiments.order.note_protocol import Array, Scores, comparison_rows
from experiments.order.text_study import (
    ENDS,
    ENTITY,
    EPOCHS,
    LANGUAGE,
    OCP,
    PCL,
    PLAIN,
    RANDOM,
    WORDS,
    Arm,
    results,
    word_accuracy,
)

RATES = {**dict.fromkeys((OCP, PCL, ENTITY), (3e-5, 1e-4)), LANGUAGE: (5e-5, 2e-4)}
"""The learning rates that are tried; held-out pairs, or the loss on held-out notes, choose one for each model."""
SEEDS = 3
"""The number of trainings of each model and rate, as in the paper."""
PAIRS_RATE = 3e-5
"""The learning rate in the study of the number of pairs, set before it: held-out pairs chose it at 48 tokens."""
SIZES = {OCP: ((1000, 10), (0, 20)), ENTITY: ((0, 20),)}
"""Numbers of different pairs, 0 for all, and of epochs; fewer pairs take as many steps as that many epochs of all."""
COUNTS = "given", "drawn", "met", "steps"
"""Facts of a training, as `vectors` describes them, in the study of the number of pairs."""
SHOWN = 30
"""The number of tokens in the table of attention."""


def text_trainings(small: bool, keep: Path) -> list[Row]:
    """Every training on texts: the score by which rate and epoch are chosen, and the accuracy on unseen pairs."""
    facts = _facts(_tried(small), keep)
    chosen = chosen_rates(facts)
    rows = [
        {
            "encoder": arm.objective, "lr": f"{arm.lr:g}", "seed": "ABC"[arm.seed],
            "chosen": chosen[arm.objective] == arm.lr, "held out": _held_out(arm, about), "epoch": about["epoch"],
            **{name: about.get(name) for name in ("tested", "± tested", "pairs")}, "steps": about["steps"],
            "held out by epoch": _curve([about["validation"]]), "seconds": about["seconds"],
        }
        for arm, about in facts.items()
    ]  # fmt: skip
    held_out, tested = word_accuracy(small)
    words = {"encoder": f"{WORDS}, linear, all pairs of {OCP}", "held out": held_out, **tested}
    return [*rows, {name: words.get(name) for name in rows[0]}]


def chosen_rates(facts: Mapping[Arm, Mapping[str, Any]]) -> dict[str, float]:
    """Return the rate of each model whose trainings have the best mean on what is held out of them.

    Args:
        facts: Of each training, as `results` returns them.
    """
    scores: dict[str, dict[float, list[float]]] = {}
    for arm, about in facts.items():
        scores.setdefault(arm.objective, {}).setdefault(arm.lr, []).append(_held_out(arm, about))
    means = {name: {lr: np.mean(values) for lr, values in by_rate.items()} for name, by_rate in scores.items()}
    return {name: (min if name == LANGUAGE else max)(mean, key=mean.__getitem__) for name, mean in means.items()}


def text_pairs(small: bool, keep: Path) -> list[Row]:
    """OCP by the number of different pairs and of steps, beside entity-contrastive, the untrained MiniLM and words.

    Notes of each package are left out for fewer pairs, so that the packages are the same. The accuracy is that on pairs
    of packages that no training saw, and AUC is that of `texts`, with the lead over the untrained MiniLM.
    """
    sizes, fractions = ({OCP: ((24, EPOCHS), (0, EPOCHS))}, ENDS[:1]) if small else (SIZES, ENDS)
    plain, words = Arm(PLAIN, small=small), Arm(WORDS, small=small)
    groups = [
        [Arm(objective, PAIRS_RATE, seed, small, pairs, epochs) for seed in range(1 if small else SEEDS)]
        for objective, of_objective in sizes.items()
        for pairs, epochs in of_objective
    ]
    found = _found([plain, words, *(arm for arms in groups for arm in arms)], keep)
    rows = []
    for arms in [*groups, [plain], [words]]:
        row: Row = {"encoder": arms[0].objective}
        if arms in groups:
            row |= _pairs_row([found[arm][1] for arm in arms])
        for fraction in fractions:
            auc, before = (
                np.stack([found[arm][0][:, arm.fractions.index(fraction), 0] for arm in some], 1)
                for some in (arms, [plain])
            )
            row |= {f"AUC at {fraction:g}": float(auc.mean()), f"std at {fraction:g}": float(auc.mean(1).std(ddof=1))}
            if arms != [plain]:
                row[f"over MiniLM at {fraction:g}"] = float(auc.mean() - before.mean())
                row[f"± 95 % at {fraction:g}"] = interval(auc, before)
        rows.append(row)
    held_out, order = word_accuracy(small)
    rows[-1] |= {"held out": held_out, "unseen pairs": order["tested"], "± 95 %": order["± tested"]}
    return [{name: row.get(name) for name in rows[0]} for row in rows]


def _pairs_row(facts: Sequence[Mapping[str, Any]]) -> Row:
    """Return the numbers of pairs and steps of the trainings of one row, as means, and how well they order pairs."""
    tested, half_widths = (np.array([about[name] for about in facts]) for name in ("tested", "± tested"))
    row: Row = {name: round(float(np.mean([about[name] for about in facts]))) for name in COUNTS}
    return row | {
        "held out": float(np.mean([max(about["validation"]) for about in facts])),
        "unseen pairs": float(tested.mean()), "± 95 %": both_intervals(tested, half_widths),
        "seeds": ", ".join(f"{a:.3f} ± {b:.3f}" for a, b in zip(tested, half_widths, strict=True)),
        "held out by epoch": _curve([about["validation"] for about in facts]),
    }  # fmt: skip


def both_intervals(shares: Array, half_widths: Array) -> float:
    """Return the half-width of the 95 % interval of a mean share over packages and trainings, added as independent.

    Args:
        shares: `(runs,)` the share of each training, on the same pairs.
        half_widths: `(runs,)` the half-width of each over packages.
    """
    n = len(shares)
    trainings = t.ppf(0.975, n - 1) * shares.std(ddof=1) / np.sqrt(n) if n > 1 else 0.0
    return float(np.hypot(half_widths.mean(), trainings))


def texts(small: bool, keep: Path) -> list[Row]:
    """Tables 1, 4 and 5: language models under a linear layer by share of labels, and the lead of OCP over each."""
    scores = _scores(small, keep)
    return [*lead_rows("auc", scores, published.AUC), *lead_rows("precision", scores, published.PRECISION)]


def attention(small: bool, keep: Path) -> list[Row]:
    """The tokens with the highest mean attention of OCP's last layer, on pairs of packages that no training saw."""
    arms = _arms(small, keep)
    facts = _facts([*arms[OCP], *arms[PLAIN]], keep)
    (before,) = (facts[arm]["attention"] for arm in arms[PLAIN])
    of_seeds = [facts[arm]["attention"] for arm in arms[OCP]]
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
    arms = _arms(small, keep)
    every = [arm for of_encoder in arms.values() for arm in of_encoder]
    by_arm = _found(every, keep)
    return {
        (encoder, fraction): np.stack([by_arm[arm][0][:, i] for arm in of_encoder], 1)
        for encoder, of_encoder in arms.items()
        for i, fraction in enumerate(of_encoder[0].fractions)
    }


def _tried(small: bool) -> list[Arm]:
    """Return the trainings of all models at all rates."""
    if small:
        return [Arm(OCP, RATES[OCP][0], small=True)]
    return [Arm(name, lr, seed) for name, rates in RATES.items() for lr, seed in product(rates, range(SEEDS))]


def _arms(small: bool, keep: Path) -> dict[str, list[Arm]]:
    """Return the runs of each encoder, at the chosen rates; what has no random part has one run."""
    tried = _tried(small)
    chosen = chosen_rates(_facts(tried, keep))
    trained = {name: [arm for arm in tried if (arm.objective, arm.lr) == (name, lr)] for name, lr in chosen.items()}
    if small:
        return {**trained, PLAIN: [Arm(PLAIN, small=True)]}
    return {
        **trained,
        PLAIN: [Arm(PLAIN)],
        RANDOM: [Arm(RANDOM, seed=seed) for seed in range(SEEDS)],
        WORDS: [Arm(WORDS)],
    }


def _facts(arms: Sequence[Arm], keep: Path) -> dict[Arm, dict[str, Any]]:
    return {arm: about for arm, (_, about) in _found(arms, keep).items()}


def _found(arms: Sequence[Arm], keep: Path) -> dict[Arm, tuple[Array, dict[str, Any]]]:
    return dict(zip(arms, side_by_side(results, [(arm, keep) for arm in arms]), strict=True))


def _held_out(arm: Arm, about: Mapping[str, Any]) -> float:
    """Return the best accuracy on held-out pairs, or the lowest loss on held-out notes."""
    return float((min if arm.objective == LANGUAGE else max)(about["validation"]))


def _curve(curves: Sequence[Sequence[float]]) -> str:
    """Return the mean over trainings by epoch; those of fewer pairs have different numbers of epochs."""
    epochs = min(map(len, curves))
    return " ".join(f"{value:.3f}" for value in np.mean([curve[:epochs] for curve in curves], 0))
