"""Processes: the laws of their events, pictures and overlaps against loops, and new events at each call."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from experiments.cresp.processes import COLOURS, Sinusoids, Snooker, draw, sinusoids, snooker

from eventvec.dataset import Dataset
from eventvec.errors import ConfigError, DataError
from eventvec.sequences import Sequences
from eventvec.views import VIEWS, Process
from laws import rng

BOTH = [(Sinusoids(count=2, length=3), sinusoids), (Snooker(count=2, length=3), snooker)]


# Both processes


@pytest.mark.parametrize(("process", "data"), BOTH)
def test_views_follow_row_after_row_with_the_parameters_of_their_row(process, data):
    x = data(5).sequences
    views, source = process(x, rng())
    assert source.tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    assert views.lengths.tolist() == [3] * 10
    assert views.flat().tolist() == list(range(30))
    assert views.values("x").shape == (30, 1)
    assert all(torch.equal(views.static[name], values[source]) for name, values in x.static.items())
    assert x.columns == {}
    assert len(process(x[:0], rng())[0]) == 0


@pytest.mark.parametrize(("process", "data"), BOTH)
def test_each_call_draws_new_events_from_the_given_generator(process, data):
    x, before = data(4).sequences, torch.get_rng_state()
    generator = rng(1)
    first, second = (process(x, generator)[0] for _ in range(2))
    again = process(x, rng(1))[0]
    for name in ("x", "y"):
        assert torch.equal(first.values(name), again.values(name))
        assert not torch.equal(first.values(name), second.values(name))
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(("process", "data"), BOTH)
def test_a_row_is_usable_if_no_parameter_is_missing(process, data):
    x = data(4).sequences
    static = {name: values.clone() for name, values in x.static.items()}
    for row, values in enumerate(static.values()):
        values[row] = float("nan")
    assert process.usable(replace(x, static=static)).tolist() == [False, False, True, True]
    with pytest.raises(DataError, match=f"no static column {next(iter(static))!r}"):
        process.usable(Sequences({}, x.starts, x.lengths))


@pytest.mark.parametrize("data", [sinusoids, snooker])
def test_realisations_depend_on_the_seed_only_and_have_the_scales_of_their_law(data):
    one, again, other = data(20_000, seed=3), data(20_000, seed=3), data(20_000, seed=4)
    assert one.fingerprint == again.fingerprint != other.fingerprint
    assert one.keys.to_pylist()[:3] == [0, 1, 2]
    for field in one.schema.static:
        values = field.scale(one.sequences.static[field.name])
        assert abs(float(values.mean())) < 0.02
        assert float(values.std()) == pytest.approx(1, abs=0.02)


def test_draw_returns_the_realisations_with_events():
    data = sinusoids(6)
    drawn = draw(data, Sinusoids(count=1, length=4), seed=2)
    assert isinstance(drawn, Dataset)
    assert drawn.keys.equals(data.keys)
    assert drawn.sequences.lengths.tolist() == [4] * 6
    assert drawn.fingerprint == draw(data, Sinusoids(count=1, length=4), seed=2).fingerprint
    assert drawn.fingerprint != draw(data, Sinusoids(count=1, length=4), seed=3).fingerprint
    with pytest.raises(ConfigError, match=r"must draw one view per row .* got 12 views of 6 rows"):
        draw(data, Sinusoids(count=2, length=4), seed=2)


@pytest.mark.parametrize("process", [Sinusoids, Snooker])
def test_options_below_their_minimum_are_refused(process):
    with pytest.raises(ConfigError, match="count must be at least 1, got 0"):
        process(count=0)
    with pytest.raises(ConfigError, match="length must be at least 1, got 0"):
        process(length=0)


# Sinusoids


def test_observations_are_the_function_with_or_without_the_noise():
    x = sinusoids(50).sequences
    views, source = Sinusoids(count=1, length=400, noise=3.0)(x, rng())
    n_upper = 0
    for at, y, row in zip(views.values("x"), views.values("y"), views.rows().tolist(), strict=True):
        amplitude, phase = (float(x.static[name][row]) for name in ("amplitude", "phase"))
        residual = float(y) - amplitude * math.sin(2 * math.pi * float(at) / 8 + phase)
        assert min(abs(residual), abs(residual - 3)) < 1e-5
        n_upper += residual > 1.5
    assert n_upper / 20_000 == pytest.approx(0.5, abs=0.02)
    assert source.tolist() == list(range(50))


def test_the_covariate_of_sinusoids_is_uniform():
    views, _ = Sinusoids(count=1, length=100_000)(sinusoids(1).sequences, rng())
    counts, _ = np.histogram(views.values("x").numpy(), bins=20, range=(-5, 5))
    assert counts.sum() == 100_000
    assert abs(counts / 5000 - 1).max() < 0.06


def test_parameters_fill_their_ranges():
    static = sinusoids(10_000).sequences.static
    for name, low, high in (("amplitude", 0.5, 2.0), ("phase", 0.0, math.pi)):
        assert float(static[name].min()) == pytest.approx(low, abs=0.01)
        assert float(static[name].max()) == pytest.approx(high, abs=0.01)
    velocity = snooker(1000).sequences.static["velocity"].view(-1, 2, 2)
    torch.testing.assert_close(velocity.norm(dim=-1), torch.full((1000, 2), 0.4))


def test_a_negative_noise_is_refused():
    with pytest.raises(ConfigError, match=r"noise must be at least 0, got -1\.0"):
        Sinusoids(noise=-1.0)


# Snooker


def bounced(start: float, velocity: float, time: float) -> float:
    """Return where a coordinate is after many small steps with a reflection at 0.15 and 0.85."""
    at, steps = start, 20_000
    if at < 0.15 or at > 0.85:  # reflected inwards, and then it moves the other way
        at, velocity = (0.3 - at if at < 0.15 else 1.7 - at), -velocity
    for _ in range(steps):
        at += velocity * time / steps
        if at < 0.15 or at > 0.85:
            at, velocity = (0.3 - at if at < 0.15 else 1.7 - at), -velocity
    return at


def test_balls_bounce_off_the_walls():
    x = snooker(6, seed=1).sequences
    x = replace(x, static={**x.static, "velocity": 6 * x.static["velocity"]})  # many bounces
    times = torch.tensor([0.0, 1.0, 0.3, 0.7, 0.9, 0.5])
    places = Snooker().places(x, times)
    assert 0.15 <= float(places.min()) < float(places.max()) <= 0.85
    start, velocity = x.static["start"].tolist(), x.static["velocity"].tolist()
    for row in range(6):
        expected = [bounced(start[row][i], velocity[row][i], float(times[row])) for i in range(4)]
        assert places[row].flatten().tolist() == pytest.approx(expected, abs=1e-3)


def test_pictures_equal_a_loop_over_pixels():
    places = torch.tensor([[[0.2, 0.7], [0.3, 0.6]], [[0.15, 0.15], [0.85, 0.5]]])
    pictures = Snooker().pictures(places)
    assert pictures.shape == (2, 3, 28, 28)
    for row in range(2):
        for i in range(28):
            for j in range(28):
                pixel = np.zeros(3)
                for ball in range(2):
                    distance = math.hypot(i / 27 - float(places[row, ball, 0]), j / 27 - float(places[row, ball, 1]))
                    pixel += np.array(COLOURS[ball] if distance < 0.15 else (1, 1, 1)) / 2
                assert pictures[row, :, i, j].tolist() == pytest.approx(pixel.tolist(), abs=1e-6)


def test_balls_overlap_if_they_are_nearer_than_two_radii():
    still = torch.zeros(3, 4)
    start = torch.tensor([[0.2, 0.2, 0.49, 0.2], [0.2, 0.2, 0.51, 0.2], [0.4, 0.4, 0.4, 0.4]])
    zeros = torch.zeros(3, dtype=torch.int64)
    x = Sequences({}, zeros, zeros, {"start": start, "velocity": still})
    assert Snooker().overlap(x, torch.rand(3)).tolist() == [True, False, True]


def test_overlaps_are_as_frequent_as_in_the_reference():
    """Balls overlap 0.362 of the time; 52 % of rows change; a constant guess per row is right 86.2 % of the time."""
    x, times = snooker(4000).sequences, torch.linspace(0, 1, 101)
    rows = torch.arange(4000).repeat_interleave(101)
    overlap = Snooker().overlap(x[rows], times.repeat(4000)).view(4000, 101)
    share = overlap.float().mean(1)
    assert float(share.mean()) == pytest.approx(0.362, abs=0.015)
    assert float(((share > 0) & (share < 1)).float().mean()) == pytest.approx(0.52, abs=0.03)
    assert float(torch.maximum(share, 1 - share).mean()) == pytest.approx(0.862, abs=0.01)


@pytest.mark.usefixtures("named_processes")
def test_each_name_in_a_configuration_builds_its_process():
    assert (VIEWS["sinusoids"], VIEWS["snooker"]) == (Sinusoids, Snooker)
    process: Process = Sinusoids()
    assert process(sinusoids(2).sequences, rng())[1].tolist() == [0, 0, 1, 1]
