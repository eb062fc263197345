"""CReSP: its losses, processes in fit, embed, saving and resuming, and training."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from experiments.cresp.pictures import Images
from experiments.cresp.processes import Sinusoids, Snooker, draw, sinusoids, snooker
from sklearn.linear_model import Ridge
from torch import nn

import cases
import eventvec as ev
import make
from eventvec.config import build_method, describe
from eventvec.encoders.points import Numbers, PointEncoder
from eventvec.encoders.sets import SetEncoder
from eventvec.errors import ConfigError, DataError
from eventvec.methods import CReSP, ExpCLR, Supervised, TargetedCReSP, fclr, ocp
from eventvec.methods.declarations import usable_rows
from eventvec.models import load
from eventvec.views import ShuffledParts, hold_out
from laws import rng

pytestmark = pytest.mark.usefixtures("named_processes")


def untargeted(layers: int = 1, noise: float = 1.0) -> CReSP:
    torch.manual_seed(0)
    return CReSP(SetEncoder(PointEncoder(), dim=32, layers=layers, heads=4), Sinusoids(2, 5, noise), projection=32)


def targeted() -> TargetedCReSP:
    torch.manual_seed(0)
    encoder = SetEncoder(PointEncoder(Images(dim=16, width=4)), dim=16, layers=0, pair="gated")
    return TargetedCReSP(encoder, Snooker(count=1, length=4), projection=8)


KINDS = [(untargeted, lambda: sinusoids(40)), (targeted, lambda: snooker(40))]


# Losses


def test_untargeted_loss_compares_the_projections_of_two_views():
    method, x = untargeted().eval(), sinusoids(4).sequences
    views, source = method.views(x, rng())
    assert source.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    z = F.normalize(method.project(method.encoder(views)), dim=1)
    logits = (z @ z.T / 0.5).fill_diagonal_(float("-inf"))
    partner = torch.tensor([1, 0, 3, 2, 5, 4, 7, 6])
    torch.testing.assert_close(method.loss(x, rng()), F.cross_entropy(logits, partner))


def test_targeted_loss_predicts_the_observation_that_was_held_out():
    method, x = targeted().eval(), snooker(5).sequences
    views, _ = method.views(x, rng())
    firsts = torch.arange(5) * 4
    pictures, times = views.values("y"), views.values("x")
    context = views.slice(torch.arange(5), torch.ones(5).long(), torch.full((5,), 3))
    query = method.project(method.head(method.encoder(context), times[firsts]))
    key = method.project(method.encoder.events.observation(pictures[firsts]))
    logits = F.cosine_similarity(query[:, None], key[None], dim=2) / 0.5
    torch.testing.assert_close(method.loss(x, rng()), F.cross_entropy(logits, torch.arange(5)))


def test_the_target_is_not_in_the_context():
    method, batch = cases.CASES["cresp"]()
    batch = batch[usable_rows(method, batch)]
    views, _ = method.eval().views(batch, rng())
    changed = replace(views, columns={**views.columns, "y": views.columns["y"].clone()})
    changed.columns["y"][changed.starts] += 9
    assert torch.equal(method.predictor(hold_out(views)), method.predictor(hold_out(changed)))
    moved = replace(hold_out(views), static={**hold_out(views).static, "x*": torch.full((len(batch),), 3.0)})
    assert not torch.allclose(method.predictor(hold_out(views)), method.predictor(moved))
    assert torch.equal(method.encoder(hold_out(views)), method.encoder(moved))


def test_fclr_is_untargeted_without_attention():
    encoder = SetEncoder(PointEncoder(), dim=8, layers=0)
    assert type(fclr(encoder)) is CReSP
    advice = r'; write \[encoder\] name = "set", layers = 0'
    with pytest.raises(ConfigError, match=f"set encoder without attention, got SetEncoder with layers = 1{advice}"):
        fclr(SetEncoder(PointEncoder(), dim=8, layers=1))
    with pytest.raises(ConfigError, match=f"set encoder without attention, got Recurrent{advice}"):
        fclr(make.encoder("gru"))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: CReSP(SetEncoder(PointEncoder()), ShuffledParts(1)), "count of views must be at least 2 .*, got 1"),
        (lambda: TargetedCReSP(SetEncoder(PointEncoder()), Snooker(count=2)), "count of views must be 1, .*, got 2"),
        (lambda: TargetedCReSP(make.encoder("gru")), "must encode points .*, got Recurrent over EventEncoder"),
        (lambda: TargetedCReSP(make.encoder("set")), "must encode points .*, got SetEncoder over EventEncoder"),
    ],
)
def test_views_and_encoders_that_do_not_fit_are_refused(build, message):
    with pytest.raises(ConfigError, match=message):
        build()


@pytest.mark.parametrize("number", [0.0, -1.0, math.nan, math.inf])
@pytest.mark.parametrize("method", [CReSP, TargetedCReSP])
def test_numbers_out_of_range_are_refused(method, number):
    with pytest.raises(ConfigError, match=f"temperature must be above 0 and finite, got {number}"):
        method(SetEncoder(PointEncoder()), ShuffledParts(1 + (method is CReSP)), temperature=number)
    with pytest.raises(ConfigError, match="projection must be at least 1, got 0"):
        method(SetEncoder(PointEncoder()), ShuffledParts(1 + (method is CReSP)), projection=0)


# Reading, training and saving


def table(columns: dict[str, torch.Tensor]) -> ev.Dataset:
    """Return 12 rows of 6 events with these columns."""
    data = make.dataset([6] * 12)
    x = data.sequences.take(data.sequences.flat(), data.sequences.lengths)
    return replace(data, sequences=replace(x, columns={**x.columns, **columns}))


def methods() -> list[nn.Module]:
    """Return methods over an encoder of points, for rows of an event table."""
    torch.manual_seed(0)
    encoders = [SetEncoder(PointEncoder(), dim=8, layers=0) for _ in range(7)]
    return [
        TargetedCReSP(SetEncoder(PointEncoder(Numbers(1, 4)), dim=8, layers=0), projection=4),
        CReSP(encoders[1], projection=4),
        fclr(encoders[2], projection=4),
        ev.methods.CoLES(encoders[3], ev.views.RandomSlices(shortest=2, longest=4)),
        ocp(encoders[4], length=2),
        ExpCLR(encoders[5], make.schema(), ["level"]),
        Supervised(encoders[6], make.schema(), "kind"),
    ]


@pytest.mark.parametrize("which", range(7))
def test_rows_with_missing_points_are_left_out_and_not_encoded(which, tmp_path: Path):
    x, y = torch.randn(2, 72, generator=rng())
    method = methods()[which]
    usable = usable_rows(method, table({"x": x, "y": y}).sequences)
    assert usable.sum() >= 6
    x[6 * 3 + 2], y[6 * 7] = math.nan, math.inf
    data = table({"x": x, "y": y})
    usable[[3, 7]] = False
    assert usable_rows(method, data.sequences).tolist() == usable.tolist()
    result = ev.fit(data, method=method, epochs=1, batch_size=4, out=tmp_path / "run", validation=0.0)
    assert result.usable == int(usable.sum())
    assert any("too few distinct times, or lack a value" in note for note in result.notes)
    with pytest.raises(DataError, match="column 'x' is missing or infinite in 1 of 72 events"):
        ev.encode(method.encoder, data.sequences)
    assert ev.encode(method.encoder, data[usable].sequences).isfinite().all()


@pytest.mark.parametrize("which", range(7))
def test_data_without_the_columns_are_refused_before_a_folder_is_created(which, tmp_path: Path):
    with pytest.raises(DataError, match="missing: x, found: amount, code, gap, time, y;"):
        ev.fit(table({"y": torch.ones(72)}), method=methods()[which], epochs=1, batch_size=4, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_encoding_rows_without_drawn_events_is_refused():
    with pytest.raises(DataError, match=r"missing: x, y, found: none; .* processes.draw"):
        ev.encode(untargeted().encoder, sinusoids(4).sequences)
    drawn = draw(snooker(4), Snooker(count=1, length=4), seed=0)
    with pytest.raises(DataError, match=r"make it with views.hold_out\(x\)"):
        ev.encode(targeted().predictor, drawn.sequences)


def test_images_are_refused_by_a_net_for_numbers():
    encoder = SetEncoder(PointEncoder(Numbers(1, 4)), dim=8, layers=0)
    method = TargetedCReSP(encoder, Snooker(count=1, length=4), projection=8)
    with pytest.raises(DataError, match=r"values have shape \(3, 28, 28\), .* takes 1 number per value; .* `size`"):
        ev.fit(snooker(8), method=method, epochs=1, batch_size=4)


@pytest.mark.parametrize(("build", "data"), KINDS)
def test_a_process_is_described_and_built_again(build, data):
    method = build()
    again = build_method(describe(method), data().schema)
    assert again.views == method.views
    again.load_state_dict(method.state_dict())
    x = data().sequences
    assert torch.equal(again.eval().loss(x, rng()), method.eval().loss(x, rng()))


def test_a_configuration_builds_the_encoder_of_points():
    config: dict[str, Any] = {
        "method": {"name": "cresp", "views": {"name": "snooker", "count": 1, "length": 4}},
        "encoder": {
            "name": "set", "dim": 16, "pair": "gated",
            "events": {"name": "pairs", "observation": {"name": "images", "size": 28, "dim": 8}},
        },
    }  # fmt: skip
    method = build_method(config, snooker(1).schema)
    assert isinstance(method, TargetedCReSP)
    assert method.predictor.dim == 8
    described = describe(TargetedCReSP(method.encoder, method.views))
    assert described["encoder"]["events"]["covariate"] == {"name": "numbers", "size": 1}


@pytest.mark.parametrize(("build", "data"), KINDS)
def test_processes_are_trained_resumed_and_loaded_like_any_data_set(build, data, tmp_path: Path):
    settings: dict[str, Any] = {"epochs": 4, "batch_size": 8, "validation": 0.2, "checkpoint_every": 1}
    whole, resumed = build(), build()
    result = ev.fit(data(), method=whole, **settings)
    losses = [record["loss"] for record in result.history]
    assert (result.usable, len(set(losses))) == (40, 4)
    assert all(record["validation"] is not None for record in result.history)

    class Killed(Exception):
        pass

    def kill(record: dict[str, Any]) -> None:
        if record["step"] == 6 and record["validation"] is None:
            raise Killed

    with pytest.raises(Killed):
        ev.fit(data(), method=build(), out=tmp_path / "run", progress=kill, **settings)
    ev.fit(data(), method=resumed, out=tmp_path / "run", resume=True, **settings)
    for one, other in zip(whole.parameters(), resumed.parameters(), strict=True):
        assert torch.equal(one, other)
    assert [r["validation"] for r in result.history][-1] is not None
    loaded = load(tmp_path / "run")
    drawn = draw(data(), replace(whole.views, count=1), seed=5)
    z = ev.encode(loaded.encoder, drawn.sequences)
    assert torch.equal(z, ev.encode(whole.encoder, drawn.sequences))
    assert z.shape == (40, whole.encoder.dim)
    assert len(z.unique(dim=0)) == 40


def test_the_validation_loss_uses_the_same_draws_every_time():
    settings: dict[str, Any] = {"epochs": 2, "batch_size": 16, "lr": 1e-12, "validation": 0.4}
    first, second = ev.fit(sinusoids(40), method=untargeted(), **settings).history
    assert abs(first["loss"] - second["loss"]) > 1e-3  # fresh draws
    assert first["validation"] == pytest.approx(second["validation"], rel=1e-5)


def test_encoding_does_not_change_the_training_mode():
    method, x = targeted().train(), draw(snooker(6), Snooker(count=1, length=4), seed=0)
    context = replace(x, sequences=hold_out(x.sequences))
    z = ev.encode(method.predictor, context.sequences)
    assert z.shape == (6, 16)
    assert all(module.training for module in method.modules())
    assert not any(module.training for module in method.eval().predictor.modules())
    torch.testing.assert_close(method.predictor(context.sequences), z, rtol=0, atol=1e-6)


def test_a_predictor_adds_no_weights():
    names = [name.split(".")[0] for name in targeted().state_dict()]
    assert set(names) == {"encoder", "head", "project"}


def test_rows_of_an_event_table_are_cut_into_halves():
    torch.manual_seed(0)
    method = CReSP(make.encoder("set"), ShuffledParts(2), projection=4)
    result = ev.fit(make.dataset([6] * 12), method=method, epochs=2, batch_size=6, validation=0.0)
    assert result.steps == 4
    assert ev.encode(method.encoder, make.dataset([6, 0, 2]).sequences).shape == (3, 8)


# Training


def phase_error(encoder: nn.Module, noise: float) -> float:
    process = Sinusoids(count=1, length=20, noise=noise)
    training, test = (draw(sinusoids(600, seed), process, seed) for seed in (1, 2))
    z = [ev.encode(encoder, data.sequences).double().numpy() for data in (training, test)]
    phase = [np.asarray(data.sequences.static["phase"]) for data in (training, test)]
    return float(np.square(Ridge(1e-3).fit(z[0], phase[0]).predict(z[1]) - phase[1]).mean())


def test_cresp_learns_the_phase_of_functions_that_are_drawn_anew():
    torch.manual_seed(0)
    method = CReSP(SetEncoder(PointEncoder(), dim=64, layers=1, heads=4), Sinusoids(2, 5, noise=0.0), projection=32)
    before = phase_error(method.encoder, 0.0)
    ev.fit(sinusoids(1000, seed=9), method=method, epochs=8, batch_size=50, lr=0.01, validation=0.0)
    assert before > 0.04
    assert phase_error(method.encoder, 0.0) < before / 3


@pytest.mark.slow  # `test_cresp_targeted.py` has a training with fewer steps
def test_targeted_cresp_identifies_the_observation_at_a_given_x():
    torch.manual_seed(0)
    encoder = SetEncoder(PointEncoder(Numbers(1, width=16)), dim=64, layers=0)
    method = TargetedCReSP(encoder, Sinusoids(count=1, length=8, noise=0.0), projection=16)
    ev.fit(sinusoids(1000, seed=9), method=method, epochs=12, batch_size=50, lr=0.003, validation=0.0)
    with torch.inference_mode():
        loss = float(method.eval().loss(sinusoids(64, seed=5).sequences, rng()))
    assert loss < math.log(64) - 0.2  # chance is the logarithm of the number; three seeds are .34 to .66 below it
