"""Shared by tests of samplers: rows that are easy to read, a test of uniformity, and laws that all samplers obey."""

from __future__ import annotations

from collections import Counter

import torch

import make
from eventvec.sequences import Sequences


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def counting(length: int, rows: int = 1) -> Sequences:
    """Return equal rows whose events are 0, 1, 2, …"""
    lengths = torch.full((rows,), length)
    return Sequences({"at": torch.arange(length)}, torch.zeros_like(lengths), lengths)


def rows_of(x: Sequences, name: str = "at") -> list[tuple]:
    """Return one column's values, a tuple per row."""
    return [tuple(part.tolist()) for part in x.values(name).split(x.lengths.tolist())]


def is_uniform(values: list, support: list) -> bool:
    """Return whether values are uniform: a chi-square test at about six standard deviations; each value must occur."""
    counts, expected = Counter(values), len(values) / len(support)
    assert set(counts) <= set(support), f"{set(counts) - set(support)} are outside the support"
    chi, freedom = sum((counts[value] - expected) ** 2 / expected for value in support), len(support) - 1
    return chi < freedom + 6 * (2 * max(freedom, 1)) ** 0.5 and len(counts) == len(support)


def draws_by_its_generator(sampler) -> None:
    """Check that the same seed draws the same views, and another seed draws other views."""
    x = make.sequences([9, 6, 8])
    first, second, other = sampler(x, rng(3)), sampler(x, rng(3)), sampler(x, rng(4))
    assert rows_of(first[0], "time") == rows_of(second[0], "time") != rows_of(other[0], "time")
    assert torch.equal(first[1], second[1])


def never_leaks(sampler) -> None:
    """Check that views hold only events of their row, whatever lies outside it, and keep the row's static values."""
    x = make.sequences([9, 6, 5, 8])
    (views, source), (changed, _) = sampler(x, rng()), sampler(make.elsewhere(x), rng())
    for name in x.columns:
        assert torch.equal(views.values(name).nan_to_num(-1), changed.values(name).nan_to_num(-1))
    row_times = [set(row) for row in rows_of(x, "time")]
    assert views.static["row"].tolist() == source.tolist() == sorted(source.tolist())
    assert all(set(times) <= row_times[row] for row, times in zip(source.tolist(), rows_of(views, "time"), strict=True))
    assert [len(part) for part in (sampler(x[:0], rng())[0], sampler(x[:0], rng())[1])] == [0, 0]


def pairs_draw_by_their_generator(sampler) -> None:
    """Check that the same seed draws the same pairs, and another seed draws other pairs."""
    x = make.sequences([19, 16, 18])
    first, second, other = sampler(x, rng(3)), sampler(x, rng(3)), sampler(x, rng(4))
    assert torch.equal(first[0].values("time"), second[0].values("time"))
    assert torch.equal(first[1], second[1])
    assert not torch.equal(first[0].values("time")[:6], other[0].values("time")[:6])


def pairs_never_leak(sampler) -> None:
    """Check that the views of pairs hold only events of their row, whatever lies outside it."""
    x = make.sequences([19, 16, 15, 18])
    views, changed = sampler(x, rng())[0], sampler(make.elsewhere(x), rng())[0]
    for name in x.columns:
        assert torch.equal(views.values(name).nan_to_num(-1), changed.values(name).nan_to_num(-1))
    row_times = [set(times) for times in rows_of(x, "time")]
    for row, times in zip(views.static["row"].tolist(), rows_of(views, "time"), strict=True):
        assert set(times) <= row_times[row]
