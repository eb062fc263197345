"""Three generated data sets whose label is carried by one thing only: the order of events, habits, or rates.

Real sets rank arms only if some part of the label is in what the arms treat differently. Here that part is known.
Each function returns a `Generated`: the histories, the label of each, and an oracle, the one number by which an
observer who knows how the set was made would predict the label. Its score is the ceiling for every arm.

The expectations in the docstrings were written before any two arms were compared. `order` is the second recipe: with 4
rings, and entities that differ less, CoLES alone was near .5. That was seen on histories of another seed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import polars as pl

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

ENTITIES, SHORTEST, LONGEST = 4000, 40, 80  # lengths are uniform, and independent of everything else
DAY = 86_400.0  # seconds; the mean time between two events where rates carry nothing


@dataclass(frozen=True, eq=False)
class Generated:
    """Histories with a label and an oracle.

    Args:
        events: `entity`, `second` and `code` of each event.
        labels: `entity` and `label`, true or false, of each entity.
        oracle: `(n,)` what an observer who knows the recipe would predict from, in the order of `labels`.
    """

    events: pl.DataFrame
    labels: pl.DataFrame
    oracle: Array


def order(entities: int = ENTITIES, seed: int = 0) -> Generated:
    """Return histories in which only the order of events carries the label.

    The 6 codes form 2 rings of 3. An event stays in the ring of the one before it with probability .9, and then goes
    one code forward or backward; otherwise it has a random code. In each ring, an entity goes mostly forward, with
    probability .9, or mostly backward; the label is its direction in the first ring.

    A history in which forward and backward are exchanged is one that is read from its end, so everything that does not
    depend on order (the counts of codes, the times between events, a mean over events) has the same distribution in
    both classes.

    Expected: slices and segments are ahead of samples, which remove the neighbours of an event; aggregates and means
    over events are at .5; SOP is at the level of an untrained encoder, because both parts of a slice look alike.
    """
    rng, lengths, rows, first = _lengths(entities, seed)
    forward = np.where(rng.random((entities, 2)) < 0.5, 0.1, 0.9)
    moved, jump = rng.random(len(rows)) < 0.9, rng.integers(6, size=len(rows))
    draw, codes = rng.random(len(rows)), np.empty(len(rows), np.int64)
    starts = np.flatnonzero(first)
    for step in range(LONGEST):  # one step of all histories at a time
        at = starts[lengths > step] + step
        previous = codes[at - 1] if step else jump[at]
        ring, place = np.divmod(previous, 3)
        direction = np.where(draw[at] < forward[rows[at], ring], 1, -1)
        stays = moved[at] & (step > 0)
        codes[at] = np.where(stays, 3 * ring + (place + direction) % 3, jump[at])
    same_ring = ~first & moved & (codes < 3)
    change = np.where(same_ring, (codes - np.roll(codes, 1)) % 3, 0)
    steps_forward, steps_backward = (np.bincount(rows, change == size, minlength=entities) for size in (1, 2))
    seconds = _seconds(rng.exponential(DAY, len(rows)), rows, first)
    return _generated(rows, seconds, codes, forward[:, 0] > 0.5, steps_forward - steps_backward)


def habits(entities: int = ENTITIES, seed: int = 0) -> Generated:
    """Return histories in which only the frequencies of codes carry the label.

    The 200 codes form 10 groups of 20, and nothing but their company tells which code is in which group. Each entity
    has a share of its own for each group (from a flat Dirichlet distribution); an event is a random code of a group
    that is drawn by these shares, independent of all others. The label is whether the first five groups have more than
    half.

    Expected: all samplers of views are level, because events in random order lose nothing; aggregates come near to the
    oracle with all labels, and CoLES is ahead of them with few, because it learns from all histories which codes belong
    together; SOP is at the level of an untrained encoder.
    """
    rng, _, rows, first = _lengths(entities, seed)
    shares = rng.dirichlet(np.ones(10), entities)
    group = (rng.random((len(rows), 1)) > shares.cumsum(1)[rows, :-1]).sum(1)
    codes = rng.permutation(200)[20 * group + rng.integers(20, size=len(rows))]
    seconds = _seconds(rng.exponential(DAY, len(rows)), rows, first)
    oracle = np.bincount(rows, group < 5, minlength=entities) / np.bincount(rows)
    return _generated(rows, seconds, codes, shares[:, :5].sum(1) > 0.5, oracle)


def rates(entities: int = ENTITIES, seed: int = 0) -> Generated:
    """Return histories in which only the times between events carry the label.

    Each entity has a mean time between events of its own (log-normal around a day, one unit of the logarithm), which
    the label does not depend on, and a regularity of its own: the times have a gamma distribution whose shape is
    log-normal around 1. The label is whether the shape is above 1, so that events come regularly rather than in bursts.
    The codes are 20, drawn uniformly.

    Expected: all samplers of views are level, because each event keeps the time since the one before it; aggregates and
    CoLES are ahead of the mean over events, because regularity is a spread and not a mean; SOP is at the level of an
    untrained encoder.
    """
    rng, _, rows, first = _lengths(entities, seed)
    mean, shape = DAY * np.exp(rng.normal(size=entities)), np.exp(0.7 * rng.normal(size=entities))
    between = rng.gamma(shape[rows], (mean / shape)[rows])
    seconds = _seconds(between, rows, first)
    gaps = np.maximum(np.where(first, 0, np.diff(seconds, prepend=0)), 1)
    count = np.bincount(rows) - 1
    of_mean, mean_of_log = (np.bincount(rows, np.where(first, 0, x)) / count for x in (gaps, np.log(gaps)))
    return _generated(rows, seconds, rng.integers(20, size=len(rows)), shape > 1, mean_of_log - np.log(of_mean))


GENERATED: Mapping[str, Callable[..., Generated]] = {"order": order, "habits": habits, "rates": rates}
"""The generated sets by their names."""


def _lengths(entities: int, seed: int) -> tuple[np.random.Generator, Array, Array, Array]:
    """Return a generator, `(entities,)` lengths, the entity of each event, and whether the event is its first."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(SHORTEST, LONGEST + 1, entities)
    first = np.zeros(lengths.sum(), bool)
    first[np.cumsum(lengths) - lengths] = True
    return rng, lengths, np.repeat(np.arange(entities), lengths), first


def _seconds(between: Array, rows: Array, first: Array) -> Array:
    """Return the time of each event in whole seconds; histories begin at 0."""
    total = np.where(first, 0, between).cumsum()
    return np.asarray(np.round(total - total[np.flatnonzero(first)][rows]).astype(np.int64))


def _generated(rows: Array, seconds: Array, codes: Array, label: Array, oracle: Array) -> Generated:
    names = np.array([f"code {code:03}" for code in range(codes.max() + 1)])
    events = pl.DataFrame({"entity": rows, "second": seconds, "code": names[codes]})
    return Generated(events, pl.DataFrame({"entity": np.arange(len(label)), "label": label}), oracle.astype(float))
