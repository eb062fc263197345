"""Compressed features against scikit-learn, on features that are constant, few or huge, and continued from states."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA

import eventvec as ev
import make
from eventvec.encoders import Compressed, RunningHandcrafted, compressed
from eventvec.errors import ConfigError, DataError
from eventvec.sequences import Sequences


class Given(torch.nn.Module):
    """An encoder that returns the features of each row, which are its static values; it has no state."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, x: Sequences) -> torch.Tensor:
        return x.static["features"]


def rows(features: np.ndarray) -> Sequences:
    zeros = torch.zeros(len(features), dtype=torch.int64)
    return Sequences({}, zeros, zeros, {"features": torch.from_numpy(features.astype(np.float32))})


def correlated(n: int = 300, dim: int = 12, seed: int = 0) -> np.ndarray:
    """Return features on different scales with different variances along their principal axes."""
    rng = np.random.default_rng(seed)
    mixed = rng.normal(size=(n, dim)) * np.geomspace(5, 0.5, dim) @ rng.normal(size=(dim, dim))
    return mixed * np.geomspace(1e-3, 1e3, dim) + np.linspace(-5, 5, dim)


def standardised(features: np.ndarray) -> np.ndarray:
    features = features.astype(np.float32).astype(np.float64)
    return ((features - features.mean(0)) / features.std(0)).clip(-10, 10)


@pytest.mark.parametrize(("count", "components"), [(300, 5), (5, 3)])
def test_components_are_those_of_scikit_learn_up_to_sign(count: int, components: int) -> None:
    features, others = correlated(count), correlated(50, seed=1)
    encoder = Compressed(Given(12), components=components).fit(rows(features))
    pca = PCA(components, svd_solver="full").fit(standardised(features))
    values = features.astype(np.float32)
    again = ((others.astype(np.float32) - values.mean(0, dtype=np.float64)) / values.std(0, dtype=np.float64)).clip(
        -10, 10
    )
    first = np.sqrt(pca.explained_variance_[0] * (len(features) - 1) / len(features))
    for x, expected in ((features, standardised(features)), (others, again)):
        projected = expected @ pca.components_.T / first
        z = encoder(rows(x)).numpy()
        np.testing.assert_allclose(z, projected * np.sign((z * projected).sum(0)), atol=2e-4)
    largest = encoder.projection.abs().argmax(0)
    assert (encoder.projection.gather(0, largest[None]) > 0).all()


def test_without_components_the_features_are_standardised() -> None:
    features = correlated()
    encoder = Compressed(Given(12), components=None).fit(rows(features))
    np.testing.assert_allclose(encoder(rows(features)).numpy(), standardised(features), atol=1e-4)
    assert encoder.dim == 12
    assert set(encoder.state_dict()) == {"mean", "scale"}


def test_fits_that_read_in_blocks_are_those_of_all_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    features = correlated()
    whole = Compressed(Given(12), components=5).fit(rows(features))
    monkeypatch.setattr(compressed, "BLOCK", 7)
    parts = Compressed(Given(12), components=5).fit(rows(features))
    for name, value in whole.state_dict().items():
        assert torch.allclose(value, parts.state_dict()[name], rtol=1e-5, atol=1e-6), name


def test_of_many_rows_those_at_even_distances_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    features = correlated()
    monkeypatch.setattr(compressed, "ROWS", 100)
    bounded = Compressed(Given(12), components=5).fit(rows(features))
    expected = Compressed(Given(12), components=5).fit(rows(features[::3]))
    assert all(torch.equal(bounded.state_dict()[name], value) for name, value in expected.state_dict().items())
    monkeypatch.setattr(compressed, "NUMBERS", 12 * 50)
    bounded = Compressed(Given(12), components=5).fit(rows(features))
    expected = Compressed(Given(12), components=5).fit(rows(features[::6]))
    assert all(torch.equal(bounded.state_dict()[name], value) for name, value in expected.state_dict().items())


def test_features_that_are_constant_in_training_are_zero_on_all_rows() -> None:
    features = correlated()
    features[:, 3] = 0.1
    encoder = Compressed(Given(12), components=None).fit(rows(features))
    others = correlated(50, seed=1)
    assert (encoder(rows(others))[:, 3] == 0).all()
    others[:, 3] = 3e38
    assert (encoder(rows(others))[:, 3] == 0).all()
    opposite = Compressed(Given(12), components=None).fit(rows(np.full((9, 12), -3e38)))
    assert (opposite(rows(np.full((1, 12), 3e38))) == 0).all()  # the difference is beyond float32
    constant = Compressed(Given(12), components=5).fit(rows(np.ones((9, 12))))
    assert (constant(rows(others)) == 0).all()


def test_the_width_is_fixed_where_features_or_rows_are_fewer_than_components() -> None:
    for features, rank in ((correlated(), 12), (correlated(4), 3)):
        z = Compressed(Given(12), components=20).fit(rows(features))(rows(correlated(50, seed=1)))
        assert z.shape == (50, 20)
        assert (z[:, :rank].abs().amax(0) > 1e-3).all()
        assert (z[:, rank:] == 0).all()


def test_features_far_from_those_of_the_fit_are_bounded() -> None:
    encoder = Compressed(Given(12), components=None).fit(rows(correlated()))
    far = np.full((1, 12), 3e38)
    assert (encoder(rows(far)) == 10).all()
    assert (encoder(rows(-far)) == -10).all()
    huge = correlated() * 1e34
    assert Compressed(Given(12), components=5).fit(rows(huge))(rows(huge)).isfinite().all()
    tiny = correlated() * 1e-44
    assert Compressed(Given(12), components=5).fit(rows(tiny))(rows(tiny)).isfinite().all()


def test_missing_features_are_not_hidden() -> None:
    features = correlated()
    encoder = Compressed(Given(12), components=5).fit(rows(features))
    features[1, 2] = np.nan
    assert encoder(rows(features)).isnan().any(1).nonzero().flatten().tolist() == [1]


def test_it_is_refused_before_it_is_fitted_and_fitted_to_two_rows_at_least() -> None:
    encoder = Compressed(Given(12))
    with pytest.raises(ConfigError, match=r"has no means and components yet; call its fit\(x\) with training rows"):
        encoder(rows(correlated()))
    with pytest.raises(DataError, match="at least 2 rows, got 1"):
        encoder.fit(rows(correlated(1)))
    with pytest.raises(ConfigError, match="components must be at least 1, got 0"):
        Compressed(Given(12), components=0)
    with pytest.raises(ConfigError, match="the encoder must be a module"):
        Compressed("timing")


def test_stored_numbers_give_the_same_vectors() -> None:
    encoder = Compressed(Given(12), components=5).fit(rows(correlated()))
    other = Compressed(Given(12), components=5)
    other.load_state_dict(encoder.state_dict())
    x = rows(correlated(50, seed=1))
    assert torch.equal(other(x), encoder(x))
    assert torch.equal(copy.deepcopy(encoder)(x), encoder(x))


def test_a_continued_state_gives_the_vector_of_the_whole_history() -> None:
    x = make.sequences([3, 0, 7, 1, 12, 4])
    encoder = Compressed(RunningHandcrafted(make.schema()), components=4).fit(x)
    half = x.lengths // 2
    every = torch.arange(len(x))
    begun = encoder.state(x.slice(every, torch.zeros_like(half), half))
    state = encoder.state(x.slice(every, half, x.lengths - half), begun)
    assert state.shape == (6, encoder.stored_dim)
    assert torch.allclose(encoder.read(state), encoder(x), atol=1e-5)


def test_it_has_a_state_only_if_the_other_encoder_has() -> None:
    assert hasattr(Compressed(RunningHandcrafted(make.schema())), "state")
    encoder = Compressed(ev.encoders.Aggregates(make.schema()))
    assert not hasattr(encoder, "state")
    assert not hasattr(encoder, "stored_dim")
