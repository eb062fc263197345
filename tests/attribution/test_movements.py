"""How far vectors move equals a loop over entities and pairs of them; the interval is that of another sample."""

from __future__ import annotations

import numpy as np
import pytest

import eventvec as ev
from eventvec.attribution.movements import distances, relative_movements


def cosine_distance(a: np.ndarray, b: np.ndarray) -> float:
    return float(1 - a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))


def test_distances_equal_the_loop() -> None:
    rng = np.random.default_rng(0)
    full, changed = rng.normal(size=(2, 30, 5)).astype(np.float32)
    expected = [cosine_distance(a, b) for a, b in zip(full.astype(float), changed.astype(float), strict=True)]
    np.testing.assert_allclose(distances(full, changed), expected, atol=1e-12)


def test_equal_vectors_have_no_distance_and_zeros_have_one() -> None:
    full = np.array([[0.1, 0.7, 0.3], [0.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
    changed = np.array([[0.1, 0.7, 0.3], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    assert distances(full, changed).tolist() == [0, 0, 1]


def test_a_movement_is_relative_to_the_mean_of_all_pairs() -> None:
    rng = np.random.default_rng(1)
    vectors, moved = rng.normal(1, 1, (40, 3)), rng.random((2, 40))
    vectors[5] = 0
    units = [v / (np.linalg.norm(v) or 1) for v in vectors]
    pairs = [1 - units[i] @ units[j] for i in range(40) for j in range(40) if i != j]
    for change, each in zip(relative_movements(vectors, list(moved), 0), moved, strict=True):
        assert change.value == pytest.approx(each.mean() / np.mean(pairs), rel=1e-12)


def test_the_interval_is_as_long_as_other_samples_differ() -> None:
    """The half-width is 1.96 deviations of the result over samples of 100 entities of the same population."""
    rng = np.random.default_rng(2)

    def sample() -> tuple[float, float]:
        vectors = rng.normal([1.0, 0, 0, 0], 1, (100, 4))
        (change,) = relative_movements(vectors, [rng.gamma(2, 0.1, 100)], seed=0)
        return change.value, change.half_width

    changes, halves = np.array([sample() for _ in range(100)]).T
    assert halves.mean() == pytest.approx(1.96 * changes.std(), rel=0.2)


def test_the_interval_of_one_entity_is_that_of_the_distance_alone() -> None:
    vectors = np.random.default_rng(3).normal(size=(100, 4))
    near, far = relative_movements(vectors, [np.array([0.1]), np.array([0.4])], 0, entity=True)
    assert (far.value, far.half_width) == pytest.approx((4 * near.value, 4 * near.half_width))
    assert 0 < far.half_width < far.value


@pytest.mark.parametrize(
    ("vectors", "message"),
    [
        (np.ones((1, 2)), "1 entities with events"),
        (np.ones((9, 2)), "the vectors of all 9 entities point the same way"),
    ],
)
def test_entities_without_distances_are_refused(vectors: np.ndarray, message: str) -> None:
    with pytest.raises(ev.DataError, match=message):
        relative_movements(vectors, [np.zeros(len(vectors))], 0)
