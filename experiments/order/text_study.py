"""The study of language models on texts (Agrawal et al. 2022, Section 4.2 and Appendix C.2): trainings and scores."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

import eventvec as ev
from eventvec.embedding import choose_device
from eventvec.encoders import TextEncoder
from eventvec.precision import Precision, matmul_precision
from eventvec.sequences import Sequences, join
from eventvec.training.fit_options import FitOptions
from eventvec.training.validation import split
from eventvec.views import EntityPairs, OrderPairs, PermutationPairs, Windowed, distinct_times
from experiments.order.attention import mean_attention
from experiments.order.encoder_comparison import LINEAR_GRID
from experiments.order.feature_comparison import fit_features
from experiments.order.note_protocol import (
    FRACTIONS,
    Array,
    Grid,
    Notes,
    cut_notes,
    draw_entities,
    labelled_notes,
    neighbouring_pairs,
    split_folds,
    tuned_scores,
    without_label,
)
from experiments.order.real_histories import DATA_SETS
from experiments.order.sparse_selection import liblinear, tfidf
from experiments.tpp.arms import MINILM, write_random

DATA, SEED = "debian_changelogs", 0  # the set; the seed of its split, as in the feature study
LONGEST = 128
"""The largest number of tokens of a note, or of the two notes of a pair together, of which the longer is cut first."""
PAIRS, PACKAGES, EPOCHS, HELD_OUT = 8, 8, 4, 0.2
"""Pairs of a package and packages of a step; epochs, and the share of packages whose pairs choose the epoch."""
NOTES, NOTE_EPOCHS = 64, 2
"""Notes of a step and epochs of the language model, which sees about as many notes as a classifier of pairs."""
SHARE, WORD_GRID = 0.002, (0.01, 0.1, 1.0, 10.0)
"""The least share of notes with a word, and the values of C, of the linear model of the order of words."""
PRECISION: Precision = "bfloat16"
"""The precision of trainings and of trained models; untrained ones embed in float32, as every CPU can."""
ENDS = FRACTIONS[0], FRACTIONS[-1]
"""The shares of the training packages in the study of the number of pairs."""
LEAST = 20
"""The number of times that a token occurs at least, for its mean attention to be listed."""

OCP, PCL, ENTITY, LANGUAGE = "OCP", "PCL", "entity-contrastive", "FT-LM"
PLAIN, RANDOM, WORDS = "MiniLM", "MiniLM, random weights", "tf-idf words"
SAMPLERS: dict[str, Callable[..., Windowed]] = {OCP: OrderPairs, PCL: PermutationPairs, ENTITY: EntityPairs}


@dataclass(frozen=True)
class Arm:
    """A way to turn notes into vectors.

    Args:
        objective: `OCP` or another name above.
        lr: The highest learning rate; 0 without training.
        seed: The seed of the training, or of random weights.
        small: Whether the texts are few and short.
        pairs: The number of different pairs of neighbouring notes to train on; 0 for all.
        epochs: The number of passes over the packages.
    """

    objective: str
    lr: float = 0.0
    seed: int = 0
    small: bool = False
    pairs: int = 0
    epochs: int = EPOCHS

    def __str__(self) -> str:
        """Return the objective and all settings."""
        trained = f" lr={self.lr:g} seed={self.seed}" if self.lr else f" seed={self.seed}"
        pairs = f" pairs={self.pairs}" if self.pairs else ""
        epochs = f" epochs={self.epochs}" if self.epochs != EPOCHS else ""
        return f"{self.objective}{trained}{pairs}{epochs}{' small' if self.small else ''}"

    @property
    def fractions(self) -> tuple[float, ...]:
        """The shares of the training packages at which the vectors are scored."""
        if self.small:
            return FRACTIONS[:1]
        return ENDS if self.pairs or self.epochs != EPOCHS else FRACTIONS


@dataclass(frozen=True, eq=False)
class Problem:
    """The notes of all packages, and which of them are used for what.

    Args:
        unlabelled: Histories of the packages whose notes are trained on.
        tested: Histories of the packages with labels, which no training sees.
        notes: All notes, one row each.
        others: The packages of `unlabelled`.
        entities: The packages with labels.
        labelled: `(m,)` the notes of these.
    """

    unlabelled: ev.Dataset
    tested: ev.Dataset
    notes: Notes
    others: Array
    entities: Array
    labelled: Array


@cache
def problem(small: bool) -> Problem:
    """Return the packages with labels, the same as in the study of features, and the others."""
    histories = DATA_SETS[DATA]()
    notes = cut_notes(histories.data, histories.label, histories.length, histories.text)
    entities = draw_entities(notes, 40 if small else histories.entities, SEED)
    data = without_label(histories.data, histories.label)
    others = np.setdiff1d(np.arange(len(data)), entities)[: 16 if small else None]
    return Problem(data[others], data[entities], notes, others, entities, labelled_notes(notes, entities))


def results(arm: Arm, keep: Path) -> tuple[Array, dict[str, Any]]:
    """Return the scores of a model at its `fractions` as `fold_scores` does, and facts; both are computed once.

    Args:
        arm: The model, or `WORDS` for the features of the study of features, all of them.
        keep: The folder of what was computed.
    """
    file = keep / f"{arm}.npz"
    if not file.exists():
        of = problem(arm.small)
        z, about = (None, dict[str, Any]()) if arm.objective == WORDS else vectors(arm)
        brief = {name: value for name, value in about.items() if name != "attention"}
        print(f"{arm}: {brief}", file=sys.stderr, flush=True)
        scores = fold_scores(of, z, arm.fractions, LINEAR_GRID[:2] if arm.small else LINEAR_GRID)
        keep.mkdir(parents=True, exist_ok=True)
        part = file.with_suffix(".part.npz")
        np.savez(part, scores=scores, about=json.dumps(about))
        part.rename(file)
    stored = np.load(file)
    return stored["scores"], json.loads(str(stored["about"]))


def fold_scores(of: Problem, z: Array | None, fractions: Sequence[float], grid: Grid) -> Array:
    """Return `(folds, fractions, 2)` AUC and average precision of a linear layer on vectors of notes.

    Args:
        of: The notes.
        z: `(m, dim)` vectors of the notes with labels; if None, the features of the study of features.
        fractions: Shares of the training packages.
        grid: Settings of the linear layer to choose from.
    """
    scores = []
    x: Any = None
    if z is not None:
        x = np.zeros((len(of.notes.entity), z.shape[1]))
        x[of.labelled] = z
    for fold in split_folds(of.notes, of.entities, SEED):
        for fraction in fractions:
            train, validation, test = (
                labelled_notes(of.notes, part) for part in (fold.part(fraction), fold.validation, fold.test)
            )
            features = _words(of, train) if x is None else x
            scores.append(tuned_scores(features, of.notes, train, validation, test, grid))
    return np.array(scores).reshape(-1, len(fractions), 2)


def _words(of: Problem, train: Array) -> Any:
    """Return the features of the notes with labels in the study of features, and zeros for all others."""
    texts = of.notes.features
    assert isinstance(texts, list)
    return fit_features([texts[i] for i in train])(_only(texts, of.labelled))


def _only(texts: list[str], rows: Array) -> list[str]:
    """Return the texts of some rows in their places; those of others, which nothing reads, are empty."""
    left = [""] * len(texts)
    for row in rows:
        left[row] = texts[row]
    return left


def word_accuracy(small: bool) -> tuple[float, dict[str, float]]:
    """Return the accuracy on held-out pairs, and on those of packages with labels, of a linear model of words.

    The model reads the differences of tf-idf weights over all neighbouring notes; its penalty is chosen on the pairs of
    a fifth of the packages.

    Args:
        small: Whether the packages are few.
    """
    of = problem(small)
    others = np.random.default_rng(SEED).permutation(of.others)
    held_out, trained_on = np.split(others, [int(HELD_OUT * len(others))])
    texts = of.notes.features
    assert isinstance(texts, list)
    read = np.flatnonzero(np.isin(of.notes.entity, np.concatenate([others, of.entities])))
    fitted = tfidf([texts[i] for i in np.flatnonzero(np.isin(of.notes.entity, others))], SHARE)
    features = fitted.transform(_only(texts, read))
    pairs = neighbouring_pairs(of.notes, 1, SEED)
    package = of.notes.entity[pairs[0]]
    train, validation, test = (pairs[:, np.isin(package, some)] for some in (trained_on, held_out, of.entities))
    first, second, label = train
    models = [liblinear(c, l1=False).fit(features[second] - features[first], label) for c in WORD_GRID]
    scores = [_correct(model, features, validation).mean() for model in models]
    best = int(np.argmax(scores))
    group = np.unique(of.notes.entity[test[0]], return_inverse=True)[1]
    share, half_width = share_of_groups(_correct(models[best], features, test), group)
    return float(scores[best]), {"tested": share, "± tested": half_width, "pairs": len(group)}


def _correct(model: Any, features: Any, pairs: Array) -> Array:
    first, second, label = pairs
    correct: Array = model.predict(features[second] - features[first]) == label
    return correct


def build(arm: Arm) -> ev.methods.CrossOrder | ev.methods.MaskedLanguage:
    """Return the method of an arm before its training, without dropout, which takes two fifths of a step on a CPU."""
    torch.manual_seed(arm.seed)
    longest = 16 if arm.small else LONGEST
    if arm.objective == RANDOM:
        with tempfile.TemporaryDirectory() as folder:
            write_random(folder)
            encoder = TextEncoder(folder, "text", longest)
    else:
        encoder = TextEncoder(MINILM, "text", longest)
    for module in encoder.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    if arm.objective == LANGUAGE:
        return ev.methods.MaskedLanguage(encoder)
    return ev.methods.CrossOrder(encoder, SAMPLERS.get(arm.objective, OrderPairs)(count=PAIRS))


def vectors(arm: Arm) -> tuple[Array, dict[str, Any]]:
    """Return `(m, dim)` vectors of the notes with labels by a model, which is trained first, and facts about it.

    The facts are the `seconds`, the `validation` of each epoch (accuracy of held-out pairs, or the loss of the language
    model), the number of the `epoch` that is kept, and the number of `steps`. For a classifier of pairs they are also
    the number of different pairs of neighbours in the training packages (`given`), of pairs that were `drawn`, with
    repetitions, and of different ones that OCP expects among these (`met`), the accuracy on pairs of the packages with
    labels, its half-width and the number of pairs (`tested`, `± tested`, `pairs`). OCP and the untrained model have the
    mean `attention` over these pairs.
    """
    of, method, about = problem(arm.small), build(arm).to(choose_device("auto")), dict[str, Any]()
    place = next(method.parameters()).device
    if arm.lr:
        about |= _fit(method, arm, of)
    encoder = method.encoder
    assert isinstance(encoder, TextEncoder)
    if isinstance(method, ev.methods.CrossOrder):
        x = of.tested.sequences
        x = x[method.usable(x)]
        if arm.lr:
            about |= _tested(method, x)
        if arm.objective in (OCP, PLAIN):
            views, _ = OrderPairs(count=PAIRS)(x, torch.Generator().manual_seed(SEED))
            first, second = views[: len(views) // 2], views[len(views) // 2 :]
            least = 1 if arm.small else LEAST
            about["attention"] = mean_attention(encoder, join(first, second).to(place), least)
    x = of.notes.data.sequences[torch.from_numpy(of.labelled)]
    return ev.encode(encoder, x, precision=PRECISION if arm.lr else "float32").numpy(), about


def _fit(method: ev.methods.CrossOrder | ev.methods.MaskedLanguage, arm: Arm, of: Problem) -> dict[str, Any]:
    """Train a method, in place, and return facts about the training."""
    data, about = of.unlabelled, dict[str, Any]()
    size, epochs, share = PACKAGES, arm.epochs, HELD_OUT
    if arm.small:
        data, size, epochs, share = data[:16], 4, 1, 0.25
    if isinstance(method, ev.methods.MaskedLanguage):
        data = of.notes.data[np.flatnonzero(np.isin(of.notes.entity, of.others))]
        data, size, epochs = (data[:16], size, epochs) if arm.small else (data, NOTES, NOTE_EPOCHS)
    else:
        training = split(method, data.sequences, FitOptions(validation=share, seed=arm.seed))[0].training
        steps, drawn = epochs * (len(training) // size), _drawn(data, training)
        if arm.pairs:
            data = cut_histories(data, training, arm.pairs, arm.seed)
            size = min(round(size * drawn / _drawn(data, training)), len(training))  # as many pairs in a step
            epochs = round(steps / (len(training) // size))
        given = (distinct_times(data.sequences[training]).lengths - 1).double()
        missed = given * (1 - 1 / given) ** (epochs * given.clamp(max=PAIRS))
        about |= {"given": int(given.sum()), "drawn": epochs * _drawn(data, training)}
        about["met"] = round(float((given - missed).sum()))
    run = ev.fit(
        data, method=method, epochs=epochs, batch_size=size, lr=arm.lr, validation=share, keep="best", seed=arm.seed,
        optimizer="adamw", weight_decay=0.01, clip=1.0, precision=PRECISION,
    )  # fmt: skip
    entry = "validation" if arm.objective == LANGUAGE else "validation_accuracy"
    validation = [record[entry] for record in run.history]
    about |= {"seconds": round(run.seconds), "validation": validation, "epoch": run.kept_epoch, "steps": run.steps}
    return about


def _drawn(data: ev.Dataset, rows: torch.Tensor) -> int:
    """Return the number of pairs that an epoch draws from some packages."""
    return int((distinct_times(data.sequences[rows]).lengths - 1).clamp(max=PAIRS).sum())


def cut_histories(data: ev.Dataset, rows: torch.Tensor, pairs: int, seed: int) -> ev.Dataset:
    """Return histories of which some are cut to a random stretch of their notes.

    Args:
        data: The histories.
        rows: `(m,)` those that are cut.
        pairs: The number of pairs of neighbouring notes that these have together afterwards.
        seed: The seed of the places of the stretches.
    """
    x, lengths = data.sequences, data.sequences.lengths.clone()
    lengths[rows] = 1 + torch.from_numpy(shared_out((lengths[rows] - 1).numpy(), pairs))
    place = np.random.default_rng(seed).random(len(x)) * (x.lengths - lengths + 1).numpy()
    return replace(data, sequences=x.slice(torch.arange(len(x)), torch.from_numpy(place).long(), lengths))


def shared_out(counts: Array, total: int) -> Array:
    """Return `(n,)` how much each gives of what it has, as equally as possible, so that all give a total together.

    Args:
        counts: `(n,)` how much each has.
        total: What is needed; if there is less, each gives all.

    Example:
        >>> shared_out(np.array([1, 9, 4, 9]), 13).tolist()
        [1, 4, 4, 4]
        >>> shared_out(np.array([1, 9, 4, 9]), 15).tolist()
        [1, 5, 4, 5]
    """
    totals = np.minimum(counts[:, None], np.arange(counts.max() + 1)).sum(0)
    level = int(np.searchsorted(totals, total, side="right")) - 1
    given = np.minimum(counts, level)
    given[np.flatnonzero(counts > level)[: total - given.sum()]] += 1
    return given


@torch.no_grad()
def _tested(method: ev.methods.CrossOrder, x: Sequences) -> dict[str, float]:
    """Return the accuracy of pairs of packages that neither the training nor the choice of the epoch saw."""
    method.eval()
    place = next(method.parameters()).device
    views, label = method.pairs(x, torch.Generator().manual_seed(SEED))  # the same on each device
    with matmul_precision(PRECISION, place):
        correct = (method.logits(views.to(place)) > 0).cpu() == (label == 1)
    source = torch.repeat_interleave((distinct_times(x).lengths - 1).clamp(1, PAIRS))
    share, half_width = share_of_groups(correct.numpy(), source.numpy())
    return {"tested": share, "± tested": half_width, "pairs": len(label)}


def share_of_groups(correct: Array, group: Array) -> tuple[float, float]:
    """Return the share of correct rows, and the half-width of its 95 % interval if whole groups are drawn at random.

    Args:
        correct: `(n,)` whether each row is correct.
        group: `(n,)` the group of each row, from 0.

    Example:
        >>> share_of_groups(np.array([1, 1, 1, 0]), np.array([0, 1, 2, 3]))[0]
        0.75
    """
    from scipy.stats import t  # type: ignore[import-untyped]

    share, sizes = float(correct.mean()), np.bincount(group)
    residuals = np.bincount(group, correct) - share * sizes
    n = len(sizes)
    error = np.sqrt(n / (n - 1) * (residuals**2).sum()) / len(correct)
    return share, float(t.ppf(0.975, n - 1) * error)
