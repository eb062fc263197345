"""The study of language models on texts (Agrawal et al. 2022, Section 4.2 and Appendix C.2): trainings and scores."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

import eventvec as ev
from eventvec.encoders import TextEncoder
from eventvec.precision import Precision, matmul_precision
from eventvec.sequences import Sequences, join
from eventvec.views import EntityPairs, OrderPairs, PermutationPairs, Windowed, distinct_times
from experiments.order.attention import mean_attention
from experiments.order.encoder_comparison import LINEAR_GRID
from experiments.order.feature_comparison import fit_features
from experiments.order.note_protocol import (
    FRACTIONS,
    Array,
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
LONGEST = 48
"""The largest number of tokens of a note, or of the two notes of a pair together."""
PAIRS, PACKAGES, EPOCHS, HELD_OUT = 8, 8, 4, 0.2
"""Pairs of a package and packages of a step; epochs, and the share of packages whose pairs choose the epoch."""
NOTES, NOTE_EPOCHS = 64, 2
"""Notes of a step and epochs of the language model, which sees about as many notes as a classifier of pairs."""
SHARE, WORD_GRID = 0.002, (0.01, 0.1, 1.0, 10.0)
"""The least share of notes with a word, and the values of C, of the linear model of the order of words."""
PRECISION: Precision = "bfloat16"
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
    """

    objective: str
    lr: float = 0.0
    seed: int = 0
    small: bool = False

    def __str__(self) -> str:
        """Return the objective and all settings."""
        trained = f" lr={self.lr:g} seed={self.seed}" if self.lr else f" seed={self.seed}"
        return f"{self.objective}{trained}{' small' if self.small else ''}"


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


def vectors(arm: Arm, keep: Path) -> tuple[Array, dict[str, Any]]:
    """Return `(m, dim)` vectors of the notes with labels, and facts about the training, which is done once.

    The facts are the `seconds`, the `validation` of each epoch (accuracy of held-out pairs, or the loss of the language
    model), the number of the `epoch` that is kept, the accuracy on pairs of the packages with labels, its half-width
    and the number of pairs (`tested`, `± tested`, `pairs`), and for OCP and the untrained model the mean `attention`
    over these pairs.

    Args:
        arm: The model.
        keep: The folder of what was trained.
    """
    file = keep / f"{arm}.npz"
    if not file.exists():
        z, about = _trained(arm, problem(arm.small))
        brief = {name: value for name, value in about.items() if name != "attention"}
        print(f"{arm}: {brief}", file=sys.stderr, flush=True)
        keep.mkdir(parents=True, exist_ok=True)
        part = file.with_suffix(".part.npz")
        np.savez(part, z=z, about=json.dumps(about))
        part.rename(file)
    stored = np.load(file)
    return stored["z"], json.loads(str(stored["about"]))


def fold_scores(arm: Arm, keep: Path, fractions: Sequence[float] = FRACTIONS) -> Array:
    """Return `(folds, fractions, 2)` AUC and average precision of a linear layer on the vectors of a model.

    Args:
        arm: The model, or `WORDS` for the features of the study of features, all of them.
        keep: The folder of what was trained.
        fractions: Shares of the training packages.
    """
    of, scores = problem(arm.small), []
    x: Any = None
    if arm.objective != WORDS:
        z, _ = vectors(arm, keep)
        x = np.zeros((len(of.notes.entity), z.shape[1]))
        x[of.labelled] = z
    for fold in split_folds(of.notes, of.entities, SEED):
        for fraction in fractions:
            train, validation, test = (
                labelled_notes(of.notes, part) for part in (fold.part(fraction), fold.validation, fold.test)
            )
            features = _words(of.notes, train) if x is None else x
            grid = LINEAR_GRID[:2] if arm.small else LINEAR_GRID
            scores.append(tuned_scores(features, of.notes, train, validation, test, grid))
    return np.array(scores).reshape(-1, len(fractions), 2)


def _words(notes: Notes, train: Array) -> Any:
    """Return the features of all notes in the study of features."""
    assert isinstance(notes.features, list)
    return fit_features([notes.features[i] for i in train])(notes.features)


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
    features = tfidf([texts[i] for i in np.flatnonzero(np.isin(of.notes.entity, others))], SHARE).transform(texts)
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


def _trained(arm: Arm, of: Problem) -> tuple[Array, dict[str, Any]]:
    method, about = build(arm), dict[str, Any]()
    if arm.lr:
        run = _fit(method, arm, of)
        entry = "validation" if arm.objective == LANGUAGE else "validation_accuracy"
        validation = [record[entry] for record in run.history]
        about |= {"seconds": round(run.seconds), "validation": validation, "epoch": run.kept_epoch, "steps": run.steps}
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
            about["attention"] = mean_attention(encoder, join(first, second), least=1 if arm.small else LEAST)
    x = of.notes.data.sequences[torch.from_numpy(of.labelled)]
    return ev.encode(encoder, x, precision=PRECISION).numpy(), about


def _fit(method: ev.methods.CrossOrder | ev.methods.MaskedLanguage, arm: Arm, of: Problem) -> ev.Run:
    data, size, epochs, share = of.unlabelled, PACKAGES, EPOCHS, HELD_OUT
    if arm.objective == LANGUAGE:
        trained_on = np.isin(of.notes.entity, of.others)
        data, size, epochs = of.notes.data[np.flatnonzero(trained_on)], NOTES, NOTE_EPOCHS
    if arm.small:
        data, size, epochs, share = data[:16], 4, 1, 0.25
    return ev.fit(
        method, data, epochs=epochs, batch_size=size, lr=arm.lr, validation=share, keep="best", seed=arm.seed,
        optimizer="adamw", weight_decay=0.01, clip=1.0, precision=PRECISION,
    )  # fmt: skip


@torch.no_grad()
def _tested(method: ev.methods.CrossOrder, x: Sequences) -> dict[str, float]:
    """Return the accuracy of pairs of packages that neither the training nor the choice of the epoch saw."""
    method.eval()
    views, label = method.pairs(x, torch.Generator().manual_seed(SEED))
    with matmul_precision(PRECISION, x.device):
        correct = (method.logits(views) > 0) == (label == 1)
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
