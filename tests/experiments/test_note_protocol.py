"""The protocol of the real-data study of order, beside plain loops."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from experiments.order import feature_comparison
from experiments.order.note_protocol import (
    FRACTIONS,
    GRID,
    comparison_rows,
    cut_notes,
    draw_entities,
    labelled_notes,
    neighbouring_pairs,
    precision_at_recall,
    split_folds,
    tuned_scores,
)

import eventvec as ev


def test_precision_at_recall_equals_a_loop_over_groups() -> None:
    rng = np.random.default_rng(0)
    for _ in range(30):
        truth, group = rng.random(60) < 0.2, rng.integers(0, 12, 60)
        score = np.round(rng.random(60) + 0.3 * truth, 1)  # with ties
        if not truth.any():
            continue
        threshold = max(t for t in score if (truth & (score >= t)).sum() >= 0.8 * truth.sum())
        precisions = []
        for number in set(group.tolist()):
            retrieved = (group == number) & (score >= threshold)
            precisions.append(truth[retrieved].mean() if retrieved.any() else float(not truth[group == number].any()))
        assert precision_at_recall(truth, score, group) == pytest.approx(np.mean(precisions))
    named = precision_at_recall(truth, score, np.array([f"entity {number}" for number in group]))
    assert named == precision_at_recall(truth, score, group)


@pytest.mark.parametrize(
    ("truth", "score", "options", "kind", "message"),
    [
        ([0, 0, 0], [1, 2, 3], {}, ev.DataError, "no positive"),
        ([0, 1, np.nan], [1, 2, 3], {}, ev.DataError, "1 of 3 rows have a label that is not 0 or 1"),
        ([0, 1, 1], [1, 2, np.nan], {}, ev.DataError, "1 of 3 rows .* no score"),
        ([0, 1], [1, 2, 3], {}, ev.DataError, "2 labels, 3 scores and 3 groups"),
        ([0, 1, 1], [1, 2, 3], {"recall": 0}, ev.ConfigError, r"recall must be in \(0, 1\], got 0"),
        ([0, 1, 1], [1, 2, 3], {"recall": 80}, ev.ConfigError, r"recall must be in \(0, 1\], got 80"),
    ],
)
def test_invalid_labels_scores_and_recalls_are_refused(truth, score, options, kind, message) -> None:
    with pytest.raises(kind, match=message):
        precision_at_recall(np.array(truth), np.array(score), np.zeros(3), **options)


def histories(entities: int = 60, seed: int = 0) -> ev.Dataset:
    """Return histories in which `level` increases, with a label that depends on it and is sometimes missing."""
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
    data = histories()
    notes = cut_notes(data, "label", length=3)
    x, raw = data.sequences, data.sequences.columns
    row = 0
    for entity, (start, length) in enumerate(zip(x.starts.tolist(), x.lengths.tolist(), strict=True)):
        for first in range(start + length % 3, start + length, 3):
            assert notes.entity[row] == entity
            np.testing.assert_equal(notes.label[row], float(raw["label"][first + 2]))
            level = raw["level"][first : first + 3].double().mean()
            noise = raw["noise"][first : first + 3].double().nanmean()
            np.testing.assert_allclose(notes.features[row], [level, noise])
            row += 1
    assert row == len(notes.data)
    assert "label" not in notes.data.sequences.columns
    assert [field.name for field in notes.data.schema.numeric] == ["level", "noise"]


def test_folds_keep_entities_apart_and_fractions_are_nested() -> None:
    notes = cut_notes(histories(), "label")
    entities = draw_entities(notes, 50, seed=0)
    parts = list(split_folds(notes, entities, seed=0))
    assert sorted(np.concatenate([fold.test for fold in parts])) == sorted(entities)
    positive = np.unique(notes.entity[notes.label == 1])
    for fold in parts:
        assert sorted(np.concatenate([fold.train, fold.validation, fold.test])) == sorted(entities)
        assert (len(fold.train), len(fold.validation), len(fold.test)) == (32, 8, 10)
        share = np.isin(entities, positive).mean()
        for fraction in FRACTIONS:
            part = fold.part(fraction)
            assert len(part) == round(32 * fraction)
            assert set(part) <= set(fold.part(min(1, 2 * fraction)))
            assert abs(np.isin(part, positive).sum() - share * len(part)) <= 1.5


def test_notes_may_begin_at_every_event() -> None:
    data = histories()
    notes, windows = cut_notes(data, "label", length=3), cut_notes(data, "label", length=3, step=1)
    assert len(windows.entity) == sum(max(0, length - 2) for length in data.sequences.lengths.tolist())
    row = 0
    for entity, (start, length) in enumerate(
        zip(data.sequences.starts.tolist(), data.sequences.lengths.tolist(), strict=True)
    ):
        for first in range(start, start + length - 2):
            assert windows.entity[row] == entity
            level = data.sequences.columns["level"][first : first + 3].double().mean()
            np.testing.assert_allclose(windows.features[row][0], level)
            row += 1
    ends = np.concatenate([np.flatnonzero(windows.entity == e)[::-1][::3][::-1] for e in np.unique(windows.entity)])
    np.testing.assert_equal(windows.features[ends], notes.features)
    np.testing.assert_equal(windows.label[ends], notes.label)


@pytest.mark.parametrize("distance", [1, 3])
def test_pairs_are_all_neighbouring_notes_once(distance: int) -> None:
    notes = cut_notes(histories(), "label", length=distance, step=1)
    first, second, label = neighbouring_pairs(notes, distance, seed=0)
    assert (second - first == np.where(label == 1, distance, -distance)).all()
    entity = notes.entity.tolist()
    expected = [i for i in range(len(entity) - distance) if entity[i] == entity[i + distance]]
    assert np.minimum(first, second).tolist() == expected
    assert abs(label.mean() - 0.5) < 3 * (0.25 / len(label)) ** 0.5
    assert not np.array_equal(label, neighbouring_pairs(notes, distance, seed=1)[2])


def test_entities_with_a_single_note_have_no_pair() -> None:
    data = histories()
    short = cut_notes(data[(data.sequences.lengths == 1).nonzero().flatten()], "label")
    with pytest.raises(ev.DataError, match="no entity has two neighbouring notes"):
        neighbouring_pairs(short, 1, seed=0)


def test_features_are_those_of_the_labelled_training_notes() -> None:
    notes = cut_notes(histories(), "label")
    train = labelled_notes(notes, np.arange(20))
    x = feature_comparison.fit_features(notes.features[train])(notes.features)
    share = x[train].mean(0)
    assert ((share >= feature_comparison.SHARE) & (share < 1)).all()
    deciles = np.nanquantile(notes.features[train, 0], np.linspace(0.1, 0.9, 9))
    np.testing.assert_array_equal(x[:, :9], notes.features[:, :1] > deciles)
    np.testing.assert_array_equal(x[:, -1], np.isnan(notes.features[:, 1]))
    others = cut_notes(histories()[np.arange(20, 60)], "label")
    windows = feature_comparison.fit_features(notes.features[train])(others.features)
    sets = feature_comparison.feature_sets(x[train], windows, neighbouring_pairs(others, 1, seed=0))
    (selected,) = sets[feature_comparison.OCP]
    assert abs(len(selected) - x.shape[1] // 2) <= feature_comparison.WITHIN
    assert (selected < 9).mean() > 0.5  # most of the selected features are those that increase
    random_sizes = [len(columns) for columns in sets[feature_comparison.RANDOM]]
    assert random_sizes == [len(selected)] * feature_comparison.RANDOM_SUBSETS


def test_features_of_texts_are_those_of_the_training_texts() -> None:
    transform = feature_comparison.fit_features(["new mass", "mass stable"])
    terms = transform(["a mass", "stable mass stable", "other words"]).astype(bool).sum(1)
    assert terms.ravel().tolist() == [[1, 3, 0]]


def test_settings_are_chosen_on_validation_and_scores_compared_fold_by_fold() -> None:
    notes = cut_notes(histories(), "label")
    fold = next(split_folds(notes, draw_entities(notes, 60, seed=0), seed=0))
    train, validation, test = (labelled_notes(notes, entities) for entities in (fold.train, fold.validation, fold.test))
    x = feature_comparison.fit_features(notes.features[train])(notes.features)
    tested = [tuned_scores(x, notes, train, validation, test, grid=[setting]) for setting in GRID]
    validated = [tuned_scores(x, notes, train, validation, validation, grid=[setting]) for setting in GRID]
    best = np.array(validated).argmax(0)
    negative = train[notes.label[train] == 0]
    with pytest.raises(ev.DataError, match="the training notes all have the same label"):
        tuned_scores(x, notes, negative, validation, test)
    assert tuned_scores(x, notes, train, validation, test) == (tested[best[0]][0], tested[best[1]][1])
    scores = {("a", 1): np.array([[[0.8, 0.5]], [[0.9, 0.6]]]), ("b", 1): np.array([[[0.7, 0.5]], [[0.6, 0.7]]])}
    ours, other = comparison_rows("set", scores, "a")
    assert (ours["auc"], ours["auc behind"]) == (pytest.approx(0.85), "")
    assert (other["auc behind"], other["auc wins"]) == (pytest.approx(0.2), 1.0)
    assert other["precision behind"] == pytest.approx(-0.05)
    assert list(ours) == list(other)
