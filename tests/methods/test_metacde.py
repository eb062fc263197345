"""MetaCDE: the loss by hand, what it learns, and what is refused."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from experiments.cresp.processes import Sinusoids, sinusoids

import eventvec as ev
from eventvec.encoders import KernelMean, Numbers, PointEncoder, SetEncoder
from eventvec.errors import ConfigError
from eventvec.methods import MetaCDE, covariate_use
from eventvec.views import ShuffledParts, hold_out
from laws import rng


def test_metacde_predicts_by_the_kernel_mean():
    torch.manual_seed(0)
    method = MetaCDE(KernelMean(PointEncoder(Numbers(1, 16))), Sinusoids(count=1, length=8, noise=0.0), projection=16)
    x = sinusoids(6).sequences
    context = hold_out(method.eval().views(x, rng())[0])
    query = method.project(method.encoder.at(context, context.static["x*"]))
    key = method.project(method.encoder.events.observation(context.static["y*"]))
    logits = F.cosine_similarity(query[:, None], key[None], dim=2) / 0.5
    torch.testing.assert_close(method.loss(x, rng()), F.cross_entropy(logits, torch.arange(6)))
    assert method.predictor(context).shape == (6, 16)


def test_metacde_learns_to_use_x_star():
    torch.manual_seed(0)
    method = MetaCDE(KernelMean(PointEncoder(Numbers(1, 32))), Sinusoids(count=1, length=8, noise=0.0), projection=32)
    run = ev.fit(sinusoids(500, seed=9), method=method, epochs=8, batch_size=50, lr=0.006, validation=0.0)
    assert covariate_use(method, sinusoids(640, seed=5).sequences, rng()).share > 0.1
    assert run.notes[-1].startswith("the prediction uses x*: ")


def test_metacde_refuses_other_encoders():
    with pytest.raises(ConfigError, match=r'must be a kernel mean, got SetEncoder; write .* name = "kernel_mean"'):
        MetaCDE(SetEncoder(PointEncoder(), dim=8))
    with pytest.raises(ConfigError, match="temperature must be above 0 and finite, got 0"):
        MetaCDE(KernelMean(PointEncoder()), temperature=0.0)
    with pytest.raises(ConfigError, match="count of views must be 1"):
        MetaCDE(KernelMean(PointEncoder()), ShuffledParts(2))
    one_number = MetaCDE(KernelMean(PointEncoder()), Sinusoids(count=1))
    with pytest.raises(ConfigError, match="at least 2 numbers"):
        ev.fit(sinusoids(10), method=one_number, epochs=1)
