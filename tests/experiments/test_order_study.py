"""The order study: its synthetic distributions against what can be worked out, its protocol against plain loops."""

from __future__ import annotations

import itertools
from xml.dom import minidom

import numpy as np
import polars as pl
import pytest
import torch
from experiments.order import linear, reference, study, synthetic
from experiments.order.picture import svg

import eventvec as ev
from eventvec.evaluation import precision_at_recall
from eventvec.views.pairs import OrderPairs

STEPS = [(w, v) for w in range(10) for v in range(10) if w != v]


def shown(chance: float, w: int, v: int) -> np.ndarray:
    """Return `(2, 2)` the chances that a feature of S is off or on at step w, and at step v."""
    table = np.zeros((2, 2))
    table[0, 0] += 1 - chance
    for begin in range(10):
        table[int(w >= begin), int(v >= begin)] += chance / 10
    return table


def exact_error(scheme: str) -> float:
    """Return the least error on S alone, over all pairs of steps and all patterns of S, one by one."""
    forward = {(w, w + 1): 1 / 9 for w in range(9)}
    negative = {
        "ocp": {(v, w): p for (w, v), p in forward.items()},
        "ocp_biased": {pair: 1 / 18 for pair in STEPS if abs(pair[0] - pair[1]) == 1},
        "pcl": dict.fromkeys(STEPS, 1 / 90),
    }[scheme]
    chances = np.zeros((2, 256))
    for label, law in enumerate((negative, forward)):
        for (w, v), p in law.items():
            features = [shown(chance, w, v).ravel() for chance in synthetic.ACTIVE]
            chances[label] += 0.5 * p * np.array([np.prod(each) for each in itertools.product(*features)])
    return float(chances.min(0).sum())


def test_the_formulas_give_the_error_of_s() -> None:
    assert exact_error("ocp") == pytest.approx(reference.ANALYTIC["ocp"], abs=5e-5)
    assert exact_error("ocp_biased") == pytest.approx(reference.ANALYTIC["ocp_biased"], abs=5e-5)
    assert exact_error("pcl") < reference.POPULATION[1, "pcl"][0]  # a regression is not the best classifier here


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("scheme", list(synthetic.SCHEMES))
def test_the_error_of_s_on_many_pairs_is_the_exact_one(number: int, scheme: str) -> None:
    rng = torch.Generator().manual_seed(number)
    x = synthetic.DISTRIBUTIONS[number].draw(150_000, rng)
    found = synthetic.selected(x, scheme, 1, rng)
    above = found.error[0, 0] - exact_error(scheme)
    if scheme == "pcl":
        above -= 0.0068  # of patterns that no regression on the paper's features can tell; the same in the reference
    assert abs(above) < 0.005  # 4 standard deviations


@pytest.mark.parametrize("number", [1, 2])
def test_trajectories_are_those_of_the_paper(number: int) -> None:
    distribution = synthetic.DISTRIBUTIONS[number]
    x = distribution.draw(20_000, torch.Generator().manual_seed(0))
    bits = x.columns["bits"].view(20_000, 10, -1).float()
    s, copies, background = bits.split([4, distribution.copies, 1], 2)
    assert (s.diff(dim=1) >= 0).all()
    assert s[:, -1].mean(0).tolist() == pytest.approx([0.4, 0.4, 0.6, 0.6], abs=0.015)
    assert s[:, 0].mean(0).tolist() == pytest.approx([0.04, 0.04, 0.06, 0.06], abs=0.008)
    disagree = (copies != s[..., : distribution.copies]).float().mean((0, 1))
    assert disagree.tolist() == pytest.approx([distribution.flip] * distribution.copies, abs=0.005)
    assert float(background[:, 0].mean()) == pytest.approx(0.5, abs=0.015)
    assert float((background.diff(dim=1) == 0).float().mean()) == pytest.approx(distribution.stay, abs=0.005)


def test_every_cell_has_a_reference_and_a_picture_is_drawn() -> None:
    rows = synthetic.figure2(True, "error")
    assert {(row["distribution"], row["scheme"], row["m"]) for row in rows} == set(
        itertools.product((1, 2), synthetic.SCHEMES, reference.SIZES[:3])
    )
    assert all(abs(row["difference"] - (row["recovered"] - row["recovered known"])) < 1e-12 for row in rows)
    picture = minidom.parseString(svg(rows))
    assert len(picture.getElementsByTagName("polyline")) == 6
    assert len(picture.getElementsByTagName("circle")) == len(rows)


def test_the_least_variance_of_whole_numbers() -> None:
    assert synthetic.spread(4.0, 1.0) == 0
    assert synthetic.spread(3.0, 0.0) == 0
    assert synthetic.spread(2.25, 0.0) == pytest.approx(np.var([2, 2, 2, 3]))
    assert synthetic.spread(3.25, 0.5) == pytest.approx(np.var([4, 4, 2, 3]))


def test_precision_at_recall_is_the_loop_over_groups() -> None:
    rng = np.random.default_rng(0)
    for _ in range(30):
        truth, group = rng.random(60) < 0.2, rng.integers(0, 12, 60)
        score = np.round(rng.random(60) + 0.3 * truth, 1)  # with ties
        if not truth.any():
            continue
        threshold = max(t for t in score if (truth & (score >= t)).sum() >= 0.8 * truth.sum())
        precisions = []
        for each in set(group.tolist()):
            mine = (group == each) & (score >= threshold)
            precisions.append(truth[mine].mean() if mine.any() else float(not truth[group == each].any()))
        assert precision_at_recall(truth, score, group) == pytest.approx(np.mean(precisions))
    named = precision_at_recall(truth, score, np.array([f"entity {each}" for each in group]))
    assert named == precision_at_recall(truth, score, group)


@pytest.mark.parametrize(
    ("truth", "score", "options", "kind", "message"),
    [
        ([0, 0, 0], [1, 2, 3], {}, ev.DataError, "no positive"),
        ([0, 1, np.nan], [1, 2, 3], {}, ev.DataError, "1 of 3 rows have a label that is not 0 or 1"),
        ([0, 1, 1], [1, 2, np.nan], {}, ev.DataError, "1 of 3 rows .* no score"),
        ([0, 1], [1, 2, 3], {}, ev.DataError, "2 labels, 3 scores and 3 groups"),
        ([0, 1, 1], [1, 2, 3], {"recall": 0}, ev.ConfigError, "recall is 0; it must be above 0"),
        ([0, 1, 1], [1, 2, 3], {"recall": 80}, ev.ConfigError, "recall is 80; it must be above 0 and at most 1"),
    ],
)
def test_what_has_no_precision_is_refused(truth, score, options, kind, message) -> None:
    with pytest.raises(kind, match=message):
        precision_at_recall(np.array(truth), np.array(score), np.zeros(3), **options)


def table(entities: int = 60, seed: int = 0) -> ev.Dataset:
    """Return histories in which `level` rises, and a label that it tells; some events have none."""
    rng, rows = np.random.default_rng(seed), []
    for entity in range(entities):
        length = int(rng.integers(1, 12))
        level = rng.normal(0, 1) + np.cumsum(rng.random(length))
        for day in range(length):
            label = None if rng.random() < 0.1 else float(level[day] + rng.normal(0, 0.5) > 3)
            noise = None if rng.random() < 0.2 else rng.normal()
            rows.append((entity, day, level[day], noise, label))
    frame = pl.DataFrame(rows, ["id", "day", "level", "noise", "label"], orient="row")
    numeric = ["level", "noise", "label"]
    return ev.read(frame, key="id", time="day", categorical=(), numeric=numeric, fitting=ev.Fitting(log=False))


def test_notes_end_where_their_history_ends() -> None:
    data = table()
    found = study.notes(data, "label", length=3)
    x, raw = data.sequences, data.sequences.columns
    row = 0
    for entity, (start, length) in enumerate(zip(x.starts.tolist(), x.lengths.tolist(), strict=True)):
        for first in range(start + length % 3, start + length, 3):
            assert found.entity[row] == entity
            np.testing.assert_equal(found.label[row], float(raw["label"][first + 2]))
            level = raw["level"][first : first + 3].double().mean()
            noise = raw["noise"][first : first + 3].double().nanmean()
            np.testing.assert_allclose(found.features[row], [level, noise])
            row += 1
    assert row == len(found.data)
    assert "label" not in found.data.sequences.columns
    assert [field.name for field in found.data.schema.numeric] == ["level", "noise"]


def test_folds_keep_entities_apart_and_fractions_are_nested() -> None:
    found = study.notes(table(), "label")
    entities = study.labelled(found, 50, seed=0)
    parts = list(study.folds(found, entities, seed=0))
    assert sorted(np.concatenate([fold.test for fold in parts])) == sorted(entities)
    positive = np.unique(found.entity[found.label == 1])
    for fold in parts:
        assert sorted(np.concatenate([fold.train, fold.validation, fold.test])) == sorted(entities)
        assert (len(fold.train), len(fold.validation), len(fold.test)) == (32, 8, 10)
        share = np.isin(entities, positive).mean()
        for fraction in study.FRACTIONS:
            part = fold.part(fraction)
            assert len(part) == round(32 * fraction)
            assert set(part) <= set(fold.part(min(1, 2 * fraction)))
            assert abs(np.isin(part, positive).sum() - share * len(part)) <= 1.5


def test_pairs_are_neighbours_of_the_entities_that_are_named() -> None:
    found = study.notes(table(), "label")
    first, second, label = study.pairs(found, np.arange(10, 40), OrderPairs(count=5), seed=0)
    assert (found.entity[first] == found.entity[second]).all()
    assert set(found.entity[first]) <= set(range(10, 40))
    assert (second - first == np.where(label == 1, 1, -1)).all()
    alone = np.flatnonzero(np.bincount(found.entity) == 1)[:1]
    with pytest.raises(ev.DataError, match="none of 1 entities has two notes"):
        study.pairs(found, alone, OrderPairs(), seed=0)


def test_features_are_those_of_the_labelled_training_notes() -> None:
    found = study.notes(table(), "label")
    train = study.of(found, np.arange(20))
    x = linear.represented(found, train)
    share = x[train].mean(0)
    assert ((share >= linear.SHARE) & (share < 1)).all()
    deciles = np.nanquantile(found.features[train, 0], np.linspace(0.1, 0.9, 9))
    np.testing.assert_array_equal(x[:, :9], found.features[:, :1] > deciles)
    np.testing.assert_array_equal(x[:, -1], np.isnan(found.features[:, 1]))
    chosen = linear.subsets(x, train, study.pairs(found, np.arange(20, 60), OrderPairs(count=5), seed=0))
    assert abs(len(chosen[linear.OCP][0]) - x.shape[1] // 2) <= linear.WITHIN
    assert (chosen[linear.OCP][0] < 9).mean() > 0.5  # what rises is what order selects
    assert [len(each) for each in chosen[linear.CHANCE]] == [len(chosen[linear.OCP][0])] * linear.RANDOM


def test_settings_are_chosen_on_validation_and_scores_compared_fold_by_fold() -> None:
    found = study.notes(table(), "label")
    fold = next(study.folds(found, study.labelled(found, 60, seed=0), seed=0))
    parts = [study.of(found, entities) for entities in (fold.train, fold.validation, fold.test)]
    x = linear.represented(found, parts[0])
    every = [study.tuned(x, found, *parts, grid=[setting]) for setting in study.GRID]
    valid = [study.tuned(x, found, parts[0], parts[1], parts[1], grid=[setting]) for setting in study.GRID]
    best = np.array(valid).argmax(0)
    negative = parts[0][found.label[parts[0]] == 0]
    with pytest.raises(ev.DataError, match="the training notes all have the same label"):
        study.tuned(x, found, negative, *parts[1:])
    assert study.tuned(x, found, *parts) == (every[best[0]][0], every[best[1]][1])
    scores = {("a", 1): np.array([[[0.8, 0.5]], [[0.9, 0.6]]]), ("b", 1): np.array([[[0.7, 0.5]], [[0.6, 0.7]]])}
    ours, other = study.compared("set", scores, "a")
    assert (ours["auc"], ours["auc behind"]) == (pytest.approx(0.85), "")
    assert (other["auc behind"], other["auc wins"]) == (pytest.approx(0.2), 1.0)
    assert other["precision behind"] == pytest.approx(-0.05)
    assert list(ours) == list(other)
