"""Order is detected only where histories move on, diseases are not taken for clocks, and windows keep times whole."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
import torch
from experiments.bootstrap import estimate
from experiments.order.window_order import Irreversibility, _adjacent, _auroc, _features, _Model, irreversibility
from sklearn.metrics import roc_auc_score

from eventvec.dataset import Dataset, text_column
from eventvec.errors import DataError
from eventvec.methods.revealed_order import clock
from eventvec.schema import Categorical, Numeric, Schema
from eventvec.sequences import Sequences
from eventvec.views import distinct_times
from laws import rng
from make import elsewhere

N, T = 80, 30


def engines(**columns: np.ndarray) -> Dataset:
    """Return `N` rows of `T` events at times 0, 1, 2, … from columns `(N, T)`; floats are numbers, integers codes."""
    flat = {name: torch.from_numpy(np.ascontiguousarray(values).reshape(-1)) for name, values in columns.items()}
    numeric = tuple(Numeric(n, False) for n, v in flat.items() if v.is_floating_point())
    codes = tuple(Categorical(n, tuple("abcdefgh")) for n, v in flat.items() if not v.is_floating_point())
    schema = Schema("id", "t", "integer", categorical=codes, numeric=numeric)
    time, gap = torch.arange(T).repeat(N), torch.ones(N * T)
    lengths = torch.full((N,), T)
    x = Sequences({"time": time, "gap": gap, **flat}, lengths.cumsum(0) - lengths, lengths)
    return Dataset(pa.array(range(N)), x, schema)


def noise(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(N, T))


def check(data: Dataset, **options: int) -> Irreversibility:
    return irreversibility(data, rng(), **{"window": 5, **options})


def wear() -> np.ndarray:
    """Return noisy readings that rise at a different pace in each engine."""
    return np.random.default_rng(3).uniform(0.05, 0.2, (N, 1)) * np.arange(T) + noise(4)


def test_wear_is_detected() -> None:
    order = check(engines(worn=wear(), idle=noise(1), kind=np.random.default_rng(2).integers(2, 6, (N, T))))
    assert order.met
    assert order.clocks == ()


@pytest.mark.parametrize("seed", range(4))
def test_columns_that_go_back_and_forth_have_no_order(seed: int) -> None:
    order = check(engines(a=noise(seed), kind=np.random.default_rng(seed).integers(2, 6, (N, T))))
    assert not order.met
    assert 0.4 < order.auroc.value < 0.6


@pytest.mark.parametrize(
    "column",
    [
        np.arange(T) + 1000.0 * np.arange(N)[:, None],  # a counter, or ids that rise
        -np.arange(T) - 0.0 * noise(),
        np.floor(np.arange(T) / 6) + np.random.default_rng(0).integers(20, 80, (N, 1)),  # an age in whole years
        (np.arange(T) // 4 + 2 + 0 * noise()).astype(np.int64),  # months that were read as categories
    ],
    ids=["counter", "countdown", "age", "month"],
)
def test_clocks_are_named(column: np.ndarray) -> None:
    order = check(engines(tick=column, idle=noise(1)))
    assert order.clocks == ("tick",)
    assert not order.met  # though the order can be predicted from it
    assert order.auroc.low > 0.9


def test_a_disease_that_never_goes_back_is_not_a_clock() -> None:
    onset = np.random.default_rng(0).integers(3, 2 * T, (N, 1))
    stage = (np.arange(T) >= onset).astype(float) + (np.arange(T) >= onset + 9)
    order = check(engines(stage=stage, idle=noise(1)))
    assert order.clocks == ()
    assert order.met


def test_a_field_that_alone_orders_nearly_every_pair_is_a_clock() -> None:
    order = check(engines(total=np.arange(T) * 1.0 + 0.8 * noise()))  # often goes back between consecutive events
    assert clock(engines(total=wear()).sequences, torch.from_numpy(wear().reshape(-1))) == ""
    assert order.clocks == ("total",)


def test_windows_are_adjacent_and_keep_times_whole() -> None:
    draw = np.random.default_rng(0)
    lengths = torch.from_numpy(draw.integers(0, 60, 50))
    row = torch.repeat_interleave(torch.arange(50), lengths)
    time = torch.from_numpy(draw.integers(0, 20, int(lengths.sum())))
    time = time[(row * 100 + time).argsort()]
    x = Sequences({"time": time, "place": torch.arange(len(time))}, lengths.cumsum(0) - lengths, lengths)
    distinct = distinct_times(x)
    slow = [len(set(time[row == i].tolist())) for i in range(50)]
    assert distinct.lengths.tolist() == slow
    views, source = _adjacent(x, distinct, 2, 3, rng())
    pairs = len(source)
    assert torch.bincount(source, minlength=50).tolist() == [min(max(n // 2 - 1, 0), 3) for n in slow]
    for i in range(pairs):
        times = sorted(set(time[row == int(source[i])].tolist()))
        first, second = (views[[k]].values("time").tolist() for k in (i, i + pairs))
        at = times.index(first[0])
        assert sorted(set(first + second)) == times[at : at + 4]
        assert set(first) == set(times[at : at + 2])
        inside = (row == int(source[i])) & torch.isin(time, torch.tensor(times[at : at + 4]))
        assert len(first + second) == int(inside.sum())  # every event of these times, once


def test_a_window_can_start_at_every_event() -> None:
    x = Sequences({"time": torch.arange(7)}, torch.tensor([0]), torch.tensor([7]))
    starts = {int(_adjacent(x, distinct_times(x), 2, 1, rng(seed))[0].starts[0]) for seed in range(60)}
    assert starts == {0, 1, 2, 3}


def test_features_equal_a_slow_loop() -> None:
    values, code = noise(), np.random.default_rng(1).integers(0, 4, (N, T))
    values[np.random.default_rng(2).random((N, T)) < 0.3] = np.nan
    data = engines(v=values, c=code)
    views, source = _adjacent(data.sequences, distinct_times(data.sequences), 3, 2, rng())
    features = dict(_features(data, views))
    for i in range(0, len(source), 7):
        first, second = (views[[k]] for k in (i, i + len(source)))
        one, two = (part.values("v") for part in (first, second))
        mean = float(two.nanmean() - one.nanmean())
        assert float(features["v"][i, 0]) == pytest.approx(0 if np.isnan(mean) else mean, abs=1e-5)
        assert float(features["v"][i, 1]) == pytest.approx(
            float(two.isnan().double().mean() - one.isnan().double().mean())
        )
        for k in range(4):
            share = [(part.values("c") == k).double().mean() for part in (first, second)]
            assert float(features["c"][i, k]) == pytest.approx(float(share[1] - share[0]))
    assert features["gap"].abs().max() == 0  # the interval is 1 everywhere, and missing at the start of every window


def test_the_model_of_a_fold_equals_least_squares_on_the_other_folds() -> None:
    x, entity = torch.randn(60, 4, generator=rng()), torch.arange(60) // 3
    model = _Model(x, entity, 5, rng())
    score = model.scores(torch.tensor([0, 2]))
    assert all(len(model.fold[entity == e].unique()) == 1 for e in range(20))
    for k in range(5):
        train, test = (model.x[mask][:, [0, 2]].numpy() for mask in (model.fold != k, model.fold == k))
        weights = np.linalg.solve(train.T @ train + 2 * np.eye(2), train.sum(0))
        np.testing.assert_allclose(score[model.fold == k], test @ weights, atol=1e-9)


def test_the_auroc_counts_both_orders_with_ties_and_weights() -> None:
    draw = np.random.default_rng(0)
    score, weight = draw.integers(-3, 5, 50) / 2, draw.integers(0, 4, (6, 50))
    both, label = np.concatenate([score, -score]), np.repeat([1, 0], 50)
    slow = [roc_auc_score(label, both, sample_weight=np.tile(w, 2)) for w in weight]
    np.testing.assert_allclose(_auroc(torch.from_numpy(score))(torch.from_numpy(weight)), slow)


def test_the_bootstrap_resamples_entities_and_not_rows() -> None:
    value = torch.randn(40, generator=rng()).repeat_interleave(25)  # 25 equal rows for each of 40 entities

    def mean(weight: torch.Tensor) -> torch.Tensor:
        return weight @ value / weight.sum(1)

    by_entity = estimate(mean, torch.arange(40).repeat_interleave(25), rng())
    by_row = estimate(mean, torch.arange(1000), rng())
    width = 2 * 1.96 * float(value[::25].std()) / 40**0.5
    assert by_entity.high - by_entity.low == pytest.approx(width, rel=0.2)
    assert by_row.high - by_row.low < width / 3


def test_a_text_column_is_a_field() -> None:
    draw = np.random.default_rng(0)
    words = np.where(draw.random((N, T)) < np.arange(T) / T, "stable release", "first draft").reshape(-1)
    data = engines(idle=noise())
    x = Sequences(
        {**data.sequences.columns, "note": text_column(pa.array(words))}, data.sequences.starts, data.sequences.lengths
    )
    order = check(Dataset(data.keys, x, data.schema))
    assert order.met


def test_events_outside_all_rows_do_not_change_the_result() -> None:
    data = engines(code=np.random.default_rng(2).integers(2, 6, (N, T)), amount=wear())[::2]
    moved = Dataset(data.keys, elsewhere(data.sequences), data.schema)
    assert check(data) == check(moved)


def test_windows_that_are_too_long_and_events_that_do_not_differ_are_refused() -> None:
    data = engines(a=noise())
    with pytest.raises(DataError, match="need two windows of 20 distinct times, but only 0 of 80 have them"):
        check(data, window=20)
    with pytest.raises(DataError, match="all events are alike"):
        check(engines(a=np.ones((N, T))))
