"""Calibrated probabilities: one temperature for each label with classes, fitted on the entities held out."""

from __future__ import annotations

from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor

from eventvec.dataset import static_values
from eventvec.embedding import encode
from eventvec.methods.declarations import declared
from eventvec.methods.label_losses import has_label, outputs_of
from eventvec.schema import FIRST, Categorical
from eventvec.sequences import Sequences

LEAST, LEAST_OTHERS = 50, 5
"""The least number of entities that a temperature is fitted to, and of those outside the most frequent class."""
LEAST_GAIN = 1.0
"""The least gain in the log likelihood of all these entities: what one fitted number gains by chance and then loses on
fresh data (Akaike 1974)."""
HOTTEST = 20.0
"""The highest temperature; the lowest is its inverse."""


def temperatures(method: Any, x: Sequences, held_out: Tensor) -> tuple[dict[str, float], tuple[str, ...]]:
    """Return the temperature of each label with classes, and a sentence on each; those that help nothing are left out.

    Args:
        method: A method; one without `label_fields` and `predictor` has no temperature.
        held_out: The positions of the rows that were held out of the training.
    """
    declares = declared(method)
    targets, by_label, notes = declares.label_fields, dict[str, float](), list[str]()
    has_classes = any(isinstance(target, Categorical) for target in targets)
    if declares.predictor is None or not len(held_out) or not has_classes:
        return {}, ()
    rows = x[held_out]
    outputs = encode(declares.predictor, rows).to(x.device).split([outputs_of(target) for target in targets], 1)
    for target, output in zip(targets, outputs, strict=True):
        if not isinstance(target, Categorical):
            continue
        known = has_label(rows, target)
        classes = cast(Tensor, static_values(rows, target.name)).long()[known] - FIRST
        counts = classes.bincount(minlength=len(target.values))
        if len(classes) < LEAST or len(classes) - int(counts.max()) < LEAST_OTHERS:
            notes.append(
                f"the probabilities of {target.name!r} are not calibrated: {len(classes):,} entities held out, "
                f"{len(classes) - int(counts.max()):,} of them outside the most frequent class, are too few "
                f"(at least {LEAST} and {LEAST_OTHERS})"
            )
            continue
        logits, weights = output[known].double(), method.weights_for(rows, target)[known].double()
        value = temperature(logits, classes, weights)
        before, after = log_loss(logits, classes, weights), log_loss(logits / value, classes, weights)
        losses = f"the log loss on {len(classes):,} entities held out is {after:.3g}, {before:.3g} without"
        if len(classes) * (before - after) > LEAST_GAIN:
            by_label[target.name] = value
            notes.append(f"the probabilities of {target.name!r} are calibrated with temperature {value:.3g}: {losses}")
        else:
            notes.append(f"the probabilities of {target.name!r} stay as they are: at temperature {value:.3g}, {losses}")
    return by_label, tuple(notes)


def temperature(logits: Tensor, classes: Tensor, weights: Tensor) -> float:
    """Return the temperature T with the lowest log loss of softmax(logits / T) (Guo et al. 2017, Section 4.2).

    It is found by L-BFGS. The targets are those of Platt (1999), 1 − 1/(n + 2) for the class of a row and not 1: where
    all n rows are classified correctly, the likelihood alone would grow without bound as T falls to 0.

    Args:
        logits: `(n, classes)`.
        classes: `(n,)` the class of each row.
        weights: `(n,)` the weight of each row.
    """
    smoothing = 1 / (len(logits) + 2)
    logits, shares = logits.detach().double(), (weights / weights.sum()).double()
    targets = torch.full_like(logits, smoothing / (logits.shape[1] - 1))
    targets = targets.scatter(1, classes[:, None], 1 - smoothing)
    exponent = torch.zeros((), dtype=torch.float64, device=logits.device, requires_grad=True)  # log(1 / T)
    optimizer = torch.optim.LBFGS([exponent], max_iter=100, tolerance_grad=1e-10, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = -(shares * (targets * (logits * exponent.exp()).log_softmax(1)).sum(1)).sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    return min(max(float((-exponent.detach()).exp()), 1 / HOTTEST), HOTTEST)


def log_loss(logits: Tensor, classes: Tensor, weights: Tensor) -> float:
    """Return the weighted mean of the negative logarithm of the probability of each row's class."""
    return float((weights * F.cross_entropy(logits, classes, reduction="none")).sum() / weights.sum())
