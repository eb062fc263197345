"""The table of shaded solids: the class of a solid from its pictures (Mathieu et al. 2021, Figures 4 and 5)."""

from __future__ import annotations

import math
import tempfile
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor

import eventvec as ev
from eventvec.encoders.interface import Encoder
from eventvec.encoders.points import Numbers, PointEncoder
from eventvec.encoders.sets import SetEncoder
from eventvec.methods import CReSP, Supervised, TargetedCReSP, acnp, cnp, fclr
from eventvec.methods.declarations import Method
from eventvec.schema import FIRST
from eventvec.sequences import Sequences
from experiments.command_line import Row
from experiments.cresp.pictures import Images, PictureDecoder
from experiments.cresp.processes import draw
from experiments.cresp.solids import CLASSES, COVARIATES, SolidViews, as_dataset, solids
from experiments.jobs import side_by_side

SEED, VIEWS, TEST_VIEWS = 0, 3, 10
DIM, BATCH, WARMUP = 128, 64, 50
RATE, SUPERVISED_RATE = 0.001, 0.002  # chosen on the validation objects
TEMPERATURE = {"untargeted": 0.1, "targeted": 0.5}  # as are these
STRENGTHS, FRACTIONS = (0.0, 1.0, 1.5), (0.05, 0.1, 0.3)
PENALTIES = (0.01, 0.1, 1.0, 10.0)  # inverse strengths of regularisation, chosen on the validation objects
RECONSTRUCTIVE = ("cnp", "acnp")
CONTRASTIVE = ("untargeted attentive", "untargeted pool", "targeted attentive", "targeted pool")
CRESP, FCLR = CONTRASTIVE[:2]

Parts = Sequence[ev.Dataset]
"""The objects for training, for choosing a setting and for the test."""


@dataclass(frozen=True)
class Size:
    """How large a run of the table is."""

    per_class: int = 200
    epochs: int = 15
    strengths: tuple[float, ...] = STRENGTHS
    more_views: tuple[int, ...] = (6, 12)
    fractions: tuple[float, ...] = FRACTIONS
    test_views: tuple[int, ...] = (1, 2, 5, 20)
    supervised_steps: int = 300
    penalties: tuple[float, ...] = PENALTIES


SMALL = Size(
    per_class=3,
    epochs=1,
    strengths=(1.0,),
    more_views=(),
    fractions=(),
    test_views=(2,),
    supervised_steps=2,
    penalties=PENALTIES[:2],
)


@dataclass(frozen=True)
class Training:
    """One trained encoder and the classifiers on it.

    Args:
        method: The name of the method.
        strength: The strength of the distortion, in training and in the test.
        figures: The figures that its row belongs to, with all labels and 10 test views.
        views: Events of each view in training; a targeted method has all but one of twice as many as its context.
        labels: The share of the training objects whose labels are known to a supervised network.
        fractions: Further shares of labels for the classifier (Figure 5a).
        test_views: Further numbers of test views (Figure 5b).
    """

    method: str
    strength: float
    figures: str = ""
    views: int = VIEWS
    labels: float = 1.0
    fractions: tuple[float, ...] = ()
    test_views: tuple[int, ...] = ()


def solid_classes(small: bool) -> list[Row]:
    """Accuracy of 13 classes of shaded solids, linear in the embedding of 10 distorted pictures (Figures 4 and 5)."""
    size = SMALL if small else Size()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "solids.pt"
        x = solids(size.per_class, SEED).sequences
        torch.save({"columns": dict(x.columns), "class": x.static["class"]}, path)
        jobs = trainings(size)
        rows = side_by_side(rows_of, [(job, size, str(path)) for job in jobs])
    chance: Row = {**rows[0][0], "figure": "", "method": "chance", "strength": "", "training views": ""}
    chance |= {"labels": "", "test views": "", "accuracy": 1 / len(CLASSES), "interval": ""}
    return [chance, *(row for each in rows for row in each)]


def trainings(size: Size) -> list[Training]:
    """Return the trainings of the table; those that take longest come first, so that processes end together."""
    jobs = [Training(name, 1.0, "4c", views) for views in reversed(size.more_views) for name in (CRESP, FCLR)]
    for strength in size.strengths:
        middle = strength == 1.0
        further = (size.fractions, size.test_views) if middle else ((), ())
        for name in (*CONTRASTIVE, *RECONSTRUCTIVE):
            figures = ["4a"] * (name in (CRESP, *RECONSTRUCTIVE)) + ["4b"] * (name in CONTRASTIVE)
            figures += ["4c"] * (middle and name in (CRESP, FCLR)) + ["5a 5b"] * middle
            jobs.append(Training(name, strength, " ".join(figures), VIEWS, 1.0, *further))
        jobs += [Training(name, strength, figures="context") for name in ("untrained", "mean pixels")]
    jobs += [
        Training("supervised", 1.0, "5a 5b" if share == 1 else "5a", labels=share,
                 test_views=size.test_views if share == 1 else ())
        for share in (1.0, *size.fractions)
    ]  # fmt: skip
    return jobs


def rows_of(job: Training, size: Size, path: str, chosen_on: bool = False) -> list[Row]:
    """Return the rows of a training: its main row, then other shares of labels, then other numbers of test views.

    Args:
        job: The training.
        size: How large the run is.
        path: The file with the objects.
        chosen_on: Whether accuracies are those of the validation objects, by which settings were chosen.
    """
    parts = parts_of(path)
    encoder = trained(job, size, parts[0])
    judged = parts[:2] if chosen_on else parts
    rows = []
    for test_views in (TEST_VIEWS, *job.test_views):
        shares = (job.labels, *job.fractions) if test_views == TEST_VIEWS else (job.labels,)
        vectors = [_vectors(encoder, part, test_views, job.strength, SEED + i) for i, part in enumerate(judged)]
        for share in shares:
            accuracy = _accuracy(encoder, judged, vectors, share, size.penalties)
            figures = "5a" if share != job.labels else "5b" if test_views != TEST_VIEWS else job.figures
            half = 1.96 * math.sqrt(accuracy * (1 - accuracy) / len(judged[-1].sequences))
            rows.append(
                {
                    "figure": figures, "method": job.method, "strength": job.strength, "training views": job.views,
                    "labels": share, "test views": test_views, "accuracy": accuracy, "interval": f"± {half:.3f}",
                }
            )  # fmt: skip
    if job.method in ("untrained", "mean pixels", "supervised"):
        rows = [{**row, "training views": TEST_VIEWS if job.method == "supervised" else ""} for row in rows]
    return rows


def parts_of(path: str) -> list[ev.Dataset]:
    """Return the objects of a file: 60 % for training, 20 % for choosing settings and 20 % for the test."""
    stored = torch.load(path, mmap=True)
    lengths = torch.full_like(stored["class"], len(stored["columns"]["x"]) // len(stored["class"]))
    x = Sequences(stored["columns"], lengths.cumsum(0) - lengths, lengths, {"class": stored["class"]})
    bounds = [0, round(0.6 * len(x)), round(0.8 * len(x)), len(x)]  # the objects are in random order
    return [as_dataset(x[low:high]) for low, high in pairwise(bounds)]


def trained(job: Training, size: Size, data: ev.Dataset) -> Encoder | None:
    """Return the encoder of a training, with its linear layer if it is supervised; none for mean pixels."""
    if job.method == "mean pixels":
        return None
    torch.manual_seed(SEED)
    if job.method == "supervised":
        labelled = labelled_part(draw(data, SolidViews(1, TEST_VIEWS, job.strength), SEED), job.labels)
        network = Supervised(_encoder(layers=2), data.schema, "class")
        batch = min(BATCH, len(labelled.sequences) // 2)
        epochs = max(1, size.supervised_steps // (len(labelled.sequences) // batch))
        _fit(network, labelled, epochs, batch, SUPERVISED_RATE)
        return network.predictor
    if job.method == "untrained":
        return _encoder(layers=2)
    method = make_method(job)
    _fit(method, data, size.epochs, BATCH, RATE)
    return method.encoder


def make_method(job: Training) -> Method:
    """Return a method over pictures of solids."""
    targeted = job.method in RECONSTRUCTIVE or job.method.startswith("targeted")
    views: Any = SolidViews(1, 2 * job.views, job.strength) if targeted else SolidViews(2, job.views, job.strength)
    encoder = _encoder(layers=2 if job.method == "acnp" or "attentive" in job.method else 0)
    if job.method in RECONSTRUCTIVE:
        return (acnp if job.method == "acnp" else cnp)(encoder, views, PictureDecoder(width=16))
    if targeted:
        return TargetedCReSP(encoder, views, TEMPERATURE["targeted"])
    return (CReSP if encoder.layers else fclr)(encoder, views, TEMPERATURE["untargeted"])


def _fit(method: Method, data: ev.Dataset, epochs: int, batch: int, rate: float) -> None:
    ev.fit(data, method=method, epochs=epochs, batch_size=batch, lr=rate, validation=0.0, warmup=WARMUP, seed=SEED)


def labelled_part(data: ev.Dataset, share: float) -> ev.Dataset:
    """Return the first objects as a data set; the objects are in random order, so each share is a random one."""
    return as_dataset(data.sequences[: max(2 * len(CLASSES), round(share * len(data.sequences)))])


def _encoder(layers: int) -> SetEncoder:
    return SetEncoder(
        PointEncoder(Images(width=16, dim=DIM), Numbers(COVARIATES)), dim=DIM, layers=layers, pair="gated"
    )


def _vectors(encoder: Encoder | None, data: ev.Dataset, test_views: int, strength: float, seed: int) -> Tensor:
    """Return `(n, d)` embeddings of fresh views, supervised logits, or means of pixels (2 by 2 are one)."""
    drawn = draw(data, SolidViews(1, test_views, strength), 1000 + seed).sequences
    if encoder is None:
        pixels = F.avg_pool2d(drawn.values("y"), 2).flatten(1).view(len(drawn), test_views, -1)
        return pixels.mean(1)
    return ev.encode(encoder, drawn, events_per_batch=1024)


def _accuracy(
    encoder: Encoder | None, parts: Parts, vectors: list[Tensor], share: float, penalties: Sequence[float]
) -> float:
    """Return the accuracy on the last part: of the logits of a supervised network, or of a linear classifier.

    Its regularisation is the one with the highest accuracy on the second part.
    """
    labels = [cast(Tensor, part.sequences.static["class"]).numpy() - FIRST for part in parts]
    if hasattr(encoder, "target"):
        return float(np.mean(vectors[-1].argmax(1).numpy() == labels[-1]))
    n = len(labelled_part(parts[0], share).sequences)
    scores = []
    for penalty in penalties:
        model = make_pipeline(StandardScaler(), LogisticRegression(C=penalty, max_iter=300))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(vectors[0][:n].numpy(), labels[0][:n])
        scores.append([float(model.score(vectors[i].numpy(), labels[i])) for i in (1, len(parts) - 1)])
    return max(scores, key=lambda pair: pair[0])[1]
