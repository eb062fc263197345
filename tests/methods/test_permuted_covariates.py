"""Whether a prediction uses x*: the losses that are compared, the floor, the sentences, and what is refused."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from experiments.cresp.processes import Sinusoids, sinusoids

import eventvec as ev
import make
from eventvec import losses
from eventvec.encoders import Numbers, PlainHead, PointEncoder, SetEncoder
from eventvec.errors import ConfigError, DataError
from eventvec.methods import CNP, CoLES, CovariateUse, TargetedCReSP, covariate_use
from eventvec.methods.permuted_covariates import contrastive_floor, permuted
from eventvec.sequences import Sequences
from eventvec.views import hold_out
from laws import rng

pytestmark = pytest.mark.usefixtures("named_processes")


def targeted(head: PlainHead | None = None) -> TargetedCReSP:
    torch.manual_seed(0)
    encoder = SetEncoder(PointEncoder(Numbers(1, 8)), dim=16, layers=0)
    return TargetedCReSP(encoder, Sinusoids(count=1, length=6), **({"target_head": head} if head else {}))


def test_the_floor_is_the_loss_of_the_corners_of_a_simplex():
    corners = torch.eye(8) - 1 / 8
    loss = losses.info_nce(corners, corners, temperature=0.5)
    assert contrastive_floor(8, 0.5) == pytest.approx(loss.item(), abs=1e-6)


def test_losses_equal_those_of_batches_by_hand():
    method, x = targeted().eval(), sinusoids(130).sequences
    use = covariate_use(method, x, rng())
    draws = rng()
    expected, permuted = [], []
    for _ in range(20):
        rows = torch.randperm(130, generator=draws)[:64]
        context = hold_out(method.views(x[rows], draws)[0])
        other = replace(context, static={**context.static, "x*": context.static["x*"][[63, *range(63)]]})
        expected.append(method.loss_of_targets(context).item())
        permuted.append(method.loss_of_targets(other).item())
    assert (use.loss, use.permuted) == pytest.approx((sum(expected) / 20, sum(permuted) / 20))
    assert use.chance == math.log(64)


def test_times_are_permuted_as_the_encoder_counts_them():
    columns = {"time": torch.tensor([7, 2, 900, 1000, 50, 51, 40, 60]), "y": torch.arange(8.0)}
    context = hold_out(Sequences(columns, torch.tensor([0, 2, 4]), torch.tensor([2, 2, 4])))
    targets = permuted(context, PointEncoder(covariates=["time"]), 1).static["targets"]
    assert targets.values("time").tolist() == [2 + 10, 1000 + 5, 40 - 100]
    assert targets.values("y").tolist() == [0, 2, 4]
    context = hold_out(Sequences(columns, torch.tensor([0, 4]), torch.tensor([4, 4])), 2)
    targets = permuted(context, PointEncoder(covariates=["y"], observations=["code"]), 2).static["targets"]
    assert targets.values("y").tolist() == [4, 5, 0, 1]


def test_a_prediction_without_x_star_is_recognised():
    method = targeted(PlainHead())
    with torch.no_grad():
        method.head[0].weight[:, -1] = 0
    use = covariate_use(method.train(), sinusoids(200).sequences, rng())
    assert use.loss == use.permuted
    assert use.share == 0
    assert use.plain_head
    assert method.training


@pytest.mark.parametrize(
    ("loss", "permuted", "sentence"),
    [
        (2.35, 2.95, "the prediction uses x*: the loss is 2.35, and 2.95 if x* is permuted among rows (floor 2.23, "),
        (2.686, 2.691, "the prediction hardly depends on x*: the loss is 2.69, and 2.69 if x* is permuted among "),
        (4.15, 4.16, "the prediction has learned little: the loss is 4.15, and 4.16 if x* is permuted among rows "),
    ],
)
def test_the_sentence_says_what_follows(loss, permuted, sentence):
    use = CovariateUse(loss, permuted, contrastive_floor(64, 0.5), math.log(64))
    assert str(use).startswith(sentence)
    assert "gated_head" not in str(use)
    assert ("gated_head" in str(replace(use, plain_head=True))) == ("hardly" in sentence)


def test_a_run_of_a_targeted_method_has_the_sentence_as_a_note(tmp_path: Path):
    run = ev.fit(sinusoids(64), method=targeted(), epochs=1, batch_size=16, out=tmp_path / "run")
    assert run.notes[-1].startswith(("the prediction has learned little: ", "the prediction hardly depends on x*: "))
    assert "chance 4.11" in run.notes[-1]  # log 61: all rows that are not held out, because the 3 others are too few


def test_methods_and_rows_that_do_not_fit_are_refused():
    process = CNP(SetEncoder(PointEncoder(), dim=8), Sinusoids(count=1))
    for method in (CoLES(make.encoder("gru")), process, "cresp"):
        kind = type(method).__name__
        with pytest.raises(ConfigError, match=f"by a contrastive loss, got {kind}; accepted: TargetedCReSP, MetaCDE"):
            covariate_use(method, sinusoids(4).sequences, rng())
    with pytest.raises(DataError, match=r"at least 2 rows must be usable to permute x\* among them, got 1 of 1"):
        covariate_use(targeted(), sinusoids(1).sequences, rng())


def test_a_run_that_cannot_be_measured_is_saved_and_says_why(tmp_path: Path) -> None:
    def refuse(self: TargetedCReSP, x: Sequences, rng: torch.Generator) -> str:
        raise DataError("too few rows")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TargetedCReSP, "remark", refuse)
        run = ev.fit(sinusoids(64), method=targeted(), epochs=1, out=tmp_path / "run")
    assert run.notes[-1] == "what the method does on rows was not measured: too few rows"
    assert ev.load(tmp_path / "run").info["finished"]
