"""How many pairs the selection of features by order needs, on made histories that meet the paper's assumptions.

Agrawal et al. 2022, Section 3.1, describe a class of histories in which selection by order provably works, and Section
4.2 selects words of notes, with 158,000 pairs. Here both meet: histories of notes of words, in which 30 words are noisy
signs of irreversible concepts and 400 are a reversible background, go through the protocol of Section 4.2 with few
pairs and with many.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from scipy import sparse  # type: ignore[import-untyped]
from scipy.stats import ttest_rel  # type: ignore[import-untyped]
from sklearn.feature_extraction.text import TfidfTransformer

import eventvec as ev
from eventvec.statistics import Scores
from experiments.command_line import Row
from experiments.order.assumptions import signals
from experiments.order.feature_comparison import ALL, COUNT, OCP, RANDOM, RANDOM_SUBSETS, SHARE, WITHIN
from experiments.order.note_protocol import GRID, Array, Grid, labelled_notes, split_folds, tuned_scores
from experiments.order.sparse_selection import l1_to_count, random_subsets

DRAWS = 6  # of the data set, with the seeds 0 to 5
SIZES = (1000, 2000, 4000, 8000, 16_000)  # numbers of pairs; a larger number contains the smaller ones
FRACTIONS = (1, 1 / 4, 1 / 16)
ENTITIES = 135  # with labels, as in the paper
LENGTH, EVER = 10, 0.5  # notes of a history, and probability that a concept ever begins (the paper: 10, and .4 to .6)
CONCEPTS, BACKGROUND = 30, 400
FLIP = 0.3  # probability that a word disagrees with its concept, as in the paper's first distribution
FREQUENCY = 0.1, 0.5  # range of the shares of notes in which the words of the background occur
STAGE = 14  # concepts that must have begun for label 1, as in 17 % of the notes (the paper: 19 %)
ORACLE = "the 30 words"
UNLABELLED = 2000  # histories that are diagnosed
SMALL: dict[str, Any] = {"grid": ((True, 1.0),), "subsets": 1}
SMALL_SIZES = (300, 600)


@dataclass(frozen=True, eq=False)
class WordNotes:
    """Notes of words, all of them with a label; the notes of an entity are contiguous and in order of time.

    Args:
        entity: `(n,)` the entity of each note.
        label: `(n,)` 0 or 1: whether enough concepts have begun.
        words: `(n, 430)` sparse, 1 where a note contains a word; the words of the concepts come first.
    """

    entity: Array
    label: Array
    words: Any


@dataclass(frozen=True, eq=False)
class WordHistories:
    """The class of histories of Section 3.1, with words as noisy signs of concepts that are not observed.

    A concept begins at a note that is uniform over the history (the first included), or never, and does not end. Its
    word disagrees with it with probability 0.3, anew in each note. A word of the background occurs with its own
    probability, anew in each note, so that it is reversible.

    Args:
        frequency: `(400,)` the probabilities of the words of the background.
    """

    frequency: Array

    def begins(self, rows: int, rng: np.random.Generator) -> Array:
        """Return `(rows, 30)` the note at which each concept begins, 10 where it never does."""
        return np.where(rng.random((rows, CONCEPTS)) < EVER, rng.integers(LENGTH, size=(rows, CONCEPTS)), LENGTH)

    def words(self, begun: Array, rng: np.random.Generator) -> Any:
        """Return `(n, 430)` sparse, the words of notes, given `(n, 30)` whether each concept has begun."""
        signs = begun ^ (rng.random(begun.shape) < FLIP)
        background = rng.random((len(begun), BACKGROUND)) < self.frequency
        return sparse.csr_matrix(np.concatenate([signs, background], 1)).astype(float)

    def notes(self, rng: np.random.Generator) -> WordNotes:
        """Return all notes of the entities with labels."""
        begun = self.begins(ENTITIES, rng)[:, None] <= np.arange(LENGTH)[:, None]
        label = (begun.sum(2) >= STAGE).astype(float).ravel()
        return WordNotes(np.repeat(np.arange(ENTITIES), LENGTH), label, self.words(begun.reshape(-1, CONCEPTS), rng))

    def pairs(self, count: int, rng: np.random.Generator) -> tuple[Any, Any, Array]:
        """Return `(first, second, label)`: two neighbouring notes of each of `count` other entities, and their order.

        The notes are in order (label 1) or swapped (label 0) with equal probability, as `eventvec.views.OrderPairs`
        draws them. One pair per history makes the pairs independent, as in Section 4.1.
        """
        begins, label = self.begins(count, rng), rng.integers(2, size=count)
        step = rng.integers(LENGTH - 1, size=count)
        first, second = (self.words(begins <= (step + late)[:, None], rng) for late in (1 - label, label))
        return first, second, label


@dataclass(frozen=True, eq=False)
class Draw:
    """The results on one draw of the data set.

    Args:
        auc: `(5,)` the test AUC in each fold, by features (of OCP's subset: the number of pairs) and fraction.
        selected_signs: how many of the selected words are those of concepts, by number of pairs: the mean over folds
            and fractions.
    """

    auc: dict[tuple[str | int, float], Array]
    selected_signs: dict[int, float]


def draw_scores(
    seed: int, sizes: Sequence[int], fractions: Sequence[float], grid: Grid = GRID, subsets: int = RANDOM_SUBSETS
) -> Draw:
    """Return the results on one draw of the data set.

    Args:
        seed: of the draw.
        sizes: numbers of pairs, ascending.
        fractions: shares of the labelled training entities.
        grid: settings of the classifier to choose from.
        subsets: number of random subsets.
    """
    rng = np.random.default_rng(seed)
    histories = WordHistories(rng.uniform(*FREQUENCY, BACKGROUND))
    notes, (first, second, label) = histories.notes(rng), histories.pairs(sizes[-1], rng)
    auc, selected_signs = defaultdict(list), defaultdict(list)
    for fold in split_folds(notes, np.arange(ENTITIES), seed):
        validation, test = labelled_notes(notes, fold.validation), labelled_notes(notes, fold.test)
        for fraction in fractions:
            train = labelled_notes(notes, fold.part(fraction))
            vocabulary = np.flatnonzero(np.asarray(notes.words[train].mean(0)).ravel() >= SHARE)
            weighting = TfidfTransformer().fit(notes.words[train][:, vocabulary])
            x, x1, x2 = (weighting.transform(words[:, vocabulary]) for words in (notes.words, first, second))
            columns: dict[str | int, list[Array]] = {
                ALL: [np.arange(len(vocabulary))],
                ORACLE: [np.flatnonzero(vocabulary < CONCEPTS)],
                RANDOM: list(random_subsets(len(vocabulary), COUNT, subsets, seed)),
            }
            for m in sizes:
                selected = l1_to_count(x1[:m], x2[:m], label[:m], COUNT, WITHIN).features
                columns[m] = [selected]
                selected_signs[m].append(int((vocabulary[selected] < CONCEPTS).sum()))
            for name, alternatives in columns.items():
                runs = [tuned_scores(x[:, some], notes, train, validation, test, grid)[0] for some in alternatives]
                auc[name, fraction].append(float(np.mean(runs)))
    means = {m: float(np.mean(counts)) for m, counts in selected_signs.items()}
    return Draw({key: np.array(folds) for key, folds in auc.items()}, means)


def made_signals(small: bool) -> Row:
    """Return the strength of order and of label by word, with the most pairs of the study, or a small number."""
    rng = np.random.default_rng(0)
    histories = WordHistories(rng.uniform(*FREQUENCY, BACKGROUND))
    notes, (first, second, label) = histories.notes(rng), histories.pairs((SMALL_SIZES if small else SIZES)[-1], rng)
    places = np.stack([np.arange(len(label)), np.arange(len(label)) + len(label), label])
    return signals(sparse.vstack([first, second]).tocsr(), places, notes.words, notes.label)


def made_histories(count: int) -> ev.Dataset:
    """Return made histories without labels, each note with its words as a text."""
    rng = np.random.default_rng(0)
    histories = WordHistories(rng.uniform(*FREQUENCY, BACKGROUND))
    begins = histories.begins(count, rng)[:, None] <= np.arange(LENGTH)[:, None]
    note, word = histories.words(begins.reshape(-1, CONCEPTS), rng).nonzero()
    texts = pl.DataFrame({"note": note, "word": word}).group_by("note").agg(pl.format("word{}", "word").alias("words"))
    events = texts.select(
        (pl.col("note") // LENGTH).alias("entity"),
        (pl.col("note") % LENGTH).alias("step"),
        pl.col("words").list.join(" ").alias("text"),
    )
    return ev.read(events, key="entity", time="step", categorical=(), numeric=(), texts=("text",))


def leads(small: bool, fraction: float) -> Scores:
    """Return the lead of OCP's subset with the most pairs over all features, one number per draw."""
    options: dict[str, Any] = SMALL if small else {}
    count = (SMALL_SIZES if small else SIZES)[-1]
    draws = [draw_scores(seed, (count,), (fraction,), **options) for seed in range(2 if small else DRAWS)]
    lead = [draw.auc[count, fraction] - draw.auc[ALL, fraction] for draw in draws]
    return Scores(tuple(float(folds.mean()) for folds in lead))


def pairs(small: bool) -> list[Row]:
    """Return one row per number of pairs and fraction: the mean AUC of each feature set, and the lead of OCP's."""
    sizes, fractions = (SMALL_SIZES, FRACTIONS[-1:]) if small else (SIZES, FRACTIONS)
    options: dict[str, Any] = SMALL if small else {}
    draws = []
    for seed in range(2 if small else DRAWS):
        draws.append(draw_scores(seed, sizes, fractions, **options))
        print(f"draw {seed + 1} of the data set", file=sys.stderr, flush=True)
    return [_row(draws, m, fraction) for m in sizes for fraction in fractions]


def _row(draws: list[Draw], m: int, fraction: float) -> Row:
    """Return the means over draws for one number of pairs, with the 95 % interval of the lead over the draws.

    `draws p < .05` counts the draws in which a paired t-test over the five folds, as on a real data set, finds OCP's
    subset ahead of all features; `draws behind` those in which it finds the subset behind.
    """
    auc = {name: np.array([draw.auc[name, fraction] for draw in draws]) for name in (m, ALL, ORACLE, RANDOM)}
    lead = auc[m] - auc[ALL]
    over_draws = Scores(tuple(map(float, lead.mean(1))))
    clear = np.sign(lead.mean(1)) * (ttest_rel(auc[m], auc[ALL], axis=1).pvalue < 0.05)
    row: Row = {
        "pairs": m,
        "fraction": fraction,
        "words found": float(np.mean([draw.selected_signs[m] for draw in draws])),
    }
    row |= {OCP: float(auc[m].mean())} | {name: float(auc[name].mean()) for name in (ALL, ORACLE, RANDOM)}
    row |= {"OCP - all": over_draws.mean, "interval": over_draws.interval, "draws": len(draws)}
    return row | {"draws ahead": int((clear > 0).sum()), "draws behind": int((clear < 0).sum())}
