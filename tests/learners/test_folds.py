"""Folds: every entity is tested once, groups and hold-out sets are respected, shares are stratified and nested."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from eventvec.errors import ConfigError, DataError
from eventvec.learners.folds import apart, cross_validation, date_splits, group_codes, holdout_splits, subsample
from eventvec.learners.task import target


@pytest.mark.parametrize("labels", [np.arange(60) % 3 == 0, np.arange(60) % 4, np.linspace(0, 1, 60)])
def test_every_entity_is_tested_once(labels):
    labelled = target(labels)
    splits = cross_validation(labelled, 5, None, seed=1)
    assert sorted(np.concatenate([test for _, test in splits])) == list(range(60))
    for train, test in splits:
        assert sorted([*train, *test]) == list(range(60))
        if labelled.classes:
            shares = np.bincount(labelled.y[test]) / np.bincount(labelled.y)
            np.testing.assert_allclose(shares, 0.2, atol=0.07)


def test_folds_follow_the_seed():
    labelled = target(np.arange(60) % 3)
    first, again, other = (cross_validation(labelled, 5, None, seed) for seed in (1, 1, 2))
    assert all(np.array_equal(a, b) for (_, a), (_, b) in zip(first, again, strict=True))
    assert not all(np.array_equal(a, b) for (_, a), (_, b) in zip(first, other, strict=True))


@pytest.mark.parametrize("numeric", [False, True])
def test_groups_are_never_split(numeric):
    rng = np.random.default_rng(0)
    groups = group_codes(np.array([f"hospital {i}" for i in rng.integers(0, 30, 200)]))
    labels = rng.normal(size=200) if numeric else rng.integers(0, 3, 200)
    splits = cross_validation(target(labels), 5, groups, seed=3)
    assert sorted(np.concatenate([test for _, test in splits])) == list(range(200))
    for train, test in splits:
        assert not set(groups[train]) & set(groups[test])
    held_out = np.isin(groups, [0, 1, 2, 3, 4])
    for train, test in holdout_splits(target(labels), held_out, 5, groups, seed=3):
        assert not set(groups[train]) & set(groups[test])


def test_holdout_tests_the_same_entities_in_each_fold_and_trains_on_the_others_without_the_fold():
    labelled = target(np.arange(100) % 2)
    held_out = np.arange(100) < 20
    splits = holdout_splits(labelled, held_out, 4, None, seed=0)
    assert [len(train) for train, _ in splits] == [60] * 4
    left_out = [set(range(20, 100)) - set(train) for train, _ in splits]
    assert sorted(position for fold in left_out for position in fold) == list(range(20, 100))
    assert all(test.tolist() == list(range(20)) for _, test in splits)
    assert not any(set(train) & set(test) for train, test in splits)


def test_apart_removes_seen_members_of_held_out_groups():
    held_out = np.array([True, False, False, True, False])
    assert apart(held_out, np.array([0, 0, 1, 2, 1])).tolist() == [True, False, True, True, True]


def test_fractions_are_stratified_and_nested():
    labelled = target((np.arange(400) % 10) < 3)
    train = np.arange(0, 400, 2)
    parts = [subsample(labelled, train, fraction, seed=5) for fraction in (0.05, 0.25, 0.5, 1.0)]
    sizes = np.bincount(labelled.y[train])
    for fraction, part in zip((0.05, 0.25, 0.5, 1.0), parts, strict=True):
        assert np.bincount(labelled.y[part]).tolist() == np.rint(fraction * sizes).astype(int).tolist()
        assert np.all(np.diff(part) > 0)
    for small, large in pairwise(parts):
        assert set(small) < set(large) <= set(train)


def test_fraction_of_numbers_is_drawn_evenly():
    labelled = target(np.linspace(0, 1, 1000))
    part = subsample(labelled, np.arange(1000), 0.2, seed=0)
    assert len(set(part)) == 200
    assert 0.4 < labelled.y[part].mean() < 0.6


def test_the_fraction_that_a_refusal_suggests_is_accepted():
    labelled = target(np.array([True] * 22 + [False] * 100))
    with pytest.raises(DataError, match=r"fewer than 2 training labels of a class that has 22; use 0\.07 or more"):
        subsample(labelled, np.arange(122), 0.05, seed=0)
    assert labelled.y[subsample(labelled, np.arange(122), 0.07, seed=0)].sum() == 2


@pytest.mark.parametrize(
    ("labels", "folds", "groups", "error", "message"),
    [
        (np.arange(9) > 5, 4, None, DataError, "the rarest of 2 classes has 3 labelled entities, fewer than 4"),
        (np.linspace(0, 1, 3), 4, None, DataError, "4 folds for 3 labelled entities"),
        (np.arange(9) > 5, 1, None, ConfigError, "folds must be at least 2, got 1"),
        (
            np.arange(8) % 2,
            3,
            np.arange(8) % 2,
            DataError,
            "3 folds for 2 groups .entities, if no group is named., which are never split; use at most 2",
        ),
        (np.arange(40) < 20, 2, (np.arange(40) < 20) * 1, DataError, "only one class among its training entities"),
        (np.array([0.5] * 9 + [0.7, 0.9]), 3, None, DataError, "only one value among its . test entities"),
    ],
)
def test_folds_are_refused(labels, folds, groups, error, message):
    with pytest.raises(error, match=message):
        cross_validation(target(labels), folds, groups, seed=0)


@pytest.mark.parametrize("labels", [np.arange(40) % 3, np.linspace(0, 1, 40)])
@pytest.mark.parametrize("later", [np.arange(40) < 3, np.arange(40) > 2])
def test_a_split_by_date_with_an_empty_part_is_refused(labels, later):
    with pytest.raises(DataError, match=r"fold . of 4 of label 'label' has .* training labels and .* test labels"):
        date_splits(target(labels), later, 4, np.arange(40) // 4, 0, both_sides=False)


def test_missing_group_is_refused():
    with pytest.raises(DataError, match="1 of 3 entities have no group"):
        group_codes(np.array(["a", None, "b"], object))


def test_fold_without_a_class_to_test_is_refused():
    labels, groups = np.array([True] * 4 + [False] * 20), np.array([0, 0, 0, 0, *range(1, 21)])
    with pytest.raises(DataError, match="only one class"):
        cross_validation(target(labels), 4, groups, seed=0)
    with pytest.raises(DataError, match="only one class among its 5 test entities"):
        holdout_splits(target(labels), np.arange(24) >= 19, 2, None, seed=0)


@pytest.mark.parametrize("held_out", [np.zeros(10, bool), np.ones(10, bool)])
def test_holdout_of_none_or_all_is_refused(held_out):
    with pytest.raises(DataError, match="of 10 labelled entities were held out"):
        holdout_splits(target(np.arange(10) % 2), held_out, 2, None, seed=0)
