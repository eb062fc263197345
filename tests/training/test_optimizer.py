"""Learning rates, parameter groups and freezing, against torch's schedulers and by hand."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

import make
from eventvec.methods import CoLES, Supervised
from eventvec.training.optimizer import LARS, frozen, head_weights, learning_rate, optimizer


def test_the_step_schedule_equals_that_of_torch():
    weight = nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.Adam([weight], lr=0.004)
    reference = torch.optim.lr_scheduler.StepLR(optimizer, step_size=3, gamma=0.9025)
    for epoch in range(12):
        lr = learning_rate(0.004, "step", share=epoch / 12, drops=epoch // 3, factor=0.9025)
        assert lr == pytest.approx(reference.get_last_lr()[0])
        optimizer.step()
        reference.step()


def test_the_cosine_falls_to_zero_and_stays_there():
    shares = (0.0, 0.25, 0.5, 1.0, 1.3)
    expected = [0.1, 0.1 * (2 + math.sqrt(2)) / 4, 0.05, 0, 0]
    assert [learning_rate(0.1, "cosine", share, 0, 1.0) for share in shares] == pytest.approx(expected)


def test_the_constant_schedule_does_not_change():
    assert {learning_rate(0.1, "constant", share, 3, 0.5) for share in (0.0, 0.5, 1.3)} == {0.1}


def test_every_weight_is_in_one_group():
    method = Supervised(make.encoder("gru"), make.schema(), "kind", batch_norm=True)
    for encoder_lr, tops in ((None, [0.1]), (0.01, [0.01, 0.1])):
        groups = optimizer(method, 0.1, encoder_lr).param_groups
        assert [group["top"] for group in groups] == tops
        ids = [id(weight) for group in groups for weight in group["params"]]
        assert sorted(ids) == sorted(id(weight) for weight in method.parameters())
    assert {id(weight) for weight in groups[0]["params"]} == {id(weight) for weight in method.encoder.parameters()}
    coles = CoLES(make.encoder("gru"))
    assert head_weights(coles) == []
    assert [group["top"] for group in optimizer(coles, 0.1, 0.01).param_groups] == [0.01]


def test_weights_that_were_frozen_before_stay_frozen():
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


def test_lars_equals_its_formula_step_by_step():
    torch.manual_seed(0)
    weights = [nn.Parameter(torch.randn(3, 4)), nn.Parameter(torch.randn(5)), nn.Parameter(torch.zeros(2))]
    lars, before = LARS(weights, lr=0.3, weight_decay=0.01), [weight.detach().clone() for weight in weights]
    velocities = [torch.zeros_like(weight) for weight in weights]
    for _ in range(4):
        for place, weight in enumerate(weights):
            weight.grad = torch.randn_like(weight)
            w, g = before[place], weight.grad
            norm, slope = float(w.norm()), float(g.norm())
            ratio = 0.001 * norm / (slope + 0.01 * norm) if norm and slope else 1.0
            velocities[place] = 0.9 * velocities[place] + 0.3 * ratio * (g + 0.01 * w)
            before[place] = w - velocities[place]
        lars.step()
    for weight, expected in zip(weights, before, strict=True):
        assert torch.allclose(weight, expected, atol=1e-6)


def test_the_decay_of_adamw_is_apart_from_the_gradient():
    for name, expected in (("adamw", 1 - 0.1 * 0.5), ("adam", 1 - 0.1)):  # lr 0.1, decay 0.5, no gradient of the loss
        coles = CoLES(make.encoder("gru"))
        weight = next(coles.parameters())
        with torch.no_grad():
            weight.fill_(1.0)
        trained = optimizer(coles, 0.1, name=name, weight_decay=0.5)
        weight.grad = torch.zeros_like(weight)
        trained.step()
        assert torch.allclose(weight, torch.full_like(weight, expected), atol=1e-4)
