"""A small neural network on features: one hidden layer, stopped early on a part of the training rows."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from eventvec.sequences import Array

HIDDEN, DROPOUT, LEARNING_RATE, WEIGHT_DECAY, EPOCHS, PATIENCE = 64, 0.3, 1e-3, 0.01, 60, 8
"""The settings of the network. They were chosen on synthetic data, and nothing is tuned."""


def train_and_predict(x: Array, y: Array, test: Array, classes: int, seed: int, weights: Array | None = None) -> Array:
    """Return `(m, classes)` logits, or `(m,)` numbers if there are no classes, of a network with one hidden layer.

    The hidden layer has 64 rectified units and a dropout of 0.3. The network is trained by AdamW with batches of 16 to
    256 rows, for at most 60 passes over four fifths of the rows. It stops when the loss on the other fifth, which is
    stratified by the label, has not improved for 8 passes, and the weights with the smallest loss predict.
    """
    rng = torch.Generator().manual_seed(seed)
    mean, scale = (0.0, 1.0) if classes else (float(y.mean()), float(y.std()) or 1.0)
    truth = torch.as_tensor(y).long() if classes else torch.as_tensor((y - mean) / scale, dtype=torch.float32)
    rows, unseen = (torch.as_tensor(np.clip(each, -10, 10).astype(np.float32)) for each in (x, test))
    held_out = _stratified_fifth(truth, rng)
    checked, trained = held_out.nonzero()[:, 0], (~held_out).nonzero()[:, 0]
    counts = torch.ones(len(x)) if weights is None else torch.as_tensor(weights, dtype=torch.float32)
    layers = _first_weights(rows.shape[1], classes or 1, rng)
    optimizer = torch.optim.AdamW(layers, lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY)
    size = min(256, max(16, len(trained) // 40))
    best, waited, smallest = [w.detach().clone() for w in layers], 0, float("inf")
    for _ in range(EPOCHS):
        for batch in trained[torch.randperm(len(trained), generator=rng)].split(size):
            optimizer.zero_grad()
            _loss(_forward(rows[batch], layers, rng), truth[batch], counts[batch]).backward()
            optimizer.step()
        with torch.no_grad():
            loss = float(_loss(_forward(rows[checked], layers), truth[checked], counts[checked]))
        waited += 1
        if loss < smallest:
            best, waited, smallest = [w.detach().clone() for w in layers], 0, loss
        if waited == PATIENCE:
            break
    output = _forward(unseen, best).numpy().astype(np.float64)
    return output if classes else output[:, 0] * scale + mean


def _stratified_fifth(truth: Tensor, rng: torch.Generator) -> Tensor:
    """Return `(n,)` a mask of every fifth row in the order of the labels, where rows of one label are shuffled.

    There is at least one row in the mask and one outside it if there are two rows.
    """
    shuffled = torch.randperm(len(truth), generator=rng)
    order = shuffled[truth[shuffled].argsort(stable=True)]
    mask = torch.zeros(len(truth), dtype=torch.bool)
    mask[order[min(2, len(truth) - 1) :: 5]] = True
    return mask


def _first_weights(dim: int, outputs: int, rng: torch.Generator) -> list[Tensor]:
    """Return the weights and biases of the two layers: He et al. 2015, Equation 10, and zeros for the outputs."""
    hidden = torch.randn(dim, HIDDEN, generator=rng) * (2 / dim) ** 0.5
    layers = hidden, torch.zeros(HIDDEN), torch.zeros(HIDDEN, outputs), torch.zeros(outputs)
    return [w.requires_grad_() for w in layers]


def _forward(x: Tensor, weights: list[Tensor], rng: torch.Generator | None = None) -> Tensor:
    """Return `(n, outputs)` the network's outputs, with dropout if there is a generator for it."""
    hidden = torch.addmm(weights[1], x, weights[0]).relu()
    if rng is not None:
        hidden = hidden * (torch.rand(hidden.shape, generator=rng) >= DROPOUT) / (1 - DROPOUT)
    return torch.addmm(weights[3], hidden, weights[2])


def _loss(output: Tensor, truth: Tensor, counts: Tensor) -> Tensor:
    """Return the weighted mean cross-entropy of logits, or the weighted mean squared error of numbers."""
    if truth.is_floating_point():
        losses = (output[:, 0] - truth) ** 2
    else:
        losses = torch.nn.functional.cross_entropy(output, truth, reduction="none")
    return (losses * counts).sum() / counts.sum()
