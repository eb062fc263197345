"""Hand-crafted features against plain loops, against numbers worked by hand, on difficult rows, and continued."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import make
from eventvec import sequences
from eventvec.embedding import encode
from eventvec.encoders import Handcrafted, RunningHandcrafted
from eventvec.encoders.aggregates import finite
from eventvec.encoders.handcrafted import MOMENT
from eventvec.encoders.running import _split, joined
from eventvec.errors import ConfigError, DataError
from eventvec.schema import FIRST, MISSING, UNKNOWN, Categorical, Numeric, Schema
from eventvec.sequences import Sequences

NOW = 10**9 * 10**6 * 40  # after every event that `make` draws


def a_schema(sizes: tuple[int, ...] = (3,), logs: tuple[bool, ...] = (True, False), kind: str = "integer") -> Schema:
    categorical = tuple(Categorical(f"c{i}", tuple(f"v{j}" for j in range(size))) for i, size in enumerate(sizes))
    numeric = tuple(Numeric(f"n{i}", log=log) for i, log in enumerate(logs))
    return Schema("key", "time", kind, categorical=categorical, numeric=numeric)


def random_rows(rng: np.random.Generator, schema: Schema, lengths: list[int], unit: float = 1) -> Sequences:
    """Return rows with ties, missing and unknown values, and one event of no row before each row."""
    sizes = torch.tensor(lengths, dtype=torch.int64)
    starts = (sizes + 1).cumsum(0) - sizes
    total = int(sizes.sum()) + len(lengths)
    time = np.sort(rng.integers(0, 3 * total + 1, total)) * unit
    kind = np.float64 if schema.time_kind == "float" else np.int64
    columns = {c.name: torch.from_numpy(rng.integers(0, c.size, total).astype(np.int32)) for c in schema.categorical}
    for number in schema.numeric:
        drawn = rng.normal(5, 10, total).round().astype(np.float32)
        drawn[rng.random(total) < 0.3] = np.nan
        columns[number.name] = torch.from_numpy(drawn)
    moment = torch.from_numpy((3 * total + rng.integers(0, 9, len(lengths))).astype(kind)) * int(max(unit, 1))
    return Sequences({"time": torch.from_numpy(time.astype(kind)), **columns}, starts, sizes, {MOMENT: moment})


def log(value: float) -> float:
    return math.copysign(math.log1p(abs(value)), value)


def mean(numbers: list[float]) -> float:
    return statistics.fmean(numbers) if numbers else 0.0


def std(numbers: list[float]) -> float:
    return statistics.stdev(numbers) if len(numbers) > 1 else 0.0


def slow(x: Sequences, schema: Schema, values: int, frequent: int, within: int) -> list[dict[str, float]]:
    """Return the features by name, with one Python loop per row, column and value."""
    rows = []
    for row, (start, length) in enumerate(zip(x.starts.tolist(), x.lengths.tolist(), strict=True)):
        events = {name: column[start : start + length].tolist() for name, column in x.columns.items()}
        moment = x.static[MOMENT][row].item()
        rows.append(slow_row(events, moment, schema, values, frequent, within))
    return rows


def slow_row(
    events: dict[str, list], moment: float, schema: Schema, values: int, frequent: int, within: int
) -> dict[str, float]:
    time, scale = events["time"], 1e6 if schema.clock else 1
    n = len(time)
    first, last = (time[0], time[-1]) if n else (moment, moment)
    gaps = [(b - a) / scale for a, b in pairwise(time)]
    late = [2 * (last - t) <= last - first for t in time]
    z = {
        "events": log(n),
        "time: distinct": log(len(set(time))),
        "time: span": log((last - first) / scale),
        "gap: mean": log(mean(gaps)),
        "gap: std": log(std(gaps)),
        "gap: max": log(max(gaps, default=0)),
        "gap: last": log(gaps[-1] if gaps else 0),
        "gap: median": log(statistics.median(gaps) if gaps else 0),
        "time: recency": log((moment - last) / scale),
        "time: tenure": log((moment - first) / scale),
    }
    for part, k in (("half", 2), ("quarter", 4), ("tenth", 10)):
        z[f"time: share in last {part}"] = sum(k * (last - t) <= last - first for t in time) / max(n, 1)
        window = sum(k * (moment - t) <= moment - first for t in time)
        z[f"time: share in {part} to moment"] = window / max(n, 1)
        z[f"time: rate in {part} to moment"] = math.log((1 + window) / (1 + n / k))
    for count in (3, 10, 30):
        z[f"time: since last {count}"] = log((moment - (time[-count:][0] if n else moment)) / scale)
    for column in schema.numeric:
        name, scaled = column.name, log if column.log else float
        for count in (3, 10, 30):
            of_last = [v for v in events[name][-count:] if v == v]
            z[f"{name}: mean of last {count}"] = scaled(mean(of_last))
            z[f"{name}: std of last {count}"] = scaled(std(of_last))
            z[f"{name}: min of last {count}"] = scaled(min(of_last, default=0))
            z[f"{name}: max of last {count}"] = scaled(max(of_last, default=0))
        present = [(t, v, part) for t, v, part in zip(time, events[name], late, strict=True) if v == v]
        numbers = [v for _, v, _ in present]
        halves = [[v for _, v, part in present if part is half] for half in (True, False)]
        z[f"{name}: count"], z[f"{name}: sum"] = log(len(numbers)), log(sum(numbers))
        z[f"{name}: mean"], z[f"{name}: std"] = scaled(mean(numbers)), scaled(std(numbers))
        z[f"{name}: min"], z[f"{name}: max"] = scaled(min(numbers, default=0)), scaled(max(numbers, default=0))
        z[f"{name}: last"] = scaled(numbers[-1] if numbers else 0)
        z[f"{name}: missing"] = (n - len(numbers)) / max(n, 1)
        z[f"{name}: change"] = scaled(mean(halves[0]) - mean(halves[1]) if all(halves) else 0)
        times = {t for t, _, _ in present}
        slope = (
            np.polyfit([(t - first) / (last - first) for t, _, _ in present], numbers, 1)[0] if len(times) > 1 else 0
        )
        z[f"{name}: slope"] = scaled(slope)
    for column in schema.categorical:
        name, codes = column.name, events[column.name]
        present = [code for code in codes if code != MISSING]
        counts = Counter(present)
        pairs = [(a, b) for a, b in pairwise(codes) if MISSING not in (a, b)]
        z[f"{name}: missing"], z[f"{name}: unknown"] = codes.count(MISSING) / max(n, 1), counts[UNKNOWN] / max(n, 1)
        z[f"{name}: repeated"] = sum(a == b for a, b in pairs) / max(len(pairs), 1)
        z[f"{name}: distinct"] = log(len(counts))
        z[f"{name}: entropy"] = -sum(c / len(present) * math.log(c / len(present)) for c in counts.values())
        z[f"{name}: top share"] = max(counts.values(), default=0) / max(len(present), 1)
        seen = sum(code in present[:i] for i, code in enumerate(present))
        z[f"{name}: seen before"] = seen / max(len(present), 1)
        for i, value in enumerate(column.values[:values]):
            is_value, condition = [code == i + FIRST for code in codes], f"{name}={value}"
            z[f"{condition}: count"], z[f"{condition}: share"] = log(sum(is_value)), sum(is_value) / max(n, 1)
            for number in schema.numeric:
                chosen_events = zip(events[number.name], is_value, late, strict=True)
                both = [(v, part) for v, chosen, part in chosen_events if chosen and v == v]
                of_value, scaled = [v for v, _ in both], log if number.log else float
                prefix = f"{number.name} where {condition}"
                z[f"{prefix}: mean"] = scaled(mean(of_value))
                if i < within:
                    z[f"{prefix}: std"], z[f"{prefix}: min"] = scaled(std(of_value)), scaled(min(of_value, default=0))
                    z[f"{prefix}: max"] = scaled(max(of_value, default=0))
                    z[f"{prefix}: last"] = scaled(of_value[-1] if of_value else 0)
                    z[f"{prefix}: late mean"] = scaled(mean([v for v, part in both if part]))
            if i < within:
                of_value = [t for t, chosen in zip(time, is_value, strict=True) if chosen]
                z[f"{condition}: since"] = log((last - (of_value or [first])[-1]) / scale)
            if i < frequent:
                for count in (3, 10, 30):
                    of_last = is_value[-count:]
                    z[f"{condition}: share of last {count}"] = sum(of_last) / max(len(of_last), 1)
                z[f"{condition}: last"] = float(is_value[-1]) if n else 0.0
                in_late = sum(chosen and part for chosen, part in zip(is_value, late, strict=True))
                z[f"{condition}: share of late half"] = in_late / max(sum(late), 1)
    return z


def named(encoder: Handcrafted | RunningHandcrafted, z: torch.Tensor) -> dict[str, float]:
    return dict(zip(encoder.names, z.tolist(), strict=True))


@given(
    st.lists(st.integers(0, 35), max_size=7),
    st.lists(st.booleans(), max_size=2).map(tuple),
    st.lists(st.integers(0, 4), max_size=2).map(tuple),
    st.integers(0, 4),
    st.integers(0, 3),
    st.integers(0, 5),
    st.sampled_from([("integer", 1), ("float", 0.125), ("timestamp", 10**6), ("float", 1000.0)]),
    st.integers(0, 2**32 - 1),
)
def test_equals_plain_loops(lengths, logs, sizes, values, frequent, within, times, seed):
    schema = a_schema(sizes, logs, times[0])
    x = random_rows(np.random.default_rng(seed), schema, lengths, times[1])
    encoder = Handcrafted(schema, values=values, frequent=frequent, within=within)
    z = encoder(x)
    assert z.dtype == torch.float32
    assert z.shape == (len(lengths), encoder.dim)
    assert len(set(encoder.names)) == encoder.dim
    for values_of_row, expected in zip(z, slow(x, schema, values, frequent, within), strict=True):
        assert named(encoder, values_of_row) == pytest.approx(expected, rel=1e-5, abs=1e-5)


def test_worked_by_hand():
    schema = a_schema((2,), (False,))
    columns = {
        "time": torch.tensor([0, 0, 6, 20]),
        "c0": torch.tensor([FIRST, FIRST, MISSING, FIRST + 1], dtype=torch.int32),
        "n0": torch.tensor([1.0, torch.nan, 3.0, 8.0]),
    }
    encoder = Handcrafted(schema, moment=24)
    z = named(encoder, encoder(Sequences(columns, torch.tensor([0]), torch.tensor([4])))[0])
    expected = {
        "events": math.log(5),
        "time: distinct": math.log(4),  # 0, 6, 20
        "time: span": math.log(21),
        "gap: mean": math.log(1 + 20 / 3),  # gaps 0, 6, 14
        "gap: median": math.log(7),
        "gap: last": math.log(15),
        "time: recency": math.log(5),
        "time: tenure": math.log(25),
        "time: share in last half": 0.25,  # times from 10 on
        "time: share in quarter to moment": 0.25,  # times from 18 on
        "time: rate in quarter to moment": 0.0,  # one event, and 4 / 4 are expected
        "time: share in tenth to moment": 0.0,  # times from 21.6 on
        "n0: count": math.log(4),
        "n0: sum": math.log(13),
        "n0: mean": 4.0,
        "n0: min": 1.0,
        "n0: max": 8.0,
        "n0: last": 8.0,
        "n0: missing": 0.25,
        "n0: change": 6.0,  # 8 - (1 + 3) / 2
        "c0: missing": 0.25,
        "c0: repeated": 1.0,  # one pair of events that both have a value
        "c0: distinct": math.log(3),
        "c0: top share": 2 / 3,
        "c0: seen before": 1 / 3,
        "c0=v0: count": math.log(3),
        "c0=v0: share": 0.5,
        "n0 where c0=v0: mean": 1.0,
        "c0=v0: share of late half": 0.0,
        "c0=v1: share of late half": 1.0,
        "c0=v0: last": 0.0,
        "c0=v1: last": 1.0,
        "time: since last 3": math.log(25),  # from 0 to 24
        "n0: mean of last 3": 5.5,
        "n0: min of last 10": 1.0,
        "n0 where c0=v0: max": 1.0,
        "n0 where c0=v0: late mean": 0.0,
        "n0 where c0=v1: last": 8.0,
        "c0=v0: since": math.log(21),  # from 0 to 20
        "c0=v1: since": 0.0,
        "c0=v0: share of last 3": 1 / 3,
    }
    assert {name: z[name] for name in expected} == pytest.approx(expected, rel=1e-6, abs=1e-7)


def test_calendar_times_are_in_seconds():
    x = make.sequences([5])
    encoder = Handcrafted(make.schema(), moment=NOW)
    z = named(encoder, encoder(x)[0])
    assert z["time: recency"] == pytest.approx(math.log1p((NOW - x.values("time")[-1].item()) / 1e6))


def test_empty_rows_give_zeros_and_no_rows_give_no_features():
    encoder = Handcrafted(make.schema(), moment=NOW)
    z = encoder(make.sequences([0, 4, 0]))
    assert z[[0, 2]].abs().sum() == 0
    assert z[1].abs().sum() > 0
    assert encoder(make.sequences([3])[[]]).shape == (0, encoder.dim)
    assert encoder(make.sequences([0], spare=0)).tolist() == [[0.0] * encoder.dim]


def test_a_single_event_at_the_moment_of_prediction():
    x = make.sequences([1])
    encoder = Handcrafted(make.schema(), moment=x.values("time").item())
    z = encoder(x)
    assert z.isfinite().all()
    features = named(encoder, z[0])
    assert features["events"] == pytest.approx(math.log(2))
    assert features["time: recency"] == features["time: tenure"] == features["gap: median"] == 0
    assert features["time: share in last tenth"] == features["time: share in tenth to moment"] == 1


def test_extreme_numbers_and_times_give_finite_features():
    schema = a_schema((1,), (False, True))
    large = torch.tensor([3e38, -3e38, 3e38])
    columns = {"time": torch.tensor([-(2**62) + 1, 0, 2**62 - 1]), "c0": torch.full((3,), FIRST)}
    x = Sequences({**columns, "n0": large, "n1": large}, torch.tensor([0]), torch.tensor([3]))
    assert Handcrafted(schema, moment=2**62 - 1)(x).isfinite().all()
    assert finite(torch.tensor([-1e300], dtype=torch.float64)).isfinite().all()


def test_statistics_of_numbers_beside_a_large_mean_are_exact():
    schema = a_schema((), (False,))
    columns = {"time": torch.arange(4), "n0": torch.tensor([1.0, 2.0, 3.0, 4.0]) + 1e7}
    encoder = Handcrafted(schema, moment=4)
    z = named(encoder, encoder(Sequences(columns, torch.tensor([0]), torch.tensor([4])))[0])
    assert (z["n0: std"], z["n0: change"], z["n0: slope"]) == pytest.approx(((5 / 3) ** 0.5, 2, 3), rel=1e-6)


def test_other_rows_do_not_leak_and_the_order_of_rows_has_no_influence():
    encoder, x = Handcrafted(make.schema(), moment=NOW), make.sequences([4, 0, 7, 1])
    z = encoder(x)
    assert torch.equal(encoder(make.elsewhere(x)), z)
    order = torch.tensor([2, 0, 3, 1])
    torch.testing.assert_close(encoder(x[order]), z[order], rtol=1e-6, atol=1e-6)
    for row in range(4):
        torch.testing.assert_close(encoder(x[[row]])[0], z[row], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("size", [1, 200, 1000])
def test_the_block_size_has_no_influence(monkeypatch, size):
    encoder, x = Handcrafted(make.schema()), make.sequences([3, 0, 17, 1, 5, 9])
    x = replace(x, static={MOMENT: NOW * torch.arange(1, 7)})
    z, states = encoder(x), encoder.running.state(x)
    monkeypatch.setattr(sequences, "BLOCK", size)
    assert torch.equal(encoder(x), z)
    assert torch.equal(encoder.running.state(x), states)


def test_rows_bring_their_own_moment_which_goes_before_that_of_the_encoder():
    x = make.sequences([4, 3])
    with_moments = replace(x, static={**x.static, MOMENT: torch.tensor([NOW, NOW + 10**15])})
    z = Handcrafted(make.schema(), moment=0)(with_moments)
    assert torch.equal(z[0], Handcrafted(make.schema(), moment=NOW)(x)[0])
    assert torch.equal(z[1], Handcrafted(make.schema(), moment=NOW + 10**15)(x)[1])
    assert torch.equal(encode(Handcrafted(make.schema()), with_moments), z)


def test_rows_without_a_moment_are_refused():
    with pytest.raises(DataError, match=r"no moment of prediction.* give Handcrafted"):
        Handcrafted(make.schema())(make.sequences([2]))


@pytest.mark.parametrize("option", ["values", "frequent", "within"])
def test_negative_numbers_of_values_are_refused(option):
    with pytest.raises(ConfigError, match=f"{option} must be at least 0, got -1"):
        Handcrafted(make.schema(), **{option: -1})


def test_there_are_no_parameters():
    assert not list(Handcrafted(make.schema()).state_dict())


@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=7),
    st.integers(0, 4),
    st.sampled_from([("integer", 1), ("float", 0.125), ("timestamp", 10**6)]),
    st.integers(0, 2**32 - 1),
)
def test_continuing_from_states_equals_reading_the_whole(lengths, within, times, seed):
    rng = np.random.default_rng(seed)
    schema = a_schema((4, 1), (True, False), times[0])
    x = random_rows(rng, schema, lengths, times[1])
    encoder = RunningHandcrafted(schema, values=3, frequent=2, within=within)
    rows, sizes = torch.arange(len(x)), x.lengths
    middle = torch.from_numpy(rng.integers(0, sizes.numpy() + 1))
    state = encoder.state(x.slice(rows, torch.zeros_like(sizes), middle))
    state = encoder.state(x.slice(rows, middle, torch.zeros_like(sizes)), state)  # no new events change nothing
    state = encoder.state(x.slice(rows, middle, sizes - middle), state)
    assert state.dtype == torch.float32
    assert torch.equal(state, encoder.state(x))
    assert torch.equal(encoder.read(state), encoder(x))


def test_states_are_the_same_bits_however_the_events_of_entities_are_divided():
    rng = np.random.default_rng(0)
    schema = Schema(
        "key", "time", "timestamp", numeric=(Numeric("n"),), categorical=(Categorical("c", tuple("abcde")),)
    )
    for scale, single in ((1e-5, True), (1e7, False), (0.3, False)):
        sizes = torch.from_numpy(rng.integers(0, 40, 20))
        total = int(sizes.sum())
        numbers = (rng.normal(size=total) * scale).astype(np.float32)
        numbers[rng.random(total) < 0.1] = np.nan
        times = np.concatenate([np.sort(rng.integers(0, 10**12, size)) for size in sizes.tolist()])
        columns = {"time": times, "n": numbers, "c": rng.integers(0, 7, total, np.int32)}
        tensors = {name: torch.from_numpy(values) for name, values in columns.items()}
        x, encoder = Sequences(tensors, sizes.cumsum(0) - sizes, sizes), RunningHandcrafted(schema, within=3)
        state, at = None, torch.zeros_like(sizes)
        while bool((at < sizes).any()):
            drawn = torch.ones_like(sizes) if single else torch.from_numpy(rng.integers(0, 12, len(sizes)))
            step = torch.minimum(drawn, sizes - at)
            state = encoder.state(x.slice(torch.arange(len(sizes)), at, step), state)
            at = at + step
        assert torch.equal(state, encoder.state(x))
        assert torch.equal(encoder.read(state), encoder(x))


@pytest.mark.parametrize("within", [0, 2])
def test_rows_of_one_event_have_the_states_that_they_have_among_longer_rows(within):
    schema = a_schema((4, 1), (True, False), "integer")
    before, x = (random_rows(np.random.default_rng(seed), schema, [3, 0, 1, 5], 1) for seed in (0, 1))
    encoder, rows, one = RunningHandcrafted(schema, 3, 2, within), torch.arange(4), torch.ones(4, dtype=torch.int64)
    longer, state = random_rows(np.random.default_rng(2), schema, [2, 4], 1), encoder.state(before)
    state = torch.cat([state, state[:2]])
    x = sequences.stack(x[x.lengths > 0][[0, 1, 2, 2]].slice(rows, torch.zeros_like(one), one), longer)
    alone = encoder.state(x[:4], state[:4])
    assert torch.equal(alone, encoder.state(x, state)[:4])
    assert torch.equal(alone, torch.cat([encoder.state(x[i : i + 1], state[i : i + 1]) for i in range(4)]))


@pytest.mark.parametrize("size", [1, 40])
def test_events_are_added_in_parts_that_have_no_influence(monkeypatch, size):
    schema = a_schema((4, 1), (True, False), "integer")
    x, encoder = random_rows(np.random.default_rng(0), schema, [9, 0, 4], 1), RunningHandcrafted(schema, 3, 2)
    whole = encoder.state(x)
    monkeypatch.setattr("eventvec.encoders.running.BLOCK", size)
    assert torch.equal(encoder.state(x), whole)


def test_a_state_of_float32_numbers_has_the_precision_of_float64():
    schema = Schema("key", "time", "timestamp", numeric=(Numeric("n", log=False),))
    times = torch.tensor([0x15555555555555, 0x15555555555556])  # 53 bits, 1 microsecond apart
    x = Sequences({"time": times, "n": torch.tensor([1e7, 1e7 + 1])}, torch.tensor([0]), torch.tensor([2]))
    encoder, row = RunningHandcrafted(schema), torch.tensor([0])
    state = None
    for event in (0, 1):
        state = encoder.state(x.slice(row, torch.tensor([event]), torch.tensor([1])), state)
    z = named(encoder, encoder.read(state)[0])
    assert z["time: span"] == z["gap: last"] == pytest.approx(1e-6, rel=1e-5)
    assert z["n: std"] == pytest.approx(0.5**0.5, rel=1e-6)


def test_gaps_of_whole_times_beyond_2_to_53_are_exact_after_a_state():
    schema, row, one = Schema("key", "time", "integer"), torch.tensor([0]), torch.tensor([1])
    encoder, times = RunningHandcrafted(schema), [2**53 + 1, 2**53 + 37, 2**61 + 3, 2**61 + 8, 2**61 + 8]
    x = Sequences({"time": torch.tensor(times)}, row, torch.tensor([len(times)]))
    state = None
    for event in range(len(times)):
        state = encoder.state(x.slice(row, torch.tensor([event]), one), state)
        continued, whole = encoder.read(state), encoder(x.slice(row, row, torch.tensor([event + 1])))
        assert torch.equal(continued, whole)
        assert named(encoder, continued[0])["gap: last"] == pytest.approx(
            np.log1p(times[event] - times[event - 1]) if event else 0, rel=1e-6
        )


def test_a_state_holds_numbers_beyond_the_range_of_float32():
    largest = float(np.finfo(np.float32).max)
    sizes = [0.0, 1e-46, 1e-40, 1 / 3, 1e30, largest, np.nextafter(largest, np.inf), 6e38, 1e39 / 3, 1e60, 3e76]
    numbers = torch.tensor([sizes, [-size for size in sizes]], dtype=torch.float64)
    state = _split(numbers)
    assert state.isfinite().all()
    torch.testing.assert_close(joined(state), numbers, rtol=1e-15, atol=1e-45)


def test_continuing_with_the_largest_numbers_equals_reading_the_whole():
    x = make.sequences([9, 5])
    amount = torch.where(torch.arange(len(x.columns["amount"])) % 3 == 0, -3e38, 3e38)
    columns = {**x.columns, "amount": amount, "code": torch.full_like(x.columns["code"], FIRST)}
    x = Sequences(columns, x.starts, x.lengths)
    encoder, rows = RunningHandcrafted(make.schema()), torch.arange(2)
    state = None
    for first in range(9):
        part = x.slice(rows, x.lengths.clamp(max=first), (x.lengths - first).clamp(0, 1))
        state = encoder.state(part, state)
        assert state.isfinite().all()
    assert torch.equal(encoder.read(state), encoder(x))


@given(st.lists(st.integers(0, 80), min_size=1, max_size=5), st.integers(30, 60), st.integers(0, 2**32 - 1))
def test_states_and_the_latest_events_give_the_same_bits_as_whole_histories(lengths, latest, seed):
    rng, schema = np.random.default_rng(seed), a_schema((4, 1), (True, False), "integer")
    x, encoder = random_rows(rng, schema, lengths), Handcrafted(schema, values=3, frequent=2, within=2, latest=latest)
    rows, middle = torch.arange(len(x)), torch.from_numpy(rng.integers(0, x.lengths.numpy() + 1))
    state = encoder.state(x.slice(rows, torch.zeros_like(middle), middle))
    state = encoder.state(x.slice(rows, middle, x.lengths - middle), state)
    kept = x.lengths.clamp(max=latest)
    assert torch.equal(encoder.read(state, x.slice(rows, x.lengths - kept, kept)), encoder(x))


def test_only_sums_and_the_first_event_are_read_beyond_the_latest_events():
    schema = a_schema((4,), (False,), "integer")
    x = random_rows(np.random.default_rng(0), schema, [70])
    encoder, row, kept = Handcrafted(schema, latest=40), torch.tensor([0]), torch.tensor([40])
    window = x.slice(row, torch.tensor([30]), kept)
    short, whole = encoder(window)[0], encoder(x)[0]
    of_sums, tenure = len(encoder.running.names), encoder.names.index("time: tenure")
    assert torch.equal(whole[:of_sums], encoder.running(x)[0])
    assert not torch.equal(whole[:of_sums], short[:of_sums])
    differs = (whole != short).nonzero()[:, 0]
    assert differs[differs >= of_sums].tolist() == [tenure]
    running = RunningHandcrafted(make.schema(), within=50)
    assert Handcrafted(make.schema()).names[: running.dim] == running.names


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_same_on_an_accelerator():
    encoder, x = Handcrafted(make.schema(), moment=NOW), make.sequences([6, 0, 8])
    z = encoder(x.to("cuda"))
    assert z.device.type == "cuda"
    torch.testing.assert_close(z.cpu(), encoder(x))
