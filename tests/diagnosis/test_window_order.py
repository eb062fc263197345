"""Order is found where histories move on and nowhere else; clocks are told from diseases; windows hold whole times."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
import torch
from sklearn.metrics import roc_auc_score

from eventvec.dataset import Dataset
from eventvec.diagnosis import clock, irreversibility
from eventvec.diagnosis.clocks import ranks
from eventvec.diagnosis.estimate import Estimate, estimate
from eventvec.diagnosis.window_order import Irreversibility, _adjacent, _auroc, _features, _Model
from eventvec.errors import DataError
from eventvec.schema import Categorical, Numeric, Schema
from eventvec.sequences import Sequences
from eventvec.texts import text_column
from eventvec.views import moments
from make import elsewhere

N, T = 80, 30


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def engines(**columns: np.ndarray) -> Dataset:
    """Return `N` rows of `T` events, a time apart, with these columns `(N, T)`; floats are numbers, integers codes."""
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


def find(data: Dataset, **options: int) -> Irreversibility:
    return irreversibility(data, rng(), **{"window": 5, **options})


def wear() -> np.ndarray:
    """Return readings that rise at a pace of each engine's own, in noise."""
    return np.random.default_rng(3).uniform(0.05, 0.2, (N, 1)) * np.arange(T) + noise(4)


def test_wear_is_found_and_the_field_that_shows_it_is_named() -> None:
    found = find(engines(worn=wear(), idle=noise(1), kind=np.random.default_rng(2).integers(2, 6, (N, T))))
    assert found.met
    assert [field.name for field in found.carriers] == ["worn"]
    assert found.fields[0].name == "worn"
    assert found.clocks == ()
    assert found.without_clocks is None
    assert (found.entities, found.skipped, found.pairs, found.tied) == (N, 0, 5 * N, 0)


@pytest.mark.parametrize("seed", range(4))
def test_what_goes_back_and_forth_has_no_order(seed: int) -> None:
    found = find(engines(a=noise(seed), kind=np.random.default_rng(seed).integers(2, 6, (N, T))))
    assert not found.met
    assert 0.4 < found.auroc.value < 0.6


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
def test_clocks_are_told_and_taken_out(column: np.ndarray) -> None:
    found = find(engines(tick=column, idle=noise(1)))
    assert [field.name for field in found.clocks] == ["tick"]
    assert not found.met  # though order is read off it
    assert found.auroc.low > 0.9
    assert found.without_clocks is not None
    assert not found.without_clocks.clear


def test_a_disease_that_never_goes_back_is_no_clock() -> None:
    onset = np.random.default_rng(0).integers(3, 2 * T, (N, 1))
    stage = (np.arange(T) >= onset).astype(float) + (np.arange(T) >= onset + 9)
    found = find(engines(stage=stage, idle=noise(1)))
    assert found.clocks == ()
    assert found.met
    assert [field.name for field in found.carriers] == ["stage"]


def test_one_step_at_one_time_is_no_clock() -> None:
    step = torch.from_numpy(np.tile(np.arange(T) // (T // 2), (N, 1)).reshape(-1).astype(float))
    assert clock(engines(a=noise()).sequences, step) == ""  # time explains three quarters of it


def test_a_field_that_alone_orders_nearly_every_pair_is_a_clock() -> None:
    found = find(engines(total=np.arange(T) * 1.0 + 0.8 * noise()))  # goes back often, from one event to the next
    assert clock(engines(total=wear()).sequences, torch.from_numpy(wear().reshape(-1))) == ""
    assert [field.clock for field in found.clocks] == ["alone it orders nearly every pair"]


def test_steps_at_one_time_and_missing_values_do_not_hide_a_clock() -> None:
    time = torch.arange(200).repeat_interleave(2)  # two events at each time, the later in the table the lower
    values = torch.arange(200.0).repeat_interleave(2) + torch.tensor([0.5, 0.0]).repeat(200)
    values[::7] = float("nan")
    x = Sequences({"time": time}, torch.tensor([0]), torch.tensor([400]))
    assert clock(x, values) == "it rises at 100 % of the steps in time"


def test_ranks_are_numbers_or_places_in_the_alphabet() -> None:
    assert ranks(Categorical("n", ("10", "9"))).tolist()[2:] == [10, 9]
    assert ranks(Categorical("d", ("2013-02", "2012-12", "2013-01"))).tolist()[2:] == [2, 0, 1]
    assert ranks(Categorical("e", ())).isnan().all()


def test_windows_are_neighbours_of_whole_times() -> None:
    draw = np.random.default_rng(0)
    lengths = torch.from_numpy(draw.integers(0, 60, 50))
    row = torch.repeat_interleave(torch.arange(50), lengths)
    time = torch.from_numpy(draw.integers(0, 20, int(lengths.sum())))
    time = time[(row * 100 + time).argsort()]
    x = Sequences({"time": time, "place": torch.arange(len(time))}, lengths.cumsum(0) - lengths, lengths)
    found = moments(x)
    slow = [len(set(time[row == i].tolist())) for i in range(50)]
    assert found.lengths.tolist() == slow
    views, source = _adjacent(x, found, 2, 3, rng())
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


def test_every_place_can_begin_a_window() -> None:
    x = Sequences({"time": torch.arange(7)}, torch.tensor([0]), torch.tensor([7]))
    seen = {int(_adjacent(x, moments(x), 2, 1, rng(seed))[0].starts[0]) for seed in range(60)}
    assert seen == {0, 1, 2, 3}


def test_features_equal_a_slow_loop() -> None:
    values, code = noise(), np.random.default_rng(1).integers(0, 4, (N, T))
    values[np.random.default_rng(2).random((N, T)) < 0.3] = np.nan
    data = engines(v=values, c=code)
    views, source = _adjacent(data.sequences, moments(data.sequences), 3, 2, rng())
    found = dict(_features(data, views))
    for i in range(0, len(source), 7):
        first, second = (views[[k]] for k in (i, i + len(source)))
        one, two = (part.values("v") for part in (first, second))
        mean = float(two.nanmean() - one.nanmean())
        assert float(found["v"][i, 0]) == pytest.approx(0 if np.isnan(mean) else mean, abs=1e-5)
        assert float(found["v"][i, 1]) == pytest.approx(
            float(two.isnan().double().mean() - one.isnan().double().mean())
        )
        for k in range(4):
            share = [(part.values("c") == k).double().mean() for part in (first, second)]
            assert float(found["c"][i, k]) == pytest.approx(float(share[1] - share[0]))
    assert found["gap"].abs().max() == 0  # the interval is 1 everywhere, and missing at every window's edge


def test_the_model_equals_least_squares_without_the_fold() -> None:
    x, entity = torch.randn(60, 4, generator=rng()), torch.arange(60) // 3
    model = _Model(x, entity, 5, rng())
    score = model.scores(torch.tensor([0, 2]))
    assert all(len(model.fold[entity == e].unique()) == 1 for e in range(20))
    for k in range(5):
        train, test = (model.x[mask][:, [0, 2]].numpy() for mask in (model.fold != k, model.fold == k))
        weights = np.linalg.solve(train.T @ train + 2 * np.eye(2), train.sum(0))
        np.testing.assert_allclose(score[model.fold == k], test @ weights, atol=1e-9)


def test_the_auroc_is_that_of_both_orders_with_ties_and_weights() -> None:
    draw = np.random.default_rng(0)
    score, weight = draw.integers(-3, 5, 50) / 2, draw.integers(0, 4, (6, 50))
    both, truth = np.concatenate([score, -score]), np.repeat([1, 0], 50)
    slow = [roc_auc_score(truth, both, sample_weight=np.tile(w, 2)) for w in weight]
    np.testing.assert_allclose(_auroc(torch.from_numpy(score))(torch.from_numpy(weight)), slow)


def test_an_interval_draws_entities_and_not_rows() -> None:
    value = torch.randn(40, generator=rng()).repeat_interleave(25)  # 25 equal rows of each of 40 entities

    def mean(weight: torch.Tensor) -> torch.Tensor:
        return weight @ value / weight.sum(1)

    by_entity = estimate(mean, torch.arange(40).repeat_interleave(25), rng())
    by_row = estimate(mean, torch.arange(1000), rng())
    width = 2 * 1.96 * float(value[::25].std()) / 40**0.5
    assert by_entity.high - by_entity.low == pytest.approx(width, rel=0.2)
    assert by_row.high - by_row.low < width / 3
    assert str(Estimate(-0.5, -0.75, 0.25)) == "−0.500 [−0.750, 0.250]"


def test_words_of_texts_are_a_field() -> None:
    draw = np.random.default_rng(0)
    words = np.where(draw.random((N, T)) < np.arange(T) / T, "stable release", "first draft").reshape(-1)
    data = engines(idle=noise())
    x = Sequences(
        {**data.sequences.columns, "note": text_column(pa.array(words))}, data.sequences.starts, data.sequences.lengths
    )
    found = find(Dataset(data.keys, x, data.schema))
    assert found.met
    assert [field.name for field in found.carriers] == ["note"]


def test_events_of_no_row_do_not_matter() -> None:
    data = engines(code=np.random.default_rng(2).integers(2, 6, (N, T)), amount=wear())[::2]
    other = Dataset(data.keys, elsewhere(data.sequences), data.schema)
    assert find(data) == find(other)


def test_windows_that_are_too_long_and_events_that_are_alike_are_refused() -> None:
    data = engines(a=noise())
    with pytest.raises(DataError, match="0 of 80 entities have two windows of 20 distinct times"):
        find(data, window=20)
    with pytest.raises(DataError, match="all events are alike"):
        find(engines(a=np.ones((N, T))))
