"""Intensive-care stays as a process: scales and baselines by slow loops, and no event after the cut in a context."""

from __future__ import annotations

import math
import statistics
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from experiments.cresp import icu_networks, icu_stays, physionet
from experiments.cresp.icu_networks import Arm, CutStays
from experiments.cresp.icu_stays import CUT, FEWEST, KEY, TARGETS, Task
from polars.testing import assert_frame_equal

import make
from disk import parquet

PARAMETERS = {"HR": (80.0, 15.0), "Na": (140.0, 5.0), "BUN": (20.0, 8.0)}


def measurements(stays: int, seed: int = 0) -> pl.DataFrame:
    """Return 20 to 60 measurements of each stay over 48 hours; those of BUN are skewed."""
    rng = np.random.default_rng(seed)
    stay = np.repeat(np.arange(1, stays + 1), rng.integers(20, 61, stays))
    parameter = rng.choice([*PARAMETERS, "Weight"], len(stay))
    moments = np.array([PARAMETERS.get(name, (80.0, 1.0)) for name in parameter])
    noise = np.where(parameter == "BUN", rng.exponential(5.0, len(stay)), rng.normal(size=len(stay)))
    return pl.DataFrame(
        {
            "set": ["a"] * len(stay), "record_id": stay.astype(np.int32),
            "minutes": rng.integers(0, 2881, len(stay)).astype(np.int16), "parameter": parameter,
            "value": (moments[:, 0] + moments[:, 1] * noise).astype(np.float32),
        }
    )  # fmt: skip


@pytest.fixture
def raw(folder: Path) -> pl.DataFrame:
    keys = list(range(1, 41))
    outcomes = {"RecordID": keys, "In-hospital_death": [key % 2 for key in keys]}
    parquet(folder / "physionet2012/outcomes.parquet", outcomes)
    events = measurements(40)
    parquet(folder / "physionet2012/events.parquet", events.to_dict(as_series=False))
    return events


def slow_scale(values: list[float]) -> tuple[float, float, bool, float, float]:
    """Return bounds, whether there is a logarithm, mean and standard deviation of one parameter."""
    low, high = (sorted(values)[round(share * (len(values) - 1))] for share in (0.005, 0.995))
    clipped = [min(max(value, low), high) for value in values]
    mean, std = statistics.fmean(clipped), statistics.pstdev(clipped)
    log = low >= 0 and statistics.fmean(((value - mean) / std) ** 3 for value in clipped) > 1
    scaled = [math.log1p(value) for value in clipped] if log else clipped
    return low, high, log, statistics.fmean(scaled), statistics.stdev(scaled)


def test_values_are_scaled_by_the_training_stays_within_their_parameter(raw: pl.DataFrame) -> None:
    events, stays = icu_stays.load(20, 10, 10, seed=0)
    assert stays["part"].value_counts(sort=True)["count"].to_list() == [20, 10, 10]
    training = set(stays.filter(part="training")[KEY])
    logarithmic = set()
    for name in PARAMETERS:
        values = raw.filter(parameter=name).filter(pl.col("record_id").is_in(training))["value"].to_list()
        low, high, log, mean, std = slow_scale(values)
        logarithmic |= {name} if log else set()
        expected = raw.filter(parameter=name).select(KEY, "minutes", "value").rows()
        scaled = [
            ((math.log1p(clipped) if log else clipped) - mean) / std
            for _, _, value in sorted(expected)
            for clipped in [min(max(value, low), high)]
        ]
        of_parameter = events.filter(parameter=name).sort(KEY, "minutes", "value")
        assert of_parameter["value"].to_list() == pytest.approx(scaled, abs=1e-3)
    assert logarithmic == {"BUN"}
    assert set(events["parameter"]) == set(PARAMETERS)  # without the weight


def test_other_values_of_test_stays_change_no_training_value(raw: pl.DataFrame, folder: Path) -> None:
    before, stays = icu_stays.load(20, 10, 10, seed=0)
    of_training = pl.col("record_id").is_in(stays.filter(part="training")[KEY].to_list())
    values = pl.col("value").cast(pl.Float64)
    changed = raw.with_columns(pl.when(of_training).then(values).otherwise(values * 3), pl.col(KEY).cast(pl.Int64))
    changed.write_parquet(folder / "physionet2012/events.parquet")
    after, _ = icu_stays.load(20, 10, 10, seed=0)
    assert_frame_equal(before.filter(part="training"), after.filter(part="training"))  # sums differ in their order
    assert not before.filter(part="test").equals(after.filter(part="test"))


def test_no_event_after_the_cut_is_in_the_context_of_a_forecast(raw: pl.DataFrame) -> None:
    events, _ = icu_stays.load(20, 10, 10, seed=0)
    task = icu_stays.forecasting(events, seed=0)
    assert task.context["minutes"].max() < CUT <= task.targets["minutes"].min()  # type: ignore[operator]
    assert set(task.context[KEY]) == set(task.targets[KEY])
    assert task.targets[KEY].value_counts()["count"].max() <= TARGETS  # type: ignore[operator]
    assert task.context[KEY].value_counts()["count"].min() >= FEWEST  # type: ignore[operator]
    assert task.context.join(events, on=events.columns, how="anti").is_empty()


def test_interpolation_divides_the_events_of_each_stay(raw: pl.DataFrame) -> None:
    events, _ = icu_stays.load(20, 10, 10, seed=0)
    task = icu_stays.interpolation(events, seed=0)
    assert set(task.targets[KEY].value_counts()["count"]) == {TARGETS}
    both = pl.concat([task.context, task.targets]).sort(events.columns)
    assert both.equals(events.filter(pl.col(KEY).is_in(set(task.targets[KEY]))).sort(events.columns))
    assert not task.targets.equals(icu_stays.interpolation(events, seed=1).targets)


def slow_baselines(task: Task, shrunken: float, smooth: tuple[float, float]) -> list[list[float]]:
    """Return the five predictions of each target by a loop."""
    predictions = []
    for target in task.targets.iter_rows(named=True):
        seen = [
            (abs(event["minutes"] - target["minutes"]), event["value"])
            for event in task.context.iter_rows(named=True)
            if (event[KEY], event["parameter"]) == (target[KEY], target["parameter"])
        ]
        values = [value for _, value in seen]
        near = [value for distance, value in seen if distance == min(seen)[0]]
        weights = [2 ** (-distance / smooth[1]) for distance, _ in seen]
        weighted = sum(weight * value for weight, value in zip(weights, values, strict=True))
        predictions.append(
            [
                0.0, statistics.fmean(values or [0.0]), statistics.fmean(near or [0.0]),
                sum(values) / (len(values) + shrunken), weighted / (sum(weights) + smooth[0]),
            ]
        )  # fmt: skip
    return predictions


@pytest.mark.parametrize("make_task", [icu_stays.interpolation, icu_stays.forecasting])
def test_baselines_equal_a_loop(raw: pl.DataFrame, make_task: type[Task]) -> None:
    events, _ = icu_stays.load(20, 10, 10, seed=0)
    rare = (pl.col("parameter") != "Na") | (pl.col("minutes") > CUT)  # forecasts of a parameter that no context has
    task = make_task(events.filter(rare), 0)  # type: ignore[arg-type, call-arg]
    test, validation = task.part("test"), task.part("validation")
    truth = validation.targets["value"].to_numpy()

    def error(shrunken: float, smooth: tuple[float, float], column: int) -> float:
        predictions = np.array(slow_baselines(validation, shrunken, smooth))[:, column]
        return float(np.square(truth - predictions).mean())

    shrunken = min(icu_stays.SHRINKAGE, key=lambda k: error(k, (1.0, 60.0), 3))
    pairs = [(k, h) for k in icu_stays.SHRINKAGE for h in icu_stays.HALF_LIVES]
    smooth = min(pairs, key=lambda pair: error(1.0, pair, 4))
    predictions = icu_stays.baselines(test, validation)
    assert list(predictions)[3:] == [
        f"shrunken mean ({shrunken:g})", f"smoothed mean ({smooth[0]:g}, half-life {smooth[1] / 60:g} h)",
    ]  # fmt: skip
    expected = np.array(slow_baselines(test, shrunken, smooth))
    np.testing.assert_allclose(np.stack(list(predictions.values()), 1), expected, atol=1e-6)


def test_aggregates_equal_a_loop(raw: pl.DataFrame) -> None:
    events, stays = icu_stays.load(20, 10, 10, seed=0)
    features = icu_stays.aggregates(events)
    names = events["parameter"].unique(maintain_order=True).to_list()
    assert features.shape == (40, 5 * len(names))
    for row, key in enumerate(stays[KEY]):
        for column, name in enumerate(names):
            values = events.filter(pl.col(KEY) == key, parameter=name)["value"].to_list()
            expected = [0.0] * 5
            if values:
                count = math.log1p(len(values))
                expected = [count, statistics.fmean(values), min(values), max(values), values[-1]]
            assert features[row, column :: len(names)].tolist() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("later", [0.0, 1.0])
def test_training_views_hold_targets_that_are_later_or_random(later: float) -> None:
    x = make.sequences([40, 12, 300] * 20)
    sampler = CutStays(length=24, targets=4, later=later)
    assert sampler.usable(make.sequences([11, 12])).tolist() == [False, True]
    views, source = sampler(x, torch.Generator().manual_seed(0))
    assert source.tolist() == list(range(60))
    assert max(views.lengths.tolist()) == 24
    n_mixed = 0
    for row in range(60):
        events, times = x[[row]].values("time").tolist(), views[[row]].values("time").tolist()
        assert len(times) >= 4 + FEWEST
        assert set(times) <= set(events)
        n_mixed += min(times[:4]) < max(times[4:])
    assert n_mixed == 0 if later else n_mixed > 50


def test_all_methods_are_trained_for_equal_epochs_at_equal_rates() -> None:
    arms = physionet.arms(small=False)
    of_method: dict[str, set[tuple[int, float]]] = {}
    for arm in arms:
        of_method.setdefault(arm.name, set()).add((arm.epochs, arm.lr))
    assert of_method.pop("untrained") == {(0, 0.0)}
    assert len(of_method) == 6
    assert set(map(frozenset, of_method.values())) == {frozenset({(40, 0.002), (40, 0.005)})}


def test_a_network_is_trained_once_and_its_errors_are_those_of_its_predictions(
    raw: pl.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = icu_stays.load(20, 10, 10, seed=0)
    monkeypatch.setattr(icu_networks, "load", lambda small: loaded)
    monkeypatch.setattr(icu_networks, "tasks", lambda small: [icu_stays.interpolation(loaded[0], 0)])
    arm = Arm("cnp", 0.002, epochs=1)
    first = icu_networks.outcome(arm, True, tmp_path)
    monkeypatch.setattr(icu_networks, "_trained", None)
    again = icu_networks.outcome(arm, True, tmp_path)
    targets = icu_stays.interpolation(loaded[0], 0).part("test").targets
    assert first.moments["interpolation"].shape == (len(targets), 2)
    assert np.array_equal(first.moments["interpolation"], again.moments["interpolation"])
    assert set(first.deaths) == {"logistic", "boosting"}
    assert first.validation == again.validation
    assert set(first.validation) == {"interpolation squared error", "interpolation nll", "death auroc"}
    with pytest.raises(TypeError):
        icu_networks.outcome(replace(arm, seed=1), True, tmp_path)


def test_the_errors_of_normal_distributions_equal_a_loop(raw: pl.DataFrame) -> None:
    events, _ = icu_stays.load(20, 10, 10, seed=0)
    task = icu_stays.interpolation(events, seed=0)
    rng = np.random.default_rng(0)
    moments = np.stack([rng.normal(size=len(task.targets)), 0.5 + rng.random(len(task.targets))], 1)
    found = icu_networks.values_errors(task, moments)
    for row, (value, (mean, deviation)) in enumerate(zip(task.targets["value"], moments, strict=True)):
        assert found["squared error"][row] == pytest.approx((value - mean) ** 2)
        assert found["nll"][row] == pytest.approx(-math.log(statistics.NormalDist(mean, deviation).pdf(value)))


def test_rows_say_how_long_and_at_which_rate_a_network_was_trained() -> None:
    models = (Arm("cnp", 0.005, 40), Arm("untrained", 0.0, 0), "nearest in time")
    found = [physionet._row("death", model, "auroc", 0.5) for model in models]
    expected = [("cnp", 40, 0.005), ("untrained", 0, ""), ("nearest in time", "", "")]
    assert [(row["model"], row["epochs"], row["rate"]) for row in found] == expected


def test_a_difference_of_aurocs_is_that_of_the_linear_models_on_equal_stays() -> None:
    rng = np.random.default_rng(0)
    truth = rng.random(300) < 0.3
    stays = pl.DataFrame({"part": ["test"] * 300, icu_stays.DEATH: truth})
    good, bad = truth + rng.normal(size=300), truth + 3 * rng.normal(size=300)
    predictions = {"logistic": good, "boosting": bad}
    rows = physionet._deaths(stays, "vector", predictions, 0.8, {"same": good, "worse": bad})
    found = {row["measure"]: row for row in rows}

    def auroc(score: np.ndarray) -> float:
        dead, alive = score[truth], score[~truth]
        return float(np.mean([(a > b) + (a == b) / 2 for a in dead for b in alive]))

    assert found["auroc, logistic"]["value"] == pytest.approx(auroc(good))
    assert (found["auroc, logistic"]["validation"], found["auroc, boosting"]["validation"]) == (0.8, "")
    assert (found["auroc − same"]["value"], found["auroc − same"]["interval"]) == (0, "0.000 to 0.000")
    assert found["auroc − worse"]["value"] == pytest.approx(auroc(good) - auroc(bad))
    low, high = map(float, found["auroc − worse"]["interval"].split(" to "))
    assert low < found["auroc − worse"]["value"] < high
