"""Rates, groups and freezing, against torch's own schedulers and by hand; `test_train` has them in a training."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

import make
from eventvec.methods import CoLES, Supervised
from eventvec.training.optimizer import adam, frozen, own, rate


def test_steps_are_those_of_torch():
    weight = nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.Adam([weight], lr=0.004)
    theirs = torch.optim.lr_scheduler.StepLR(optimizer, step_size=3, gamma=0.9025)
    for epoch in range(12):
        ours = rate(0.004, "step", share=epoch / 12, drops=epoch // 3, factor=0.9025)
        assert ours == pytest.approx(theirs.get_last_lr()[0])
        optimizer.step()
        theirs.step()


def test_a_cosine_falls_to_nothing_and_no_further():
    shares = (0.0, 0.25, 0.5, 1.0, 1.3)
    expected = [0.1, 0.1 * (2 + math.sqrt(2)) / 4, 0.05, 0, 0]
    assert [rate(0.1, "cosine", share, 0, 1.0) for share in shares] == pytest.approx(expected)


def test_every_weight_is_in_one_group():
    method = Supervised(make.encoder("gru"), make.schema(), "kind", batch_norm=True)
    for encoder_lr, tops in ((None, [0.1]), (0.01, [0.01, 0.1])):
        groups = adam(method, 0.1, encoder_lr).param_groups
        assert [group["top"] for group in groups] == tops
        found = [id(weight) for group in groups for weight in group["params"]]
        assert sorted(found) == sorted(id(weight) for weight in method.parameters())
    assert {id(weight) for weight in groups[0]["params"]} == {id(weight) for weight in method.encoder.parameters()}
    coles = CoLES(make.encoder("gru"))
    assert own(coles) == []
    assert [group["top"] for group in adam(coles, 0.1, 0.01).param_groups] == [0.01]


def test_what_was_frozen_before_stays_so():
    method = Supervised(make.encoder("transformer"), make.schema(), "kind").train()
    weights = list(method.encoder.parameters())
    weights[0].requires_grad_(False)
    for freeze in (True, False):
        with frozen(method, freeze):
            assert [weight.requires_grad for weight in weights[1:]] == [not freeze] * (len(weights) - 1)
            assert {module.training for module in method.encoder.modules()} == {not freeze}
            assert method.head.training
            assert all(weight.requires_grad for weight in method.head.parameters())
        assert [weight.requires_grad for weight in weights] == [False] + [True] * (len(weights) - 1)
        assert all(module.training for module in method.modules())
