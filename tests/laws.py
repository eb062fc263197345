"""What tests of samplers share: rows that are easy to read, and a test of uniformity."""

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


def is_uniform(found: list, over: list) -> bool:
    """Return whether counts pass a chi-square test at about six deviations; every value must have been met."""
    counts, expected = Counter(found), len(found) / len(over)
    assert set(counts) <= set(over), f"{set(counts) - set(over)} cannot be"
    chi, free = sum((counts[value] - expected) ** 2 / expected for value in over), len(over) - 1
    return chi < free + 6 * (2 * max(free, 1)) ** 0.5 and len(counts) == len(over)


def draws_by_its_generator(sampler) -> None:
    """Check that the same seed draws the same views, and another one others."""
    x = make.sequences([9, 6, 8])
    first, second, other = sampler(x, rng(3)), sampler(x, rng(3)), sampler(x, rng(4))
    assert rows_of(first[0], "time") == rows_of(second[0], "time") != rows_of(other[0], "time")
    assert torch.equal(first[1], second[1])


def never_leaks(sampler) -> None:
    """Check that views consist of events of their own row, whatever lies beside it, and keep its static values."""
    x = make.sequences([9, 6, 5, 8])
    (cut, source), (other, _) = sampler(x, rng()), sampler(make.elsewhere(x), rng())
    for name in x.columns:
        assert torch.equal(cut.values(name).nan_to_num(-1), other.values(name).nan_to_num(-1))
    own = [set(row) for row in rows_of(x, "time")]
    assert cut.static["row"].tolist() == source.tolist() == sorted(source.tolist())
    assert all(set(times) <= own[row] for row, times in zip(source.tolist(), rows_of(cut, "time"), strict=True))
    assert [len(part) for part in (sampler(x[:0], rng())[0], sampler(x[:0], rng())[1])] == [0, 0]
