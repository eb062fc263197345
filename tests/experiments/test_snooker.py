"""The study of snooker: its pairs of balls, networks, steps, kept outcomes and the intervals of its table."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from experiments.command_line import Row
from experiments.cresp import snooker, snooker_networks, snooker_variants
from experiments.cresp.pictures import ResNet18
from experiments.cresp.processes import Snooker
from experiments.cresp.processes import snooker as pairs_of_balls
from experiments.cresp.snooker_networks import PROBES, STEPS, Arm, Outcome, Overlap, Probe
from scipy.stats import t  # type: ignore[import-untyped]

from eventvec.encoders.points import Numbers, PointEncoder
from eventvec.encoders.sets import SetEncoder
from eventvec.methods import covariate_use
from eventvec.views import hold_out


def test_the_pair_of_the_picture_is_apart_at_both_ends_and_overlaps_for_half_of_the_time() -> None:
    test = pairs_of_balls(100, 1)
    row = snooker_networks.crossing(test)
    shares = []
    for place in range(len(test)):
        one = test[[place]].sequences
        overlap = [bool(Snooker().overlap(one, torch.tensor([float(time)]))[0]) for time in snooker_networks.TIMES]
        shares.append(math.nan if overlap[0] or overlap[-1] else sum(overlap) / len(overlap))
    best = int(np.nanargmin(np.abs(np.array(shares) - 0.5)))
    assert torch.equal(row.static["start"], test[[best]].sequences.static["start"])


def test_the_majority_label_is_right_for_the_larger_part_of_the_time() -> None:
    test = pairs_of_balls(20, 1)
    right = []
    for place in range(len(test)):
        one, times = test[[place]].sequences, torch.linspace(0, 1, 201)
        share = np.mean([bool(Snooker().overlap(one, time[None])[0]) for time in times])
        right.append(max(share, 1 - share))
    assert snooker.majority(test) == pytest.approx(right, abs=1e-6)


# Looks and probes


def test_nine_looks_are_nine_observations_of_one_game_and_the_target_is_another_time_of_it() -> None:
    data = pairs_of_balls(50, 1)
    x = snooker_networks.contexts_of(data, "positions", 9, seed=1)
    assert x.lengths.tolist() == [9] * 50
    times, places = x.values("x").view(50, 9), x.values("y").view(50, 9, 2, 2)
    target = x.static["x*"]
    assert all(len({*row.tolist(), float(own)}) == 10 for row, own in zip(times, target, strict=True))
    for place in range(50):
        game = data[[place]].sequences
        for time, look in zip(
            [*times[place], *target[place]], [*places[place], x.static["y*"][place].view(2, 2)], strict=True
        ):
            assert torch.allclose(Snooker().places(game, time[None])[0], look)


def test_networks_are_tested_with_as_many_looks_as_in_training_and_as_in_the_public_code() -> None:
    assert snooker_networks.LOOKS == 5
    assert all(probes[:2] == (Probe(5), Probe(9)) for probes in PROBES.values())
    (many,) = PROBES["positions"][2:]
    assert (many.looks, many.pairs) == (9, 15_000)
    assert many.seed not in (snooker_networks.TRAINING, snooker_networks.TEST, snooker_networks.CHOOSING)
    assert len(snooker_networks.pairs(True, many.seed, many.pairs)) == 5 * len(snooker_networks.pairs(True, 0))


def test_an_answer_is_that_of_a_network_that_saw_as_many_looks_as_the_probe_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    draw = snooker_networks.contexts_of
    monkeypatch.setattr(
        snooker_networks, "contexts_of", lambda data, *asked: seen.append((len(data), *asked)) or draw(data, *asked)
    )
    result = snooker_networks.outcome(Arm("cnp", "positions", 0, 64), True, tmp_path)
    learned, asked = seen[:3], seen[3:]
    assert learned == [(12, "positions", 5, 0), (12, "positions", 9, 0), (60, "positions", 9, 3)]
    assert asked == [(12, "positions", looks, seed) for seed in (1, 2) for looks in (5, 9, 9)]
    assert result.test.shape == result.choosing.shape == (3, 12)


# The networks


PLANS = (snooker.POSITIONS, snooker.PICTURES, snooker.PICTURE_BATCHES)


def test_all_batch_sizes_have_equal_steps() -> None:
    training = len(snooker_networks.pairs(False, snooker_networks.TRAINING))
    for batch in {arm.batch for plan in PLANS for arm in snooker.arms(plan, small=False)}:
        per_epoch = int((1 - snooker_networks.HELD_OUT) * training) // batch
        assert snooker_networks.epochs(batch) * per_epoch == STEPS


def test_every_method_but_metacde_has_networks_with_and_without_attention() -> None:
    arms = snooker.arms((*snooker.POSITIONS, *snooker.PICTURE_BATCHES), small=False)
    assert len(set(arms)) == len(arms)
    layers: dict[str, set[int]] = {}
    for arm in arms:
        layers.setdefault(arm.name, set()).add(arm.layers)
        encoder = snooker_networks.build(arm).encoder
        assert getattr(encoder, "layers", 0) == arm.layers
    assert layers.pop("metacde") == {0}
    assert set(map(frozenset, layers.values())) == {frozenset({0, 2})}


def test_a_network_in_large_batches_has_its_like_in_small_ones() -> None:
    for plan in (snooker.POSITIONS, snooker.PICTURE_BATCHES):
        for small in (False, True):
            arms = snooker.arms(plan, small)
            large = [arm for arm in arms if arm.batch == snooker.LARGE_BATCH]
            assert large
            assert {replace(arm, batch=snooker.BATCH) for arm in large} <= set(arms)


def test_the_initial_weights_of_a_network_depend_on_its_seed_only() -> None:
    first, again, other = (
        snooker_networks.build(Arm("cresp", "positions", 2, batch, seed)).head.net[0].weight
        for batch, seed in ((64, 1), (256, 1), (64, 2))
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_settings_beside_the_first_ones_name_the_file_if_they_are_others() -> None:
    assert str(Arm("cresp", "pictures", 0, 64)) == "pictures-cresp-layers0-batch64-seed0"
    other = Arm("cresp", "pictures", 0, 64, 1, "plain", "resnet18", "lars")
    assert str(other) == "pictures-cresp-layers0-batch64-seed1-resnet18-lars-plain"
    every = [
        *dict.fromkeys(arm for plan in PLANS for arm in snooker.arms(plan, False)),
        *snooker_variants.head_arms(False),
        *snooker_variants.resnet_arms(False),
    ]
    assert len({str(arm) for arm in every}) == len(set(every))


def test_resnet_gives_its_width_to_all_else() -> None:
    for name in ("cresp", "metacde", "supervised"):
        method = snooker_networks.build(Arm(name, "pictures", 0, 64, network="resnet18"), small=True)
        assert isinstance(method.encoder.events.observation, ResNet18)
        assert method.encoder.dim == 8 * 2


def test_the_supervised_loss_is_the_cross_entropy_of_the_overlap_at_the_held_out_look() -> None:
    torch.manual_seed(0)
    encoder = SetEncoder(PointEncoder(Numbers(4, width=8)), dim=8, layers=0)
    method = Overlap(encoder, Snooker(count=1, length=4, observations="positions")).eval()
    x = pairs_of_balls(30, 3).sequences
    loss = method.loss(x, torch.Generator().manual_seed(1))
    views, _ = method.views(x, torch.Generator().manual_seed(1))
    logits, looks, terms = method.predictor(hold_out(views))[:, 0], views.values("y").view(30, 4, 4)[:, 0], []
    for logit, (a, b, c, d) in zip(logits.tolist(), looks.tolist(), strict=True):
        probability = 1 / (1 + math.exp(-logit))
        terms.append(-math.log(probability if math.hypot(a - c, b - d) < 0.3 else 1 - probability))
    assert 0 < sum(math.hypot(a - c, b - d) < 0.3 for a, b, c, d in looks.tolist()) < 30
    assert loss.item() == pytest.approx(np.mean(terms), abs=1e-5)


def test_a_network_is_trained_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arm = Arm("metacde", "positions", 0, 64)
    first = snooker_networks.outcome(arm, True, tmp_path)
    monkeypatch.setattr(snooker_networks, "_trained", None)
    again = snooker_networks.outcome(arm, True, tmp_path)
    for name in ("test", "choosing", "curve"):
        assert np.array_equal(getattr(first, name), getattr(again, name))
    assert first.test.shape == (len(PROBES["positions"]), 12)
    assert first.test.dtype == bool
    assert not np.array_equal(first.test, first.choosing)
    assert first.curve.shape == (snooker_networks.FEW_CONTEXTS, len(snooker_networks.TIMES))
    assert first.use == again.use
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"
    assert (first.training["steps"], first.training["device"]) == (1, device)
    with pytest.raises(TypeError):
        snooker_networks.outcome(Arm("metacde", "positions", 0, 64, seed=1), True, tmp_path)


def test_untargeted_methods_answer_from_the_context_and_x(tmp_path: Path) -> None:
    result = snooker_networks.outcome(Arm("fclr", "positions", 2, 64), True, tmp_path)
    assert result.use is None
    assert result.curve.shape == (0, len(snooker_networks.TIMES))


# The table


def outcomes(n: int = 400) -> dict[Arm, Outcome]:
    """Return outcomes of known accuracies: attention adds .05 in each network, CReSP is .1 ahead of FCLR."""
    accuracies = {
        ("cresp", 0, 64): (0.9, 0.8), ("cresp", 2, 64): (0.95, 0.85), ("cresp", 0, 256): (0.9, 0.86),
        ("fclr", 0, 64): (0.8, 0.7), ("metacde", 0, 64): (0.75,),
    }  # fmt: skip
    rng, by_cell = np.random.default_rng(0), {}
    for (name, layers, batch), shares in accuracies.items():
        for seed, share in enumerate(shares):
            right = rng.permutation(np.arange(n) < round(share * n))
            by_cell[Arm(name, "positions", layers, batch, seed)] = answers(right)
    return by_cell


def answers(right: np.ndarray) -> Outcome:
    """Return what a network showed whose answers to positions are these with five looks, and right with nine."""
    with_nine = np.ones_like(right)
    return Outcome(np.stack([right, with_nine, with_nine]), np.stack([~right] * 3), None, np.empty((0, 41)))


def five(rows: list[Row]) -> list[Row]:
    """Return the rows of five looks."""
    return [row for row in rows if row["looks"] == 5]


def test_rows_have_the_means_of_networks_and_their_differences() -> None:
    by_cell = {(row["embedding"], row["layers"], row["batch"]): row for row in five(snooker.rows(outcomes()))}
    plain, attentive = by_cell["targeted CReSP", 0, 64], by_cell["targeted CReSP", 2, 64]
    assert plain["ours"] == pytest.approx(0.85)
    assert plain["other pairs"] == pytest.approx(0.15)
    assert plain["of the networks"] == ".900 .800"
    assert attentive["attention adds"].startswith("+.050 ± ")
    assert by_cell["FCLR", 0, 64]["CReSP ahead"].startswith("+.100 ± ")
    assert by_cell["targeted CReSP", 0, 256]["batch adds"].startswith("+.030 ± ")
    assert plain["CReSP ahead"] == plain["attention adds"] == plain["batch adds"] == attentive["batch adds"] == ""
    assert by_cell["MetaCDE", 0, 64]["±"] == ""
    assert by_cell["FCLR", 0, 64]["MetaCDE ahead"] == "+.000"
    assert by_cell["MetaCDE", 0, 64]["CReSP ahead"] == "+.100"  # one network says nothing of others


def test_rows_of_a_network_differ_in_their_looks_and_in_the_pairs_of_their_probe() -> None:
    rows = [row for row in snooker.rows(outcomes()) if (row["embedding"], row["batch"]) == ("FCLR", 64)]
    assert [(row["looks"], row["probe's pairs"]) for row in rows] == [(5, 3000), (9, 3000), (9, 15_000)]
    assert [row["ours"] for row in rows] == pytest.approx([0.75, 1, 1])
    assert rows[0]["to 5 looks"] == ""
    assert rows[1]["to 5 looks"].startswith("+.250 ± ")
    assert rows[1]["CReSP ahead"].startswith("+.000 ± ")


def test_an_interval_holds_the_test_pairs_and_the_spread_between_networks() -> None:
    by_cell = {arm: result for arm, result in outcomes().items() if (arm.name, arm.layers) == ("cresp", 0)}
    by_cell = {arm: result for arm, result in by_cell.items() if arm.batch == 64}
    (row,) = five(snooker.rows(by_cell))
    of_networks = float(t.ppf(0.975, 1)) * math.sqrt(((0.9 - 0.85) ** 2 + (0.8 - 0.85) ** 2) / 1 / 2)
    both = np.mean([result.test[0] for result in by_cell.values()], 0)
    of_pairs = 1.96 * float(both.std()) / math.sqrt(len(both))
    assert row["±"] == pytest.approx(math.hypot(of_networks, of_pairs), rel=0.01)
    assert row["±"] > of_networks > 5 * of_pairs


def test_the_paper_is_compared_on_pictures_without_attention_only() -> None:
    arms = [
        Arm("cresp", observations, layers, 64, seed)
        for observations in ("positions", "pictures")
        for layers in (0, 2)
        for seed in (0, 1)
    ]
    right = np.arange(400) % 10 > 0
    rows = five(snooker.rows({arm: answers(right) for arm in arms}))
    assert [row["paper"] for row in rows] == ["", "", 0.968, ""]
    assert rows[2]["difference"].startswith("-.068 ± ")


def test_the_use_of_the_covariate_is_that_of_the_first_network() -> None:
    torch.manual_seed(0)
    method = snooker_networks.build(Arm("metacde", "positions", 0, 64))
    use = covariate_use(method, pairs_of_balls(20).sequences, torch.Generator().manual_seed(0))
    right = np.arange(50) > 5
    arms = [Arm("metacde", "positions", 0, 64, seed) for seed in (0, 1)]
    found = {arm: replace(answers(right), use=None if arm.seed else use) for arm in arms}
    assert snooker.rows(found)[0]["loss"] == use.loss


def test_a_variant_is_compared_with_the_same_network_but_for_one_setting() -> None:
    right = {share: np.arange(400) < 400 * share for share in (0.8, 0.85, 0.9, 0.7)}
    base = Arm("cresp", "pictures", 0, 256)
    found = {
        base: 0.8, replace(base, head="sigmoid"): 0.85, replace(base, optimizer="lars"): 0.7,
        replace(base, network="resnet18"): 0.9, replace(base, network="resnet18", optimizer="lars"): 0.85,
    }  # fmt: skip
    about = {"steps": 100, "seconds": 50.0, "device": "cpu"}
    outcomes = {arm: replace(answers(right[share]), training=about) for arm, share in found.items()}
    plain, sigmoid, lars, resnet, both = five(snooker_variants.rows(outcomes))
    assert plain["head adds"] == plain["ResNet adds"] == plain["LARS adds"] == ""
    assert (sigmoid["head adds"], sigmoid["ResNet adds"]) == ("+.050", "")
    assert (lars["LARS adds"], resnet["ResNet adds"]) == ("-.100", "+.100")
    assert (both["ResNet adds"], both["LARS adds"]) == ("+.150", "-.050")
    assert resnet["seconds per step"] == 0.5
    assert resnet["paper's steps, hours"] == pytest.approx(11_700 * 0.5 / 3600)
    kept = snooker_variants.rows({base: replace(outcomes[base], training={"steps": 100})})[0]  # of an earlier version
    assert (kept["seconds per step"], kept["paper's steps, hours"], kept["device"]) == ("", "", "cpu")
